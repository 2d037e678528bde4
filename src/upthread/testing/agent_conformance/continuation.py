"""A4, A5, A16 and A17: what sessions hold, each its own, over any number of prompts."""

from __future__ import annotations

from upthread.agents.base import AgentConnection
from upthread.core.events import AgentEvent, TextReceived, UserTextReplayed
from upthread.core.types import UpstreamSessionId
from upthread.testing.agent_conformance.trial import (
    Trial,
    attach,
    promises,
    prompts_of,
    require,
    tell,
)


async def _history(trial: Trial, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return a session's history as an agent of its own reads it."""
    async with trial.opened() as connection:
        require(connection, "load")
        return await connection.load_session(session)


async def a_history_holds_every_turn_once(trial: Trial) -> None:
    prompts = [trial.numbered(number) for number in (1, 2, 3)]
    session = await trial.session_told(*prompts)
    history = await _history(trial, session)
    assert prompts_of(history, *prompts) == prompts
    assert {event.upstream_session_id for event in history} == {session}
    replies = 0
    for event in reversed(history):
        if isinstance(event, TextReceived):
            replies += 1
        elif isinstance(event, UserTextReplayed) and prompts_of([event], *prompts):
            assert replies, f"no reply to {event.text!r}"
            replies = 0


async def what_is_said_after_attaching_is_added_to_it(trial: Trial) -> None:
    first, second = trial.numbered(1), trial.numbered(2)
    session = await trial.session_told(first)
    async with trial.opened() as connection:
        await attach(connection, session)
        await tell(connection, session, second)
    assert prompts_of(await _history(trial, session), first, second) == [first, second]


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


async def _forked(connection: AgentConnection, origin: UpstreamSessionId) -> UpstreamSessionId:
    require(connection, "fork")
    fork = await connection.fork_session(origin)
    assert fork != origin, "a fork that is its origin"
    return fork


async def a_fork_holds_what_its_origin_held(trial: Trial) -> None:
    prompts = [trial.numbered(number) for number in (1, 2)]
    origin = await trial.session_told(*prompts)
    async with trial.opened() as connection:
        fork = await _forked(connection, origin)
    assert prompts_of(await _history(trial, fork), *prompts) == prompts


async def what_a_fork_is_told_is_the_forks_alone(trial: Trial) -> None:
    prompts = first, second = [trial.numbered(number) for number in (1, 2)]
    origin = await trial.session_told(first)
    async with trial.opened() as connection:
        fork = await _forked(connection, origin)
        await tell(connection, fork, second)
    assert prompts_of(await _history(trial, origin), *prompts) == [first]
    assert prompts_of(await _history(trial, fork), *prompts) == [first, second]


async def a_session_is_listed_once(trial: Trial) -> None:
    sessions = [await trial.session_told(trial.numbered(number)) for number in (1, 2)]
    async with trial.opened() as connection:
        require(connection, "list")
        listed = [each.upstream_session_id for each in await connection.list_sessions()]
    assert sorted(listed) == sorted(sessions)


CONTINUING_PROMISES = promises(
    {
        "A4": {
            what_is_said_after_attaching_is_added_to_it: "",
            what_is_said_after_loading_is_added_to_it: "",
            of_two_sessions_the_one_asked_for_is_attached: "",
        },
        "A5": {a_history_holds_every_turn_once: ""},
        "A16": {
            a_fork_holds_what_its_origin_held: "",
            what_a_fork_is_told_is_the_forks_alone: "",
        },
        "A17": {a_session_is_listed_once: ""},
    }
)
