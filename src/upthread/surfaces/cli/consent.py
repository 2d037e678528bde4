"""Consent: a verb is about to use what a repository says, and nobody has agreed to it yet.

A person at the terminal is asked once, about all that is pending, with the change shown; their no
is remembered as well as their yes. Where nobody is there it is ignored, and one line says so.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from upthread.client.consent import decide
from upthread.client.project import Project
from upthread.config import Settings
from upthread.core.trust import Pending, concerning, ignored_notice
from upthread.errors import UsageError
from upthread.runtime.turns.delegation import Notice
from upthread.surfaces.cli.terminal.input import can_ask, who_acts
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import one_line

SHOWN_LINES_MAX = 400
"""A question longer than this is not asked in passing: `upthread trust` shows all of it."""

COMPARED_LINES_MAX = 5_000
"""Longer texts are shown whole, one after the other: comparing takes the square of their lines."""

TURN = (
    "agent",
    "agents",
    "depth_max",
    "durability",
    "effects",
    "freshness",
    "permissions",
    "prompt_timeout_s",
    "record",
    "redaction",
    "start_timeout_s",
)
"""The tables of settings that a turn goes by."""

RUN = (*TURN, "pipeline")
STARTING = ("agent", "agents", "record", "redaction", "start_timeout_s")
KEEPING = ("keep",)
HOOKS = ("handover", "record", "redaction")

DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_YES = frozenset({"y", "yes"})


class Needs(Struct, frozen=True, kw_only=True):
    """What a verb would use of what a repository says.

    `address` is whose role it talks to, by the `agent` that is named; `is_run` all roles of the
    pipeline. `notice` takes what is ignored where it is not to be told as a line: in a stream of
    JSON.
    """

    tables: Collection[str]
    address: str = ""
    agent: str | None = None
    is_run: bool = False
    notice: Callable[[Notice], None] | None = None

    async def missing(self, project: Project) -> tuple[Pending, ...]:
        """Return what it would use and may not."""
        settings = project.settings
        if not settings.pending:
            return ()
        roles = {step.role for step in settings.pipeline.steps} if self.is_run else set[str]()
        if self.address:
            roles.add((await project.parse(self.address)).role)
        found = concerning(settings.pending, tables=self.tables, roles=roles)
        used = await self._used(project)
        return tuple(each for each in found if not (used and each.item.is_of_another(used)))

    async def _used(self, project: Project) -> str:
        """Return the agent that the verb would use, empty if none is clear."""
        with suppress(UsageError):  # the verb itself tells that no agent is clear
            return await project.agent_for(self.address, named=self.agent) if self.address else ""
        return ""

    async def is_to_ask(self, project: Project, output: Output) -> bool:
        """Return whether a person is there, and has not said no to all of it before."""
        missing = await self.missing(project)
        is_new = any(not each.is_declined for each in missing)
        lines = sum(each.item.text.count("\n") + 2 for each in project.settings.pending)
        return is_new and can_ask(output) and lines <= SHOWN_LINES_MAX

    async def tell(self, project: Project, output: Output) -> None:
        """Say what is ignored."""
        missing = await self.missing(project)
        text = ignored_notice(missing)
        leaving_out = project.settings.leaving_out(os.environ)
        if leaving_out and (used := await self._used(project)) in leaving_out:
            told = f"{used} leaves this project's settings out until you trust it in {used}"
            text = "; ".join(filter(None, (text, told)))
        if not text:
            return
        if self.notice and output.is_json:
            names = {each.item.name: each.item.digest for each in missing}
            self.notice(Notice(kind="not_trusted", text=text, about=names))
        else:
            output.note(text, "yellow")

    def ask(self, output: Output, settings: Settings) -> None:
        """Show all that is pending and ask about it; what is said is written down."""
        output.note("? this repository says what you have not agreed to", "yellow")
        show(settings.pending, output.note)
        output.note("agree to this, exactly as it stands here? [y/N]")
        said = sys.stdin.readline()
        if not said:
            return  # nobody answered: they are asked another time
        is_given = said.strip().lower() in _YES
        decide_now(settings, is_given=is_given)
        if not is_given:
            output.note("it is ignored, and you are not asked about it again: see upthread trust")


def decide_now(settings: Settings, *, is_given: bool) -> None:
    """Write down what was said to what is pending, exactly as it was read, and by whom."""
    decide(
        settings,
        [each.item for each in settings.pending],
        is_given=is_given,
        by=who_acts(),
        now_ms=time.time_ns() // 1_000_000,
    )


def show(pending: Sequence[Pending], write: Callable[[str, str], None]) -> None:
    """Show each as a change against what was agreed to before."""
    for each in pending:
        changed = ", changed since you agreed" if each.was is not None else ""
        declined = ", which you declined" if each.is_declined else ""
        instead = f"; until then {each.instead}" if each.instead else ""
        write(f"  {one_line(each.item.name)}{changed}{declined}{instead}", "bold")
        for line in change_of(each):
            write(f"    {line}", DIFF_STYLES.get(line[:1], ""))


def change_of(pending: Pending) -> Iterator[str]:
    """Yield the lines of a change: all of a text that is new, what differs of one that is not."""
    now = pending.item.text.split("\n")
    was = (pending.was or "").split("\n") if pending.was is not None else []
    if not was or len(was) + len(now) > COMPARED_LINES_MAX:
        yield from (f"-{line}" for line in was)
        yield from (f"+{line}" for line in now)
        return
    from difflib import unified_diff  # only who is asked pays for it

    compared = unified_diff(was, now, lineterm="", n=3)
    yield from (line for number, line in enumerate(compared) if number > 1)
