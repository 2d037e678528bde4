"""The hook as a process: read, answer, and let the agent continue whatever happens, in seconds."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

from upthread import __version__
from upthread.boundary.files import NOWHERE
from upthread.boundary.own_home import home_of_hooks

STORE_WAIT_S: Final = 2.0
"""How long a record that is in use, or a server that does not answer, is waited for."""

TIME_MAX_S: Final = 4.5
"""How long a hook takes at most before anything is recorded; agents give it 5 to 10 s."""

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""A prompt may quote whole files; a request without end must not fill the memory."""

WHY_CHARACTERS_MAX: Final = 500

PROBE: Final = "probe"
"""In an agent's place: somebody asks whether this program starts and answers."""

LINE_FIELDS: Final = {
    "claude-code": "systemMessage",
    "codex": "systemMessage",
    "opencode": "line",
}
"""The agents that have hooks of ours, and where each reads the line for the person."""


class TookTooLongError(Exception):
    """The hook's time is over; the agent must not wait."""


class TooLargeError(Exception):
    """More was handed over than is read."""


def main(arguments: list[str]) -> None:
    """Answer one request of AGENT, with upthread's files in HOME; never fails the agent."""
    agent, home = (*arguments, "", "")[:2]
    if agent == PROBE:
        _tell({"version": __version__})
        return
    # Before anything is read: an agent that never closes the pipe would else be waited for.
    signal.signal(signal.SIGALRM, _over)
    signal.setitimer(signal.ITIMER_REAL, TIME_MAX_S)
    try:
        told = _answer(agent, home)
    except Exception as error:  # noqa: BLE001  # the agent continues and a person is told
        told = _undecided(agent, error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _tell(told)


def _over(_signal: int, _frame: FrameType | None) -> None:
    raise TookTooLongError(f"it took more than {TIME_MAX_S} s")


def _answer(agent: str, home: str) -> Mapping[str, Any]:
    from upthread.errors import NotFoundError  # after the time runs: all that takes long

    request = _request()
    if agent not in LINE_FIELDS:
        raise ValueError(agent[:40])
    translator = __import__(
        f"upthread.surfaces.hook.{agent.replace('-', '_')}", fromlist=("understand",)
    )
    step = translator.understand(request)
    if step is None:
        return {}
    directory = Path(str(request.get("cwd") or ".")).absolute()
    # What is started from here shall not begin in a repository.
    os.chdir(NOWHERE)
    environment = {**os.environ, "UPTHREAD_HOME": home_of_hooks(os.environ, home)}
    from upthread.client.project_opener import open_agent_calls

    try:
        with open_agent_calls(directory, environment=environment, wait_s=STORE_WAIT_S) as calls:
            # What is decided is on record: the agent must not be told something else after it.
            signal.setitimer(signal.ITIMER_REAL, 0)
            told: Mapping[str, Any] = step(calls)
    except NotFoundError:
        return {}  # a place that nobody has used upthread in is left alone
    return told


def _request() -> dict[str, Any]:
    pieces: list[bytes] = []
    left = REQUEST_BYTES_MAX
    while left > 0 and (piece := os.read(0, min(left, 1024 * 1024))):
        left -= len(piece)
        pieces.append(piece)
    if not left:
        raise TooLargeError(f"it was handed more than {REQUEST_BYTES_MAX // 2**20} MiB")
    found: object = json.loads(b"".join(pieces).decode("utf-8", "surrogateescape"))
    return dict(found) if isinstance(found, dict) else {}


def _undecided(agent: str, error: Exception) -> Mapping[str, Any]:
    from upthread.core.decision.words import UNDECIDED
    from upthread.core.text import visible_line

    line = visible_line(f"upthread: {UNDECIDED}, the agent continues without it: {_why(error)}")
    return {LINE_FIELDS.get(agent, "systemMessage"): line}


def _why(error: Exception) -> str:
    """Return what went wrong, and never what was said: an error may quote a prompt."""
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


def _tell(told: Mapping[str, Any]) -> None:
    if not told:
        return
    raw = json.dumps(told).encode("ascii")
    try:
        while raw:
            raw = raw[os.write(1, raw) :]
    except OSError as error:
        # Nobody reads: standard error is what is left to say it to.
        sys.stderr.write(f"upthread: the answer could not be given: {error}\n")
