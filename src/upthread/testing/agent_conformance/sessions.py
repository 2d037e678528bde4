"""A1 to A5, A16 and A17: how an agent starts and ends, and what its sessions hold, each its own."""

import os
from contextlib import suppress

import anyio
from msgspec.structs import replace

from upthread.agents.base import AgentAdapter, AgentConnection, AgentProcess, OpenRequest
from upthread.core.events import AgentEvent, TextReceived, UserTextReplayed
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.testing.agent_conformance.trial import (
    AbsentError,
    OwnError,
    Recorded,
    Trial,
    attach,
    promises,
    prompts_of,
    refusal_of,
    require,
    tell,
)

BAD_START_TIMEOUT_S = 2.0
ENDING_S = 10.0
BURIAL_S = 5.0
"""How long the system may take to bury a dead process that has lost its parent."""


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
            raise OwnError
    except OwnError:
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
    async with trial.opened() as connection:
        session = await connection.new_session()
        process = await _process_of(connection)
        with anyio.move_on_after(0.5):
            await connection.prompt(session, trial.agent.hang, on_event=Recorded())
    await _is_over(process)


async def a_directory_that_is_gone_is_told_as_such(trial: Trial) -> None:
    gone = replace(trial.request, working_directory=str(trial.work / "gone"))
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
    request = replace(trial.request, start_timeout_s=BAD_START_TIMEOUT_S)
    for what, adapter in trial.agent.bad_starts.items():
        error: UpstreamError | None = None
        with anyio.move_on_after(BAD_START_TIMEOUT_S + ENDING_S):
            error = await refusal_of(_start(adapter, request))
        assert error is not None, f"an agent that {what} was waited for too long"
        assert error.outcome != Outcome.OK
        assert error.message, what
        assert error.hint, what


# --- exactly the session asked for, and its history -----------------------------------------------


async def a_new_session_can_be_attached_before_any_prompt(trial: Trial) -> None:
    async with trial.opened() as connection:
        session = await connection.new_session()
        assert session
    await trial.goes_on(session)


async def two_new_sessions_are_two(trial: Trial) -> None:
    async with trial.opened() as connection:
        assert await connection.new_session() != await connection.new_session()


async def a_session_goes_on_in_another_process(trial: Trial) -> None:
    session = await trial.session_told(trial.agent.plain)
    async with trial.opened() as connection:
        await attach(connection, session)
        events = Recorded()
        result = await connection.prompt(session, trial.agent.plain, on_event=events)
        assert result.outcome is Outcome.OK
        owners = {event.upstream_session_id for event in events}
        assert owners <= {session, None}


async def _missing(trial: Trial, connection: AgentConnection) -> None:
    unknown = UpstreamSessionId(trial.agent.unknown_session)
    capabilities = connection.capabilities
    before = await connection.list_sessions() if capabilities.can_list else ()
    if not (capabilities.can_resume or capabilities.can_load):
        raise AbsentError("it can neither resume nor load")
    if capabilities.can_resume:
        error = await refusal_of(connection.resume_session(unknown))
        assert error.outcome == Outcome.MISSING, error
    if capabilities.can_load:
        error = await refusal_of(connection.load_session(unknown))
        assert error.outcome == Outcome.MISSING, error
    after = await connection.list_sessions() if capabilities.can_list else ()
    assert after == before, "an attach that failed made a session"


async def an_unknown_session_is_missing_never_new(trial: Trial) -> None:
    async with trial.opened() as connection:
        await connection.new_session()
        await _missing(trial, connection)


async def an_opaque_error_is_confirmed_by_listing(trial: Trial) -> None:
    environment = {**trial.request.environment, **trial.agent.opaque}
    request = replace(trial.request, environment=environment)
    async with trial.opened(request) as connection:
        require(connection, "list")
        await connection.new_session()
        await _missing(trial, connection)


async def resume_replays_nothing(trial: Trial) -> None:
    session = await trial.session_told(trial.agent.plain)
    async with trial.opened() as connection:
        require(connection, "resume")
        await connection.resume_session(session)
        assert connection.late_events == 0


# --- what sessions hold, over any number of prompts -----------------------------------------------


async def _history(trial: Trial, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return a session's history as an agent of its own reads it."""
    async with trial.opened() as connection:
        require(connection, "load")
        return await connection.load_session(session)


async def a_history_holds_every_turn_once_in_order(trial: Trial) -> None:
    prompts = [trial.numbered(number) for number in (1, 2, 3)]
    session = await trial.session_told(*prompts)
    async with trial.opened() as connection:
        require(connection, "load")
        history = await connection.load_session(session)
        assert await connection.load_session(session) == history, "loading is no prompt"
    assert prompts_of(history, *prompts) == prompts
    assert {event.upstream_session_id for event in history} == {session}
    replies = 0
    for event in reversed(history):
        if isinstance(event, TextReceived):
            replies += 1
        elif isinstance(event, UserTextReplayed) and prompts_of([event], *prompts):
            assert replies, f"no reply to {event.text!r}"
            replies = 0


async def what_is_said_after_loading_is_added_to_it(trial: Trial) -> None:
    first, second = trial.numbered(1), trial.numbered(2)
    session = await trial.session_told(first)
    async with trial.opened() as connection:
        require(connection, "load")
        await connection.load_session(session)
        await tell(connection, session, second)
    assert prompts_of(await _history(trial, session), first, second) == [first, second]


async def of_two_sessions_the_one_asked_for_is_attached(trial: Trial) -> None:
    prompts = first, second, third = [trial.numbered(number) for number in (1, 2, 3)]
    older, newer = await trial.session_told(first), await trial.session_told(second)
    async with trial.opened() as connection:
        await attach(connection, older)
        await tell(connection, older, third)
    assert prompts_of(await _history(trial, older), *prompts) == [first, third]
    assert prompts_of(await _history(trial, newer), *prompts) == [second]


async def a_fork_holds_what_its_origin_held_and_what_it_is_told_alone(trial: Trial) -> None:
    *held, told = prompts = [trial.numbered(number) for number in (1, 2, 3)]
    origin = await trial.session_told(*held)
    async with trial.opened() as connection:
        require(connection, "fork")
        fork, untold = [await connection.fork_session(origin) for _ in range(2)]
        assert len({origin, fork, untold}) == 3, "a fork that is another session"
        await tell(connection, fork, told)
    assert prompts_of(await _history(trial, origin), *prompts) == held
    assert prompts_of(await _history(trial, untold), *prompts) == held
    assert prompts_of(await _history(trial, fork), *prompts) == prompts


async def a_session_is_listed_once(trial: Trial) -> None:
    sessions = [await trial.session_told(trial.numbered(number)) for number in (1, 2)]
    async with trial.opened() as connection:
        require(connection, "list")
        listed = await connection.list_sessions()
    assert sorted(listed) == sorted(sessions)


SESSION_PROMISES = promises(
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
        "A3": {a_new_session_can_be_attached_before_any_prompt: "", two_new_sessions_are_two: ""},
        "A4": {
            a_session_goes_on_in_another_process: "",
            an_unknown_session_is_missing_never_new: "",
            an_opaque_error_is_confirmed_by_listing: "opaque",
            what_is_said_after_loading_is_added_to_it: "",
            of_two_sessions_the_one_asked_for_is_attached: "",
        },
        "A5": {resume_replays_nothing: "", a_history_holds_every_turn_once_in_order: ""},
        "A16": {a_fork_holds_what_its_origin_held_and_what_it_is_told_alone: ""},
        "A17": {a_session_is_listed_once: ""},
    }
)
