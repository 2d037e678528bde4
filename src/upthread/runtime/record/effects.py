"""Recorded effects: what the agents of a workstream did to the world, read from the record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import takewhile

from msgspec import Struct

from upthread.core.commands import gaps_in, settlements_in
from upthread.core.outward.calls import look_of
from upthread.core.text import command
from upthread.core.turns.effects import Effect, effects_of, in_doubt, settled
from upthread.core.turns.turn import TurnView
from upthread.core.types import Conversation, ConversationId, ProjectId, TurnId
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.lease import lease_name_of
from upthread.runtime.record.turn_views import totals_of, turn_view, views_newest_first
from upthread.runtime.system import is_dead
from upthread.store.base import Store

ID_DIGITS = 10


class RecordedEffect(Struct, frozen=True, kw_only=True):
    """An effect and the conversation it belongs to, a child's own one included."""

    conversation: Conversation
    effect: Effect

    @property
    def effect_id(self) -> str:
        """What a person calls it by: the same wherever it is shown."""
        # A call's id alone is unique only as far as the model made it so.
        named = f"{self.conversation.conversation_id}\0{self.effect.call_id}"
        return f"eff_{hashlib.sha256(named.encode()).hexdigest()[:ID_DIGITS]}"

    @property
    def looks(self) -> tuple[str, ...]:
        """Commands that show what became of it and change nothing, for a person to type."""
        found = (look_of(action) for action in self.effect.actions)
        return tuple(dict.fromkeys(filter(None, found)))


def recorded_effects(
    store: Store,
    conversations: Sequence[Conversation],
    *,
    outward_patterns: Sequence[str],
    is_asked: Callable[[TurnId], bool] = lambda _: True,
) -> tuple[RecordedEffect, ...]:
    """Return the effects of conversations, one after the other, each in order. Blocking.

    They have what a person said of them; `is_asked` says of a turn whether its effects are wanted.
    """
    found: list[RecordedEffect] = []
    for conversation in conversations:
        messages = store.messages(conversation.conversation_id)
        asked = [message for message in messages if is_asked(message.turn_id)]
        acts = store.acts(conversation.conversation_id)
        known = (*effects_of(asked, outward_patterns=outward_patterns), *gaps_in(acts))
        effects = settled(known, settlements_in(acts))
        found += [RecordedEffect(conversation=conversation, effect=each) for each in effects]
    return tuple(found)


class WorkstreamEffects(Struct, frozen=True, kw_only=True):
    """What the turns of a workstream did that may have to be settled. Blocking.

    `apart_from` is the turn that asks, None where no turn does: it is not among them.
    """

    store: Store
    project_id: ProjectId
    workstream: str
    outward_patterns: Sequence[str]
    apart_from: TurnId | None = None

    def in_doubt(self) -> tuple[RecordedEffect, ...]:
        """Return what may have reached beyond this machine, and nobody has looked.

        Whichever role it was. Only turns that did not end well, or before a call of theirs had,
        leave such a thing behind: only conversations with one are read.
        """
        found: list[RecordedEffect] = []
        totals_in = cache(partial(totals_of, self.store))
        for conversation in self._conversations():
            # A sub-agent's turns are read where they are, once.
            owner = _owner(self.store, conversation)
            if not {*totals_in(owner).failed} - {self.apart_from}:
                found += _gaps_of(self.store, conversation)
                continue
            done = self._done(conversation, lambda turn: turn != self.apart_from)
            doubted = in_doubt(each.effect for each in done)
            found += [
                each
                for each in done
                if each.effect in doubted
                # In a turn that its agent ended, a call that is not understood puts nothing in
                # doubt.
                and (each.effect.actions or self._was_cut_off(each, owner))
            ]
        return tuple(found)

    def left_open(self) -> tuple[RecordedEffect, ...]:
        """Return what turns did of which nobody knows the end.

        Whoever was cut off did not say what it had done: the next one, of whatever role, may well
        begin it again. What somebody is at work at is not cut off, but where the turn that asks is
        that work: then the turns before it are.
        """
        open_in = cache(partial(_left_open_in, self.store))
        found: list[RecordedEffect] = []
        for conversation in self._conversations():
            owner = _owner(self.store, conversation)
            left, own = open_in(owner), self.apart_from
            asked = left.keys() - {own}
            is_own = own is not None and bool(self.store.turn_events(owner, own))
            if asked and (is_own or not _is_at_work(self.store, conversation)):
                done = self._done(conversation, asked.__contains__)
                # The gap of a restore is of no turn.
                of_turns = (each for each in done if each.effect.turn_id in left)
                found += [e for e in of_turns if _was_cut_off(e, left[e.effect.turn_id])]
        return tuple(found)

    def held(self) -> tuple[RecordedEffect, ...]:
        """Return what is in doubt, and what was done by turns that were cut off.

        Both are held back from whoever goes on, until a person says something of them.
        """
        found = self.in_doubt()
        known = {each.effect_id for each in found}
        done = (each for each in self.left_open() if each.effect.holds and not each.effect.settled)
        return (*found, *(each for each in done if each.effect_id not in known))

    def _conversations(self) -> Sequence[Conversation]:
        return self.store.conversations(self.project_id, self.workstream)

    def _done(
        self, conversation: Conversation, is_asked: Callable[[TurnId], bool]
    ) -> tuple[RecordedEffect, ...]:
        patterns = self.outward_patterns
        return recorded_effects(
            self.store, [conversation], outward_patterns=patterns, is_asked=is_asked
        )

    def _was_cut_off(self, done: RecordedEffect, owner: ConversationId) -> bool:
        view = turn_view(self.store, owner, done.effect.turn_id)
        # A turn that is under way is not cut off.
        is_over = view.ended is not None or not _is_at_work(self.store, done.conversation)
        return is_over and _was_cut_off(done, view)


