"""The program a hook runs: `python -I -S …/__main__.py AGENT HOME EVENT LIBRARY…`.

Its answer is one JSON object; its exit code is always 0. The LIBRARY directories are those that
`upthread setup` wrote down: nothing of the environment and no working directory is imported from.
"""

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()  # it would look through all that is loaded, several times
    # The package's own directory and its libraries; `-I -S` leaves out all that is the site's.
    sys.path.append(__file__.rpartition("/upthread/surfaces/hook/")[0])
    sys.path += sys.argv[4:]
    from upthread.surfaces.hook.program import main

    main(sys.argv[1:4])
    os._exit(0)  # nothing is open any more, and what is loaded need not be taken apart
