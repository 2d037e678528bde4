"""Settling: a person who has looked says what came of an action whose outcome nobody knew."""

from __future__ import annotations

from typing import Final

from upthread.client.consent import refuse_models
from upthread.core.actors import Actor
from upthread.core.acts import settlement
from upthread.core.text import command
from upthread.core.turns.effects import Settlement
from upthread.core.types import ProjectId
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.effects import RecordedEffect, effects_held
from upthread.runtime.system import System
from upthread.store.base import Store

_NOT_HERE: Final = "what came of an action nobody says from inside an agent's turn"


class Settlements:
    """The actions of a project that are in doubt, and what people say of them. Blocking."""

    def __init__(
        self, store: Store, system: System, project_id: ProjectId, *, patterns: tuple[str, ...]
    ) -> None:
        self._store = store
        self._system = system
        self._project_id = project_id
        self._patterns = patterns

    def held(self, workstream: str) -> tuple[RecordedEffect, ...]:
        """Return what is held back from whoever goes on: in doubt, or done by a turn cut off."""
        return effects_held(
            self._store, self._project_id, workstream, outward_patterns=self._patterns
        )

    def settle(
        self, workstream: str, said: Settlement, effect_id: str | None, *, by: Actor, user: str
    ) -> RecordedEffect:
        """Keep what a person says of one action; without an id, of the only one held back.

        Raises UsageError for a model, and where it is unclear which is meant; NotFoundError where
        nothing of that id is held back.
        """
        yours = command("upthread", "effects", workstream)
        # Before anything is looked up: with its own word a model could have its push done again.
        refuse_models(by, what=_NOT_HERE, hint=f"look yourself, at your own terminal: {yours}")
        meant = self._meant(workstream, effect_id)
        act = settlement(
            meant.conversation.conversation_id,
            meant.effect.call_id,
            said,
            by_user=by.for_user(user),
            at_ms=self._system.now_ms(),
        )
        self._store.commit([act])
        return meant

    def _meant(self, workstream: str, effect_id: str | None) -> RecordedEffect:
        listed = self.held(workstream)
        found = [each for each in listed if effect_id in {None, each.effect_id}]
        see = command("upthread", "effects", workstream)
        if not found:
            which = "nothing" if effect_id is None else f"no effect {effect_id}"
            raise NotFoundError(f"{which} of {workstream} is held back", hint=f"see {see}")
        if len(found) > 1:
            ids = ", ".join(each.effect_id for each in found)
            raise UsageError(f"which one: {ids}?", hint=f"name it: {see} SAID EFFECT")
        return found[0]
