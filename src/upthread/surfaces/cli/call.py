"""A call: one invocation of a verb, with the project it is about.

Gives verbs their project and their output; knows no verb.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from upthread.errors import UsageError
from upthread.surfaces.cli.output import Output

if TYPE_CHECKING:
    from upthread.client import Project
    from upthread.runtime.permissions import AskPerson

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options every verb takes, and where its words go."""

    output: Output
    database: str | None = None

    def with_project(
        self,
        use: Callable[[Project], Awaitable[Result]],
        *,
        ask_person: AskPerson | None = None,
    ) -> Result:
        """Open the project of the working directory, run `use` on it to its end, close it."""
        import anyio

        from upthread.client import open_project

        async def opened() -> Result:
            async with open_project(".", database=self.database, ask_person=ask_person) as project:
                for notice in project.notices:
                    self.output.note(notice, "yellow")
                return await use(project)

        return anyio.run(opened)


def enter_directory(directory: str) -> None:
    """Go where `-C` says, as `git -C` does: every path after it is seen from there."""
    try:
        os.chdir(Path(directory))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot enter {directory!r}: {reason}", hint="-C DIRECTORY") from error
