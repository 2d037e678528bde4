"""Waiting until an agent can load a session that it would empty in this minute.

Gemini CLI 0.61.0 keeps a session in a file that carries the minute it was begun in. Each load
begins a recording of its own first, under the minute of the load: within the same minute that is
the very file, whose messages are gone then for good. Which minute a session has a file for can be
seen, so that there is never a wait without need, and at most one of a minute.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

MINUTE_MS: Final = 60_000
_HEAD_CHARACTERS: Final = 8
_HEAD: Final = re.compile(rf"[0-9a-z-]{{{_HEAD_CHARACTERS}}}")


def wait_ms(home: Path, pattern: str, session: str, *, now_ms: int) -> int:
    """Return how long a load is to wait, 0 where it may begin. Blocking.

    `pattern` says where below `home` the file of a session is; `{minute}` in it is a minute of UTC,
    `{head}` how the session's id begins.
    """
    head = session[:_HEAD_CHARACTERS]
    if not _HEAD.fullmatch(head):
        return 0  # no session of that agent: it will say so
    minute = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M")
    if not any(home.glob(pattern.format(minute=minute, head=head))):
        return 0
    return MINUTE_MS - now_ms % MINUTE_MS
