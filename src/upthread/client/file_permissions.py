"""File permissions: who may read what upthread keeps, looked at before anything is opened.

What is wrong and ours is put right, with a word to the person; what is somebody else's is refused.
"""

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from upthread.boundary.files import write_whole
from upthread.errors import ConfigError

KEY_BYTES = 32
LOGS = "agent-stderr"
NAME_CHARACTERS_MAX = 40
OTHER_HOME = "set UPTHREAD_HOME to a directory that you may write to"


def secure_home(home: Path) -> str:
    """Make the directory upthread keeps its files in, for nobody else to enter.

    Returns what was put right, empty for nothing. ConfigError for a link, another user's directory,
    or what is no directory.
    """
    # `lexists`: a link that leads nowhere is a link, and is refused below.
    if not os.path.lexists(home):
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _refused(home, f"cannot be made: {error.strerror}", OTHER_HOME) from error
    found = home.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _refused(home, "is a symbolic link", "name the place it points to")
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(home, "is not a directory", OTHER_HOME)
    # Its owner could put a file of theirs in the place of ours at any moment.
    if found.st_uid != os.geteuid():
        raise _refused(home, f"belongs to user {found.st_uid}", "name a place of your own")
    if not found.st_mode & 0o077:
        return ""
    home.chmod(0o700)
    return f"{home} could be entered by others (mode {stat.S_IMODE(found.st_mode):04o}); now 0700"


def redaction_key(path: Path) -> bytes:
    """Return the key that makes a store's digests, made on first use, 0600.

    Of processes that make it at the same moment one is first, and all have its key. ConfigError for
    a file that is a link, somebody else's, or no key.
    """
    if not os.path.lexists(path):
        put_key(path)
    return read_key(path, mend=_MEND_KEY)


def read_key(path: Path, *, mend: str) -> bytes:
    """Return the key in a file of ours, narrowed to 0600; `mend` is the cure where it is none.

    ConfigError for a file that is missing, a link, somebody else's, or no key.
    """
    try:
        # Opened first and looked at by its descriptor: a
        # name may be given to another file meanwhile.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}", mend) from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise _refused(path, "is not an ordinary file of yours", mend)
        if found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        # One byte more, by which a longer file is told from a key.
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise _refused(path, "is not a key", mend)
    return key


_MEND_KEY = "move it away; a new one is made, and equal secrets will no longer look equal"


class Log(Struct, frozen=True, kw_only=True):
    """A file with what an agent wrote to stderr on one day."""

    path: Path
    day: str
    size_bytes: int


def log_path(home: Path, agent: str, at_ms: int) -> Path:
    """Return where an agent's stderr goes today: a file a day, so that old ones can be removed."""
    # An agent's name is a person's or a repository's word: it must not lead out of the folder.
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in agent)[:NAME_CHARACTERS_MAX]
    return home / LOGS / f"{name}-{day_of(at_ms)}.log"


def day_of(at_ms: int) -> str:
    """`2026-11-21`, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000))


def logs(home: Path) -> tuple[Log, ...]:
    """Return the agents' logs, oldest day first. One that is no ordinary file is not ours.

    Nor is anything behind a link in the folder's place: there is none of ours in it, since an agent
    is refused its log there, and what is listed may be removed.
    """
    directory = home / LOGS
    known = [
        Log(path=path, day=path.stem[-len("2026-11-21") :], size_bytes=path.lstat().st_size)
        for path in (() if directory.is_symlink() else directory.glob("*.log"))
        if stat.S_ISREG(path.lstat().st_mode)
    ]
    return tuple(sorted(known, key=lambda log: (log.day, log.path)))


def remove_logs(found: Iterable[Log]) -> None:
    """Empty logs and remove them: an agent that is writing to one goes on into nothing."""
    for log in found:
        os.truncate(log.path, 0)
        log.path.unlink()


def put_key(path: Path, key: bytes | None = None) -> None:
    """Write a key down, one made by chance where none is given; 0600, unless there is one.

    Written aside and linked: a file of that name is a whole key from its first moment.
    """
    with suppress(FileExistsError):
        write_whole(path, key or os.urandom(KEY_BYTES), is_new=True)


def _refused(path: Path, problem: str, hint: str) -> ConfigError:
    return ConfigError(f"{path} {problem}", hint=hint)
