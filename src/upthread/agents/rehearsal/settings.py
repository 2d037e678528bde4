"""Settings: what the environment asks of the agent. Read once, at start; nothing else is read.

One of them is a log of what the agent was asked and did, one JSON line each, for others to count.
The agent writes it and never reads it. A line is one append, so several processes can share a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from upthread.agents.rehearsal.sessions import sessions_directory

PROTOCOL_VERSION: Final = 1

LOG_VARIABLE: Final = "UPTHREAD_REHEARSAL_LOG"
CAPABILITIES_VARIABLE: Final = "UPTHREAD_REHEARSAL_CAPABILITIES"
PACE_VARIABLE: Final = "UPTHREAD_REHEARSAL_PACE_MS"
ALWAYS_VARIABLE: Final = "UPTHREAD_REHEARSAL_ALWAYS"
PACE_MS_MAX: Final = 60_000

OPAQUE_ERRORS: Final = "opaque_errors"
OUTLIVES: Final = "outlives"
"""It ends its turn first when its client has gone."""
UNASKED: Final = "no_ask"
"""It writes and runs without asking."""
NAMELESS: Final = "no_message_ids"
"""A history that it sends has no ids of messages."""
READ_ONLY: Final = "read_only"
"""It answers and stores no turn, as Claude Code does if it may not write the session's file."""
WORDS: Final = (
    *("no_close", "no_fork", "no_list", "no_load", "no_resume"),
    *(OPAQUE_ERRORS, OUTLIVES, UNASKED, NAMELESS, READ_ONLY),
)
VERSION_PREFIX: Final = "protocol_version="
TEXT_CHARACTERS_MAX: Final = 64 * 1024


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
    protocol_version: int
    pace_s: float
    always: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings; raises SettingsError naming the word that is not known."""
    words = [word.strip() for word in environment.get(CAPABILITIES_VARIABLE, "").split(",")]
    version = PROTOCOL_VERSION
    for word in filter(None, words):
        if word.startswith(VERSION_PREFIX) and word.removeprefix(VERSION_PREFIX).isdecimal():
            version = int(word.removeprefix(VERSION_PREFIX))
        elif word not in WORDS:
            known = ", ".join([*WORDS, f"{VERSION_PREFIX}N"])
            raise SettingsError(f"{CAPABILITIES_VARIABLE} has {word!r}; it may have: {known}")
    log = environment.get(LOG_VARIABLE)
    return Settings(
        sessions_directory=sessions_directory(environment),
        log_path=Path(log) if log else None,
        words=frozenset(words),
        protocol_version=version,
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
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.write(descriptor, json.dumps(line).encode("ascii") + b"\n")
        finally:
            os.close(descriptor)


def size_of(text: str) -> int:
    """Return the size of a text in UTF-8; lone surrogates count as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))
