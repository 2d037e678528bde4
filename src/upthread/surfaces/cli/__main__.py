"""`python -m upthread.surfaces.cli`, as what earlier versions set up calls it: the same program."""

import sys

from upthread.boundary.programs import forget_working_directory

if __name__ == "__main__":
    forget_working_directory(sys.path)
    from upthread.surfaces.cli.program import main

    sys.exit(main())
