"""How much an agent may send: each limit, at it and past it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sets import spread

from upthread.core import quotas
from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.quotas import Allowance, Limit, TurnQuota, within_quota
from upthread.core.types import UpstreamSessionId
from upthread.errors import QuotaExceededError

SESSION = UpstreamSessionId("ses_1")


def call(call_id="c", **more):
    return ToolCallAnnounced(upstream_session_id=SESSION, call_id=call_id, title="t", **more)


def update(call_id="c", **more):
    return ToolCallUpdated(upstream_session_id=SESSION, call_id=call_id, **more)


def usage(**more):
    return UsageReported(upstream_session_id=SESSION, **{"tokens_used": None, **more})


@pytest.fixture
def small(monkeypatch):
    """Make the limits small, so that a test can reach them."""
    for name, limit in tuple(vars(quotas).items()):
        if isinstance(limit, Limit):
            monkeypatch.setattr(quotas, name, Limit(limit.what, 10, limit.unit))
    monkeypatch.setattr(quotas, "OPEN_CALLS", Limit("open calls", 3_000, "bytes"))
    monkeypatch.setattr(quotas, "CALLS_OF_TURN", Limit("calls of a turn", 190_000, "bytes"))
    monkeypatch.setattr(quotas, "IDENTITY", Limit("ids", 20, "characters"))


def test_an_error_names_the_limit_and_its_number():
    with pytest.raises(QuotaExceededError) as caught:
        quotas.FRAME.require(quotas.FRAME.most + 1)
    assert "the length of one frame, at most 16,777,216 bytes" in str(caught.value)
    assert (caught.value.limit, caught.value.outcome) == (quotas.FRAME.what, "unknown")
    quotas.FRAME.require(quotas.FRAME.most)


def test_what_a_store_holds_counts_up_to_the_event_that_passes_a_limit(small):
    kept = call()
    for held in ([kept], [kept, call("c" * 30), kept]):
        assert tuple(within_quota(held)) == (kept,)


MIB = 2**20


def take_frames(limits, count, size_bytes):
    allowance = Allowance()
    allowance.renew(limits)
    for _ in range(count):
        allowance.take(size_bytes)


def take_requests(count):
    allowance = Allowance()
    for _ in range(count):
        allowance.take_request()


def take_events(*told: AgentEvent) -> None:
    quota = TurnQuota()
    for each in told:
        quota.take(each)


def printed(count, status):
    told = "x" * MIB
    take_events(*(update(str(number), text=told, status=status) for number in range(count)))


PAST = {
    "FRAME": lambda: Allowance().take(16 * MIB + 1),
    "NESTING": lambda: quotas.require_sound_frame(b"[" * 129),
    "VALUES": lambda: quotas.require_sound_frame(b"[" + b"1," * 200_001),
    "WHOLE_NUMBER": lambda: quotas.whole_number("9" * 5_000),
    "FRAMES_OF_TURN": lambda: take_frames(quotas.TURN, 1_000_001, 1),
    "BYTES_OF_TURN": lambda: take_frames(quotas.TURN, 17, 16 * MIB),
    "REQUESTS_OF_TURN": lambda: take_requests(5_001),
    "FRAMES_OF_HISTORY": lambda: take_frames(quotas.HISTORY, 100_001, 1),
    "BYTES_OF_HISTORY": lambda: take_frames(quotas.HISTORY, 3, 16 * MIB),
    "TEXT_OF_TURN": lambda: take_events(
        TextReceived(upstream_session_id=SESSION, text="x" * (8 * MIB + 1))
    ),
    "PARTS_OF_TURN": lambda: TurnQuota().take_parts(100_001),
    "CALLS_AT_ONCE": lambda: take_events(*(call(str(number)) for number in range(1_001))),
    "CALLS_OF_TURN": lambda: printed(33, "completed"),
    "OPEN_CALLS": lambda: quotas.OPEN_CALLS.require(32 * MIB + 1),
    "PLAN": lambda: take_events(
        PlanChanged(upstream_session_id=SESSION, entries=(("a", "b"),) * 1_001)
    ),
    "LOCATIONS": lambda: take_events(call(locations=("a",) * 1_001)),
    "TOKENS": lambda: quotas.require_tokens(10**12 + 1),
    "IDENTITY": lambda: take_events(call("c" * 513)),
}
"""What is one too much, in numbers of its own: a limit that was lifted lets it pass."""

ELSEWHERE = {"ANSWER", "OPTIONS"}
"""What the agents' own readers hold to; their tests go past it."""


