"""The hook as a process: read, answer, and fail open, in less than a second, never silently."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` as well
import os
import sys

from upthread import __version__
from upthread.boundary.files import NOWHERE
from upthread.boundary.own_home import home_of_hooks
from upthread.runtime.bindings import last_run, spool
from upthread.runtime.bindings.light_json import dumps, loads, text_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_alarm: Any = _signal

# A person waits at every delegation. Agents would wait 5 to 10 s, and then go on without a word
# (Claude Code 2.1.329); a hook that ends first can say that nothing was decided.
TIME_MAX_S = 0.6
# A prompt may quote whole files; a request without end must not fill the memory.
REQUEST_BYTES_MAX = 16 * 1024 * 1024
WHY_CHARACTERS_MAX = 500


PROBE = "probe"
"""In an agent's place: somebody asks whether this program starts and answers."""

EVENTS = frozenset(
    {
        *("before", "named", "started", "ended", "prompt", "replaced"),
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"),
        *("SubagentStop", "SessionEnd"),
    }
)
"""What an event's name may be; anything else is text from outside."""


class TookTooLongError(Exception):
    """The hook's time is over; the agent must not wait."""


class TooLargeError(Exception):
    """More was handed over than is read."""


class UnknownAgentError(Exception):
    """The command line names an agent that no hook is for."""


def main(arguments: list[str]) -> None:
    """Answer one request of AGENT, with upthread's files in HOME; never fails the agent."""
    agent, home = (*arguments, "", "")[:2]
    if agent == PROBE:
        _tell({"version": __version__})
        return
    fields: dict[str, Any] = {}
    place: Place | None = None
    # Before anything is read: an agent that never closes the pipe would else be waited for.
    _alarm.signal(_alarm.SIGALRM, _over)
    _alarm.setitimer(_alarm.ITIMER_REAL, TIME_MAX_S)
    try:
        fields = loads(_request())
        place = Place(home_of_hooks(os.environ, home), text_in(fields, "cwd") or ".")
        # Before the place is looked at: `doctor` tells by it that hooks run at all.
        last_run.note(place.home, agent)
        os.chdir(NOWHERE)  # what is started from here shall not begin in a repository
        if place.read() is None:
            told: dict[str, Any] = {}
        else:
            told = _answer(agent, place, fields)
    except Exception as error:  # noqa: BLE001  # the agent goes on and a person is told
        told = _undecided(agent, place, fields, error)
    # What is decided by now is on record: an alarm here would have the agent told something else.
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
    if not left:
        raise TooLargeError(f"it was handed more than {REQUEST_BYTES_MAX // 2**20} MiB")
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def _answer(agent: str, place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    if agent not in last_run.LINE_FIELDS:
        raise UnknownAgentError(f"no agent is called {agent[:40]!r}")
    # Only the translator of this agent is loaded, and `importlib` would cost more than it does.
    name = f"upthread.surfaces.hook.{agent.replace('-', '_')}"
    told: dict[str, Any] = __import__(name, fromlist=("answer",)).answer(place, fields)
    return told


def _undecided(
    agent: str, place: Place | None, fields: dict[str, Any], error: Exception
) -> dict[str, Any]:
    """Tell that nothing was decided, in the spool for the next decision and to the person now."""
    why = _why(error)
    try:
        # The first alarm may be spent, and a disk that failed before may hang here as well.
        _alarm.setitimer(_alarm.ITIMER_REAL, TIME_MAX_S / 4)
        # In a place that nobody has set up nothing is written, not even this.
        if place is not None and place.known is not None:
            event = text_in(fields, "event") or text_in(fields, "hook_event_name")
            known = event if event in EVENTS else "unknown"
            spool.put(place, "undecided", {"agent": agent, "event": known, "why": why})
    except Exception as second:  # noqa: BLE001  # told beside the first
        why += f"; and it could not be kept: {_why(second)}"
    _alarm.setitimer(_alarm.ITIMER_REAL, 0)  # what is left is to say it
    from upthread.core.decision.words import UNDECIDED
    from upthread.surfaces.hook.decision_line import one_line

    line = one_line(f"upthread: {UNDECIDED}, the agent goes on without it: {why}")
    return {last_run.LINE_FIELDS.get(agent, "systemMessage"): line}


def _why(error: Exception) -> str:
    """Return what went wrong, and never what was said: an error may quote it."""
    kind = type(error).__name__
    if isinstance(error, OSError):
        return f"{kind}: {error.strerror}"[:WHY_CHARACTERS_MAX]
    # Ours are written to be shown and quote no prompt; any other may have the text in its message.
    if type(error).__module__.startswith("upthread."):
        return str(error)[:WHY_CHARACTERS_MAX]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = f" in line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename}" if trace else ""
    return f"{kind}{line}"[:WHY_CHARACTERS_MAX]


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
