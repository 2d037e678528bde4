"""The replay: what a session is told that takes the place of another, before it is prompted.

What was said last, what is damaged in the record, and what must not be done again. Whoever starts
such a session tells it the same: a turn of ours (runtime/looking_back.py), or a hook, which finds
the text in its small file. Blocking reads, nothing written.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from upthread.core import turn as turns
from upthread.core.chain import readable
from upthread.core.effects import effects_of
from upthread.core.history.handing_over import damage_told
from upthread.core.history.model import history_of
from upthread.core.prior_context import PRIOR_MESSAGES_MAX, prior_context, render_prior_context
from upthread.core.prompt import effects_block
from upthread.core.types import ConversationId, Message, TurnId
from upthread.store.base import Store

REPLAYED_MESSAGES_MAX = 256
"""How far back actions and damage are looked for."""


def replay_of(
    store: Store, conversation_id: ConversationId, *, nonce: str, outward_patterns: Sequence[str]
) -> str:
    """Return what a session would be told that took this conversation on now."""
    links = store.links(conversation_id)
    said = store.prior_messages(
        conversation_id,
        upstream_session_ids=readable(link.upstream_session_id for link in links),
        newest=PRIOR_MESSAGES_MAX,
    )
    messages = store.messages(conversation_id, newest=REPLAYED_MESSAGES_MAX)
    stopped = _cut_off(store, conversation_id)
    pieces = (
        render_prior_context(prior_context(said, was_interrupted=bool(stopped)), nonce=nonce),
        damage_told(history_of(messages).messages),
        effects_told(messages, stopped, outward_patterns=outward_patterns),
    )
    return "\n\n".join(piece for piece in pieces if piece)


def effects_told(
    messages: Sequence[Message], open_turns: Set[TurnId | None], *, outward_patterns: Sequence[str]
) -> str:
    """Return what must not be done again, as a block; empty for nothing.

    All of a turn that did not end, and of those before it what reached beyond this machine.
    """
    untold = {message.seq for message in messages if message.turn_id in open_turns}
    effects = effects_of(messages, outward_patterns=outward_patterns)
    return effects_block(
        tuple(each.in_words for each in effects if each.is_outward or each.seq in untold)
    )


def _cut_off(store: Store, conversation_id: ConversationId) -> Set[TurnId]:
    """Return the conversation's last turn where it was cut off."""
    newest = [turn.turn_id for turn in store.turns(conversation_id, newest=1)]
    return {each for each in newest if turns.fold(store.turn_events(each)).was_cut_off}
