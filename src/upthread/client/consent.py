"""A person's consent to what a repository says, written down or taken back.

Only for a person, and for a program of theirs, such as CI: a model may look and not agree. Of what
may loosen anything core/trust.py knows; where consents lie, boundary/consents.py.
"""

from collections.abc import Iterable
from pathlib import Path

from upthread.boundary.consents import Consent, change_consents, kept_text, read_consents
from upthread.client.file_permissions import secure_home
from upthread.config import Settings, load_settings
from upthread.core.agents import Actor
from upthread.core.trust import Item
from upthread.core.types import Environment
from upthread.errors import UsageError
from upthread.runtime.working_tree.repository import find_working_tree

NOT_HERE = "nobody agrees to a repository from inside an agent's turn"
BY_YOURSELF = "do it yourself, at your own terminal: upthread trust"


def load_trusting(
    directory: Path, *, environment: Environment, database: str | None = None
) -> Settings:
    """Return the settings of the project a directory is in; its consents are the repository's."""
    tree = find_working_tree(directory)
    return load_settings(
        tree.root,
        environment=environment,
        database=database,
        repository=tree.repository,
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
