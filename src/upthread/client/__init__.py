"""The front door: open a project, tell a role something, run the pipeline, see how it stands.

    async with upthread.open_project() as up:
        result = await up.tell("spec-42/planner", "Plan the export command.")
        print(result.decision, result.reply)

Async throughout; `open_blocking` runs the very same calls from code that is not. This is where
backends and agents are chosen: everything below it knows ports only.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from upthread.client.project import Project
    from upthread.client.project_opener import Wait, open_blocking, open_project
    from upthread.client.why import Why
    from upthread.runtime.options import RunOptions, TellOptions

_MODULES: Final = {
    **dict.fromkeys(("Wait", "open_blocking", "open_project"), "client.project_opener"),
    **dict.fromkeys(("RunOptions", "TellOptions"), "runtime.options"),
    "Project": "client.project",
    "Why": "client.why",
}

__all__ = [
    "Project",
    "RunOptions",
    "TellOptions",
    "Wait",
    "Why",
    "open_blocking",
    "open_project",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"upthread.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
