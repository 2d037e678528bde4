"""Sub-agents, played through: whatever happens, each history is its own, and valid.

A playbook is an agent's events in order. It is played whole, and cut after every event: by a crash,
after which another recorder goes on, and by a turn that ends there. After each, the parent's
history is sent to every provider's rules, ours and the rehearsal model's own, as it is stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

import pytest
from tests.core.history.test_repair import refusals
from tests.core.messages import stored
from tests.core.turns.test_recorder import (
    DEEP,
    LINK,
    OWN,
    ROOT,
    A,
    B,
    alarms,
    call,
    child_of,
    committed,
    end,
    opened,
    play,
    quarantine,
    recorder,
    result,
    running,
    start,
    text,
)

from upthread.core.commands import RecordParts, Write
from upthread.core.events import AgentEvent, ReasoningReceived, TextReceived, UserTextReplayed
from upthread.core.history.model import History, HistoryMessage, history_of
from upthread.core.history.repair import repair
from upthread.core.turns.agent_history import open_calls
from upthread.core.turns.recorder import KnownChild, Recorder
from upthread.core.types import (
    ConversationId,
    Message,
    Outcome,
    Speaker,
    TextPart,
    ToolResultPart,
    TurnId,
    UpstreamSessionId,
)

OWNERS = {OWN: ROOT.conversation_id}
for session, parent in ((A, OWN), (B, OWN), (DEEP, A), (UpstreamSessionId("ses_deeper"), DEEP)):
    OWNERS[session] = child_of(OWNERS[parent], session)
DEEPER = UpstreamSessionId("ses_deeper")


def delegated(call_id: str, session: UpstreamSessionId = OWN) -> list[AgentEvent]:
    return [call(call_id, session), running(call_id, session)]


def told(words: str, session: UpstreamSessionId) -> UserTextReplayed:
    return UserTextReplayed(upstream_session_id=session, text=words)


def thought(session: UpstreamSessionId) -> ReasoningReceived:
    return ReasoningReceived(upstream_session_id=session, text="child thinks")


WORKER: list[AgentEvent] = [
    told("Do it.", A),
    thought(A),
    text("doing work…", A),
    *delegated("shell", A),
    result("shell", A),
    text("done", A),
]
"""What a sub-agent streams: words, thoughts, a tool call with its result, messages."""


def delegates(
    call_id: str, child: UpstreamSessionId, *events: AgentEvent, of: UpstreamSessionId = OWN
) -> list[AgentEvent]:
    """A call that starts a child, what comes until the child ends, and the call's result."""
    begun = [*delegated(call_id, of), start(child, of=of, call_id=call_id)]
    return [*begun, *events, end(child, of=of), result(call_id, of)]


DEEP_WORDS = (text("deep ", DEEP), text("between", A), text("deep still", DEEP))
DEEPEST = (*delegated("f1", DEEPER), text("deepest", DEEPER), result("f1", DEEPER))

PLAYBOOKS: dict[str, list[AgentEvent]] = {
    "a task is transferred and comes back": [
        *delegates("transfer_task", A, *WORKER),
        text("The worker is done."),
    ],
    "depth 2": [
        *delegates("c1", A, *delegates("d1", DEEP, *DEEP_WORDS, of=A), text("back", A)),
        text("done"),
    ],
    "depth 3": [
        *delegates(
            "c1", A, *delegates("d1", DEEP, *delegates("e1", DEEPER, *DEEPEST, of=DEEP), of=A)
        ),
        text("done"),
    ],
    "two at once, interleaved": [
        *delegated("c1"),
        *delegated("c2"),
        start(A, call_id="c1"),
        start(B, call_id="c2"),
        text("a1 ", A),
        text("b1 ", B),
        *delegated("x", A),
        *delegated("x", B),
        text("b2", B),
        result("x", B),
        result("x", A),
        text("a2", A),
        end(B),
        result("c2"),
        text("a3", A),
        end(A),
        result("c1"),
        text("both are done"),
    ],
    "an end without a start": [
        text("I think "),
        end(A),
        text("so."),
        *delegates("c1", B, end(A), text("b", B)),
    ],
    "a child fails": [
        *delegated("c1"),
        start(A, call_id="c1"),
        text("trying", A),
        *delegated("shell", A),
        end(A, outcome=Outcome.UNKNOWN),
        result("c1", status="failed", text="Subagent failed"),
        text("It failed."),
    ],
    "a child is cancelled": [
        *delegated("c1"),
        start(A, call_id="c1"),
        *delegated("shell", A),
        end(A, outcome=Outcome.CANCELLED),
        result("c1", status="failed", text="cancelled"),
    ],
    "a child in the background outlives its parent": [
        *delegated("c1"),
        start(A, call_id="c1"),
        text("working", A),
        result("c1", text="it goes on in the background"),
        text("I will look later."),
        text(" still working", A),
    ],
    "a hand-off, which is no delegation": [
        call("hand_off"),
        running("hand_off"),
        result("hand_off", text="you are the reviewer now"),
        text("I am the reviewer now."),
    ],
}


