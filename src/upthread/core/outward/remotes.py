"""Which remotes of a repository are one, by the text of its configuration. Pure.

Read as text, never by git: what is not seen here is another remote, by its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_SECTION: Final = re.compile(r'\[\s*(?:remote\s+"((?:[^"\\]|\\.)*)"|[^\]]*)\s*\]')
_ADDRESS: Final = re.compile(r"(?:push)?url\s*=\s*\"?([^\"\s]+)\"?", re.IGNORECASE)


def same_as(names: Collection[str], configuration: str) -> frozenset[str]:
    """Return the remotes at an address of one of these, without those that are these themselves."""
    addresses: dict[str, set[str]] = {}
    at = ""
    for line in map(str.strip, configuration.splitlines()):
        if found := _SECTION.match(line):
            at = found[1] or ""
        elif at and (address := _ADDRESS.fullmatch(line)):
            addresses.setdefault(at, set()).add(_in_one_spelling(address[1]))
    meant = {each for name in names for each in addresses.get(name, ())}
    # Any address they share is enough: a push goes to all of a remote's push addresses.
    return frozenset(name for name, each in addresses.items() if each & meant) - frozenset(names)


def _in_one_spelling(address: str) -> str:
    plain = address.removeprefix("file://").rstrip("/").removesuffix(".git").rstrip("/")
    # `ssh://git@host/a` and `git@host:a` are one; who asks, and by what, changes nothing there.
    return re.sub(r"^(?:[a-z+]+://)?(?:[^@/]*@)?([^:/]+)[:/]+", r"\1/", plain)
