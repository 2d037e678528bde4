"""The settings that change what a file's content is to git, as plain values that name no program.

The person's own come from git itself, asked away from any repository; the repository's from its
file.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from upthread.boundary.git import running
from upthread.boundary.git.configuration import Configuration
from upthread.boundary.git.places import Place, untrusted_around
from upthread.boundary.git.reading import read_plain
from upthread.boundary.git.running import private_parent, run_git

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
_NO_TRUTHS: Final = {"core.checkstat", "core.eol"}


def person_configuration(outside: Sequence[str]) -> Configuration:
    """Return what the person and the machine have set for git, empty without git. Blocking.

    Read from an empty folder: of a repository nothing is in it, and its includes are the person's.
    """
    with tempfile.TemporaryDirectory(prefix="upthread-git-", dir=private_parent(outside)) as empty:
        done = run_git(
            ("config", "--list", "-z"),
            directory=empty,
            outside=outside,
            environment={"GIT_DIR": os.path.join(empty, "none")},
            until_s=time.monotonic() + running.TIMEOUT_S,
        )
    values: dict[str, list[str | None]] = {}
    for line in os.fsdecode(done.said if done else b"").split("\0"):
        name, equals, value = line.partition("\n")
        if name:
            values.setdefault(name, []).append(value if equals else None)
    return Configuration(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values for git, each of a known form; and what the files of patterns hold that are named."""

    values: dict[str, str]
    ignored: bytes | None
    attributes: bytes | None


def read_settings(place: Place) -> Settings:
    """Return the settings for a working tree. Blocking. Raises GitFileError."""
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


def _patterns(place: Place, named: str | None) -> bytes | None:
    if not named:
        return None
    path = os.path.realpath(os.path.join(place.top, os.path.expanduser(named)))
    return read_plain(path, bytes_max=PATTERNS_BYTES_MAX)


def is_trusted_by_the_person(top: str) -> bool:
    """Whether the person's own `safe.directory` names a working tree of somebody else's."""
    is_trusted = False
    found = person_configuration(untrusted_around(top))
    for value in found.values.get("safe.directory", ()):
        named = os.path.expanduser(value or "").rstrip("/")
        if not named:
            is_trusted = False  # an empty one takes back what was said before, as git has it
        elif (
            named == "*"
            or os.path.realpath(named) == os.path.realpath(top)
            or (named.endswith("/*") and top.startswith(os.path.realpath(named[:-1]) + "/"))
        ):
            is_trusted = True
    return is_trusted
