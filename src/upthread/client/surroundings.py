"""Where somebody is, before anything of ours is opened: the project's directory and the settings.

For what only looks at the agents' own stores. Nothing is made: neither our home nor our record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from upthread.client.consent import load_trusting
from upthread.client.file_permissions import KEY_BYTES, read_key
from upthread.client.parts import redactor_for
from upthread.config import Settings
from upthread.core.redaction.redactor import Redactor
from upthread.store.address import database_files, is_postgres, key_path


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
