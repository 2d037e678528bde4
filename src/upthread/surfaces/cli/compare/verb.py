"""The verb: what it will do and may spend is said and agreed to first; then the table."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from upthread.core.decision.words import done_in_words
from upthread.runtime.options import TellOptions
from upthread.runtime.working_tree.git_worktrees import BRANCH_PREFIX
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.compare.experiment import Asked, Budget, Played, Way, play
from upthread.surfaces.cli.shapes import Shape
from upthread.surfaces.cli.terminal.input import confirm, with_agent
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import counted
from upthread.surfaces.cli.terminal.table import write_table
from upthread.surfaces.cli.verbs.consent import TURN, Needs
from upthread.surfaces.cli.verbs.savings import NOT_TOLD, tokens_told

if TYPE_CHECKING:
    from upthread.client import Project

NOT_ALL = 1
"""The exit code where one of the ways could not be played."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What a person typed. `agent` None is the one that the role would have."""

    role: str
    first: str
    then: str
    agent: str | None
    tokens_max: int


def compare(call: Call, wanted: Wanted, *, is_yes: bool) -> int:
    """Play the three ways and show what each took."""
    asked = Asked(
        name=f"compare-{secrets.token_hex(3)}",
        role=wanted.role,
        first=wanted.first,
        then=wanted.then,
        tokens_max=wanted.tokens_max,
    )
    output = call.output
    if not is_yes:
        whose = wanted.agent or "its agent"
        trees = "in 3 working trees of their own, made from HEAD"
        output.note(f"5 turns of {one_line(wanted.role)} with {whose}, {trees}")
        asks = f"Spend at most {wanted.tokens_max:,} tokens?"
        if not confirm(output, asks, hint="say --yes", declined="nothing was spent"):
            return 0

    def begins(way: Way, address: str) -> None:
        output.note(f"{way}: {address} …", "dim")

    async def use(project: Project, agent: str | None) -> tuple[list[Played], Budget]:
        project.settings.role(wanted.role)  # one that is none is said before anything is made
        options = TellOptions(agent=agent, when_busy="wait")
        return await play(project, asked, options, begins=begins)

    def attempt(agent: str | None) -> tuple[list[Played], Budget]:
        return call.with_project(lambda up: use(up, agent), needs=Needs(tables=TURN))

    played, budget = with_agent(output, attempt, wanted.agent)
    if output.is_json:
        output.json({"spent": budget.spent, "ways": [_shape(each) for each in played]})
    else:
        _write(output, played, budget)
    return NOT_ALL if any(each.fault for each in played) else 0


def _write(output: Output, played: Sequence[Played], budget: Budget) -> None:
    head = ("WAY", "DECISION", "FIRST READ", "CACHED", "READ", "WRITTEN", "SECONDS", "FILES AGAIN")
    write_table(output, head, [_row(each) for each in played if not each.fault])
    for each in played:
        if each.fault:
            output.row((each.way, "bold"), (f": not played: {one_line(each.fault)}", "red"))
        if each.tree_kept:
            remove = quoted("upthread", "worktree", each.address.rpartition("/")[0], "--remove")
            output.note(f"{each.way}: its files are in {each.tree_kept}; {remove}", "dim")
    limit = f"no turn begins once {budget.tokens_max:,} are"
    output.note(f"{budget.spent:,} tokens were spent; {limit}", "dim")
    workstreams = [each.address.rpartition("/")[0] for each in played]
    output.command("read the replies: ", quoted("upthread", "audit", workstreams[0]))
    branches = [f"{BRANCH_PREFIX}{each}" for each in workstreams]
    output.command("their branches: ", quoted("git", "branch", "-d", *branches))


def _row(one: Played) -> tuple[str, ...]:
    usage = one.took.usage if one.took else None
    again = len(one.took.files_again) if one.took else 0
    return (
        one.way,
        done_in_words(one.decision, None),
        tokens_told(usage.first_read if usage else None),
        tokens_told(usage.first_cached if usage else None),
        tokens_told(usage.read if usage else None),
        tokens_told(usage.written if usage else None),
        f"{one.seconds:.1f}",
        counted(again, "file") if one.took else NOT_TOLD,
    )


def _shape(one: Played) -> Shape:
    usage = one.took.usage if one.took else None
    return {
        "way": one.way,
        "address": one.address,
        "decision": one.decision or None,
        "first_read": usage.first_read if usage else None,
        "first_cached": usage.first_cached if usage else None,
        "read": usage.read if usage else None,
        "cached": usage.cached if usage else None,
        "written": usage.written if usage else None,
        "seconds": round(one.seconds, 3),
        "files_again": list(one.took.files_again) if one.took else [],
        "reply": one.reply,
        "fault": one.fault or None,
        "tree_kept": one.tree_kept or None,
    }
