"""`upthread repair`: an agent's history made valid in a copy.

An agent's store is only read. The original is kept beside the copy, what differs is shown, the copy
is read again, and the agent itself is asked whether it opens it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import click

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.reader import RepairedCopy
from upthread.agents.registry import reader_of
from upthread.agents.stored import stored_histories
from upthread.boundary.own_files import home_directory
from upthread.client.copy_opening import OpeningResult, ask_agent, can_be_asked
from upthread.client.project import Project
from upthread.core.agents import WITH_A_STORE, name_of, one_of
from upthread.core.history.model import History, faults, history_of
from upthread.core.history.repair import repair as repaired
from upthread.errors import NotFoundError, StoreError, UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import command, conversation_name, counted

LEFT_WRONG: Final = 1
EDITS_SHOWN_MAX: Final = 50


@options.verb
@click.argument(
    "target",
    metavar="AGENT|ADDRESS",
    help=f"{one_of(WITH_A_STORE)}, or an address of ours.",
    shell_complete=options.stores,
)
@click.argument(
    "session", metavar="[SESSION]", required=False, help="One session; without it, all."
)
@click.option("--into", metavar="DIR", help="Where the copies go.")
@options.dry_run
def main(
    call: Call, *, target: str, session: str | None, into: str | None, is_dry_run: bool
) -> int:
    """Repair an agent's damaged histories in a copy. Its own store is never changed."""
    target = name_of(target)
    if target not in WITH_A_STORE:
        return _own(call, target)
    found = [each for each in _found(target) if session in {None, each.session_id}]
    if session is not None and not found:
        raise NotFoundError(
            f"{target} has no session {session!r}",
            hint=f"see: {command('upthread', 'doctor', target)}",
        )
    wrong = [each for each in found if faults(each.history) or _has_bad_lines(each)]
    known = [each for each in wrong if each.is_version_known]
    for each in wrong:
        # A form we do not know is never written: a copy made from a guess would be believed.
        if not each.is_version_known:
            call.output.note(
                f"{target} {each.session_id}: left alone, it was written by version "
                f"{each.version or 'unknown'}, which this upthread does not know",
                "yellow",
            )
    paths = list(dict.fromkeys(each.path for each in known))
    if into is not None and len(paths) > 1:
        raise UsageError(
            f"there are {len(paths)} stores to repair", hint="leave --into out, or name a session"
        )
    if is_dry_run or not paths:
        return _plan(call, target, known)
    copies = [_copy(target, path, known, into=into, session=session) for path in paths]
    return _tell(call, target, copies, known)


def _found(agent: str) -> Iterator[VendorHistory]:
    for stored in stored_histories(os.environ, agent=agent):
        if isinstance(stored, StoreError):
            raise stored
        yield stored


def _has_bad_lines(history: VendorHistory) -> bool:
    """Whether its file has lines that a copy can do without."""
    return history.is_of_lines and bool(history.unreadable)


def _plan(call: Call, agent: str, known: Sequence[VendorHistory]) -> int:
    if call.output.is_json:
        call.output.json({"agent": agent, "is_done": False, "copies": []})
        return 0
    for each in known:
        found = faults(each.history)
        call.output.line(f"{agent} {each.session_id}: {counted(len(found), 'fault')}")
        for fault in found[:EDITS_SHOWN_MAX]:
            call.output.line(f"  {fault.place}: {fault.what}; {fault.cure}")
    if not known:
        call.output.line("nothing to repair", "green")
    return 0


def _copy(
    agent: str,
    path: Path,
    known: Sequence[VendorHistory],
    *,
    into: str | None,
    session: str | None,
) -> RepairedCopy:
    place = Path(into) if into else _free(home_directory(os.environ) / "repairs", agent, path)
    ids = [each.session_id for each in known if each.path == path]
    return reader_of(agent).repair(path, place, session_id=session, sessions=ids)


def _free(directory: Path, agent: str, path: Path) -> Path:
    """Return a place that is not taken: repairs are kept."""
    number = 1
    while (place := directory / f"{agent}-{path.stem}-{number}").exists():
        number += 1
    return place


def _tell(
    call: Call, agent: str, copies: Sequence[RepairedCopy], known: Sequence[VendorHistory]
) -> int:
    output = call.output
    asked = {
        copy.after: anyio.run(ask_agent, agent, copy, _to_open(known, copy), os.environ)
        for copy in copies
    }
    is_wrong = any(copy.left or asked[copy.after].refusals for copy in copies)
    if output.is_json:
        shapes = [
            {
                "source": str(copy.source),
                "before": str(copy.before),
                "after": str(copy.after),
                **members(copy, "edits left"),
                **members(asked[copy.after], "opens refusals"),
            }
            for copy in copies
        ]
        output.json({"agent": agent, "is_done": True, "copies": shapes})
        return LEFT_WRONG if is_wrong else 0
    for copy in copies:
        for edit in copy.edits[:EDITS_SHOWN_MAX]:
            output.line(f"@@ {edit.place}: {edit.why}", "cyan")
            if edit.before is not None:
                output.line(f"- {edit.before}", "red")
            if edit.after is not None:
                output.line(f"+ {edit.after}", "green")
        if len(copy.edits) > EDITS_SHOWN_MAX:
            output.line(f"… and {len(copy.edits) - EDITS_SHOWN_MAX} more; all are in --json")
        output.line(f"kept as it was: {copy.before}")
        output.line(f"repaired copy:  {copy.after} ({counted(len(copy.edits), 'edit')})")
        for line in copy.left:
            output.line(f"still wrong: {line}", "red")
        _tell_asked(call, agent, asked[copy.after])
        where = "beside" if copy.source.name != copy.after.name else "in the place of"
        output.line(f"to use it, end {agent} and put the copy {where} {copy.source}")
    return LEFT_WRONG if is_wrong else 0


def _to_open(known: Sequence[VendorHistory], copy: RepairedCopy) -> list[VendorHistory]:
    return [each for each in known if each.path == copy.source and can_be_asked(each)]


def _tell_asked(call: Call, agent: str, asked: OpeningResult) -> None:
    for session, why in asked.refusals.items():
        call.output.line(f"{agent} does not open {session}: {why}", "red")
    if asked.opens:
        call.output.line(f"{agent} opens {', '.join(asked.opens)}", "green")
    elif not asked.refusals:
        why = "it is not on this machine, or the sessions' directories are gone"
        call.output.line(f"{agent} was not asked: {why}", "dim")


# --- ours --------------------------------------------------------------------------------------


def _own(call: Call, address: str) -> int:
    async def use(project: Project) -> tuple[str, History]:
        view = await project.role(address)
        conversation = view.conversation
        messages = await anyio.to_thread.run_sync(
            lambda: project.store.messages(conversation.conversation_id)
        )
        return conversation_name(conversation), history_of(messages)

    name, history = call.with_project(use)
    made = repaired(history)
    if call.output.is_json:
        call.output.json({"address": address, "changes": made.changes})
        return 0
    for change in made.changes:
        call.output.line(change.in_words())
    number = counted(len(made.changes), "change")
    call.output.line(f"{name}: {number} would make it valid; the record itself stays as it is")
    return 0
