"""A call: one invocation of a verb, with the project it is about.

Gives verbs their project and their output; knows no verb.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from upthread.errors import UsageError
from upthread.surfaces.cli.caller import who_acts
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.verbs import behind

if TYPE_CHECKING:
    from upthread.client import Project
    from upthread.config import Settings
    from upthread.core.actors import Actor
    from upthread.runtime.permissions.policy import AskPerson
    from upthread.runtime.system import System
    from upthread.surfaces.cli.verbs.consent import Needs

Result = TypeVar("Result")
Opened_co = TypeVar("Opened_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options every verb takes, and where its words go."""

    output: Output
    database: str | None = None
    project: str | None = None

    def with_project(
        self,
        use: Callable[[Project], Awaitable[Result]],
        *,
        ask_person: AskPerson | None = None,
        needs: Needs | None = None,
        actor: Actor | None = None,
        is_reading: bool = False,
    ) -> Result:
        """Open the project of the working directory, run `use` on it to its end, close it.

        `needs` are what the verb would use of what the repository says. A person who is there is
        asked once about what they have not agreed to; else it is said that it is ignored.
        `actor` is who acts where it is not whoever runs this process. `is_reading` is for a `use`
        that changes nothing: it runs without an event loop where it can, and may be begun twice.
        """
        by = actor or who_acts(os.environ)
        unasked: list[Settings] = []
        told: set[str] = set()

        async def opened(*, may_ask: bool, system: System | None = None) -> Result | None:
            opening = open_project(
                ".",
                database=self.database,
                project=self.project if may_ask else None,  # said once, it is kept
                ask_person=ask_person,
                actor=by,
                system=system,
            )
            async with opening as project:
                # Closed again before the question: a person's
                # thought must not hold the database open.
                if may_ask and needs and await needs.is_to_ask(project, self.output):
                    unasked.append(project.settings)
                    return None
                for notice in project.notices_at_rest:
                    if notice not in told:  # begun again, it would be said again
                        told.add(notice)
                        self.output.note(notice, "yellow")
                if needs:
                    await needs.tell(project, self.output)
                # Asked when something is written: only then is known what could not be taken in.
                self.output.beside = lambda: behind.shape(project.hooks.behind)
                done = await use(project)
                if project.hooks.behind:
                    self.output.note(behind.in_words(project.hooks.behind), "yellow")
                return done

        # Late: a line that is refused by its words alone opens nothing.
        from upthread.client import open_project

        done = _run(opened, is_reading=is_reading)
        if unasked:  # with nothing open: a person may take their time
            from upthread.surfaces.cli.verbs.consent import ask

            ask(self.output, unasked[0])
            done = _on_a_loop(opened, may_ask=False)
        return cast("Result", done)


class _Opened(Protocol[Opened_co]):
    """Opens the project, uses it and closes it; `system` is None for one with an event loop."""

    def __call__(
        self, *, may_ask: bool, system: System | None = None
    ) -> Coroutine[Any, Any, Opened_co]: ...


def _run(opened: _Opened[Result], *, is_reading: bool) -> Result:
    if is_reading:
        from upthread.runtime.no_loop import LoopNeededError, NoLoop, run_here
        from upthread.runtime.system import System

        with suppress(LoopNeededError):
            return run_here(opened(may_ask=True, system=System(waits=NoLoop())))
    return _on_a_loop(opened, may_ask=True)


def _on_a_loop(opened: _Opened[Result], *, may_ask: bool) -> Result:
    # Late: it takes longer to load than a look takes.
    import anyio

    return anyio.run(partial(opened, may_ask=may_ask))


def enter_directory(directory: str) -> None:
    """Go where `-C` says, as `git -C` does: every path after it is seen from there."""
    try:
        os.chdir(Path(directory))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot enter {directory!r}: {reason}", hint="-C DIRECTORY") from error
