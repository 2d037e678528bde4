"""Your agents pick up where they left off, and tell you when they can't.

The library's names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it; a hook imports the package for every delegation
if TYPE_CHECKING:
    from upthread.client.project import Project
    from upthread.client.project_opener import Wait, open_blocking, open_project
    from upthread.client.why import Why
    from upthread.runtime.turns.delegation import RunOptions, TellOptions
    from upthread.version import __version__

__all__ = [
    "Project",
    "RunOptions",
    "TellOptions",
    "Wait",
    "Why",
    "__version__",
    "open_blocking",
    "open_project",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module  # noqa: PLC0415  # see TYPE_CHECKING

        places = {"__version__": "version", "Project": "client.project", "Why": "client.why"}
        options = {
            "RunOptions": "runtime.turns.delegation",
            "TellOptions": "runtime.turns.delegation",
        }
        place = {**places, **options}.get(name, "client.project_opener")
        return getattr(import_module(f"upthread.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
