"""A3 to A5: exactly the session asked for, and its history."""

from __future__ import annotations

from upthread.agents.base import AgentConnection
from upthread.core.events import TextReceived
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.testing.agent_conformance.trial import (
    AbsentError,
    Recorded,
    Trial,
    attach,
    promises,
    refusal_of,
    require,
    said_by_user,
)


async def a_new_session_can_be_attached_before_any_prompt(trial: Trial) -> None:
    async with trial.opened() as connection:
        session = await connection.new_session()
        assert session
    async with trial.opened() as connection:
        await attach(connection, session)
        result = await connection.prompt(session, trial.agent.plain, on_event=Recorded())
        assert result.outcome is Outcome.OK


async def two_new_sessions_are_two(trial: Trial) -> None:
    async with trial.opened() as connection:
        assert await connection.new_session() != await connection.new_session()


async def a_session_goes_on_in_another_process(trial: Trial) -> None:
    session = await trial.session_with_a_past()
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
    async with trial.opened(more=trial.agent.opaque) as connection:
        require(connection, "list")
        await connection.new_session()
        await _missing(trial, connection)


async def load_returns_the_history_in_order(trial: Trial) -> None:
    session = await trial.session_with_a_past()
    async with trial.opened() as connection:
        require(connection, "load")
        history = await connection.load_session(session)
        assert trial.agent.plain in said_by_user(history)
        replies = [i for i, event in enumerate(history) if isinstance(event, TextReceived)]
        assert replies, "a history without a reply"
        assert trial.agent.plain in said_by_user(history[: replies[0]])
        assert await connection.load_session(session) == history, "loading is no prompt"


async def resume_replays_nothing(trial: Trial) -> None:
    session = await trial.session_with_a_past()
    async with trial.opened() as connection:
        require(connection, "resume")
        await connection.resume_session(session)
        assert connection.late_events == 0


ATTACHING_PROMISES = promises(
    {
        "A3": {
            a_new_session_can_be_attached_before_any_prompt: "",
            two_new_sessions_are_two: "",
        },
        "A4": {
            a_session_goes_on_in_another_process: "",
            an_unknown_session_is_missing_never_new: "",
            an_opaque_error_is_confirmed_by_listing: "opaque",
        },
        "A5": {
            load_returns_the_history_in_order: "",
            resume_replays_nothing: "",
        },
    }
)
