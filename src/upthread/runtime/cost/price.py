"""The price: what each way of going on would cost, from what the record holds. Blocking reads.

What an agent reads before our words was kept with the last turn of its session; of a session that
has none, a few of the project's other conversations are asked, never all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from msgspec import Struct

from upthread.core.codec import encode_json
from upthread.core.context.briefing import build_briefing
from upthread.core.decision.freshness import NOTHING_KNOWN, Freshness, change_lines
from upthread.core.decision.price import (
    NOTHING_PRICED,
    Price,
    Tokens,
    estimated,
    fixed_part,
    held,
    with_fixed,
)
from upthread.core.events import TurnEnded
from upthread.core.roles.role import Role
from upthread.core.turns import turn as turns
from upthread.core.turns.prompt import role_block
from upthread.core.types import CHILD_SLOT, Conversation, Link, Part, ToolCallPart
from upthread.runtime.record.briefing import BriefingRequest, briefing_inputs
from upthread.runtime.turns.conversation import views_newest_first
from upthread.store.base import Store

ESTIMATED_MESSAGES_MAX: Final = 256
"""How many of a session's messages an estimate of its tokens counts, the newest."""

WORKSTREAMS_ASKED_MAX: Final = 4
CONVERSATIONS_ASKED_MAX: Final = 16
"""How many others are asked what their agent reads before our words, the newest."""


class Priced(Struct, frozen=True, kw_only=True):
    """Whose next turn is priced, with `agent`, and what has changed since its last one.

    `window_tokens` is the window of models whose agent does not tell it, None where unknown.
    """

    conversation: Conversation
    role: Role
    agent: str
    found: Freshness = NOTHING_KNOWN
    window_tokens: int | None = None


def price_of(store: Store, priced: Priced, link: Link, last: TurnEnded | None) -> Price:
    """Return what each way would cost; `last` is how the session's newest turn ended."""
    # A turn that parked has filled the session since the last one that ended.
    reported = _held_when_parked(store, link) or (last.tokens_used if last else None)
    fixed = _fixed(store, priced, link, last)
    is_same_agent = link.agent == priced.agent
    return Price(
        resume=held(
            reported=reported,
            characters=_characters_of(store, link) if reported is None else 0,
            fixed=fixed if is_same_agent else None,
        ),
        briefing=with_fixed(_words_of_briefing(store, priced), fixed),
        fixed=fixed,
        window_tokens=(last and last.tokens_window) or priced.window_tokens,
    )


def _held_when_parked(store: Store, link: Link) -> int | None:
    """Return what a session held when its newest turn parked, None where that told nothing."""
    _, view = next(views_newest_first(store, link.conversation_id), (None, None))
    if view is None or view.parked is None or view.attached is None:
        return None
    is_same = view.attached.upstream_session_id == link.upstream_session_id
    return view.parked.tokens_held if is_same else None


def price_without_session(store: Store, priced: Priced, *, turns: int) -> Price:
    """Return what a new session costs where none is open; nothing while nobody knows."""
    fixed = _learned(store, priced)
    if fixed is None:
        return NOTHING_PRICED
    words = _words_of_briefing(store, priced) if turns else _words_of_role(priced.role)
    return Price(briefing=with_fixed(words, fixed), fixed=fixed)


# --- the agent's own ---------------------------------------------------------------------------


def _fixed(store: Store, priced: Priced, link: Link, last: TurnEnded | None) -> Tokens | None:
    """Return what the agent reads before our words; as seen in this very session if it was."""
    if link.agent != priced.agent:
        return _learned(store, priced)
    found = priced.found
    has_moved = bool(found.is_configuration_changed or found.model or found.agent_version)
    if (known := _kept_in(last)) is not None:
        # Other instructions, another model or version: near what it reads now, and marked.
        return replace(known, is_estimate=known.is_estimate or has_moved)
    if (known := _learned(store, priced)) is not None:
        return known
    reported = last.tokens_used if last else None
    if reported is None:
        return None
    return fixed_part(first_read=None, held=reported, characters=_characters_of(store, link))


def _kept_in(ended: TurnEnded | None) -> Tokens | None:
    if ended is None or ended.tokens_fixed is None:
        return None
    return Tokens(count=ended.tokens_fixed, is_estimate=ended.is_fixed_estimated)


def _learned(store: Store, priced: Priced) -> Tokens | None:
    """Return what other sessions of this agent in the project read first, None if none tells.

    Those of the same role before others: with another role's instructions it is near, and marked.
    """
    nearest: Tokens | None = None
    for other in islice(_others(store, priced.conversation), CONVERSATIONS_ASKED_MAX):
        known = _seen_by(store, other, priced.agent)
        if known is None:
            continue
        if other.key.role == priced.role.name and not known.is_estimate:
            return known
        nearest = nearest or replace(known, is_estimate=True)
    return nearest


def _others(store: Store, own: Conversation) -> Iterator[Conversation]:
    """Yield conversations of the project, those of the same workstream first, the newest first."""
    project_id, name = own.key.project_id, own.key.workstream
    newest = [each.workstream for each in store.workstreams(project_id)[-WORKSTREAMS_ASKED_MAX:]]
    for workstream in dict.fromkeys((name, *reversed(newest))):
        for other in reversed(store.conversations(project_id, workstream)):
            if other.key.slot != CHILD_SLOT:
                yield other


def _seen_by(store: Store, other: Conversation, agent: str) -> Tokens | None:
    """Return what a conversation's last turn knows, None for another agent's.

    Nor is a sub-agent's of any use, which hooks saw and no process of ours ran: it reads less.
    """
    for turn in store.turns(other.conversation_id, newest=1):
        view = turns.fold(store.turn_events(turn.turn_id))
        attached = view.attached
        if attached and attached.agent == agent and attached.agent_pid is not None:
            return _kept_in(view.ended)
    return None


# --- our words ---------------------------------------------------------------------------------


def _characters_of(store: Store, link: Link) -> int:
    messages = store.messages(link.conversation_id, newest=ESTIMATED_MESSAGES_MAX)
    said = (m.parts for m in messages if m.upstream_session_id == link.upstream_session_id)
    return sum(_characters(part) for parts in said for part in parts)


def _characters(part: Part) -> int:
    if isinstance(part, ToolCallPart):
        return len(part.title) + len(encode_json(part.arguments))
    return len(getattr(part, "text", ""))


def _words_of_briefing(store: Store, priced: Priced) -> Tokens:
    request = BriefingRequest(
        conversation=priced.conversation,
        changes=change_lines(priced.found),
        is_independent=priced.role.continuity == "fresh",
    )
    briefing = build_briefing(briefing_inputs(store, request))
    return estimated(len(briefing) + len(role_block(priced.role)))


def _words_of_role(role: Role) -> Tokens:
    return estimated(len(role_block(role)))
