"""The replay: what a session is told that takes the place of another, before it is prompted.

What was said last, and what must not be done again: runtime/turns/turn_history.py. Blocking reads,
nothing written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from upthread.core.context.prior_context import PRIOR_EXCHANGES_MAX, PriorContext, prior_context
from upthread.core.sessions import readable
from upthread.core.turns.effects import Effect, effects_of
from upthread.core.turns.prompt import effects_block
from upthread.core.types import ConversationId, Message, TurnId
from upthread.runtime.record.events import turn_view
from upthread.runtime.record.turn_views import totals_of
from upthread.store.base import Store

REPLAYED_MESSAGES_MAX = 1_024
"""How far back calls, a plan, actions and damage are looked for: a turn of hundreds of steps."""


def prior_in(
    store: Store,
    conversation_id: ConversationId,
    *,
    before_seq: int | None = None,
) -> PriorContext:
    """Return what was said over the readable chain, in one range scan, and what began it.

    `before_seq` leaves out the prompt at hand and all after it, None nothing.
    """
    links = store.links(conversation_id)
    # Over all sessions of the chain in one scan: what was said does not end with a session.
    said = store.prior_messages(
        conversation_id,
        upstream_session_ids=readable(link.upstream_session_id for link in links),
        newest=PRIOR_EXCHANGES_MAX + (before_seq is not None),  # the prompt at hand is one
    )
    earlier = [each for each in said if before_seq is None or each.seq < before_seq]
    is_all = not earlier or earlier[0].seq == 1
    return prior_context(
        earlier,
        first=None if is_all else next(iter(store.messages(conversation_id, first=1)), None),
        cut_off=cut_off_in(store, conversation_id, earlier),
    )


def effects_told(
    messages: Sequence[Message],
    open_turns: Set[TurnId | None],
    *,
    outward_patterns: Sequence[str],
    more: Iterable[Effect] = (),
) -> str:
    """Return what must not be done again, as a block; empty for nothing.

    All of a turn that did not end, of those before it what reached beyond this machine, and `more`.
    """
    untold = {message.seq for message in messages if message.turn_id in open_turns}
    effects = effects_of(messages, outward_patterns=outward_patterns)
    told = (each for each in effects if each.actions or each.seq in untold)
    return effects_block(tuple(dict.fromkeys(each.in_words for each in (*told, *more))))


def cut_off_in(
    store: Store, conversation_id: ConversationId, said: Sequence[Message]
) -> Set[TurnId]:
    """Return the turns of what was said that were cut off."""
    # Who was cut off did not end well: only those few are looked at.
    failed = set(totals_of(store, conversation_id).failed)
    known = failed & {message.turn_id for message in said}
    return {each for each in known if turn_view(store, conversation_id, each).was_left_open}
