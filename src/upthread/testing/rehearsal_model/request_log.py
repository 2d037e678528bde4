"""Every request the model received: in memory, and as JSON lines in a file if asked.

Keys that a client sends are never kept. The file holds prompts, so it is its owner's alone (0600).
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, to_builtins

from upthread.testing.rehearsal_model._json import JsonObject, JsonValue
from upthread.testing.rehearsal_model.history_rules import Violation

REQUESTS_KEPT_MAX: Final = 10_000
"""How many requests stay in memory; the oldest go first. The file keeps all."""

SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "cookie"})
SESSION_HEADERS: Final = ("x-session-id", "x-claude-code-session-id")
PARENT_HEADERS: Final = ("x-parent-session-id",)


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request and what it was answered with.

    `n` counts from 1 in order of arrival. Header names are lower case. `body` is None where none
    came or none could be read. `session_id` and `parent_session_id` are what the agent's headers
    say, None where it says nothing. `response` is the answer before a protocol gave it a form.
    """

    n: int
    protocol: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonValue
    session_id: str | None
    parent_session_id: str | None
    is_side_request: bool
    status: int | None
    response: JsonObject
    violations: tuple[Violation, ...]


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by lower-case name, keys hidden."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {
        name: "(hidden)" if name in SECRET_HEADERS else value for name, value in lowered.items()
    }


def first_of(names: tuple[str, ...], headers: Mapping[str, str]) -> str | None:
    """Return the value of the first header there is."""
    return next((headers[name] for name in names if name in headers), None)


class Recording:
    """The requests so far; safe to use from several threads."""

    def __init__(self, log_path: Path | None) -> None:
        self._lock = threading.Lock()
        self._kept: deque[RecordedRequest] = deque(maxlen=REQUESTS_KEPT_MAX)
        self._log = None if log_path is None else _open_private(log_path)

    def add(self, request: RecordedRequest) -> None:
        """Keep a request and write it to the file."""
        line = json.dumps(to_builtins(request)) + "\n"
        with self._lock:
            self._kept.append(request)
            if self._log is not None:
                os.write(self._log, line.encode())

    def all(self) -> list[RecordedRequest]:
        """Return the kept requests, oldest first."""
        with self._lock:
            return sorted(self._kept, key=lambda request: request.n)

    def close(self) -> None:
        """Close the file; what is in memory stays."""
        with self._lock:
            if self._log is not None:
                os.close(self._log)
                self._log = None


def _open_private(path: Path) -> int:
    """`O_NOFOLLOW`: a link put in the file's place is refused."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
