"""What the person and the machine have set for git, asked of git itself, away from any repository.

It knows no repository: finding one asks here whether the person trusts it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence

from upthread.boundary.git import process
from upthread.boundary.git.configuration import Configuration
from upthread.boundary.git.process import find_git, private_parent, run_git


def person_configuration(outside: Sequence[str]) -> Configuration:
    """Return what the person and the machine have set for git, empty without git. Blocking.

    Read from an empty folder: of a repository nothing is in it, and its includes are the person's.
    """
    if find_git(outside) is None:
        return Configuration({})
    with tempfile.TemporaryDirectory(prefix="upthread-git-", dir=private_parent(outside)) as empty:
        done = run_git(
            ("config", "--list", "-z"),
            directory=empty,
            outside=outside,
            # To nothing: git would else look for a repository above, and read that one's too.
            environment={**_persons_variables(), "GIT_DIR": os.path.join(empty, "none")},
            until_s=time.monotonic() + process.TIMEOUT_S,
        )
    values: dict[str, list[str]] = {}
    for line in os.fsdecode(done.said).split("\0"):
        name, equals, value = line.partition("\n")
        if name:
            values.setdefault(name, []).append(value if equals else "true")
    return Configuration(values)


def _persons_variables() -> dict[str, str]:
    """Return the variables that name or hold configuration: whoever sets them is the person."""
    found = {name: os.environ[name] for name in os.environ if name.startswith("GIT_CONFIG_")}
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        if found.get(name):  # empty means none, as git has it
            found[name] = os.path.abspath(found[name])
    return found


def is_trusted_by_the_person(top: str, outside: Sequence[str]) -> bool:
    """Whether the person's own `safe.directory` names a working tree of somebody else's. Blocking.

    `outside` are the folders that git is not to be started from.
    """
    is_trusted = False
    found = person_configuration(outside)
    for value in found.values.get("safe.directory", ()):
        named = os.path.expanduser(value).rstrip("/")
        if not named:
            is_trusted = False  # an empty one takes back what was said before, as git has it
        elif (
            named == "*"
            # Not where a link leads: git before 2.46 goes by the text, and a link can be moved.
            or named == os.path.realpath(top)
            or (named.endswith("/*") and top.startswith(named[:-1]))
        ):
            is_trusted = True
    return is_trusted
