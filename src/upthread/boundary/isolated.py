"""Run a module of upthread's and nothing else's: `python -I …/isolated.py MODULE ARGUMENTS…`.

`-I` keeps the working directory, PYTHONPATH and the user's site out. What it also keeps out is an
upthread that is installed there, so the package beside this file is the one that is taken, and
where it lies is looked through for what it needs, after everything else.
"""

import os
import runpy
import sys


def main() -> None:
    """Run the module that the first argument names, with the arguments after it."""
    module = sys.argv[1]
    installed = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # First for this import alone: what lies there must not hide a module of Python's.
    sys.path.insert(0, installed)
    import upthread  # the one beside this file, whatever else has the name

    assert module.partition(".")[0] == upthread.__name__, "it runs what is upthread's own"
    sys.path.pop(0)
    if installed not in sys.path:
        sys.path.append(installed)
    sys.argv[1:2] = []
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
