"""A1 and A2: how an agent starts and ends."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import anyio
from msgspec import structs

from upthread.agents.base import AgentAdapter, AgentConnection, AgentProcess, OpenRequest
from upthread.core.types import Outcome
from upthread.errors import UpstreamError
from upthread.testing.agent_conformance.trial import (
    AbsentError,
    Recorded,
    Trial,
    promises,
    refusal_of,
)

BAD_START_TIMEOUT_S: Final = 2.0
ENDING_S: Final = 10.0
BURIAL_S: Final = 5.0
"""How long the system may take to bury a dead process that has lost its parent."""


class _OwnError(Exception):
    """Raised by the caller while an agent runs."""


async def _process_of(connection: AgentConnection) -> AgentProcess:
    if connection.process is None:
        await connection.new_session()
    if connection.process is None:
        raise AbsentError("the agent is no process of ours")
    return connection.process


def _has_members(group: int) -> bool:
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


async def _is_over(process: AgentProcess) -> None:
    """Assert that a group has no member, as soon as the last one is buried."""
    with anyio.move_on_after(BURIAL_S):
        while _has_members(process.pid):  # noqa: ASYNC110  # not our child any more
            await anyio.sleep(0.02)
    assert not _has_members(process.pid), f"group {process.pid} still has members"


async def it_leads_its_own_process_group(trial: Trial) -> None:
    async with trial.opened() as connection:
        process = await _process_of(connection)
        assert os.getpgid(process.pid) == process.pid
        assert os.getpgid(0) != process.pid
        assert process.started_at_ticks > 0


async def leaving_ends_the_whole_group(trial: Trial) -> None:
    async with trial.opened() as connection:
        process = await _process_of(connection)
        await connection.new_session()
    await _is_over(process)


async def an_error_of_the_caller_ends_it_and_comes_through(trial: Trial) -> None:
    process: AgentProcess | None = None
    try:
        async with trial.opened() as connection:
            process = await _process_of(connection)
            raise _OwnError
    except _OwnError:
        assert process is not None
        await _is_over(process)
        return
    raise AssertionError("the caller's error was swallowed")


async def a_cancelled_caller_ends_it(trial: Trial) -> None:
    process: AgentProcess | None = None
    with anyio.CancelScope() as scope:
        async with trial.opened() as connection:
            process = await _process_of(connection)
            scope.cancel()
            await anyio.sleep_forever()
    assert process is not None
    await _is_over(process)


async def leaving_in_the_middle_of_a_turn_ends_it(trial: Trial) -> None:
    assert trial.agent.hang is not None
    async with trial.opened() as connection:
        session = await connection.new_session()
        process = await _process_of(connection)
        with anyio.move_on_after(0.5):
            await connection.prompt(session, trial.agent.hang, on_event=Recorded())
    await _is_over(process)


async def a_directory_that_is_gone_is_told_as_such(trial: Trial) -> None:
    gone = structs.replace(trial.request, working_directory=str(trial.work / "gone"))
    error = await refusal_of(_start(trial.agent.adapter, gone))
    assert error.outcome == Outcome.WORKSPACE_CHANGED, error


async def it_says_who_it_is(trial: Trial) -> None:
    async with trial.opened() as connection:
        assert connection.capabilities.agent == trial.agent.adapter.agent
        assert connection.capabilities.version


async def _start(adapter: AgentAdapter, request: OpenRequest) -> None:
    async with adapter.open(request):
        pass


async def a_bad_start_is_an_error_in_time(trial: Trial) -> None:
    request = structs.replace(trial.request, start_timeout_s=BAD_START_TIMEOUT_S)
    for what, adapter in trial.agent.bad_starts.items():
        error: UpstreamError | None = None
        with anyio.move_on_after(BAD_START_TIMEOUT_S + ENDING_S):
            error = await refusal_of(_start(adapter, request))
        assert error is not None, f"an agent that {what} was waited for too long"
        assert error.outcome != Outcome.OK
        assert error.message, what
        assert error.hint, what


STARTING_PROMISES = promises(
    {
        "A1": {
            it_leads_its_own_process_group: "",
            leaving_ends_the_whole_group: "",
            an_error_of_the_caller_ends_it_and_comes_through: "",
            a_cancelled_caller_ends_it: "",
            leaving_in_the_middle_of_a_turn_ends_it: "hang",
        },
        "A2": {
            it_says_who_it_is: "",
            a_directory_that_is_gone_is_told_as_such: "",
            a_bad_start_is_an_error_in_time: "bad_starts",
        },
    }
)
