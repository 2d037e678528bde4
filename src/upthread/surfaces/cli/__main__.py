"""The program `upthread`: arguments in, exit code out. The last place an error can reach."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from upthread.surfaces.cli.failures import EXIT_INTERRUPTED, failure_of, tell, tell_bug
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.typed.app import STREAMS, Invocation, build


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    # Before it is parsed: a line that cannot be parsed has to be answered as well.
    invocation = Invocation(is_json=_asks_for_json(given))
    # Not typer's own way of running it, which prints errors as it likes and ends the process.
    command = typer.main.get_command(build(invocation))
    try:
        code = command.main(given, prog_name="upthread", standalone_mode=False)
        # A disk that was full while lines were written is an error of the verb, not found at exit.
        _output(invocation).close()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # told, with its exit code
        return _told(error, invocation)
    if code == EXIT_INTERRUPTED:  # the parser makes a code of Ctrl-C, and says nothing
        return _told(KeyboardInterrupt(), invocation)
    return code if isinstance(code, int) else 0


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
