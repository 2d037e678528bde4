"""The program a hook runs: `python -I -S …/__main__.py AGENT HOME EVENT LIBRARY…`.

Its answer is one JSON object; its exit code is always 0. The LIBRARY directories are those that
`upthread setup` wrote down: nothing of the environment and no working directory is imported from.
"""

import sys

if __name__ == "__main__":
    # The package's own directory and its libraries; `-I -S` leaves out all that is the site's.
    sys.path.append(__file__.rpartition("/upthread/surfaces/hook/")[0])
    sys.path += sys.argv[4:]
    from upthread.surfaces.hook.program import main

    main(sys.argv[1:4])
