"""Who else may write a file: what runs, or decides what runs, is its person's alone to change."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = 0o022
ROOT_UID = 0


def written_by_others(path: Path, *, within: Path) -> str:
    """Return who else may write a file, in words; empty when nobody may.

    The file and the directories up to and with `within` are the person's alone. Above, whatever
    anybody may write is told as well, unless what is in there is kept from others (as in `/tmp`).
    A file that is not there yet is asked by its directories. Raises OSError.
    """
    for place in (path, *path.parents):
        try:
            found = place.lstat()
        except FileNotFoundError:
            continue
        is_inner = place == path or place.is_relative_to(within)
        # Root may write everything as it is, and owns what is above a home.
        if found.st_uid not in {os.geteuid(), ROOT_UID} and (is_inner or not _is_sticky(found)):
            return f"{place} belongs to user {found.st_uid}"
        # What a link's own mode says binds nobody, so it is not asked.
        if stat.S_ISLNK(found.st_mode):
            if is_inner and place == path:
                return f"{place} is a symlink"
            continue
        open_to = found.st_mode & (_OTHERS if is_inner else stat.S_IWOTH)
        if open_to and not (_is_sticky(found) and not is_inner):
            return f"{place} can be written by others"
    return ""


def _is_sticky(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISVTX)
