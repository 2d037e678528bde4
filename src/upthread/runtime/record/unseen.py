"""What of conversations is not on record, so that nobody says that nothing was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from upthread.core.turns import turn as turns
from upthread.core.types import Conversation, ErasedPart, Message, ToolCallPart, TurnId
from upthread.runtime.record.turn_views import hooks_inputs, was_read_back
from upthread.store.base import Store


class Unseen(Struct, frozen=True, kw_only=True):
    """What of conversations is not on record, so that nobody says that nothing was done.

    `turns` were delegated inside of `agents`, whose own stores did not tell what they did, and no
    call of theirs is on record; `calls` are on record without what they were.
    """

    turns: int = 0
    agents: tuple[str, ...] = ()
    calls: int = 0

    @property
    def in_words(self) -> str:
        """Why what was done is not all known; empty where it is."""
        told: list[str] = []
        if self.turns:
            number = "one turn was" if self.turns == 1 else f"{self.turns} turns were"
            agents = ", ".join(self.agents)
            told.append(
                f"{number} delegated inside {agents}, of which no call is on record here: "
                "the agent's own session has them"
            )
        if self.calls:
            number = "one call is" if self.calls == 1 else f"{self.calls} calls are"
            told.append(f"of {number} no more on record than the outline")
        return "; ".join(told)


def unseen(store: Store, conversations: Sequence[Conversation]) -> Unseen:
    """Return what of conversations is not on record. Blocking."""
    found = Counter[str]()
    calls = 0
    for conversation in conversations:
        kept = _calls_by_turn(store.messages(conversation.conversation_id))
        calls += sum(outlines for _, outlines in kept.values())
        for turn in store.turns(conversation.conversation_id):
            inputs = hooks_inputs(turns.fold(store.turn_events(turn.turn_id)))
            # A turn of ours has each of its calls on record; so has one that was read back.
            if inputs is None or was_read_back(inputs):
                continue
            if not any(kept.get(turn.turn_id, ())):
                found[str(inputs.get("agent") or "an agent")] += 1
    return Unseen(turns=found.total(), agents=tuple(sorted(found)), calls=calls)


def _calls_by_turn(messages: Sequence[Message]) -> dict[TurnId, tuple[int, int]]:
    """Return how many calls each turn has on record, whole and as outlines."""
    kept: dict[TurnId, tuple[int, int]] = {}
    for message in messages:
        whole, outlines = kept.get(message.turn_id, (0, 0))
        for part in message.parts:
            whole += isinstance(part, ToolCallPart)
            outlines += isinstance(part, ErasedPart) and part.kind == "tool_call"
        kept[message.turn_id] = (whole, outlines)
    return kept
