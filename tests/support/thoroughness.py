"""How much the tests try: much in `make test`, all of it in `make soak`.

`UPTHREAD_THOROUGH=1` makes other runs as thorough.
"""

import os

IS_SOAK = bool(os.environ.get("UPTHREAD_SOAK"))
"""Whether properties are tried with new examples each time."""

IS_THOROUGH = bool(os.environ.get("UPTHREAD_THOROUGH")) or IS_SOAK
"""Whether a test that tries many cases tries all it knows."""

EXAMPLES = 100 if IS_THOROUGH else 25
"""Of each property, where a test does not say how many."""
