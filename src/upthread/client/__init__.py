"""The front door: open a project, tell a role something, run the pipeline, see how it stands.

    async with upthread.open_project() as up:
        result = await up.tell("spec-42/planner", "Plan the export command.")
        print(result.decision, result.reply)

Async throughout; `open_blocking` runs the very same calls from code that is not. This is where
backends and agents are chosen: everything below it knows ports only.
"""

from upthread.client.project import Project
from upthread.client.project_opener import Wait, open_blocking, open_project
from upthread.client.why import Why
from upthread.runtime.options import RunOptions, TellOptions

__all__ = [
    "Project",
    "RunOptions",
    "TellOptions",
    "Wait",
    "Why",
    "open_blocking",
    "open_project",
]
