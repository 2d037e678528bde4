"""Files that hold what agents said: 0600 in a 0700 directory, no symlink, nobody else's.

It opens; it never reads or removes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from upthread.errors import ConfigError


def open_private_append(path: str) -> IO[bytes]:
    """Open a file for appending and reading back, made 0600 when new, narrowed when not.

    Its directory is made 0700 when missing. A directory or file that is a symlink, belongs to
    another user, or could be written by one raises ConfigError, and nothing is opened.
    """
    directory = Path(path).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(directory, directory.lstat(), writable_bits=0o022)
    # Of what lies there nothing is trusted: no link is followed, and no pipe waited for.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the file {path} for the agent's stderr cannot be opened: {error.strerror}",
            hint="it must be an ordinary file of yours; remove it and try again",
        ) from error
    try:
        # What was opened is looked at, and not the name, which may be another file's by now.
        _refuse_foreign(Path(path), os.fstat(descriptor), writable_bits=0)
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "ab+", buffering=0)


def _refuse_foreign(path: Path, status: os.stat_result, *, writable_bits: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        problem = "is a symlink"
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        problem = "is no ordinary file"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}"
    elif status.st_mode & writable_bits:
        problem = "can be written by others"
    else:
        return
    raise ConfigError(
        f"{path} {problem}, so no session output is written there",
        hint="use a directory of your own with mode 0700",
    )
