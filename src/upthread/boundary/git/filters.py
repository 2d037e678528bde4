"""Which files have a filter: a program that git would run on their content, and that never runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from upthread.boundary.git.private import PrivateGit

_NONE: Final = {b"unspecified", b"unset", b"set", b""}


def filters_of(git: PrivateGit, paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the name of the filter of each path that has one. Blocking."""
    given = b"".join(path + b"\0" for path in paths)
    if not given:
        return {}
    told = git.do("check-attr", "-z", "--stdin", "filter", given=given).split(b"\0")
    # The last NUL leaves one empty piece, so the lengths differ by one.
    named = zip(told[0::3], told[2::3], strict=False)
    return {path: name for path, name in named if name not in _NONE}
