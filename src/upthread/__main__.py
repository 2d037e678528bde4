"""`python -m upthread` is the same as `upthread`."""

import gc
import os
import sys

COLLECTED_AFTER = 100_000
"""How many more objects there must be before the interpreter looks for those nobody has.

What is made until a verb runs is code, which stays: to look through it again and again for what
could be freed takes a tenth of a light verb's time, and to do so at exit another.
"""

ENDED_BY_SIGNAL = 128
"""Exit codes above it tell the number of a signal."""


def main() -> int:
    """Run one verb and return its exit code; nothing is imported from where it is called."""
    gc.set_threshold(COLLECTED_AFTER)
    # All but the interpreter's own is loaded within: a Ctrl-C is answered, whenever it comes.
    try:
        return _run()
    except KeyboardInterrupt as error:
        from upthread.surfaces.cli.program import tell_interrupted  # noqa: PLC0415

        return tell_interrupted(error)


def _run() -> int:
    from upthread.boundary.programs import forget_working_directory  # noqa: PLC0415  # see main

    forget_working_directory(sys.path)
    from upthread.surfaces.cli.program import main as run  # noqa: PLC0415

    return run()


def _end(code: int) -> None:
    """End the process with a code, also after a signal.

    Once a KeyboardInterrupt has left a text given to `exec`, as a dataclass is made, CPython 3.11
    kills itself with SIGINT where `-m` would exit (`Py_RunMain`): 130, whatever the code was.
    """
    if code > ENDED_BY_SIGNAL:
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    _end(main())
