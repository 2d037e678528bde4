"""The program a hook runs. Its answer is one JSON object; its exit code is always 0."""

import sys

if __name__ == "__main__":
    # The package's own directory, and nothing of the site's: `-I -S` leaves it out.
    sys.path.append(__file__.rpartition("/upthread/surfaces/hook/")[0])
    from upthread.surfaces.hook.program import main

    main(sys.argv[1:])
