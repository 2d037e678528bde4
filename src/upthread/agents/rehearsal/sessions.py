"""Sessions on disk: one append-only file of JSON lines each, the only memory the agent has.

A line is an entry: `session` (first), `prompt`, `update` (an ACP update, word for word as it was
sent), `turn_ended`. An entry is written when it happens, so a killed process leaves a history that
ends where it was killed. The store never repairs and never rewrites.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from upthread.agents.rehearsal.protocol import Json

HOME_VARIABLE: Final = "UPTHREAD_REHEARSAL_HOME"
PAGE_SESSIONS_MAX: Final = 50
TITLE_CHARACTERS_MAX: Final = 60
_SESSION_ID: Final = re.compile(r"ses_[A-Za-z0-9]+")
_ID_BYTES: Final = 12


def sessions_directory(environment: Mapping[str, str]) -> Path:
    """Return where the agent keeps its sessions."""
    if home := environment.get(HOME_VARIABLE):
        return Path(home)
    share = environment.get("XDG_DATA_HOME")
    try:
        base = Path(share) if share else Path.home() / ".local" / "share"
    except RuntimeError:  # a user without a home, as a container may have it
        base = Path("/nonexistent")
    return base / "upthread-rehearsal"


class UnknownSessionError(Exception):
    """There is no such session here. `session_id` is what was asked for."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id!r} here")
        self.session_id = session_id


class UnsafeDirectoryError(Exception):
    """The directory of the sessions is a link or somebody else's."""


class SessionStore:
    """The sessions in one directory, which is made 0700."""

    def __init__(self, directory: Path, *, is_read_only: bool = False) -> None:
        self._directory = directory
        self._is_read_only = is_read_only
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise UnsafeDirectoryError(
                f"{directory} is a link or belongs to somebody else; name a directory of your own"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:
            directory.chmod(0o700)

    def create(self, cwd: str, *, forked_from: str | None = None) -> str:
        """Return the id of a new session. A fork begins with all that its origin holds."""
        # Without the first entry: a fork has one of its own.
        history = self.read(forked_from)[1:] if forked_from is not None else []
        session_id = f"ses_{os.urandom(_ID_BYTES).hex()}"
        first: Json = {"entry": "session", "cwd": cwd, "forkedFrom": forked_from}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path(session_id), flags, 0o600)
        _write_and_close(descriptor, b"".join(_line(entry) for entry in (first, *history)))
        return session_id

    def append(self, session_id: str, entry: Json) -> None:
        """Add an entry. Raises UnknownSessionError: a session that was deleted stays deleted."""
        if self._is_read_only:
            return
        # Never made here: a session that was deleted in its turn must not come back.
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path(session_id), flags)
        except FileNotFoundError as error:
            raise UnknownSessionError(session_id) from error
        # A process killed in the middle of a line leaves it without its end.
        size = os.fstat(descriptor).st_size
        is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        _write_and_close(descriptor, (b"\n" if is_torn else b"") + _line(entry))

    def read(self, session_id: str) -> list[Json]:
        """Return all entries, oldest first. Raises UnknownSessionError."""
        return list(self._entries(session_id))

    def delete(self, session_id: str) -> None:
        """Remove a session for good."""
        self._path(session_id).unlink(missing_ok=True)

    def page(self, *, cwd: str | None, cursor: str | None) -> tuple[list[Json], str | None]:
        """Return a page of sessions as ACP lists them, in order of id, and the next cursor."""
        found: list[Json] = []
        for path in sorted(self._directory.glob("ses_*.jsonl")):
            if not _SESSION_ID.fullmatch(path.stem) or (cursor and path.stem <= cursor):
                continue
            listed = self._listed(path.stem)
            if listed is None or cwd not in (None, listed["cwd"]):
                continue
            if len(found) == PAGE_SESSIONS_MAX:
                return found, str(found[-1]["sessionId"])
            found.append(listed)
        return found, None

    def path(self, session_id: str) -> Path:
        """Return the file of a session. Raises UnknownSessionError where there is none."""
        path = self._path(session_id)
        if not path.is_file():
            raise UnknownSessionError(session_id)
        return path

    def _listed(self, session_id: str) -> Json | None:
        title, cwd = "", ""
        try:
            for entry in self._entries(session_id):
                if entry["entry"] == "session":
                    cwd = str(entry["cwd"])
                elif entry["entry"] == "prompt":
                    title = " ".join(str(entry["text"]).split())[:TITLE_CHARACTERS_MAX]
                    break
            changed_at_s = self._path(session_id).stat().st_mtime
        except (UnknownSessionError, FileNotFoundError):
            return None
        updated_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(changed_at_s))
        return {"sessionId": session_id, "cwd": cwd, "title": title, "updatedAt": updated_at}

    def _entries(self, session_id: str) -> Iterator[Json]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path(session_id), flags)
        except FileNotFoundError as error:
            raise UnknownSessionError(session_id) from error
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                entry = _entry(line)
                if entry is not None:
                    yield entry

    def _path(self, session_id: str) -> Path:
        """An id is checked before it becomes a path: it came from outside."""
        if not _SESSION_ID.fullmatch(session_id):
            raise UnknownSessionError(session_id)
        return self._directory / f"{session_id}.jsonl"


def _entry(line: bytes) -> Json | None:
    """Return the entry; None for a line that a killed process did not finish."""
    try:
        entry: object = json.loads(line)
    except ValueError:
        return None
    return cast("Json", entry) if isinstance(entry, dict) and "entry" in entry else None


def _line(entry: Json) -> bytes:
    return json.dumps(entry).encode("ascii") + b"\n"


def _write_and_close(descriptor: int, content: bytes) -> None:
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
