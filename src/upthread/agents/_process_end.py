"""How an agent's process ended, and what it said last: the words of errors, for every adapter."""

from __future__ import annotations

from typing import Final

import anyio

from upthread.agents._process import ChildProcess
from upthread.core.types import Outcome
from upthread.errors import QuotaExceededError, UpstreamError

EXIT_CODE_PATIENCE_S: Final = 0.5
"""How long an agent that has closed its side may take to exit by itself."""


async def died(
    child: ChildProcess,
    *,
    agent: str,
    during: str,
    hint: str,
    violation: QuotaExceededError | None = None,
    closed: str = "output",
) -> UpstreamError:
    """End what is left of an agent that says nothing more, and return the error that tells it.

    It has EXIT_CODE_PATIENCE_S seconds to exit by itself. `violation` is the limit it went past
    where we stopped reading, and is returned as it is. `during` and `closed` are words of the
    message: in what it ended, and what it closed where it had not exited.
    """
    # We stopped reading ourselves: its exit code would only tell how we ended it.
    if violation is not None:
        await child.stop()
        return violation
    # Asked before it is ended: from then on the code is that of our own signal.
    exit_code = await exit_code_of(child)
    await child.stop()
    ended = how_it_ended(exit_code, closed=closed)
    error = UpstreamError(
        f"{agent} {ended} during {during}",
        outcome=Outcome.PROCESS_DIED,
        hint=hint,
        pid=str(child.pid),
    )
    # Such an agent is started once more; one that exits by itself would do so again.
    error.was_killed = is_signal(exit_code)
    return error


async def exit_code_of(child: ChildProcess) -> int | None:
    """Return the exit code of a child that has closed its side, None where it does not exit."""
    with anyio.move_on_after(EXIT_CODE_PATIENCE_S):
        await child.wait()
    return child.exit_code


def is_signal(exit_code: int | None) -> bool:
    """Whether an exit code says that a signal ended the child."""
    return exit_code is not None and exit_code < 0


def how_it_ended(exit_code: int | None, *, closed: str = "output") -> str:
    """Return in words how a child ended; `exit_code` None where it had not exited."""
    if exit_code is None:
        return f"closed its {closed} without exiting and was ended"
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"exited with code {exit_code}"


def last_words(child: ChildProcess, *, unreadable: str = "", spoken: str = "JSON") -> str:
    """Return what an agent last wrote to stderr, and what on its stdout was not what is spoken."""
    tail = child.tail_of_stderr()
    said = f"its stderr ends with: {tail}" if tail else "it wrote nothing to stderr"
    first = f"; its stdout held what is not {spoken}, first: {unreadable}" if unreadable else ""
    return said + first
