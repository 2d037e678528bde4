"""The settings that change what a file's content is to git, as plain values that name no program.

The person's own come from `person`, the repository's from its file.
"""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

from upthread.boundary.git.directory_files import read_plain
from upthread.boundary.git.person import person_configuration
from upthread.boundary.git.places import GitDirectories

PATTERNS_BYTES_MAX = 4 << 20
"""How large a file of patterns (ignored paths, attributes) may be."""

_TRUTHS: Final = (
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
)
_CHOICES: Final = {
    "core.autocrlf": {"input"},
    "core.checkstat": {"default", "minimal"},
    "core.eol": {"crlf", "lf", "native"},
}
# Of these git knows the named words alone.
_NO_TRUTHS: Final = {"core.checkstat", "core.eol"}


class Settings(Struct, frozen=True, kw_only=True):
    """Values for git, each of a known form; and what the files of patterns hold that are named."""

    values: dict[str, str]
    ignored: bytes | None
    attributes: bytes | None


def read_settings(place: GitDirectories) -> Settings:
    """Return the settings for a working tree. Blocking. Raises GitFileError."""
    # The repository's last, as git reads them; what is of no known form is left out.
    found = place.configuration.over(person_configuration(place.untrusted))
    values: dict[str, str] = {}
    for name in (*_TRUTHS, *_CHOICES):
        choice, truth = (found.last(name) or "").lower(), found.truth(name)
        if choice in _CHOICES.get(name, ()):
            values[name] = choice
        elif truth is not None and name not in _NO_TRUTHS:
            values[name] = "true" if truth else "false"
    return Settings(
        values=values,
        ignored=_patterns(place, found.last("core.excludesfile")),
        attributes=_patterns(place, found.last("core.attributesfile")),
    )


def _patterns(place: GitDirectories, named: str | None) -> bytes | None:
    if not named:
        return None
    path = os.path.realpath(os.path.join(place.top, os.path.expanduser(named)))
    return read_plain(path, bytes_max=PATTERNS_BYTES_MAX)
