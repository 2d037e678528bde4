"""Completion in the shell: the workstreams and addresses of the project one stands in.

A shell that waits for a word must never see an error: whatever goes wrong completes to nothing. The
scripts that shells get paste names into words they evaluate (zsh), and split at signs of their own
(bash, at a colon): only names of which no shell makes anything else are offered. Roles and
workstreams may come from a repository, or from an agent.
"""

from __future__ import annotations

import re
from typing import Final

from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*(?:~[0-9]+)?")
"""Names no shell looks into: no quote, blank, sign of expansion or colon."""

OFFERED_MAX: Final = 500


def complete_workstream(incomplete: str) -> list[str]:
    """Return the workstreams that begin like this."""
    return _offered([name for name, _ in _known()], incomplete)


def complete_address(incomplete: str) -> list[str]:
    """Return the addresses that begin like this, and the workstreams they are in."""
    found = [name for pair in _known() for name in (pair[0], *pair[1])]
    return _offered(found, incomplete)


def _offered(names: list[str], incomplete: str) -> list[str]:
    # What a shell would make something of is not offered: completion scripts evaluate it (ADR 65).
    plain = (name for name in names if _PLAIN.fullmatch(name) and name.startswith(incomplete))
    return list(plain)[:OFFERED_MAX]


def _known() -> list[tuple[str, list[str]]]:
    from upthread.client import Project

    async def use(project: Project) -> list[tuple[str, list[str]]]:
        return [
            (view.workstream.workstream, [role.conversation.key.address for role in view.roles])
            for view in await project.workstreams()
        ]

    try:
        return Call(output=_Silent()).with_project(use, is_reading=True)
    except Exception:  # noqa: BLE001  # a traceback would stand in the line that is being typed
        return []


class _Silent(Output):
    """Says nothing: what a project has to tell is told by the verb that comes after."""

    def note(self, text: str, style: str = "") -> None:
        """Leave it out."""
        del text, style
