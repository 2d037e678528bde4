"""Your agents pick up where they left off, and tell you when they can't.

The library's names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it; a hook imports the package for every delegation
if TYPE_CHECKING:
    from upthread.client.project import Project
    from upthread.client.project_opener import Wait, open_blocking, open_project
    from upthread.client.why import Why
    from upthread.errors import (
        ConfigError,
        ConflictError,
        LeaseHeldError,
        NotFoundError,
        QuotaExceededError,
        RefusedError,
        StoreError,
        UpstreamError,
        UpthreadError,
        UsageError,
    )
    from upthread.runtime.options import RunOptions, TellOptions
    from upthread.version import __version__

__all__ = [
    "ConfigError",
    "ConflictError",
    "LeaseHeldError",
    "NotFoundError",
    "Project",
    "QuotaExceededError",
    "RefusedError",
    "RunOptions",
    "StoreError",
    "TellOptions",
    "UpstreamError",
    "UpthreadError",
    "UsageError",
    "Wait",
    "Why",
    "__version__",
    "open_blocking",
    "open_project",
]

_PLACES = {
    "Project": "client.project",
    "RunOptions": "runtime.options",
    "TellOptions": "runtime.options",
    "Wait": "client.project_opener",
    "Why": "client.why",
    "__version__": "version",
    "open_blocking": "client.project_opener",
    "open_project": "client.project_opener",
}
"""Where each name is defined. The others are errors."""


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module  # noqa: PLC0415  # see TYPE_CHECKING

        return getattr(import_module(f"upthread.{_PLACES.get(name, 'errors')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
