"""One prompt and everything that can happen to it: promises A6 to A13."""

import json
import time

import anyio
import pytest
from msgspec import structs

from upthread.agents._process_group import started_at_ticks
from upthread.agents.base import PermissionAnswer
from upthread.core.events import (
    PermissionAnswered,
    TextReceived,
    ToolCallAnnounced,
    UnknownReceived,
)
from upthread.errors import UpstreamError, UsageError

pytestmark = pytest.mark.anyio
SESSION = "ses_scripted"


async def test_a6_events_come_in_order_and_before_the_prompt_returns(
    scripted, request_for, recorded
):
    async with scripted().open(request_for()) as connection:
        result = await connection.prompt(SESSION, "[[flood 10000]]", on_event=recorded)
    assert result.outcome == "ok"
    assert recorded.text == "".join(f"{number}\n" for number in range(10_000))


async def test_a6_a_slow_consumer_slows_the_agent_down(scripted, request_for, tmp_path):
    """The agent writes its count to stderr: with full pipes it cannot run ahead by much."""
    progress = tmp_path / "log" / "stderr"
    lead = 0
    taken = 0

    async def slow(event):
        nonlocal lead, taken
        taken += 1
        if taken <= 20:
            await anyio.sleep(0.01)
            written = progress.read_text().splitlines()[-1]
            lead = max(lead, int(written) - taken if written.isdecimal() else 0)

    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, "[[flood 10000]]", on_event=slow)
    assert taken == 10_000
    assert 0 < lead < 5_000


async def test_a6_an_error_of_the_consumer_comes_through_and_ends_the_agent(scripted, request_for):
    async def full(event):
        raise OSError("disk full")

    async with scripted().open(request_for()) as connection:
        with pytest.raises(OSError, match="disk full"):
            await connection.prompt(SESSION, "hello", on_event=full)
        assert started_at_ticks(connection.process.pid) is None


async def test_a7_an_event_says_whose_it_is_or_nothing(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, "[[odd]]", on_event=recorded)
    owners = {e.text: e.upstream_session_id for e in recorded if isinstance(e, TextReceived)}
    assert owners["unstamped"] is None
    assert owners["after"] == SESSION


async def test_a8_late_events_are_counted_not_delivered(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, "[[late]]", on_event=recorded)
        assert (recorded.text, connection.late_events) == ("in time", 0)
        await anyio.sleep(0.2)
        assert (recorded.text, connection.late_events) == ("in time", 1)


async def test_a8_words_of_a_cancelled_turn_never_join_the_next_reply(
    scripted, request_for, recorded
):
    async with scripted().open(request_for()) as connection:
        assert await cancelled(connection, recorded) == ("cancelled", "")
        recorded.clear()
        result = await connection.prompt(SESSION, "[[pause 0.5]]", on_event=recorded)
        assert (result.outcome, recorded.text) == ("ok", "")
        assert connection.late_events == 2


async def talking(recorded):
    while not recorded.text:  # noqa: ASYNC110  # the list is the subject, not an event
        await anyio.sleep(0.005)


async def cancelled(connection, recorded, prompt="[[hang]]"):
    async with anyio.create_task_group() as tasks:

        async def cancel_when_it_talks():
            await talking(recorded)
            await connection.cancel(SESSION)

        tasks.start_soon(cancel_when_it_talks)
        result = await connection.prompt(SESSION, prompt, on_event=recorded)
    return result.outcome, result.detail


@pytest.mark.parametrize(
    ("prompt", "outcome", "detail"),
    [
        ("hello", "ok", ""),
        ("[[stop cancelled]]", "cancelled", ""),
        ("[[stop refusal]]", "ok", "refusal"),
        ("[[stop max_tokens]]", "context_full", "max_tokens"),
        ("[[stop max_turn_requests]]", "unknown", "max_turn_requests"),
        ("[[stop exploded]]", "unknown", "unknown reason: exploded"),
        ("[[result null]]", "unknown", "gave no stopReason"),
        ("[[result [1]]]", "unknown", "gave no stopReason"),
        ('[[error -32002 ["Resource not found"]]]', "missing", "code -32002"),
        ('[[error -32000 ["Authentication required"]]]', "auth", "code -32000"),
        ('[[error -32603 ["Internal error", {"errorKind": "rate_limit"}]]]', "rate_limited", ""),
        ('[[error -32603 ["Internal error", {"errorKind": "overloaded"}]]]', "transient", ""),
        ('[[error -32603 ["Internal error"]]]', "unknown", "Internal error"),
        ('[[error -32603 ["session not found: ses_scripted"]]]', "unknown", "not found"),
        ("[[exit 5]]", "process_died", "exited with code 5 during session/prompt"),
        ("[[close]]", "process_died", "closed its output without exiting"),
        ('[[raw {"jsonrpc":"2.0","id":99,"error":"odd"}]]', "ok", ""),
    ],
)
async def test_a9_every_end_of_a_turn_is_an_outcome(
    scripted, request_for, recorded, prompt, outcome, detail
):
    async with scripted().open(request_for()) as connection:
        result = await connection.prompt(SESSION, prompt, on_event=recorded)
    assert result.outcome == outcome
    assert detail in result.detail