def _gaps_of(store: Store, conversation: Conversation) -> Iterator[RecordedEffect]:
    """Yield the gaps of restores that nobody has settled. Blocking."""
    if store.restored_at_ms(conversation.key.project_id) is not None:
        acts = store.acts(conversation.conversation_id)
        for each in in_doubt(settled(gaps_in(acts), settlements_in(acts))):
            yield RecordedEffect(conversation=conversation, effect=each)


def the_one_named(
    listed: Sequence[RecordedEffect], workstream: str, effect_id: str | None
) -> RecordedEffect:
    """Return one of the effects that are held back; without an id the only one.

    Raises NotFoundError where nothing of that id is held back, UsageError for several.
    """
    found = [each for each in listed if effect_id in {None, each.effect_id}]
    see = command("upthread", "effects", workstream)
    if not found:
        which = "nothing" if effect_id is None else f"no effect {effect_id}"
        raise NotFoundError(f"{which} of {workstream} is held back", hint=f"see {see}")
    if len(found) > 1:
        ids = ", ".join(each.effect_id for each in found)
        raise UsageError(f"which one: {ids}?", hint=f"name it: {see} SAID EFFECT")
    return found[0]


def _left_open_in(store: Store, owner: ConversationId) -> Mapping[TurnId | None, TurnView]:
    """Return the turns that were left open or taken on since, and those nobody was told of."""
    newest = takewhile(
        lambda each: each[1].was_read_back or not each[1].ended, views_newest_first(store, owner)
    )
    found: dict[TurnId | None, TurnView] = dict(each for each in newest if each[1].was_read_back)
    for turn_id in totals_of(store, owner).failed:
        view = turn_view(store, owner, turn_id)
        if view.was_left_open or view.was_interrupted:
            found[turn_id] = view
    return found


def _was_cut_off(done: RecordedEffect, turn: TurnView) -> bool:
    """Whether its turn stopped after it without an end, or its role was never told of the turn.

    A sub-agent is not prompted again. What a person settled in a turn that has ended is over.
    """
    is_before = done.effect.was_followed or done.conversation.parent_conversation_id
    is_open = turn.was_interrupted and is_before and not done.effect.settled
    return turn.was_left_open or turn.was_read_back or bool(is_open)


def _is_at_work(store: Store, conversation: Conversation) -> bool:
    """Whether somebody who lives holds a conversation, or the one a sub-agent's belongs to.

    After a reset the lease is the next generation's: nobody works at the one before.
    """
    owner = store.conversation(_owner(store, conversation)) or conversation
    newest = store.resolve(owner.key)
    if newest is not None and newest.conversation.generation > owner.generation:
        return False
    # A call that is kept and not continued holds its own, and not its main session's.
    names = {lease_name_of(conversation), lease_name_of(owner)}
    leases = (store.lease(name) for name in names)
    return any(each and each.holder and not is_dead(each.holder) for each in leases)


def _owner(store: Store, conversation: Conversation) -> ConversationId:
    """Return the conversation that has the turns of these messages: this one, or one above it.

    A sub-agent's messages are of the turn that called it. A call that is only recorded has a turn.
    """
    owner = conversation
    while owner.parent_conversation_id and not store.turns(owner.conversation_id, newest=1):
        above = store.conversation(owner.parent_conversation_id)
        if above is None:
            return owner.parent_conversation_id
        owner = above
    return owner.conversation_id
