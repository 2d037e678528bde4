"""What an agent's session has and the record lacks: neither too little nor too much."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.events import (
    AgentEvent,
    ChildStarted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.turns.older_record import (
    NOTHING_LACKED,
    PAIRS_MAX,
    TOO_MANY,
    UNKNOWN_PROMPTS,
    Lacked,
    is_finished,
    lacked,
)
from upthread.core.types import (
    ContextPart,
    ConversationId,
    ErasedPart,
    Message,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    TurnId,
    UpstreamSessionId,
)

SESSION = UpstreamSessionId("ses_now")
EARLIER = UpstreamSessionId("ses_then")
CHILD = UpstreamSessionId("ses_child")

# Few texts, so that many are said again: that is what can be taken for another.
PROMPTS = st.lists(
    st.sampled_from(["go on", "plan it", "fix it\nand test it", "again"]), max_size=8
)


def prompt(text: str, *, session: UpstreamSessionId = SESSION) -> UserTextReplayed:
    return UserTextReplayed(upstream_session_id=session, text=text, message_id=None)


def reply(text: str = "done") -> TextReceived:
    return TextReceived(upstream_session_id=SESSION, text=text)


def call(call_id: str) -> ToolCallAnnounced:
    return ToolCallAnnounced(
        upstream_session_id=SESSION, call_id=call_id, title="sh", tool_kind="execute"
    )


def ended(call_id: str, status: str | None = "completed") -> ToolCallUpdated:
    return ToolCallUpdated(upstream_session_id=SESSION, call_id=call_id, status=status)


def session(*prompts: str) -> list[AgentEvent]:
    return [event for text in prompts for event in (prompt(text), reply())]


def message(speaker: Speaker, *parts: Part, of: UpstreamSessionId = SESSION) -> Message:
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=1,
        speaker=speaker,
        turn_id=TurnId("trn_1"),
        upstream_session_id=of,
        recorded_at_ms=0,
        parts=parts,
    )


def record(*prompts: str, of: UpstreamSessionId = SESSION) -> list[Message]:
    return [
        said
        for text in prompts
        for said in (
            message(Speaker.USER, TextPart(text=text), of=of),
            message(Speaker.ASSISTANT, TextPart(text="done"), of=of),
        )
    ]


def prompts_lacking(found: Lacked) -> list[str]:
    return [turn.prompt for turn in found.turns]


def of(history: Sequence[AgentEvent], recorded: Sequence[Message]) -> Lacked:
    return lacked(history, recorded, SESSION)


@given(known=PROMPTS.filter(bool), missing=PROMPTS)
def test_what_follows_a_record_that_is_whole_is_lacking_all_of_it(
    known: list[str], missing: list[str]
) -> None:
    found = of(session(*known, *missing), record(*known))
    assert (prompts_lacking(found), found.fault) == (missing, "")


@given(recorded=PROMPTS, arrived=st.data())
def test_a_session_that_holds_nothing_but_what_is_on_record_lacks_nothing(
    recorded: list[str], arrived: st.DataObject
) -> None:
    """A prompt may never have arrived; a compaction may have taken the beginning away."""
    kept = arrived.draw(st.lists(st.booleans(), min_size=len(recorded), max_size=len(recorded)))
    held = [text for text, is_there in zip(recorded, kept, strict=True) if is_there]
    assert of(session(*held), record(*recorded)) == NOTHING_LACKED


@given(earlier=PROMPTS, recorded=PROMPTS)
def test_prompts_of_earlier_sessions_are_in_nobodys_way(
    earlier: list[str], recorded: list[str]
) -> None:
    whole = [*record(*earlier, of=EARLIER), *record(*recorded)]
    assert of(session(*recorded), whole) == NOTHING_LACKED


@given(known=PROMPTS.filter(bool), missing=PROMPTS)
def test_of_prompts_that_were_not_kept_their_number_tells(
    known: list[str], missing: list[str]
) -> None:
    erased = ErasedPart(kind="text", digest=b"", size_bytes=1)
    recorded = [message(Speaker.USER, erased) for _ in known]
    assert prompts_lacking(of(session(*known, *missing), recorded)) == missing


def test_a_prompt_that_the_agent_added_lines_to_is_the_same() -> None:
    history = session("<note>\nplan   it\n</note>", "typed by hand")
    assert prompts_lacking(of(history, record("plan it"))) == ["typed by hand"]


def test_a_prompt_that_was_sent_with_its_context_is_the_same() -> None:
    sent = message(Speaker.USER, TextPart(text="plan it"), ContextPart(text="You plan."))
    history = session(sent.sent_text, "typed by hand")
    assert prompts_lacking(of(history, [sent])) == ["typed by hand"]


def test_what_nobody_answered_is_no_turn() -> None:
    history = [*session("plan it"), prompt("<command-name>/status</command-name>")]
    assert of(history, record("plan it")) == NOTHING_LACKED


def test_what_the_agent_began_by_itself_within_a_turn_on_record_is_not_lacking() -> None:
    recorded = [
        *record("plan it"),
        message(
            Speaker.ASSISTANT,
            ToolCallPart(call_id="call_1", title="sh", tool_kind="execute", arguments=None),
        ),
    ]
    history = [*session("plan it"), prompt("<notification>"), call("call_1"), ended("call_1")]
    assert of(history, recorded) == NOTHING_LACKED


def test_what_sub_agents_heard_is_no_prompt_of_the_session() -> None:
    began = ChildStarted(
        upstream_session_id=SESSION, child_upstream_session_id=CHILD, role="Explore", call_id="c"
    )
    heard = (began, prompt("look around", session=CHILD), reply("looked"))
    history = [prompt("plan it"), *heard]
    assert of(history, record("plan it")) == NOTHING_LACKED


def test_a_session_that_answered_us_and_knows_none_of_our_prompts_cannot_be_compared() -> None:
    assert of(session("another"), record("plan it")) == Lacked(fault=UNKNOWN_PROMPTS)


def test_a_session_that_was_adopted_or_forked_need_not_know_our_prompts() -> None:
    recorded = record("plan it", of=EARLIER)
    assert of(session("another"), recorded) == NOTHING_LACKED
    assert of([], record("plan it")) == NOTHING_LACKED


def test_more_than_can_be_compared_in_good_time_is_said_to_be() -> None:
    many = [str(number) for number in range(int(PAIRS_MAX**0.5) + 1)]
    assert of(session(*many), record(*many)) == Lacked(fault=TOO_MANY)


def test_a_turn_is_finished_when_its_calls_are_and_the_agent_spoke_last() -> None:
    def is_so(*events: AgentEvent) -> bool:
        (turn,) = of([*session("plan it"), prompt("more"), *events], record("plan it")).turns
        return is_finished(turn)

    thought = ReasoningReceived(upstream_session_id=SESSION, text="hm")
    assert is_so(thought, call("c"), ended("c"), reply())
    assert not is_so(reply(), call("c"), ended("c"))
    assert not is_so(call("c"), ended("c", None), reply())
