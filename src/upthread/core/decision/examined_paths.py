"""Which files are looked at, by what name they are kept, and how much of one is read.

Said once for turns of ours and for hooks, which load nothing of the rest of the core while an agent
waits: the standard library alone, and none of its slow modules.
"""

from __future__ import annotations

import posixpath

PATH_CHARACTERS_MAX = 4_096

NEVER_LOOKED_AT = ("/dev/", "/proc/", "/sys/")
"""Places where opening a file can do something, or gives something else each time."""

HASHED_BYTES_MAX = 16 * 1024 * 1024
"""Of one file; a larger one is known by its size and time alone. A hook has to be quick, and what
one of the two hashes the other must hash as well: a file known in two ways counts as changed."""


def kept_path(name: str, *, root: str) -> str | None:
    """Return a path as it is kept, None for one that names no file we would look at."""
    if not name or "\0" in name or len(name) > PATH_CHARACTERS_MAX:
        return None
    # By text alone: to resolve links would be a look at the disk.
    whole = posixpath.normpath(posixpath.join(root, name))
    if whole.startswith(NEVER_LOOKED_AT) or whole == posixpath.normpath(root):
        return None
    prefix = posixpath.normpath(root).rstrip("/") + "/"
    return whole.removeprefix(prefix)