def messages_of(writes: Iterable[Write]) -> dict[ConversationId, tuple[Message, ...]]:
    """What the store holds after these writes; the person's prompt is the parent's first."""
    parts: dict[tuple[ConversationId, int], list[RecordParts]] = defaultdict(list)
    for write in writes:
        if isinstance(write, RecordParts):
            parts[write.conversation_id, write.seq].append(write)
    found: dict[ConversationId, list[Message]] = defaultdict(list)
    found[ROOT.conversation_id].append(stored(TextPart(text="Go."), speaker=Speaker.USER))
    for (conversation_id, seq), of_message in sorted(parts.items()):
        found[conversation_id].append(
            stored(
                *chain.from_iterable(write.parts for write in of_message),
                seq=seq,
                speaker=of_message[0].speaker,
            )
        )
    return {conversation_id: tuple(each) for conversation_id, each in found.items()}


def said_by(events: Iterable[AgentEvent], session: UpstreamSessionId) -> str:
    words = TextReceived | UserTextReplayed | ReasoningReceived
    mine = (e for e in events if isinstance(e, words) and e.upstream_session_id == session)
    return "".join(event.text for event in mine)


def recorded_in(messages: Iterable[Message]) -> str:
    parts = [part for each in messages for part in each.parts]
    return "".join(getattr(p, "text", "") for p in parts if not isinstance(p, ToolResultPart))


def check(events: Sequence[AgentEvent], writes: Sequence[Write], *, is_whole: bool = True) -> None:
    held = messages_of(writes)
    for session, conversation_id in OWNERS.items():
        recorded = recorded_in(held.get(conversation_id, ()))
        recorded = recorded.removeprefix("Go.") if session == OWN else recorded
        expected = said_by(events, session)
        assert recorded == expected if is_whole else expected.startswith(recorded)
    assert quarantine(writes) == []
    assert_valid(history_of(held[ROOT.conversation_id]))
    for conversation_id in held.keys() - {ROOT.conversation_id}:
        begun = HistoryMessage(
            speaker=Speaker.USER, parts=(TextPart(text="Begin."),), place="before"
        )
        child = history_of(held[conversation_id])
        assert_valid((begun, *child))


def assert_valid(stored: History) -> None:
    """Valid as it is stored, but for what may stand between a call and its result."""
    made = repair(stored)
    assert {change.rule for change in made.changes} <= {"results_stand_after_their_calls"}
    assert refusals(made.history) == []


@pytest.mark.extended
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_turn_that_ends_after_any_event_leaves_each_conversation_its_own_words(name: str):
    events = PLAYBOOKS[name]
    for number in range(len(events) + 1):
        check(events[:number], play(events[:number]))


@pytest.mark.extended
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_crash_after_any_event_leaves_valid_histories(name: str):
    """What was committed stays; the next process closes what is open, and children go on."""
    events = PLAYBOOKS[name]
    for number in range(len(events)):
        before = committed(events[:number], recorder())
        rest = recorder_after(before)
        writes = [*before, *rest.finish(at_ms=99)]
        check(events[:number], writes, is_whole=False)


def recorder_after(writes: Sequence[Write]) -> Recorder:
    """A recorder that knows what is stored, as recovery makes one."""
    held = messages_of(writes)
    own = held[ROOT.conversation_id]
    sessions = {conversation_id: session for session, conversation_id in OWNERS.items()}
    said = {child.conversation_id: held.get(child.conversation_id, ()) for child in opened(writes)}
    taking = Recorder(
        conversation=ROOT,
        turn_id=TurnId("trn"),
        link=LINK,
        next_seq=len(own) + 1,
        children=[
            KnownChild(
                upstream_session_id=sessions[child],
                conversation_id=child,
                next_seq=len(messages) + 1,
                open_calls=open_calls(messages),
            )
            for child, messages in said.items()
        ],
    )
    for part in open_calls(own[1:]):
        taking.own.expect(part)
    return taking


@pytest.mark.parametrize("name", ["depth 2", "two at once, interleaved", "a child fails"])
def test_the_result_of_a_transfer_follows_its_call_directly(name: str):
    """The order that a provider asks for, with nothing of a child's in between."""
    own = messages_of(play(PLAYBOOKS[name]))[ROOT.conversation_id]
    speakers = [str(each.speaker) for each in own]
    assert speakers[:3] == ["user", "assistant", "tool"]


def test_the_alarms_of_each_playbook_are_told_and_change_no_history():
    found = {name: [alarm for alarm, _, _ in alarms(play(PLAYBOOKS[name]))] for name in PLAYBOOKS}
    assert {name: found[name] for name in found if found[name]} == {
        "depth 2": ["nested"],
        "depth 3": ["nested", "nested"],
        "two at once, interleaved": ["parallel"],
        "an end without a start": ["unmatched_end", "unmatched_end"],
        "a child in the background outlives its parent": ["open_at_end"],
    }
