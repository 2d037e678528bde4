"""`upthread repair`: an agent's history made valid in a copy.

An agent's store is only read. The original is kept beside the copy, what differs is shown, the copy
is read again, and the agent itself is asked whether it opens it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
import click
from msgspec import Struct

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.homes import home_of
from upthread.agent_stores.reader import RepairedCopy, keep
from upthread.agents.base import OpenRequest
from upthread.agents.registry import adapter_for, agents_on_path, reader_of
from upthread.agents.stored import stored_histories
from upthread.boundary.own_files import home_directory
from upthread.client.project import Project
from upthread.core.agents import AGENTS, WITH_A_STORE, name_of, one_of
from upthread.core.history.model import History, faults, history_of
from upthread.core.history.repair import repair as repaired
from upthread.core.types import UpstreamSessionId
from upthread.errors import NotFoundError, StoreError, UpstreamError, UsageError
from upthread.runtime.turns.delivery import open_session
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import command, conversation_name, counted

LEFT_WRONG = 1
EDITS_SHOWN_MAX = 50


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
def main(call: Call, *, target: str, session: str | None, into: str | None) -> int:
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
    # A copy can do without lines that cannot be read.
    wrong = [
        each for each in found if faults(each.history) or (each.is_of_lines and each.unreadable)
    ]
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
    if call.is_dry_run or not paths:
        return _plan(call, target, known)
    copies = [_copy(target, path, known, into=into, session=session) for path in paths]
    return _tell(call, target, copies, known)


def _found(agent: str) -> Iterator[VendorHistory]:
    for stored in stored_histories(os.environ, agent=agent):
        if isinstance(stored, StoreError):
            raise stored
        yield stored


def _plan(call: Call, agent: str, known: Sequence[VendorHistory]) -> int:
    call.output.json({"agent": agent, "is_done": False, "copies": []})
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
    place, number = Path(into or ""), 0
    # Never one that is taken: repairs are kept.
    while not into and (number == 0 or place.exists()):
        number += 1
        place = home_directory(os.environ) / "repairs" / f"{agent}-{path.stem}-{number}"
    ids = [each.session_id for each in known if each.path == path]
    return reader_of(agent).repair(path, place, session_id=session, sessions=ids)


def _tell(
    call: Call, agent: str, copies: Sequence[RepairedCopy], known: Sequence[VendorHistory]
) -> int:
    output = call.output
    # A sub-agent's session opens by its main session alone.
    alone = [e for e in known if not e.parent_session_id and Path(e.directory).is_dir()]
    asked = {
        copy.after: anyio.run(
            ask_agent, agent, copy, [each for each in alone if each.path == copy.source], os.environ
        )
        for copy in copies
    }
    is_wrong = any(copy.left or asked[copy.after].refusals for copy in copies)
    shapes = [
        {
            **members(copy, "source before after edits left"),
            **members(asked[copy.after], "opens refusals"),
        }
        for copy in copies
    ]
    output.json({"agent": agent, "is_done": True, "copies": shapes})
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
        name = conversation_name((await project.role(address)).conversation)
        return name, history_of(await project.conversation(address))

    name, history = call.with_project(use)
    made = repaired(history)
    call.output.json({"address": address, "changes": made.changes})
    for change in made.changes:
        call.output.line(change.in_words())
    number = counted(len(made.changes), "change")
    call.output.line(f"{name}: {number} would make it valid; the record itself stays as it is")
    return 0


# --- whether the agent opens the copy: it is sent no prompt --------------------------------------


_NEEDED = ("config.toml",)
"""Codex opens a thread only where the thread's model provider is configured (0.171.0)."""


class OpeningResult(Struct, frozen=True, kw_only=True):
    """What an agent says of a copy: the sessions that it opens, and why it opens others not.

    Both are empty where it could not be asked: it is not on this machine, or the directories of the
    sessions are gone.
    """

    opens: tuple[str, ...] = ()
    refusals: Mapping[str, str]


async def ask_agent(
    agent: str,
    copy: RepairedCopy,
    sessions: Iterable[VendorHistory],
    environment: Mapping[str, str],
) -> OpeningResult:
    """Start an agent on a home that holds nothing but the copy, and open each session."""
    opens: list[str] = []
    refusals: dict[str, str] = {}
    row = AGENTS[agent]
    assert row.home is not None, "its store was read"
    if agent not in agents_on_path():
        return OpeningResult(refusals=refusals)
    with tempfile.TemporaryDirectory(prefix="upthread-repair-") as place:
        home = home_of(agent, environment)
        there = _put(copy, Path(place), home)
        where = {row.home.variable: place}
        if copy.source == home:  # a variable names the database itself
            where[row.home.file] = str(there)
        for each in sessions:
            request = OpenRequest(
                working_directory=each.directory,
                stderr_path=None,
                environment=where,
                ignores_project=True,
            )
            session = UpstreamSessionId(each.session_id)
            try:
                async with adapter_for(agent).open(request) as connection:
                    await open_session(connection, session)
                opens.append(session)
            except UpstreamError as error:
                refusals[session] = str(error)
    return OpeningResult(opens=tuple(opens), refusals=refusals)


def _put(copy: RepairedCopy, place: Path, home: Path) -> Path:
    top = home.parent if copy.source == home else home
    there = place / copy.source.relative_to(top).with_name(copy.after.name)
    there.parent.mkdir(parents=True, exist_ok=True)
    keep(copy.after, there)
    for name in filter(os.path.exists, map(home.joinpath, _NEEDED)):
        keep(name, place / name.name)
    return there
