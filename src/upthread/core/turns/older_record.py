"""The turns that an agent's own session holds and the record does not.

A copy of the record that is put back is older than the session, which goes on knowing all of it; a
person may have prompted the session in the agent's own interface. Sessions are compared by their
prompts alone, in order: replies come back in other pieces, prompts nearly as they were sent. What
is looked for comes after the last prompt that both know, so that what only one of them has kept
(a prompt that never arrived, the beginning before a compaction) is never taken for missing. A
prompt to which nothing was said is no turn: agents keep such for commands of their own. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from upthread.core.events import (
    AgentEvent,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
)
from upthread.core.turns.hooked_call import StoredTurn, stored_turns
from upthread.core.turns.recognition import FoldedPrompt, folded_prompt
from upthread.core.turns.stream import CALL_ENDED
from upthread.core.types import (
    ErasedPart,
    Message,
    Speaker,
    ToolCallPart,
    UpstreamSessionId,
)

PAIRS_MAX: Final = 1_000_000
"""How many pairs of prompts are compared at most; beyond, nobody can tell in good time."""

UNKNOWN_PROMPTS: Final = "none of its prompts is one of the record's"
TOO_MANY: Final = "it has too many prompts to be compared"


class Lacked(Struct, frozen=True, kw_only=True):
    """What a record lacks of a session, oldest first.

    `fault` says why that cannot be told, empty where it can. `stamp` is what the session's store
    was known by when it was looked at, empty where nobody looked; `written_at_ns` is when it was
    last written to.
    """

    turns: tuple[StoredTurn, ...] = ()
    fault: str = ""
    stamp: str = ""
    written_at_ns: int = 0


NOTHING_LACKED: Final = Lacked()


def lacked(
    history: Sequence[AgentEvent], recorded: Sequence[Message], session: UpstreamSessionId
) -> Lacked:
    """Compare a session with all messages of its conversation, oldest first.

    The history is as it would have been recorded: core/turns/replayed_history.py. Prompts that went
    to earlier sessions are among the recorded ones, and do no harm. A session in which nobody is
    known to have answered us (adopted, forked, begun a moment ago) need not know any of ours.
    """
    held = [turn for turn in stored_turns(history) if _is_answered(turn)]
    asked = [message for message in recorded if message.speaker is Speaker.USER]
    # Before anything is compared: a person waits for the prompt.
    if len(held) * len(asked) > PAIRS_MAX:
        return Lacked(fault=TOO_MANY)
    end = _known_to_both(
        [folded_prompt(turn.prompt) for turn in held], [_texts(each) for each in asked]
    )
    if end == 0:
        # Without an answer of it on record the session may be one that never had a prompt of ours.
        has_answered = any(
            message.upstream_session_id == session and message.speaker is not Speaker.USER
            for message in recorded
        )
        return Lacked(fault=UNKNOWN_PROMPTS) if held and has_answered else NOTHING_LACKED
    known = {
        part.call_id
        for message in recorded
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    return Lacked(turns=tuple(turn for turn in held[end:] if not _is_recorded(turn, known)))


def is_finished(turn: StoredTurn) -> bool:
    """Return whether a turn came to its end: its calls have one, and the agent spoke last."""
    open_calls: set[str] = set()
    has_spoken_last = False
    for event in turn.events:
        match event:
            case ToolCallAnnounced(call_id=call_id):
                open_calls.add(call_id)
                has_spoken_last = False
            case ToolCallUpdated(call_id=call_id, status=status) if status in CALL_ENDED:
                open_calls.discard(call_id)
            case TextReceived():
                has_spoken_last = True
            case _:
                pass
    return has_spoken_last and not open_calls


def _is_answered(turn: StoredTurn) -> bool:
    kinds = (TextReceived, ReasoningReceived, ToolCallAnnounced)
    return any(isinstance(event, kinds) for event in turn.events)


def _is_recorded(turn: StoredTurn, known: set[str]) -> bool:
    """Whether what a turn called is on record: the agent went on by itself within one of ours."""
    called = {event.call_id for event in turn.events if isinstance(event, ToolCallAnnounced)}
    return bool(called) and called <= known


def _texts(message: Message) -> tuple[FoldedPrompt, ...] | None:
    """Return what a recorded prompt may have been sent as, None where it was not kept."""
    if any(isinstance(part, ErasedPart) for part in message.parts):
        return None
    return tuple(map(folded_prompt, {message.sent_text, message.text}))


def _known_to_both(
    held: Sequence[FoldedPrompt], asked: Sequence[tuple[FoldedPrompt, ...] | None]
) -> int:
    """Return how many of a session's prompts there are up to the last that both know; 0 for none.

    As many are paired as can be, in order, and of all ways to do so the one that ends first counts.
    What is on record whole is then never missing, and what follows a record that is, always.
    """
    # By column: the most pairs between the session's first prompts and all recorded so far.
    most = [0] * (len(held) + 1)
    for texts in asked:
        diagonal = 0
        for at, prompt in enumerate(held, start=1):
            above = most[at]
            paired = diagonal + _is_same(prompt, texts)
            most[at] = max(above, most[at - 1], paired)
            diagonal = above
    return most.index(most[-1])


def _is_same(prompt: FoldedPrompt, texts: tuple[FoldedPrompt, ...] | None) -> bool:
    # One that was forgotten fits any: taken for another, all after it would be read back again.
    return texts is None or any(map(prompt.holds, texts))
