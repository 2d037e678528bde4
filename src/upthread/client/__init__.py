"""The front door: open a project, tell a role something, run the pipeline, see how it stands.

    async with upthread.open_project() as up:
        result = await up.tell("spec-42/planner", "Plan the export command.")
        print(result.decision, result.reply)

Async throughout; `open_blocking` runs the very same calls from code that is not. This is where
backends and agents are chosen: everything below it knows ports only.
"""

from upthread.client.opening import Wait, open_blocking, open_project
from upthread.client.project import Project, TellOptions
from upthread.client.running import RunOptions
from upthread.client.why import Why

__all__ = [
    "Project",
    "RunOptions",
    "TellOptions",
    "Wait",
    "Why",
    "open_blocking",
    "open_project",
]
