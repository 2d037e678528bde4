"""HEAD, and the references it leads to, read as files."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from upthread.boundary.git.directory_files import GitFileError, read_line, read_plain
from upthread.boundary.git.places import GitDirectories

PACKED_BYTES_MAX = 256 << 20
"""How large `packed-refs` may be: about three million references."""

STEPS_MAX = 5
"""How many symbolic references may lead on to each other; git's own limit."""

_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NOT_IN_A_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$")
_LEADS_TO = "ref:"


class Head(Struct, frozen=True, kw_only=True):
    """What is checked out: the reference, None when detached; the commit, None before the first."""

    reference: str | None
    commit: str | None


def read_head(place: GitDirectories) -> Head:
    """Return what HEAD names. Raises GitFileError where it cannot be told."""
    path = os.path.join(place.git_directory, "HEAD")
    line = read_line(path)
    if line is not None and not line.startswith(_LEADS_TO):
        return Head(reference=None, commit=_object(line, path))
    for _ in range(STEPS_MAX):
        name = (line or "").removeprefix(_LEADS_TO).strip()
        if not is_reference(name):
            raise GitFileError(f"HEAD of {place.git_directory} names no reference git would make")
        line = _read(place, name)
        if line is None or not line.startswith(_LEADS_TO):
            commit = None if line is None else _named(place, name, line)
            return Head(reference=name, commit=commit)
    raise GitFileError(f"HEAD of {place.git_directory} leads in a circle")


def find_reference(place: GitDirectories, name: str) -> str | None:
    """Return the object a reference names, None where there is none. Raises GitFileError."""
    line = _read(place, name) if is_reference(name) else None
    return None if line is None else _named(place, name, line)


def symbolic(place: GitDirectories, name: str) -> str | None:
    """Return the reference that another one names, None where it names none."""
    line = _read(place, name)
    if line is None or not line.startswith(_LEADS_TO):
        return None
    named = line.removeprefix(_LEADS_TO).strip()
    return named if is_reference(named) else None


def is_reference(name: str) -> bool:
    """Whether a text is a full name of a reference that git takes, and so a path below `refs`."""
    return name.startswith("refs/") and not _NOT_IN_A_NAME.search(name)


def _read(place: GitDirectories, name: str) -> str | None:
    loose = os.path.join(place.common_directory, name)
    _require_plain_way(loose)
    # An empty folder may be left where a reference was.
    if os.path.islink(loose) or not os.path.isdir(loose):
        line = read_line(loose)
        # Before what is packed: that may hold where it was before it moved.
        if line is not None:
            return line
    return _packed(place.common_directory, os.fsencode(name))


def _require_plain_way(loose: str) -> None:
    """Refuse what is no folder on the way to a reference; it is not just not there."""
    above = os.path.dirname(loose)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    # It may be a reference itself; none is below it then.
    is_reference_itself = os.path.isfile(above) and not os.path.islink(above)
    if not os.path.isdir(above) and not is_reference_itself:
        raise GitFileError(f"{above} is no folder of references")


def _packed(common_directory: str, name: bytes) -> str | None:
    packed = read_plain(os.path.join(common_directory, "packed-refs"), bytes_max=PACKED_BYTES_MAX)
    # Whole to the end of its line: a name may be the beginning of another one.
    at = (packed or b"").find(b" " + name + b"\n")
    if packed is None or at < 0:
        return None
    return os.fsdecode(packed[packed.rfind(b"\n", 0, at) + 1 : at])


def _named(place: GitDirectories, name: str, text: str) -> str:
    return _object(text, os.path.join(place.common_directory, name))


def _object(text: str, path: str) -> str:
    if not _OBJECT.fullmatch(text.strip()):
        raise GitFileError(f"{path} names no commit")
    return text.strip()
