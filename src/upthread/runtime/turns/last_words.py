"""Last words: whose agent a turn was in, and where what it wrote to stderr is kept.

A person is sent to a file only where there is something in it, and only for an agent that upthread
has started: of one that a person started, nothing of the kind is kept. Blocking, nothing written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from upthread.core.runs.stops import OURS, Source
from upthread.core.turns.turn import TurnView
from upthread.runtime.turns.conversation import hooks_inputs

LogOf: TypeAlias = Callable[[str, int], str]
"""Returns where an agent's stderr went at a moment, in epoch milliseconds."""

COARSE_CLOCK_MS: Final = 50
"""How far the time of a file may lie behind the clock that its turn was begun by."""


def source_of(view: TurnView, *, at_ms: tuple[int, ...], log_of: LogOf) -> Source:
    """Return who started the agent of a turn, and where its last words are.

    `at_ms` are moments of the turn, the first its beginning: a log has a file a day.
    """
    if hooks_inputs(view) is not None:
        return Source(is_persons_own=True)
    stored = view.intended.inputs if view.intended else None
    agent = stored.get("agent") if isinstance(stored, Mapping) else None
    if not isinstance(agent, str):
        return OURS
    # The newest file first: a turn over midnight has ended in that one.
    logs = dict.fromkeys(log_of(agent, each) for each in reversed(at_ms))
    return next(
        filter(lambda found: found.last_words, (wrote(log, at_ms[0]) for log in logs)), OURS
    )


def wrote(log: str | None, since_ms: int) -> Source:
    """Return an agent that upthread started, with its log if anything came into it since."""
    try:
        found = os.lstat(log) if log else None
    except OSError:
        return OURS
    if found is None or not stat.S_ISREG(found.st_mode) or not found.st_size:
        return OURS
    is_newer = found.st_mtime_ns // 1_000_000 >= since_ms - COARSE_CLOCK_MS
    return Source(last_words=log or "") if is_newer else OURS
