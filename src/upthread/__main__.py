"""`python -m upthread` is the same as `upthread`."""

import gc
import os
import signal
import sys
from importlib import import_module

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
    _load_decoders()
    from upthread.surfaces.cli.program import main as run  # noqa: PLC0415

    return run()


def _load_decoders() -> None:
    """Load msgspec, with what would interrupt it held back until it is there.

    Interrupted while it is loaded (0.22 on Python 3.11) it takes no notice, goes on half made, and
    ends the process with a segmentation fault when something is decoded.
    """
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        import_module("msgspec")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


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
