"""A5, A13 to A15: what an agent does with its tools, and who lets it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from upthread.agents.base import CallAnswer, PermissionAnswer, PermissionRequest, PromptResult
from upthread.core.events import (
    AgentEvent,
    PermissionAnswered,
    ToolCallAnnounced,
    ToolCallUpdated,
)
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.testing.agent_conformance.trial import Recorded, Trial, promises, require

_ENDED = frozenset({"completed", "failed"})


async def _answered(trial: Trial, kind: str) -> tuple[PermissionAnswered, PermissionRequest]:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        return trial.answer(request, kind, f"{kind} by the suite")

    asking = structs.replace(trial.request, answer_permission=answer)
    events = (await trial.prompted(trial.agent.permission, asking)).events
    answered = [event for event in events if isinstance(event, PermissionAnswered)]
    assert len(answered) == len(trial.asked) > 0, "it acted and did not ask"
    return answered[0], trial.asked[0]


async def a_permission_given_is_an_event(trial: Trial) -> None:
    event, request = await _answered(trial, "allow_once")
    assert (event.answer, event.answered_by) == ("allow_once", "allow_once by the suite")
    assert (event.call_id, event.title) == (request.call_id, request.title)
    assert event.upstream_session_id == request.upstream_session_id


async def a_permission_refused_is_an_event(trial: Trial) -> None:
    event, _ = await _answered(trial, "reject_once")
    assert (event.answer, event.answered_by) == ("reject_once", "reject_once by the suite")


async def _answered_before_it_runs(
    trial: Trial, answer: CallAnswer
) -> tuple[PromptResult, list[PermissionRequest], list[PermissionAnswered]]:
    """Let it begin what it asks for, and answer that it may not; returns what was told."""
    told: list[PermissionRequest] = []

    async def hold(request: PermissionRequest) -> CallAnswer:
        told.append(request)
        return answer

    assert trial.agent.permission is not None
    events = Recorded()
    async with trial.opened(structs.replace(trial.request, hold_call=hold)) as connection:
        require(connection, "hold")
        session = await connection.new_session()
        result = await connection.prompt(session, trial.agent.permission, on_event=events)
    assert trial.asked == []
    return result, told, [event for event in events if isinstance(event, PermissionAnswered)]


async def a_held_call_is_not_asked_about_and_ends_the_turn(trial: Trial) -> None:
    answer = CallAnswer(answered_by="the suite", why="this is held")
    _, told, answers = await _answered_before_it_runs(trial, answer)
    assert len(told) == 1, told
    assert [(each.answer, each.answered_by) for each in answers] == [("cancelled", "the suite")]
    assert [each.call_id for each in answers] == [told[0].call_id]


async def a_refused_call_does_not_run_and_the_turn_goes_on(trial: Trial) -> None:
    answer = CallAnswer(answered_by="the suite", why="not this one", ends_turn=False)
    result, told, answers = await _answered_before_it_runs(trial, answer)
    assert result.outcome is Outcome.OK, result
    assert told, "it told of its call"
    assert {each.answer for each in answers} == {"reject_once"}


async def it_asks_before_it_acts_and_then_acts(trial: Trial) -> None:
    was_there: list[bool] = []

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        was_there.append(trial.has_left)
        return trial.answer(request, "allow_once", "the suite")

    asking = structs.replace(trial.request, answer_permission=answer)
    await trial.prompted(trial.agent.permission, asking)
    assert was_there, "it did not ask"
    assert not any(was_there), "it acted before it asked"
    assert trial.has_left, "it was allowed to, and did nothing in its working directory"


async def what_is_refused_is_not_done(trial: Trial) -> None:
    await _answered(trial, "reject_once")
    assert not trial.has_left


async def what_is_held_is_not_done(trial: Trial) -> None:
    await a_held_call_is_not_asked_about_and_ends_the_turn(trial)
    assert not trial.has_left


def _announced(events: Iterable[AgentEvent], session: UpstreamSessionId) -> list[str]:
    return [
        event.call_id
        for event in events
        if isinstance(event, ToolCallAnnounced) and event.upstream_session_id == session
    ]


def _ended(events: Iterable[AgentEvent]) -> dict[str, str]:
    """Return how each call ended, as it was told last."""
    return {
        event.call_id: event.status
        for event in events
        if isinstance(event, ToolCallUpdated) and event.status in _ENDED
    }


async def a_call_is_announced_once_and_ends_after_that(trial: Trial) -> None:
    session, _, events = await trial.prompted(trial.agent.permission)
    announced = _announced(events, session)
    assert announced, "it acted without a call"
    assert len(set(announced)) == len(announced), "a call was announced twice"
    seen: set[str] = set()
    for event in events:
        if isinstance(event, ToolCallAnnounced):
            seen.add(event.call_id)
        elif isinstance(event, ToolCallUpdated):
            assert event.call_id in seen, "more was told of a call than that there is one"
    assert _ended(events) == dict.fromkeys(announced, "completed")


async def a_history_holds_its_calls(trial: Trial) -> None:
    session, _, events = await trial.prompted(trial.agent.permission)
    async with trial.opened() as connection:
        require(connection, "load")
        history = await connection.load_session(session)
    announced = _announced(events, session)
    assert announced, "it acted without a call"
    assert _announced(history, session) == announced
    assert _ended(history) == dict.fromkeys(announced, "completed")


CALLING_PROMISES = promises(
    {
        "A5": {a_history_holds_its_calls: "permission"},
        "A13": {
            a_permission_given_is_an_event: "permission",
            a_permission_refused_is_an_event: "permission",
            it_asks_before_it_acts_and_then_acts: "leaves",
            what_is_refused_is_not_done: "leaves",
        },
        "A14": {
            a_held_call_is_not_asked_about_and_ends_the_turn: "permission",
            a_refused_call_does_not_run_and_the_turn_goes_on: "permission",
            what_is_held_is_not_done: "leaves",
        },
        "A15": {a_call_is_announced_once_and_ends_after_that: "permission"},
    }
)
