"""Signals: a verb that talks to agents is ended by each as by Ctrl-C, and says what it was at.

The turn is cancelled and committed first, by the runtime. SIGTERM and SIGHUP are what supervisors
and closed terminals send; one that our caller ignores (nohup) stays ignored.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)

EXIT_OF_SIGNALS: Final = 128
"""A shell's way: the exit code is this and the number of the signal."""


class EndedBySignalError(Exception):
    """The verb was ended by a signal; `ids` name the turn it had in its hands, if it had one."""

    def __init__(self, number: int, ids: Mapping[str, str]) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.ids = ids


@contextmanager
def ended_by_signals(ids: Callable[[], Mapping[str, str]]) -> Generator[None]:
    """Let signals end a block as Ctrl-C does. Raises EndedBySignalError where one did."""
    # Ctrl-C needs no handler of ours: the interpreter raises for it.
    received: list[int] = [signal.SIGINT]

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received[0] = number
        signal.raise_signal(signal.SIGINT)  # which the event loop knows how to end for

    # Only those at their default: what nohup or our caller has set is not ours to undo.
    usual = [each for each in ENDING if signal.getsignal(each) is signal.SIG_DFL]
    for each in usual:
        signal.signal(each, pass_on)
    try:
        yield
    except KeyboardInterrupt:
        raise EndedBySignalError(received[0], ids()) from None
    finally:
        for each in usual:
            signal.signal(each, signal.SIG_DFL)
