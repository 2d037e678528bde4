"""A5 to A15 and A18: one prompt, everything that can happen to it, and what its calls may do."""

from collections.abc import Awaitable, Iterable

import anyio
from msgspec.structs import replace

from upthread.agents.base import (
    AgentConnection,
    CallAnswer,
    PermissionAnswer,
    PermissionRequest,
    PromptResult,
)
from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    PermissionAnswered,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
)
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.tasks import task_group
from upthread.testing.agent_conformance.trial import (
    AbsentError,
    OwnError,
    Recorded,
    Trial,
    in_time,
    promises,
    prompts_of,
    refusal_of,
    require,
    said_by_user,
)

LATE_S = 0.5
CANCEL_AFTER_S = 0.3
DEADLINE_S = 0.5
LARGE_WORDS = 5_000


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
        assert taken.text.count(text) == 1
        assert len(taken.of(TextReceived)) > 1


async def an_event_carries_its_session(trial: Trial) -> None:
    session, _, events = await trial.prompted(trial.agent.plain)
    said = events.of(TextReceived)
    assert said
    assert {event.upstream_session_id for event in said} == {session}


async def an_event_without_a_session_says_so(trial: Trial) -> None:
    events = (await trial.prompted(trial.agent.unstamped)).events
    assert any(event.upstream_session_id is None for event in events)


async def a_childs_words_are_the_childs(trial: Trial) -> None:
    events = (await trial.prompted(trial.agent.child)).events
    started = events.of(ChildStarted)
    assert started, "no child was seen to start"
    child = started[0].child_upstream_session_id
    assert child != started[0].upstream_session_id
    first = next((i for i, e in enumerate(events) if e.upstream_session_id == child), None)
    assert first is None or first > events.index(started[0]), "it spoke before it started"
    ended = events.of(ChildEnded)
    assert [each.child_upstream_session_id for each in ended] == [
        each.child_upstream_session_id for each in started
    ]


async def a_parent_says_nothing_that_its_child_said(trial: Trial) -> None:
    session, _, events = await trial.prompted(trial.agent.child)
    said = "".join(
        event.text
        for event in events.of(TextReceived)
        if event.upstream_session_id in {session, None}
    )
    assert trial.agent.child_words not in said


async def late_words_are_counted_not_delivered(trial: Trial) -> None:
    events = Recorded()
    async with trial.opened() as connection:
        session = await connection.new_session()
        await connection.prompt(session, trial.agent.late, on_event=events)
        delivered = len(events)
        await anyio.sleep(LATE_S)
        assert len(events) == delivered
        assert connection.late_events > 0


async def late_words_stay_out_of_the_next_prompt(trial: Trial) -> None:
    # Its plain reply may tell what it was asked before.
    following = trial.agent.pieces[0] if trial.agent.pieces else trial.agent.plain
    events = Recorded()
    async with trial.opened() as connection:
        session = await connection.new_session()
        await connection.prompt(session, trial.agent.late, on_event=Recorded())
        await anyio.sleep(LATE_S)
        await connection.prompt(session, following, on_event=events)
    assert events.text, "the next prompt was not answered"
    assert trial.agent.late_words not in events.text


async def every_outcome_it_can_be_brought_to(trial: Trial) -> None:
    for outcome, prompt in trial.agent.outcomes.items():
        result = (await trial.prompted(prompt)).result
        assert result.outcome is outcome, (prompt, result)
        if outcome is not Outcome.OK:
            assert result.detail, f"{outcome} without the agent's own word"


async def a_limit_says_when_it_ends(trial: Trial) -> None:
    result = (await trial.prompted(trial.agent.resets)).result
    assert result.outcome is Outcome.RATE_LIMITED, result
    assert result.reset_at_ms is not None
    assert result.reset_at_ms > 0


async def what_it_used_is_what_it_said(trial: Trial) -> None:
    assert trial.agent.usage is not None
    prompt, tokens_in, tokens_out = trial.agent.usage
    result = (await trial.prompted(prompt)).result
    assert (result.outcome, result.tokens_in) == (Outcome.OK, tokens_in), result
    assert tokens_out is None or result.tokens_out == tokens_out, result


