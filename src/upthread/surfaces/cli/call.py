"""A call: one invocation of a verb, with its project and its output. Knows no verb."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from click.exceptions import Exit
from msgspec import Struct
from msgspec.structs import replace

from upthread.core.agents import Actor
from upthread.errors import SeveralAgentsError, UsageError
from upthread.surfaces.cli.terminal.output import Output

if TYPE_CHECKING:
    from upthread.client.project import Project
    from upthread.client.project_opener import Surroundings
    from upthread.config import Settings
    from upthread.runtime.permissions import AskPerson
    from upthread.surfaces.cli.consent import Needs

Result = TypeVar("Result")


class Call(Struct, kw_only=True):
    """The options every verb takes, and where its words go.

    `is_stream` says that the verb's JSON is several objects, one on each line. `verb` is the name
    of the verb, empty before the line was read. `is_yes` and `is_dry_run` are of verbs that ask.
    """

    output: Output
    verb: str = ""
    database: str | None = None
    project: str | None = None
    is_stream: bool = False
    is_yes: bool = False
    is_dry_run: bool = False

    def settings(self) -> Settings:
        """Return the settings of the working directory, without what needs consent."""
        from upthread.config import load_settings

        return load_settings(Path.cwd(), environment=os.environ, database=self.database)

    def trusted_settings(self) -> Settings:
        """Return the settings of the working directory as far as a person agreed to them."""
        from upthread.client.consent import load_trusting

        return load_trusting(Path(), environment=os.environ, database=self.database)

    def surroundings(self) -> Surroundings:
        """Return what is known of the working directory before any record is opened."""
        from upthread.client.project_opener import surroundings

        return surroundings(Path(), environment=os.environ, database=self.database)

    def confirm(
        self, question: str, *, hint: str | None = None, declined: str = "nothing was changed"
    ) -> None:
        """Ask a person who did not type --yes. A no ends the verb, acknowledged with `declined`."""
        from upthread.surfaces.cli.terminal.input import DECLINED, SEE_FIRST, is_agreed

        if not self.is_yes and not is_agreed(self.output, question, hint=hint or SEE_FIRST):
            if declined:
                self.output.note(declined)
            raise Exit(DECLINED)

    def with_agent(
        self,
        use: Callable[[Project, str | None], Awaitable[Result]],
        agent: str | None,
        *,
        needs: Needs,
        ask_person: AskPerson | None = None,
    ) -> Result:
        """Run `use` on the project with an agent's name, None for whichever is clear.

        Where several agents are installed, a person is asked for one of them. Raises
        SeveralAgentsError where nobody is there to ask.
        """
        from upthread.surfaces.cli.terminal.input import can_ask, choose_agent

        def attempt(chosen: str | None) -> Result:
            return self.with_project(
                lambda project: use(project, chosen),
                ask_person=ask_person,
                needs=replace(needs, agent=chosen),
            )

        try:
            return attempt(agent)
        except SeveralAgentsError as error:
            if not can_ask(self.output):
                raise
            return attempt(choose_agent(self.output, error.agents))

    def with_project(
        self,
        use: Callable[[Project], Awaitable[Result]],
        *,
        ask_person: AskPerson | None = None,
        needs: Needs | None = None,
        actor: Actor | None = None,
    ) -> Result:
        """Open the project of the working directory, run `use` on it to its end, close it.

        `needs` are what the verb would use of what the repository says. A person who is there is
        asked once about what they have not agreed to; else it is said that it is ignored.
        `actor` is who acts where it is not whoever runs this process.
        """
        # Late: a line that is refused by its words alone opens nothing.
        import anyio

        from upthread.client.project_opener import open_project
        from upthread.surfaces.cli.setup.changes import Installed
        from upthread.surfaces.cli.terminal.input import who_acts

        by = actor or who_acts()
        unasked: list[Settings] = []

        async def opened(*, may_ask: bool) -> Result | None:
            opening = open_project(
                ".",
                database=self.database,
                project=self.project if may_ask else None,  # the first opening writes it down
                ask_person=ask_person,
                actor=by,
            )
            async with opening as project:
                # Closed again before the question: a person's
                # thought must not hold the database open.
                if may_ask and needs and await needs.is_to_ask(project, self.output):
                    unasked.append(project.settings)
                    return None
                outdated = Installed(Path(project.settings.home)).outdated()
                for notice in chain(project.notices_at_rest, outdated):
                    self.output.note(notice, "yellow")
                if needs:
                    await needs.tell(project, self.output)
                done = await use(project)
                for fault in project.unread:
                    self.output.note(
                        f"an interrupted call could not be read back: {fault}", "yellow"
                    )
                return done

        done = anyio.run(partial(opened, may_ask=True))
        if unasked and needs:  # with nothing open: a person may take their time
            needs.ask(self.output, unasked[0])
            done = anyio.run(partial(opened, may_ask=False))
        return cast("Result", done)


@contextmanager
def extra(what: str, name: str) -> Generator[None]:
    """Import packages of an extra. Raises UsageError that names the extra if a package is missing.

    For example `with extra("a worker", "postgres"): from upthread.client import worker`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("upthread"):
            raise  # a fault of ours
        raise UsageError(
            f"{what} needs {error.name}", hint=f"pip install 'upthread[{name}]'"
        ) from error


def require_person(doing: str, *words: str) -> None:
    """Raise UsageError where a model runs a verb that only a person may; `words` are theirs."""
    from upthread.client.consent import refuse_models
    from upthread.surfaces.cli.terminal.input import who_acts
    from upthread.surfaces.cli.terminal.phrases import command

    hint = f"ask the person to do it, at their own terminal: {command('upthread', *words)}"
    refuse_models(who_acts(), what=f"{doing} from inside an agent's turn", hint=hint)
