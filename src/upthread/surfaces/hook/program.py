"""The hook as a process: read, answer, and fail open, in less than a second, never silently."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` as well
import os
import sys

from upthread.runtime.bindings import spool
from upthread.runtime.bindings.light_json import dumps, loads, text_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_alarm: Any = _signal

TIME_MAX_S = 0.8
REQUEST_BYTES_MAX = 16 * 1024 * 1024


class TookTooLongError(Exception):
    """The hook's time is over; the agent must not wait."""


def main(arguments: list[str]) -> None:
    """Answer one request of AGENT, with upthread's files in HOME; never fails the agent."""
    agent, home = (*arguments, "", "")[:2]
    fields: dict[str, Any] = {}
    place: Place | None = None
    _alarm.signal(_alarm.SIGALRM, _over)
    _alarm.setitimer(_alarm.ITIMER_REAL, TIME_MAX_S)
    try:
        fields = loads(_request())
        place = Place(os.environ.get("UPTHREAD_HOME") or home, text_in(fields, "cwd") or ".")
        if place.read() is None:
            told: dict[str, Any] = {}
        else:
            told = _answer(agent, place, fields)
    except Exception as error:  # noqa: BLE001  # the agent goes on and a person is told
        told = _undecided(agent, place, fields, error)
    _alarm.setitimer(_alarm.ITIMER_REAL, 0)
    _tell(told)


def _over(_signal: int, _frame: FrameType | None) -> None:
    raise TookTooLongError(f"it took more than {TIME_MAX_S} s")


def _request() -> str:
    pieces: list[bytes] = []
    left = REQUEST_BYTES_MAX
    while left > 0 and (piece := os.read(0, min(left, 1024 * 1024))):
        left -= len(piece)
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def _answer(agent: str, place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    if agent == "opencode":
        from upthread.surfaces.hook import opencode

        return opencode.answer(place, fields)
    if agent == "claude-code":
        from upthread.surfaces.hook import claude_code

        return claude_code.answer(place, fields)
    raise ValueError(f"no agent is called {agent[:40]!r}")


def _undecided(
    agent: str, place: Place | None, fields: dict[str, Any], error: Exception
) -> dict[str, Any]:
    """Tell that nothing was decided, in the spool for the next decision and to the person now."""
    why = f"{type(error).__name__}: {error}"[:500]
    try:
        _alarm.setitimer(_alarm.ITIMER_REAL, TIME_MAX_S / 4)
        if place is not None and place.known is not None:
            event = text_in(fields, "event") or text_in(fields, "hook_event_name")
            spool.put(place, "undecided", {"agent": agent, "event": event, "why": why})
    except Exception as second:  # noqa: BLE001  # told beside the first
        why += f"; and it could not be kept: {second}"[:200]
    line = f"upthread: UNDECIDED, the agent goes on without it: {why}"
    return {"line": line} if agent == "opencode" else {"systemMessage": line}


def _tell(told: dict[str, Any]) -> None:
    if not told:
        return
    raw = dumps(told).encode("ascii")
    try:
        while raw:
            raw = raw[os.write(1, raw) :]
    except OSError as error:
        # Nobody reads: standard error is what is left to say it to.
        sys.stderr.write(f"upthread: the answer could not be given: {error}\n")
