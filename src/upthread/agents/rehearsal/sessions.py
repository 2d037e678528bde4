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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from upthread.agents.rehearsal.protocol import Json


HOME_VARIABLE = "UPTHREAD_REHEARSAL_HOME"
_SESSION_ID = re.compile(r"ses_[A-Za-z0-9]+")
_ID_BYTES = 12


def sessions_directory(environment: Mapping[str, str]) -> Path:
    """Return where the agent keeps its sessions."""
    if home := environment.get(HOME_VARIABLE):
        return Path(home)
    share = environment.get("XDG_DATA_HOME")
    try:
        base = Path(share) if share else Path.home() / ".local" / "share"
    except RuntimeError:  # a user without a home, as a container may have it
        base = Path("/dev/null")  # where even root makes no directory
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

    def listed(self, cwd: str | None) -> Iterator[Json]:
        """Yield the sessions of a directory, or all, as ACP lists them, in order of id."""
        for path in sorted(self._directory.glob("ses_*.jsonl")):
            with suppress(UnknownSessionError):  # deleted meanwhile, or no file of a session
                first = next(self._entries(path.stem), None)
                if first is not None and cwd in (None, first["cwd"]):
                    yield {"sessionId": path.stem, "cwd": first["cwd"]}

    def path(self, session_id: str) -> Path:
        """Return the file of a session. Raises UnknownSessionError where there is none."""
        path = self._path(session_id)
        if not path.is_file():
            raise UnknownSessionError(session_id)
        return path

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
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


# --- settings: what the environment asks of the agent, read once ----------------------------------

# One of them is a log of what the agent was asked and did, one JSON line each, for others to count.
# The agent writes it and never reads it. A line is one append, so several processes can share a
# file.


LOG_VARIABLE = "UPTHREAD_REHEARSAL_LOG"
CAPABILITIES_VARIABLE = "UPTHREAD_REHEARSAL_CAPABILITIES"
PACE_VARIABLE = "UPTHREAD_REHEARSAL_PACE_MS"
ALWAYS_VARIABLE = "UPTHREAD_REHEARSAL_ALWAYS"
PACE_MS_MAX = 60_000

OPAQUE_ERRORS = "opaque_errors"
OUTLIVES = "outlives"
"""It ends its turn first when its client has gone."""
UNASKED = "no_ask"
"""It writes and runs without asking."""
NAMELESS = "no_message_ids"
"""A history that it sends has no ids of messages."""
READ_ONLY = "read_only"
"""It answers and stores no turn, as Claude Code does if it may not write the session's file."""
WORDS = (
    *("no_fork", "no_list", "no_load", "no_resume"),
    *(OPAQUE_ERRORS, OUTLIVES, UNASKED, NAMELESS, READ_ONLY),
)
TEXT_CHARACTERS_MAX = 64 * 1024


class SettingsError(Exception):
    """The environment asks for something this agent does not know."""


class Settings(NamedTuple):
    """How this process behaves. `log_path` is None when nobody counts.

    `words` are those of WORDS that were given. `pace_s` is how long it thinks before each tool
    call, 0 by default. `always` are directives as every prompt would end with them.
    """

    sessions_directory: Path
    log_path: Path | None
    words: frozenset[str]
    pace_s: float
    always: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings; raises SettingsError naming the word that is not known."""
    words = [word.strip() for word in environment.get(CAPABILITIES_VARIABLE, "").split(",")]
    for word in filter(None, words):
        if word not in WORDS:
            known = ", ".join(WORDS)
            raise SettingsError(f"{CAPABILITIES_VARIABLE} has {word!r}; it may have: {known}")
    log = environment.get(LOG_VARIABLE)
    return Settings(
        sessions_directory=sessions_directory(environment),
        log_path=Path(log) if log else None,
        words=frozenset(words),
        pace_s=_pace_ms(environment) / 1000,
        always=environment.get(ALWAYS_VARIABLE, ""),
    )


def _pace_ms(environment: Mapping[str, str]) -> int:
    word = environment.get(PACE_VARIABLE, "0")
    if not word.isdecimal() or int(word) > PACE_MS_MAX:
        raise SettingsError(f"{PACE_VARIABLE} is {word!r}; it may be 0 to {PACE_MS_MAX}")
    return int(word)


class EventLog:
    """Appends to one file, 0600; does nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, event: str, *, session_id: str, **details: object) -> None:
        """Append one event. Long texts are cut; `bytes`, where given, tells their true size."""
        if self._path is None:
            return
        cut = {
            name: value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
            for name, value in details.items()
        }
        line = {"event": event, "session_id": session_id, "pid": os.getpid(), **cut}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        _write_and_close(os.open(self._path, flags, 0o600), _line(line))


def size_of(text: str) -> int:
    """Return the size of a text in UTF-8; lone surrogates count as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))
