"""`python -m upthread` is the same as `upthread`."""

import gc
import os
import sys

COLLECTED_AFTER = 100_000
"""How many more objects there must be before the interpreter looks for those nobody has.

What is made until a verb runs is code, which stays: to look through it again and again for what
could be freed takes a tenth of a light verb's time, and to do so at exit another.
"""


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
    from upthread.surfaces.cli.quick_id import told  # noqa: PLC0415  # only then

    # What scripts ask all the time, before what it takes to carry out any verb is loaded.
    if "_ARGCOMPLETE" not in os.environ and told(sys.argv[1:]):
        gc.freeze()  # at exit nothing is looked through for what could be freed
        return 0
    from upthread.surfaces.cli.program import main as run  # noqa: PLC0415

    return run()


if __name__ == "__main__":
    sys.exit(main())
