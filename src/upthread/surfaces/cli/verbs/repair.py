"""`upthread repair`: an agent's history made valid in a copy.

An agent's store is only read. The original is kept beside the copy, what differs is shown, and the
copy is read again and judged by the rules of every provider.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread
import click
from msgspec import structs, to_builtins

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.copies import RepairedCopy
from upthread.agents.stored import outlines, repaired_copy, stored_histories
from upthread.boundary.own_home import home_directory
from upthread.client.project import Project
from upthread.core.agents import WITH_A_STORE, name_of, one_of
from upthread.core.history.model import History, history_of
from upthread.core.history.proof import PROVIDERS, proof
from upthread.core.history.repair import repair as repaired
from upthread.errors import NotFoundError, StoreError, UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.doctor.findings import faults_of
from upthread.surfaces.cli.terminal.neutral import command
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted

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
    wrong = [each for each in found if faults_of(each.history.messages) or _has_bad_lines(each)]
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
    return _tell(call, target, copies)


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
        found = faults_of(each.history.messages)
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
    return repaired_copy(agent, path, place, session_id=session, sessions=ids)


def _free(directory: Path, agent: str, path: Path) -> Path:
    """Return a place that is not taken: repairs are kept."""
    number = 1
    while (place := directory / f"{agent}-{path.stem}-{number}").exists():
        number += 1
    return place


def _tell(call: Call, agent: str, copies: Sequence[RepairedCopy]) -> int:
    output = call.output
    refused = {copy.after: _refused(agent, copy) for copy in copies}
    is_wrong = any(copy.left for copy in copies) or any(refused.values())
    if output.is_json:
        shapes = [
            {
                "source": str(copy.source),
                "before": str(copy.before),
                "after": str(copy.after),
                "edits": [to_builtins(edit) for edit in copy.edits],
                "left": copy.left,
                "valid_for": [] if refused[copy.after] else PROVIDERS,
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
        for line in (*copy.left, *refused[copy.after]):
            output.line(f"still wrong: {line}", "red")
        if not copy.left and not refused[copy.after]:
            output.line(f"valid for {', '.join(PROVIDERS)}", "green")
        where = "beside" if copy.source.name != copy.after.name else "in the place of"
        output.line(f"to use it, end {agent} and put the copy {where} {copy.source}")
    return LEFT_WRONG if is_wrong else 0


def _refused(agent: str, copy: RepairedCopy) -> list[str]:
    """Read the copy again, and return the parts that a provider would refuse."""
    return [
        f"{each.session_id}: {provider}: {violation.in_words()}"
        for each in outlines(agent, copy.after)
        if each.is_version_known
        for provider, found in proof(repaired(each.history).history).items()
        for violation in found
    ]


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
    refused: Mapping[str, int] = {p: len(v) for p, v in proof(made.history).items()}
    valid = [provider for provider, number in refused.items() if number == 0]
    if call.output.is_json:
        changes = [structs.asdict(change) for change in made.changes]
        call.output.json({"address": address, "changes": changes, "valid_for": valid})
    else:
        for change in made.changes:
            call.output.line(change.in_words())
        number = counted(len(made.changes), "change")
        call.output.line(
            f"{name}: {number} would make it valid; the record itself stays as it is; "
            f"valid for {', '.join(valid)}"
        )
    return 0 if len(valid) == len(PROVIDERS) else LEFT_WRONG