async def a_second_prompt_at_once_is_refused(trial: Trial) -> None:
    async with trial.opened() as connection:
        session = await connection.new_session()

        async def run() -> None:
            await connection.prompt(session, trial.agent.hang, on_event=Recorded())

        async with task_group() as tasks:
            tasks.start_soon(run)
            await anyio.sleep(CANCEL_AFTER_S)
            second = connection.prompt(session, trial.agent.plain, on_event=Recorded())
            await in_time(refusal_of(second), within_s=0, what="refusing a second prompt")
            tasks.cancel_scope.cancel()


async def an_error_of_the_caller_comes_through(trial: Trial) -> None:
    async def fail(_event: AgentEvent) -> None:
        raise OwnError

    async with trial.opened() as connection:
        session = await connection.new_session()
        await _own_error_of(connection.prompt(session, trial.agent.plain, on_event=fail))


async def an_error_of_who_answers_comes_through(trial: Trial) -> None:
    async def fail(_request: PermissionRequest) -> PermissionAnswer:
        raise OwnError

    async with trial.opened(replace(trial.request, answer_permission=fail)) as connection:
        session = await connection.new_session()
        prompt = connection.prompt(session, trial.agent.permission, on_event=Recorded())
        await _own_error_of(prompt)


async def _own_error_of(prompt: Awaitable[PromptResult]) -> None:
    try:
        result = await in_time(prompt, within_s=0, what="ending a prompt whose caller failed")
    except OwnError:
        return
    raise AssertionError(f"the caller's error was swallowed: {result}")


async def a_rate_limit_leaves_the_session_as_it_was(trial: Trial) -> None:
    prompt = trial.agent.outcomes.get(Outcome.RATE_LIMITED)
    if prompt is None:
        raise AbsentError("it cannot be rate limited")
    await trial.goes_on((await trial.prompted(prompt)).session)


async def _cancelled(
    connection: AgentConnection, prompt: str, cancel_timeout_s: float
) -> tuple[UpstreamSessionId, PromptResult]:
    session = await connection.new_session()

    async def cancel() -> None:
        await anyio.sleep(CANCEL_AFTER_S)
        await connection.cancel(session)

    result: PromptResult | None = None
    async with task_group() as tasks:
        tasks.start_soon(cancel)
        running = connection.prompt(session, prompt, on_event=Recorded())
        result = await in_time(running, within_s=cancel_timeout_s, what="a prompt cancelled")
    assert result is not None
    return session, result


async def cancel_ends_the_turn(trial: Trial) -> None:
    async with trial.opened() as connection:
        within_s = trial.request.cancel_timeout_s
        session, result = await _cancelled(connection, trial.agent.hang, within_s)
        assert result.outcome is Outcome.CANCELLED, result
    await trial.goes_on(session)


async def a_deaf_agent_is_ended(trial: Trial) -> None:
    request = replace(trial.request, cancel_timeout_s=0.5)
    async with trial.opened(request) as connection:
        within_s = request.cancel_timeout_s
        _, result = await _cancelled(connection, trial.agent.deaf, within_s)
        assert result.outcome is Outcome.PROCESS_DIED, result


async def a_deadline_ends_the_turn_not_the_session(trial: Trial) -> None:
    request = replace(trial.request, prompt_timeout_s=DEADLINE_S)
    async with trial.opened(request) as connection:
        session = await connection.new_session()
        before_s = anyio.current_time()
        running = connection.prompt(session, trial.agent.hang, on_event=Recorded())
        within_s = DEADLINE_S + request.cancel_timeout_s
        result = await in_time(running, within_s=within_s, what="a prompt with a deadline")
        assert result.outcome is Outcome.TIMED_OUT, result
        assert anyio.current_time() - before_s >= DEADLINE_S, "it ended before its deadline"
    await trial.goes_on(session)


async def odd_text_comes_through_identical(trial: Trial) -> None:
    await _comes_through(trial, trial.agent.odd_text)


async def a_large_reply_comes_through_whole(trial: Trial) -> None:
    await _comes_through(trial, trial.agent.large)


async def _comes_through(trial: Trial, provoked: tuple[str, str] | None) -> None:
    assert provoked is not None
    prompt, text = provoked
    _, result, events = await trial.prompted(prompt)
    assert result.outcome is Outcome.OK
    assert events.text.count(text) == 1, f"{len(events.text)} characters of {len(text)}"


async def a_large_prompt_is_kept_whole(trial: Trial) -> None:
    large = f"{'many words ' * LARGE_WORDS}{trial.agent.plain}"
    async with trial.opened() as connection:
        require(connection, "load")
        session = await connection.new_session()
        await connection.prompt(session, large, on_event=Recorded())
        assert prompts_of(await connection.load_session(session), large) == [large]