async def test_a9_a_malformed_error_is_still_an_end(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        # initialize was request 0, so this answers the prompt itself.
        malformed = '[[raw {"jsonrpc":"2.0","id":1,"error":"just words"}]]'
        result = await connection.prompt(SESSION, malformed, on_event=recorded)
    assert (result.outcome, "just words" in result.detail) == ("unknown", True)


async def test_a9_a_rate_limit_says_when_it_ends_or_that_nobody_knows(
    scripted, request_for, recorded
):
    limit = {"errorKind": "rate_limit"}
    async with scripted().open(request_for()) as connection:

        async def reset_at_ms(message, data):
            error = f"[[error -32603 {json.dumps([message, data])}]]"
            result = await connection.prompt(SESSION, error, on_event=recorded)
            assert result.outcome == "rate_limited"
            return result.reset_at_ms

        now_ms = 1_700_000_000_000
        assert await reset_at_ms("slow", {**limit, "retryAfterSeconds": 7}) == now_ms + 7_000
        assert await reset_at_ms("rate limit: try again in 2 minutes", limit) == now_ms + 120_000
        assert await reset_at_ms("rate limit: retry after 250ms", limit) == now_ms + 250
        assert await reset_at_ms("slow down", limit) is None


async def test_a9_what_only_sounds_like_a_limit_is_told_in_the_agents_words(
    scripted, request_for, recorded
):
    said = "hook test_rate_limit.py failed, try again in 2h"
    error = f"[[error -32603 {json.dumps([said, None])}]]"
    async with scripted().open(request_for()) as connection:
        result = await connection.prompt(SESSION, error, on_event=recorded)
    assert (result.outcome, result.reset_at_ms) == ("unknown", None)
    assert result.detail.startswith(f"the agent said: {said}")


async def test_a9_a_prompt_to_a_dead_agent_is_an_outcome_too(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, "[[exit 5]]", on_event=recorded)
        again = await connection.prompt(SESSION, "hello?", on_event=recorded)
    assert again.outcome == "process_died"
    assert "says hello on stderr" in again.detail


async def test_a_second_prompt_at_once_is_refused(scripted, request_for, recorded):
    async with (
        scripted().open(request_for()) as connection,
        anyio.create_task_group() as tasks,
    ):

        async def second():
            await talking(recorded)
            with pytest.raises(UpstreamError, match="a prompt is running") as caught:
                await connection.prompt(SESSION, "me too", on_event=recorded)
            assert caught.value.outcome == "busy"
            await connection.cancel(SESSION)

        tasks.start_soon(second)
        await connection.prompt(SESSION, "[[hang]]", on_event=recorded)


async def test_a10_cancel_ends_the_turn_and_the_session_goes_on(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        assert await cancelled(connection, recorded) == ("cancelled", "")
        assert (await connection.prompt(SESSION, "go on", on_event=recorded)).outcome == "ok"


async def test_a10_a_cancelled_turn_that_says_end_turn_is_still_cancelled(
    scripted, request_for, recorded
):
    async with scripted().open(request_for()) as connection:
        assert await cancelled(connection, recorded, "[[hang end_turn]]") == ("cancelled", "")


async def test_a10_an_agent_that_ignores_cancel_is_ended(scripted, request_for, recorded):
    request = request_for(cancel_timeout_s=0.3)
    async with scripted("ignores_cancel").open(request) as connection:
        outcome, detail = await cancelled(connection, recorded)
        assert outcome == "process_died"
        assert detail == "it did not answer the cancel within 0.3 s and was ended"
        assert started_at_ticks(connection.process.pid) is None


async def test_cancel_without_a_prompt_does_nothing(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.cancel(SESSION)
        assert (await connection.prompt(SESSION, "hello", on_event=recorded)).outcome == "ok"


async def test_a11_a_deadline_ends_the_turn_not_the_session(scripted, request_for, recorded):
    request = request_for(prompt_timeout_s=0.3)
    async with scripted().open(request) as connection:
        result = await connection.prompt(SESSION, "[[hang]]", on_event=recorded)
        assert (result.outcome, result.detail) == ("timed_out", "no answer within 0.3 s")
        assert (await connection.prompt(SESSION, "go on", on_event=recorded)).outcome == "ok"


async def test_a11_a_deadline_nobody_hears_ends_the_agent_too(scripted, request_for, recorded):
    request = request_for(prompt_timeout_s=0.2, cancel_timeout_s=0.2)
    async with scripted("ignores_cancel").open(request) as connection:
        result = await connection.prompt(SESSION, "[[hang]]", on_event=recorded)
        assert result.outcome == "timed_out"
        assert "no answer within 0.2 s; it did not answer the cancel" in result.detail


async def test_a_prompt_whose_caller_is_cancelled_ends_the_agent(scripted, request_for, recorded):
    async with scripted("ignores_cancel").open(request_for()) as connection:
        with anyio.move_on_after(0.3) as scope:
            await connection.prompt(SESSION, "[[hang]]", on_event=recorded)
        assert scope.cancelled_caught
        assert started_at_ticks(connection.process.pid) is None


async def test_a12_text_comes_through_identical_and_the_unreadable_raw(
    scripted, request_for, recorded
):
    async with scripted().open(request_for()) as connection:
        result = await connection.prompt(SESSION, "[[odd]]", on_event=recorded)
        echoed = "back \0 and \udc80 forth é 🎈"
        recorded_back = type(recorded)()
        await connection.prompt(SESSION, echoed, on_event=recorded_back)
    assert result.outcome == "ok"
    assert recorded.text == "nul \0 lone \ud83d endunstampedafter"
    assert recorded_back.text == echoed
    raw = [(event.kind, event.raw) for event in recorded if isinstance(event, UnknownReceived)]
    kinds = [kind for kind, _ in raw]
    assert kinds == ["unreadable_frame"] * 6 + ["_vendor/note", "hologram", "tool_call_update"]
    assert raw[0][1].encode("utf-8", "surrogateescape").endswith(b'half \xf0\x9f"}}')
    assert raw[7][1] == {"sessionUpdate": "hologram", "shape": "round"}


async def test_a12_a_frame_of_7_megabytes_comes_through(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        await connection.prompt(SESSION, f"[[big {7 * 2**20}]]", on_event=recorded)
        await connection.prompt(SESSION, "y" * 2**20, on_event=recorded)
    assert len(recorded.text) == 8 * 2**20


async def test_a12_a_frame_past_its_limit_ends_the_turn_clearly(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        result = await connection.prompt(SESSION, f"[[big {17 * 2**20}]]", on_event=recorded)
    assert result.outcome == "unknown"
    assert "past a limit: the length of one frame, at most 16,777,216 bytes" in result.detail


async def test_a13_permission_is_asked_recorded_then_answered(scripted, request_for, recorded):
    asked = []

    async def refuse(request):
        asked.append(request)
        announced = [e for e in recorded if isinstance(e, ToolCallAnnounced)]
        assert [e.call_id for e in announced] == ["c1"], "the call is recorded before the question"
        return PermissionAnswer(option_id="no", answered_by="a person")

    async def slowly(event):
        await anyio.sleep(0.05)
        await recorded(event)

    async with scripted().open(request_for(answer_permission=refuse)) as connection:
        await connection.prompt(SESSION, "[[permission]]", on_event=slowly)
    assert asked[0].title == "rm -r build"
    assert (asked[0].arguments, asked[0].locations) == ({"a": 1}, ("build",))
    assert asked[0].options == (("yes", "allow_once"), ("no", "reject_once"))
    answered = next(e for e in recorded if isinstance(e, PermissionAnswered))
    assert (answered.answer, answered.answered_by) == ("reject_once", "a person")
    assert '"optionId": "no"' in recorded.text
    assert recorded.index(answered) < len(recorded) - 1


@pytest.mark.parametrize("option", [None, "yes"])
async def test_a13_no_answer_is_a_cancelled_request(scripted, request_for, recorded, option):
    async def answer(request):
        return PermissionAnswer(option_id=option, answered_by="policy")

    async with scripted().open(request_for(answer_permission=answer)) as connection:
        await connection.prompt(SESSION, "[[permission]]", on_event=recorded)
    assert ("cancelled" in recorded.text) is (option is None)


async def test_a13_an_answer_that_was_not_offered_is_an_error_of_the_caller(
    scripted, request_for, recorded
):
    async def invent(request):
        return PermissionAnswer(option_id="always", answered_by="test")

    async with scripted().open(request_for(answer_permission=invent)) as connection:
        with pytest.raises(UsageError, match=r"'always', which .* did not offer"):
            await connection.prompt(SESSION, "[[permission]]", on_event=recorded)


async def test_a13_a_question_is_withdrawn_when_the_turn_is_ended(scripted, request_for, recorded):
    async def nobody_comes(request):
        await anyio.sleep_forever()

    request = structs.replace(request_for(answer_permission=nobody_comes), prompt_timeout_s=0.3)
    async with scripted().open(request) as connection:
        began = time.monotonic()
        result = await connection.prompt(SESSION, "[[permission]]", on_event=recorded)
    assert (result.outcome, time.monotonic() - began < 3) == ("timed_out", True)
    assert [e.answer for e in recorded if isinstance(e, PermissionAnswered)] == ["cancelled"]


async def test_tokens_of_a_turn_are_the_answers_own_figure(scripted, request_for, recorded):
    async with scripted().open(request_for()) as connection:
        assert (await connection.prompt(SESSION, "hi", on_event=recorded)).tokens_used == 12
