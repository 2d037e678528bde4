"""What is exported is played in a world of its own, as the tests of the runtime have it."""

from tests.runtime.conftest import fork_server, world

__all__ = ["fork_server", "world"]