async def an_odd_prompt_is_kept_identical(trial: Trial) -> None:
    odd = f"{trial.agent.plain} \0 \ud83d \u202e \U0001f600 e\u0301"
    async with trial.opened() as connection:
        if not (trial.agent.odd_text and connection.capabilities.can_load):
            raise AbsentError("its own text cannot be odd, or cannot be read back")
        session = await connection.new_session()
        await connection.prompt(session, odd, on_event=Recorded())
        assert odd in said_by_user(await connection.load_session(session))


async def an_unknown_update_is_kept_raw(trial: Trial) -> None:
    _, result, events = await trial.prompted(trial.agent.unknown_update)
    assert result.outcome is Outcome.OK
    unknown = events.of(UnknownReceived)
    assert unknown
    assert unknown[0].kind
    assert unknown[0].raw


async def garbage_never_ends_the_turn(trial: Trial) -> None:
    _, result, events = await trial.prompted(trial.agent.garbage)
    assert result.outcome is Outcome.OK
    assert events.of(UnknownReceived)


# --- what an agent does with its tools, and who lets it -------------------------------------------


_ENDED = frozenset({"completed", "failed"})


async def _answered(trial: Trial, kind: str) -> tuple[PermissionAnswered, PermissionRequest]:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        return trial.answer(request, kind, f"{kind} by the suite")

    asking = replace(trial.request, answer_permission=answer)
    events = (await trial.prompted(trial.agent.permission, asking)).events
    answered = events.of(PermissionAnswered)
    assert len(answered) == len(trial.asked) > 0, "it acted and did not ask"
    assert (answered[0].answer, answered[0].answered_by) == (kind, f"{kind} by the suite")
    return answered[0], trial.asked[0]


async def a_permission_given_is_an_event(trial: Trial) -> None:
    event, request = await _answered(trial, "allow_once")
    assert (event.call_id, event.title) == (request.call_id, request.title)
    assert event.upstream_session_id == request.upstream_session_id


async def a_permission_refused_is_an_event(trial: Trial) -> None:
    await _answered(trial, "reject_once")


async def _answered_before_it_runs(
    trial: Trial, answer: CallAnswer
) -> tuple[PromptResult, list[PermissionRequest], list[PermissionAnswered]]:
    """Let it begin what it asks for, and answer that it may not; returns what was told."""
    told: list[PermissionRequest] = []

    async def hold(request: PermissionRequest) -> CallAnswer:
        told.append(request)
        return answer

    events = Recorded()
    async with trial.opened(replace(trial.request, hold_call=hold)) as connection:
        require(connection, "hold")
        session = await connection.new_session()
        result = await connection.prompt(session, trial.agent.permission, on_event=events)
    assert trial.asked == []
    return result, told, events.of(PermissionAnswered)


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

    asking = replace(trial.request, answer_permission=answer)
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


PROMPT_PROMISES = promises(
    {
        "A5": {a_history_holds_its_calls: "permission"},
        "A6": {pieces_come_in_order_one_at_a_time: "pieces"},
        "A7": {
            an_event_carries_its_session: "",
            an_event_without_a_session_says_so: "unstamped",
            a_childs_words_are_the_childs: "child",
            a_parent_says_nothing_that_its_child_said: "child_words",
        },
        "A8": {
            late_words_are_counted_not_delivered: "late",
            late_words_stay_out_of_the_next_prompt: "late_words",
        },
        "A9": {
            every_outcome_it_can_be_brought_to: "outcomes",
            a_rate_limit_leaves_the_session_as_it_was: "outcomes",
            a_second_prompt_at_once_is_refused: "hang",
            an_error_of_the_caller_comes_through: "",
            an_error_of_who_answers_comes_through: "permission",
        },
        "A10": {cancel_ends_the_turn: "hang", a_deaf_agent_is_ended: "deaf"},
        "A11": {a_deadline_ends_the_turn_not_the_session: "hang"},
        "A12": {
            odd_text_comes_through_identical: "odd_text",
            an_odd_prompt_is_kept_identical: "",
            a_large_reply_comes_through_whole: "large",
            a_large_prompt_is_kept_whole: "",
            an_unknown_update_is_kept_raw: "unknown_update",
            garbage_never_ends_the_turn: "garbage",
        },
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
        "A18": {a_limit_says_when_it_ends: "resets", what_it_used_is_what_it_said: "usage"},
    }
)
