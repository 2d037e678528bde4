"""Completion in the shell: the workstreams and addresses of the project one stands in.

A shell that waits for a word must never see an error: whatever goes wrong completes to nothing.
"""

from __future__ import annotations

from upthread.errors import UpthreadError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.output import Output


def complete_workstream(incomplete: str) -> list[str]:
    """Return the workstreams that begin like this."""
    return [name for name, _ in _known() if name.startswith(incomplete)]


def complete_address(incomplete: str) -> list[str]:
    """Return the addresses that begin like this, and the workstreams they are in."""
    found = [name for pair in _known() for name in (pair[0], *pair[1])]
    return [name for name in found if name.startswith(incomplete)]


def _known() -> list[tuple[str, list[str]]]:
    from upthread.client import Project

    async def use(project: Project) -> list[tuple[str, list[str]]]:
        return [
            (view.workstream.workstream, [role.conversation.key.address for role in view.roles])
            for view in await project.workstreams()
        ]

    try:
        return Call(output=Output()).with_project(use)
    except UpthreadError:
        return []
