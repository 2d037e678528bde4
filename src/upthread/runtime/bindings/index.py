"""The index of bindings: what each is looked for by, so that one is found without reading all.

One file beside them, made from them and never believed against them: an entry counts while the
binding it was made from is the same file, unchanged; any other binding is read. So whoever writes a
binding need not know of the index, and one that is missing, old or damaged costs time and nothing
else.
"""

from __future__ import annotations

import os
import time

from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import list_in, object_in
from upthread.runtime.bindings.places import Place, read_binding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

FIELDS = ("workstream", "role", "slot", "agent", "session", "main_session", "transcript", "claim")
"""What of a binding is in the index, and so what it can be looked for by."""

UNINDEXED_MAX = 16
"""How many bindings may have changed before the index is written again."""

SETTLED_NS = 2_000_000_000
"""How old a file must be to be indexed: a younger one could be replaced, within a tick of the
clock, by one with the same inode number and time."""


def bindings(
    place: Place,
    is_meant: Callable[[dict[str, Any]], object],
    read: Callable[[str], dict[str, Any] | None] = files.read,
) -> list[tuple[str, dict[str, Any]]]:
    """Return the bindings of a project that are meant, whole, with their paths.

    `is_meant` is asked by the FIELDS of each. Raises UnreadableError for one that is damaged, as
    `read` does.
    """
    meant = (path for path, fields, _ in _indexed(place, read) if is_meant(fields))
    whole = ((path, read(path)) for path in meant)
    # Asked once more: between the two, another process may have written it.
    return [(path, found) for path, found in whole if found and is_meant(found)]


def write_index(place: Place) -> None:
    """Write the index again where too many bindings have changed since. Raises OSError."""
    settled_ns = time.time_ns() - SETTLED_NS
    # One that is damaged is read by whoever looks for it, and told.
    found = [each for each in _indexed(place, read_binding) if each[2][1] < settled_ns]
    known = object_in(_read(place), "bindings")
    is_new = sum(known.get(os.path.basename(path)) != entry for path, _, entry in found)
    gone = len(known) - (len(found) - is_new)
    if max(is_new, gone) > UNINDEXED_MAX:
        entries = {os.path.basename(path): entry for path, _, entry in found}
        files.replace(_path(place), {"bindings": entries})


def _indexed(
    place: Place, read: Callable[[str], dict[str, Any] | None]
) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """Yield each binding's path, what it is looked for by, and its entry, in order of names."""
    known = object_in(_read(place), "bindings")
    try:
        with os.scandir(os.path.join(place.project, "bindings")) as found:
            listed = sorted((each.name, each) for each in found if each.name.endswith(".json"))
    except FileNotFoundError:
        return
    for name, each in listed:
        try:
            mark = _mark(each.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue
        entry = list_in(known, name)
        if len(entry) == 1 + len(mark) and entry[:-1] == mark and isinstance(entry[-1], dict):
            yield each.path, entry[-1], entry
            continue
        binding = read(each.path)
        if binding:
            fields = {field: binding[field] for field in FIELDS if field in binding}
            yield each.path, fields, [*mark, fields]


def _mark(found: os.stat_result) -> list[int]:
    # Bindings are replaced whole: each write is another file.
    return [found.st_ino, found.st_mtime_ns, found.st_size]


def _read(place: Place) -> dict[str, Any]:
    try:
        return files.read(_path(place)) or {}
    except files.UnreadableError:
        return {}


def _path(place: Place) -> str:
    return os.path.join(place.project, "bindings-index.json")
