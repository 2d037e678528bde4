"""`python -m upthread` is the same as `upthread`."""

import sys

from upthread.surfaces.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