@pytest.mark.parametrize("name", spread(PAST, first=[n for n in PAST if n != "FRAMES_OF_TURN"]))
def test_one_too_much_is_too_much(name):
    with pytest.raises(QuotaExceededError) as caught:
        PAST[name]()
    assert caught.value.limit == getattr(quotas, name).what


def test_every_limit_is_tried():
    names = {name for name, value in vars(quotas).items() if isinstance(value, Limit)}
    assert names == {*PAST, *ELSEWHERE}


def test_every_limit_has_a_name_of_its_own():
    names = [limit.what for limit in quotas.LIMITS]
    assert len(set(names)) == len(names) > 15


@pytest.mark.parametrize(
    "frame",
    [
        b"[" * 128 + b"]" * 128,
        b"[" + b"[]," * 1_000 + b"1]",
        json.dumps({"text": "{[," * 300_000 + '"\\'}).encode(),
        b'"{{{ a string that never ends, with a \\" in it' + b"[" * 200,
    ],
)
def test_brackets_and_commas_of_texts_and_of_wide_frames_are_sound(frame):
    quotas.require_sound_frame(frame)


@pytest.mark.extended
@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_what_an_agent_may_sensibly_send_is_sound(value):
    quotas.require_sound_frame(json.dumps(value).encode())


@pytest.mark.parametrize("number", [0, -1, 2**64 - 1, -(2**63)])
def test_whole_numbers_of_64_bits_are_read(number):
    assert quotas.whole_number(str(number)) == number


@pytest.mark.parametrize("digits", ["9" * 400, str(2**64), str(-(2**63) - 1), "1" * 21])
def test_longer_numbers_are_past_a_limit(digits):
    with pytest.raises(QuotaExceededError, match="a whole number"):
        quotas.whole_number(digits)


def test_frames_and_their_bytes_are_counted_until_something_else_is_asked():
    allowance = Allowance()
    few = (Limit("frames", 2, "frames"), Limit("bytes", 100, "bytes"))
    allowance.renew(few)
    allowance.take(50)
    allowance.take(50)
    with pytest.raises(QuotaExceededError, match="frames"):
        allowance.take(0)
    allowance.renew(few)
    for _ in range(quotas.REQUESTS_OF_TURN.most):
        allowance.take_request()
    with pytest.raises(QuotaExceededError, match="requests"):
        allowance.take_request()
    with pytest.raises(QuotaExceededError, match="bytes"):
        allowance.take(101)
    with pytest.raises(QuotaExceededError, match="one frame"):
        allowance.take(quotas.FRAME.most + 1)


