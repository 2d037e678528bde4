"""What is exported is played in a world of its own, as the tests of the runtime have it."""

from tests.runtime.conftest import anyio_backend, fork_server, world

__all__ = ["anyio_backend", "fork_server", "world"]
