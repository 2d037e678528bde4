"""A person's consent to what a repository says, written down or taken back.

Only for a person, and for a program of theirs, such as CI: a model may look and not agree. Of what
may loosen anything core/trust.py knows; where consents lie, boundary/consents.py. Likewise what
came of an action whose outcome nobody knew: a person says so who has looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from upthread.boundary.consents import Consent, change_consents, kept_text, read_consents
from upthread.client.file_permissions import secure_home
from upthread.config import Settings, load_settings
from upthread.core.actors import Actor
from upthread.core.acts import settlement
from upthread.core.shell.hint import command
from upthread.core.trust import Item
from upthread.core.turns.effects import Settlement
from upthread.core.types import ProjectId
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.effects import RecordedEffect, effects_held
from upthread.runtime.system import System
from upthread.runtime.working_tree.repository import find_repository
from upthread.store.base import Store

NOT_HERE: Final = "nobody agrees to a repository from inside an agent's turn"
BY_YOURSELF: Final = "do it yourself, at your own terminal: upthread trust"


def load_trusting(
    directory: Path, *, environment: Mapping[str, str], database: str | None = None
) -> Settings:
    """Return the settings of the project a directory is in; its consents are the repository's."""
    repository = find_repository(directory)
    return load_settings(
        repository.root,
        environment=environment,
        database=database,
        repository=repository.identity.path,
    )


def decide(
    settings: Settings,
    items: Iterable[Item],
    *,
    is_given: bool,
    by: Actor,
    now_ms: int,
) -> None:
    """Write down who agreed to exactly these texts, or that they saw them and did not.

    Blocking. Raises ConfigError as the file of consents does; UsageError for a model.
    """
    refuse_models(by)
    decided = tuple(
        Consent(
            repository=settings.repository,
            kind=each.kind,
            name=each.name,
            sha256=each.digest,
            text=kept_text(each.text),
            decided_at_ms=now_ms,
            is_given=is_given,
            by=by,
        )
        for each in items
    )
    # Replaced and not added to: of one text the newest word holds.
    anew = {_name(each) for each in decided}
    # Before it is written: whoever can enter the home could agree in a person's name.
    secure_home(Path(settings.home))
    change_consents(
        Path(settings.home),
        lambda known: (*(each for each in known if _name(each) not in anew), *decided),
    )


def take_back(settings: Settings, *, by: Actor) -> tuple[Consent, ...]:
    """Forget all that was decided of this repository; returns it. Blocking, raises as `decide`."""
    refuse_models(by)
    taken = decided_of(settings)
    if taken:
        change_consents(
            Path(settings.home),
            lambda known: (each for each in known if each.repository != settings.repository),
        )
    return taken


def decided_of(settings: Settings) -> tuple[Consent, ...]:
    """Return all that was decided of this repository, oldest first. Blocking."""
    known = read_consents(Path(settings.home))
    return tuple(each for each in known if each.repository == settings.repository)


def refuse_models(by: Actor, *, what: str = NOT_HERE, hint: str = BY_YOURSELF) -> None:
    """Raise UsageError where a model acts: it does not decide for the person."""
    if by.kind == "model":
        raise UsageError(f"{what}, and this is run by {by.in_words}", hint=hint)


def _name(consent: Consent) -> tuple[str, str, str, str]:
    return consent.repository, consent.kind, consent.name, consent.sha256


# --- what came of an action ----------------------------------------------------------------------


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
