"""What a project was opened with, and what is made of its settings. Each call is made of these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from upthread.client.consent import load_trusting
from upthread.client.file_permissions import KEY_BYTES, read_key
from upthread.config import Settings
from upthread.core.actors import Actor
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import ProjectId, RecordMode
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import RecordPolicy
from upthread.runtime.system import System
from upthread.store.address import database_files, is_postgres, key_path
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.runtime.permissions import AskPerson


class ProjectParts(Struct, frozen=True, kw_only=True):
    """One open project.

    `ask_person` is None where nobody is there to ask, `lease_times` None for the usual ones.
    `store` shows this project alone, and keeps what `policy` says; `notices_at_rest` are what was
    found and put right when it was opened.
    """

    store: Store
    system: System
    settings: Settings
    project_id: ProjectId
    environment: Mapping[str, str]
    ask_person: AskPerson | None
    actor: Actor
    lease_times: LeaseTimes | None
    redactor: Redactor
    policy: RecordPolicy
    notices_at_rest: tuple[str, ...] = ()


def record_policy(settings: Settings) -> RecordPolicy:
    """Return what is recorded in a project, by role."""
    roles: dict[str, RecordMode] = {
        name: role.record for name, role in settings.roles.items() if role.record is not None
    }
    return RecordPolicy(mode=settings.record, roles=roles)


def redactor_for(settings: Settings, key: bytes) -> Redactor:
    """Return a project's redactor. Raises ConfigError for a rule that is none."""
    own = settings.redaction
    if not own.rules:
        return Redactor(key, allowed=own.allow)
    from upthread.core.redaction.rules import rules_of  # noqa: PLC0415  # a hook may redact nothing

    return Redactor(key, rules=rules_of(own.rules), allowed=own.allow)


# --- before anything is opened --------------------------------------------------------------------
# For what only reads the agents' own stores. Nothing is made: neither our home nor our record.


class Surroundings(Struct, frozen=True, kw_only=True):
    """A directory's project: its top, the settings that hold there, and whether we have a record.

    `redactor` is the project's. Without a record its digests are good for this process alone.
    """

    top: str
    settings: Settings
    redactor: Redactor
    has_record: bool

    def is_here(self, directory: str) -> bool:
        """Return whether a directory is the project's, by its name alone: nothing is looked at."""
        return directory == self.top or directory.startswith(self.top.rstrip(os.sep) + os.sep)


def surroundings(
    directory: Path, *, environment: Mapping[str, str], database: str | None = None
) -> Surroundings:
    """Return where a directory belongs. Raises ConfigError and UsageError as opening it would."""
    settings = load_trusting(directory, environment=environment, database=database)
    place = settings.database
    key = key_path(place, Path(settings.home))
    known = read_key(key, mend="put it back from a copy") if key.exists() else b""
    return Surroundings(
        top=settings.working_directory,
        settings=settings,
        redactor=redactor_for(settings, known or os.urandom(KEY_BYTES)),
        has_record=is_postgres(place) or any(each.exists() for each in database_files(place)),
    )
