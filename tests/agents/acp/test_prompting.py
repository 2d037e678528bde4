"""One prompt and everything that can happen to it: promises A6 to A13.

The conformance suite has the sides of these promises that a well-behaved agent shows.
"""

import json

import anyio
import pytest
from tests.agents.acp.conftest import SESSION
from tests.agents.conftest import NOW_MS

from upthread.agents._process import started_at_ticks
from upthread.agents.base import PermissionAnswer
from upthread.core.events import (
    PermissionAnswered,
    TextReceived,
    ToolCallAnnounced,
    UnknownReceived,
)
from upthread.errors import UsageError

pytestmark = pytest.mark.anyio


@pytest.mark.soak
async def test_a6_events_come_in_order_and_a_slow_consumer_slows_the_agent_down(
    connection, recorded, tmp_path
):
    """The agent writes its count to stderr: with full pipes it cannot run ahead by much."""
    progress = tmp_path / "log" / "stderr"

    def count():
        return len(progress.read_bytes().splitlines())

    async def slow(event):
        await recorded(event)
        if len(recorded) == 1:
            before = -1  # until the agent stands still
            while before != (before := count()):  # noqa: ASYNC110  # another process counts
                await anyio.sleep(0.1)
            assert before < 2_000, before

    result = await connection.prompt(SESSION, "[[flood 3000]]", on_event=slow)
    assert (result.outcome, count() > 3_000) == ("ok", True)
    assert recorded.text == "".join(f"{number}\n" for number in range(3_000))


@pytest.mark.extended
async def test_a6_an_error_of_the_consumer_comes_through_and_ends_the_agent(connection):
    async def full(event):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await connection.prompt(SESSION, "hello", on_event=full)
    assert started_at_ticks(connection.process.pid) is None


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


@pytest.mark.extended
@pytest.mark.parametrize("reason", ["cancelled", "end_turn"])
async def test_a8_words_of_a_cancelled_turn_never_join_the_next_reply(connection, recorded, reason):
    """A10: whatever reason the agent gives, the turn was cancelled."""
    await connection.cancel(SESSION)  # without a prompt it does nothing
    assert await cancelled(connection, recorded, f"[[hang {reason}]]") == ("cancelled", "")
    recorded.clear()
    result = await connection.prompt(SESSION, "[[leftover]]", on_event=recorded)
    assert (result.outcome, recorded.text) == ("ok", "")
    assert connection.late_events == 2


ENDS = (
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
    ('[[raw {"jsonrpc":"2.0","id":99,"error":"odd"}]]', "ok", ""),
)


async def test_a9_every_end_of_a_turn_is_an_outcome(connection, recorded):
    for prompt, outcome, detail in ENDS:
        result = await connection.prompt(SESSION, prompt, on_event=recorded)
        assert result.outcome == outcome, prompt
        assert detail in result.detail, prompt


async def test_a9_a_malformed_error_is_still_an_end(prompted):
    # initialize was request 0, so this answers the prompt itself.
    result = await prompted('[[raw {"jsonrpc":"2.0","id":1,"error":"just words"}]]')
    assert (result.outcome, "just words" in result.detail) == ("unknown", True)


async def test_a9_a_rate_limit_says_when_it_ends_or_that_nobody_knows(connection, recorded):
    limit = {"errorKind": "rate_limit"}
    for message, data, after_ms in (
        ("slow", {**limit, "retryAfterSeconds": 7}, 7_000),
        ("rate limit: try again in 2 minutes", limit, 120_000),
        ("rate limit: retry after 250ms", limit, 250),
        ("slow down", limit, None),
    ):
        error = f"[[error -32603 {json.dumps([message, data])}]]"
        result = await connection.prompt(SESSION, error, on_event=recorded)
        assert result.outcome == "rate_limited"
        assert result.reset_at_ms == (None if after_ms is None else NOW_MS + after_ms)


async def test_a9_what_only_sounds_like_a_limit_is_told_in_the_agents_words(prompted):
    said = "hook test_rate_limit.py failed, try again in 2h"
    result = await prompted(f"[[error -32603 {json.dumps([said, None])}]]")
    assert (result.outcome, result.reset_at_ms) == ("unknown", None)
    assert result.detail.startswith(f"the agent said: {said}")


