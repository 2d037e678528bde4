"""The program `upthread`: arguments in, exit code out. The last place an error can reach."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

from upthread.surfaces.cli.failures import failure_of, tell, tell_bug
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.typed.app import STREAMS, Invocation, run

COLLECTED_AFTER: Final = 20_000
"""How many more objects there must be before the interpreter looks for those nobody has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for the next word; nothing is carried out
        from upthread.surfaces.cli.typed.completion import complete

        complete()
    if "_UPTHREAD_COMPLETE" in os.environ:  # a script of an earlier version, still in a shell's rc
        return 0
    # What is made until a verb runs is code, which stays: to look through it again and again for
    # what could be freed takes a tenth of a light verb's time, and to do so at exit another.
    gc.set_threshold(COLLECTED_AFTER)
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Before it is parsed: a line that cannot be parsed has to be answered as well.
    invocation = Invocation(is_json=_asks_for_json(given))
    try:
        code = run(given, invocation)
        # A disk that was full while lines were written is an error of the verb, not found at exit.
        _output(invocation).close()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # told, with its exit code
        code = _told(error, invocation)
    gc.freeze()
    return code


def _told(error: BaseException, invocation: Invocation) -> int:
    output = _output(invocation)
    is_stream = invocation.verb in STREAMS
    failure = failure_of(error)
    if failure is None:
        return tell_bug(error, output, is_stream=is_stream)
    return tell(failure, output, is_stream=is_stream)


def _output(invocation: Invocation) -> Output:
    if invocation.output is None:
        invocation.output = Output(is_json=invocation.is_json)
    return invocation.output


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Even a line that cannot be parsed is answered in the form it asked for."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before


if __name__ == "__main__":
    sys.exit(main())
