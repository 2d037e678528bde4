"""A6 to A13: one prompt and everything that can happen to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import anyio

from upthread.agents.base import AgentConnection, PermissionAnswer, PermissionRequest, PromptResult
from upthread.core.events import (
    AgentEvent,
    ChildStarted,
    PermissionAnswered,
    TextReceived,
    UnknownReceived,
)
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.testing.agent_conformance.trial import (
    AbsentError,
    Recorded,
    Trial,
    attach,
    promises,
    said_by_user,
)

LATE_S: Final = 0.5
CANCEL_AFTER_S: Final = 0.3
DEADLINE_S: Final = 0.5


async def _prompted(trial: Trial, prompt: str | None) -> tuple[PromptResult, Recorded]:
    assert prompt is not None
    events = Recorded()
    async with trial.opened() as connection:
        session = await connection.new_session()
        return await connection.prompt(session, prompt, on_event=events), events


async def pieces_come_in_order_one_at_a_time(trial: Trial) -> None:
    assert trial.agent.pieces is not None
    prompt, text = trial.agent.pieces
    taken = Recorded()
    busy = 0

    async def slow(event: AgentEvent) -> None:
        nonlocal busy
        busy += 1
        assert busy == 1, "two events at once"
        await anyio.sleep(0.01)
        busy -= 1
        await taken(event)

    async with trial.opened() as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, prompt, on_event=slow)
        assert result.outcome is Outcome.OK
        assert busy == 0, "prompt returned before the last event was taken"
        assert text in taken.text
        assert sum(isinstance(event, TextReceived) for event in taken) > 1


async def an_event_carries_its_session(trial: Trial) -> None:
    events = Recorded()
    async with trial.opened() as connection:
        session = await connection.new_session()
        await connection.prompt(session, trial.agent.plain, on_event=events)
    said = [event for event in events if isinstance(event, TextReceived)]
    assert said
    assert {event.upstream_session_id for event in said} == {session}


async def an_event_without_a_session_says_so(trial: Trial) -> None:
    _, events = await _prompted(trial, trial.agent.unstamped)
    assert any(event.upstream_session_id is None for event in events)


async def a_childs_words_are_the_childs(trial: Trial) -> None:
    _, events = await _prompted(trial, trial.agent.child)
    started = [event for event in events if isinstance(event, ChildStarted)]
    assert started, "no child was seen to start"
    child = started[0].child_upstream_session_id
    assert child != started[0].upstream_session_id
    first = next((i for i, e in enumerate(events) if e.upstream_session_id == child), None)
    assert first is None or first > events.index(started[0]), "it spoke before it started"


async def late_words_are_counted_not_delivered(trial: Trial) -> None:
    assert trial.agent.late is not None
    events = Recorded()
    async with trial.opened() as connection:
        session = await connection.new_session()
        await connection.prompt(session, trial.agent.late, on_event=events)
        delivered = len(events)
        await anyio.sleep(LATE_S)
        assert len(events) == delivered
        assert connection.late_events > 0


async def every_outcome_it_can_be_brought_to(trial: Trial) -> None:
    for outcome, prompt in trial.agent.outcomes.items():
        result, _ = await _prompted(trial, prompt)
        assert result.outcome is outcome, (prompt, result)
        if outcome is not Outcome.OK:
            assert result.detail, f"{outcome} without the agent's own word"


async def a_rate_limit_leaves_the_session_as_it_was(trial: Trial) -> None:
    prompt = trial.agent.outcomes.get(Outcome.RATE_LIMITED)
    if prompt is None:
        raise AbsentError("it cannot be rate limited")
    async with trial.opened() as connection:
        session = await connection.new_session()
        await connection.prompt(session, prompt, on_event=Recorded())
    await _goes_on(trial, session)


async def _goes_on(trial: Trial, session: UpstreamSessionId) -> None:
    async with trial.opened() as connection:
        await attach(connection, session)
        result = await connection.prompt(session, trial.agent.plain, on_event=Recorded())
        assert result.outcome is Outcome.OK, result


async def _cancelled(connection: AgentConnection, prompt: str) -> PromptResult:
    session = await connection.new_session()

    async def cancel() -> None:
        await anyio.sleep(CANCEL_AFTER_S)
        await connection.cancel(session)

    result: PromptResult | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        result = await connection.prompt(session, prompt, on_event=Recorded())
    assert result is not None
    return result


async def cancel_ends_the_turn(trial: Trial) -> None:
    assert trial.agent.hang is not None
    async with trial.opened() as connection:
        result = await _cancelled(connection, trial.agent.hang)
        assert result.outcome is Outcome.CANCELLED, result


async def a_deaf_agent_is_ended(trial: Trial) -> None:
    assert trial.agent.deaf is not None
    request = replace(trial.request, cancel_timeout_s=0.5)
    async with trial.opened(request) as connection:
        result = await _cancelled(connection, trial.agent.deaf)
        assert result.outcome is Outcome.PROCESS_DIED, result


async def a_deadline_ends_the_turn_not_the_session(trial: Trial) -> None:
    assert trial.agent.hang is not None
    request = replace(trial.request, prompt_timeout_s=DEADLINE_S)
    async with trial.opened(request) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, trial.agent.hang, on_event=Recorded())
        assert result.outcome is Outcome.TIMED_OUT, result
    await _goes_on(trial, session)


async def odd_text_comes_through_identical(trial: Trial) -> None:
    assert trial.agent.odd_text is not None
    prompt, text = trial.agent.odd_text
    result, events = await _prompted(trial, prompt)
    assert result.outcome is Outcome.OK
    assert text in events.text


async def an_odd_prompt_is_kept_identical(trial: Trial) -> None:
    odd = f"{trial.agent.plain} \0 \ud83d \u202e \U0001f600 e\u0301"
    async with trial.opened() as connection:
        if not (trial.agent.odd_text and connection.capabilities.can_load):
            raise AbsentError("its own text cannot be odd, or cannot be read back")
        session = await connection.new_session()
        await connection.prompt(session, odd, on_event=Recorded())
        assert odd in said_by_user(await connection.load_session(session))


async def an_unknown_update_is_kept_raw(trial: Trial) -> None:
    result, events = await _prompted(trial, trial.agent.unknown_update)
    assert result.outcome is Outcome.OK
    unknown = [event for event in events if isinstance(event, UnknownReceived)]
    assert unknown
    assert unknown[0].kind
    assert unknown[0].raw


async def garbage_never_ends_the_turn(trial: Trial) -> None:
    result, events = await _prompted(trial, trial.agent.garbage)
    assert result.outcome is Outcome.OK
    assert any(isinstance(event, UnknownReceived) for event in events)


async def _answered(trial: Trial, kind: str) -> tuple[PermissionAnswered, PermissionRequest]:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        return trial.answer(request, kind, f"{kind} by the suite")

    assert trial.agent.permission is not None
    events = Recorded()
    async with trial.opened(replace(trial.request, answer_permission=answer)) as connection:
        session = await connection.new_session()
        await connection.prompt(session, trial.agent.permission, on_event=events)
    answered = [event for event in events if isinstance(event, PermissionAnswered)]
    assert len(answered) == len(trial.asked) > 0
    return answered[0], trial.asked[0]


async def a_permission_given_is_an_event(trial: Trial) -> None:
    event, request = await _answered(trial, "allow_once")
    assert (event.answer, event.answered_by) == ("allow_once", "allow_once by the suite")
    assert (event.call_id, event.title) == (request.call_id, request.title)
    assert event.upstream_session_id == request.upstream_session_id


async def a_permission_refused_is_an_event(trial: Trial) -> None:
    event, _ = await _answered(trial, "reject_once")
    assert (event.answer, event.answered_by) == ("reject_once", "reject_once by the suite")


PROMPTING_PROMISES = promises(
    {
        "A6": {pieces_come_in_order_one_at_a_time: "pieces"},
        "A7": {
            an_event_carries_its_session: "",
            an_event_without_a_session_says_so: "unstamped",
            a_childs_words_are_the_childs: "child",
        },
        "A8": {late_words_are_counted_not_delivered: "late"},
        "A9": {
            every_outcome_it_can_be_brought_to: "outcomes",
            a_rate_limit_leaves_the_session_as_it_was: "outcomes",
        },
        "A10": {cancel_ends_the_turn: "hang", a_deaf_agent_is_ended: "deaf"},
        "A11": {a_deadline_ends_the_turn_not_the_session: "hang"},
        "A12": {
            odd_text_comes_through_identical: "odd_text",
            an_odd_prompt_is_kept_identical: "",
            an_unknown_update_is_kept_raw: "unknown_update",
            garbage_never_ends_the_turn: "garbage",
        },
        "A13": {
            a_permission_given_is_an_event: "permission",
            a_permission_refused_is_an_event: "permission",
        },
    }
)