async def test_a9_a_dead_agent_is_an_outcome_in_its_turn_and_in_the_next(connection, recorded):
    result = await connection.prompt(SESSION, "[[exit 5]]", on_event=recorded)
    assert result.outcome == "process_died"
    assert "exited with code 5 during session/prompt" in result.detail
    again = await connection.prompt(SESSION, "hello?", on_event=recorded)
    assert again.outcome == "process_died"
    assert "says hello on stderr" in again.detail


@pytest.mark.extended
async def test_a10_an_agent_that_ignores_cancel_is_ended(scripted, request_for, recorded):
    request = request_for(cancel_timeout_s=0.3)
    async with scripted("ignores_cancel").open(request) as connection:
        outcome, detail = await cancelled(connection, recorded)
        assert outcome == "process_died"
        assert detail == "it did not answer the cancel within 0.3 s and was ended"
        assert started_at_ticks(connection.process.pid) is None


@pytest.mark.extended
async def test_a11_a_deadline_that_the_agent_ignores_ends_the_agent_too(prompted):
    result = await prompted(
        "[[hang]]", word="ignores_cancel", prompt_timeout_s=0.2, cancel_timeout_s=0.2
    )
    assert result.outcome == "timed_out"
    assert "no answer within 0.2 s; it did not answer the cancel" in result.detail


async def test_a12_text_comes_through_identical_and_the_unreadable_raw(connection, recorded):
    """A7: each event carries its session, or none."""
    result = await connection.prompt(SESSION, "[[odd]]", on_event=recorded)
    assert result.outcome == "ok"
    assert recorded.text == "nul \0 lone \ud83d endunstampedafter"
    owners = {e.text: e.upstream_session_id for e in recorded if isinstance(e, TextReceived)}
    assert (owners["unstamped"], owners["after"]) == (None, SESSION)
    raw = [(event.kind, event.raw) for event in recorded if isinstance(event, UnknownReceived)]
    kinds = [kind for kind, _ in raw]
    assert kinds == ["unreadable_frame"] * 6 + ["_vendor/note", "hologram", "tool_call_update"]
    assert raw[0][1].encode("utf-8", "surrogateescape").endswith(b'half \xf0\x9f"}}')
    assert raw[7][1] == {"sessionUpdate": "hologram", "shape": "round"}
    recorded.clear()
    echoed = "back \0 and \udc80 forth é 🎈"
    assert (await connection.prompt(SESSION, echoed, on_event=recorded)).tokens_used == 12
    assert recorded.text == echoed


@pytest.mark.soak
async def test_a12_megabytes_come_through_and_a_frame_past_its_limit_ends_the_turn_clearly(
    connection, recorded
):
    await connection.prompt(SESSION, f"[[big {7 * 2**20}]]", on_event=recorded)
    await connection.prompt(SESSION, "y" * 2**20, on_event=recorded)
    assert len(recorded.text) == 8 * 2**20
    result = await connection.prompt(SESSION, f"[[big {17 * 2**20}]]", on_event=recorded)
    assert result.outcome == "unknown"
    assert "past a limit: the length of one frame, at most 16,777,216 bytes" in result.detail


@pytest.mark.extended
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


async def test_a13_no_answer_is_a_cancelled_request(prompted, recorded):
    async def answer(request):
        return PermissionAnswer(option_id=None, answered_by="policy")

    await prompted("[[permission]]", answer_permission=answer)
    assert "cancelled" in recorded.text


async def test_a13_an_answer_that_was_not_offered_is_an_error_of_the_caller(prompted):
    async def invent(request):
        return PermissionAnswer(option_id="always", answered_by="test")

    with pytest.raises(UsageError, match=r"'always', which .* did not offer"):
        await prompted("[[permission]]", answer_permission=invent)


async def test_a13_a_question_is_withdrawn_when_the_turn_is_ended(prompted, recorded):
    async def nobody_comes(request):
        await anyio.sleep_forever()

    result = await prompted("[[permission]]", answer_permission=nobody_comes, prompt_timeout_s=0.5)
    assert result.outcome == "timed_out"
    answers = [e.answer for e in recorded if isinstance(e, PermissionAnswered)]
    assert answers == ["cancelled"]