@pytest.mark.parametrize("kind", [TextReceived, ReasoningReceived, UserTextReplayed])
@pytest.mark.usefixtures("small")
def test_what_is_said_in_a_turn_is_counted_together(kind):
    quota = TurnQuota()
    quota.take(TextReceived(upstream_session_id=SESSION, text="x" * 5))
    quota.take(kind(upstream_session_id=None, text="x" * 5))
    with pytest.raises(QuotaExceededError, match="text of one turn"):
        quota.take(kind(upstream_session_id=SESSION, text="x"))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (update("c" * 21), "ids"),
        (call(arguments={"a": "x" * 5_000}), "open calls"),
        (update(text="x" * 5_000), "open calls"),
        (usage(tokens_used=11), "tokens"),
        (usage(tokens_window=11), "tokens"),
        (usage(tokens_read=11), "tokens"),
        (usage(tokens_written=-1), "tokens"),
        (usage(tokens_cached=11), "tokens"),
        (usage(tokens_cache_written=-1), "tokens"),
        (TextReceived(upstream_session_id=UpstreamSessionId("s" * 21), text=""), "ids"),
    ],
)
@pytest.mark.usefixtures("small")
def test_an_event_past_a_limit_is_named(event, words):
    with pytest.raises(QuotaExceededError, match=words):
        TurnQuota().take(event)


@pytest.mark.parametrize("child", ["", "a\nb", " a", "a\x1b", "\ud83d"])
def test_a_sub_agents_session_is_a_name(child):
    child = UpstreamSessionId(child)
    events = (
        ChildStarted(upstream_session_id=SESSION, child_upstream_session_id=child, role="r"),
        ChildEnded(upstream_session_id=SESSION, child_upstream_session_id=child),
        update(child_upstream_session_id=child),
    )
    for event in events:
        with pytest.raises(QuotaExceededError, match="an id is one line that can be printed"):
            TurnQuota().take(event)


@pytest.mark.usefixtures("small")
def test_calls_that_ended_are_open_no_more():
    quota = TurnQuota()
    for number in range(30):
        quota.take(call(str(number), arguments={"a": "x" * 500}))
        quota.take(update(str(number), arguments=[1, ("b", None)]))
        quota.take(update(str(number), status="completed", text="x" * 5_000))
    for number in range(7):
        quota.take(call(str(number)))
    quota.take(TitleChanged(upstream_session_id=SESSION, title="t"))
    for number in range(7, 10):
        quota.take(call(str(number)))
    with pytest.raises(QuotaExceededError, match="open at once"):
        quota.take(call("one more"))


@pytest.mark.usefixtures("small")
def test_what_calls_were_given_and_printed_counts_for_the_whole_turn_in_bytes_and_once():
    quota = TurnQuota()
    for number in range(19):
        quota.take(call(str(number), arguments={"a": "x" * 2_000}))
        quota.take(update(str(number), text="é" * 300))  # what it printed so far, told again
        quota.take(update(str(number), status="completed", text="\ud83d" + "é" * 3_500))
    with pytest.raises(QuotaExceededError, match="calls of a turn"):
        quota.take(update("failed", status="failed", text="é" * 10_000))


def test_a_weight_is_about_what_a_value_takes_however_deep_it_is():
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    assert quotas.weight(deep) > 5_000 * 50
    assert quotas.weight({"key": "x" * 1_000}) > 1_000


def test_a_session_id_that_is_a_name_is_kept():
    assert quotas.require_session("ses_1/a:subagent:b") == "ses_1/a:subagent:b"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a title", "a title"),
        ("two\nlines\tand  more", "two lines and more"),
        ("\x1b[2Jcleared\x00", "[2Jcleared"),
        ("x" * 20, "x" * 9 + "…"),
        (" " * 100 + "x", "…"),
    ],
)
def test_a_title_is_one_line_and_not_long(name, shown):
    assert quotas.one_line_name(name, most=len(shown) if "…" in shown else 200) == shown


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (1.5, 1_500),
        (2, 2_000),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (10**400, None),
        (True, None),
        ("1", None),
        (None, None),
    ],
)
def test_a_time_that_is_none_is_left_out(seconds, milliseconds):
    assert quotas.milliseconds_of(seconds) == milliseconds


def test_tokens_are_a_number_that_can_be_one_or_not_told():
    quotas.require_tokens(None, 0, quotas.TOKENS.most)
    for count in (-1, quotas.TOKENS.most + 1):
        with pytest.raises(QuotaExceededError):
            quotas.require_tokens(count)
