"""Findings of `doctor`, and those about the histories that agents stored."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import asdict, replace

from upthread.agent_stores.base import VendorHistory
from upthread.agents.registry import find_agent
from upthread.client.file_permissions import day_of, logs
from upthread.client.project import Project
from upthread.config import Settings
from upthread.core.agents import AGENTS
from upthread.core.history.model import CURES, Fault, faults
from upthread.core.types import RecordMode
from upthread.errors import StoreError
from upthread.runtime.continuity_probe import CHECKS
from upthread.runtime.record.erasure import Selection, summed
from upthread.store.address import database_files, key_path
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import Installed, Trust, read_file
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import command, counted, one_line
from upthread.surfaces.cli.verbs.setup import TARGETS

_IN_WORDS = {
    "every_call_has_a_result": ("call without a result", "calls without a result"),
    "every_result_has_a_call": ("result without a call", "results without a call"),
    "one_result_for_a_call": ("second result", "second results"),
    "call_ids_differ": ("call id used twice", "call ids used twice"),
    "results_stand_after_their_calls": ("late result", "late results"),
}


class Finding(Struct, frozen=True, kw_only=True):
    """What is wrong, and what to do; the names are the JSON keys."""

    store: str
    history: str
    path: str | None = None
    version: str = ""
    faults: Mapping[str, int] = {}
    unreadable: int = 0
    what: str
    cure: str


def finding_of(stored: VendorHistory | StoreError) -> Finding | None:
    """Return what is wrong with an agent's history, None when it is sound."""
    if isinstance(stored, StoreError):
        return Finding(store="?", history="", unreadable=1, what=stored.message, cure=stored.hint)
    found = faults(stored.history)
    # Months of histories are always of other versions: that alone is nothing to do about.
    if not found and not stored.unreadable:
        return None
    return Finding(
        store=stored.agent,
        history=stored.session_id,
        path=str(stored.path),
        version=stored.version,
        faults=counts_of(found),
        unreadable=len(stored.unreadable),
        what="; ".join(_words(stored, found)),
        cure=_cure(stored, found),
    )


def _words(stored: VendorHistory, found: Sequence[Fault]) -> Iterator[str]:
    for rule, number in counts_of(found).items():
        yield counted(number, *_IN_WORDS[rule])
    if stored.unreadable:
        first = stored.unreadable[0]
        yield f"{counted(len(stored.unreadable), 'place')} unreadable, first {first.place}: " + (
            one_line(first.why)
        )
    if not stored.is_version_known:
        version = one_line(stored.version) or "unknown"
        yield f"written by version {version}, which this upthread does not know"


def _cure(stored: VendorHistory, found: Sequence[Fault]) -> str:
    if not stored.is_version_known:
        return "read as far as it goes and left alone; a newer upthread may know it"
    if found or stored.is_of_lines:
        return command("upthread", "repair", stored.agent, stored.session_id)
    copied = command("upthread", "keep", stored.session_id)
    return (
        "left as it is; if the agent cannot read it, the next prompt begins a new session, and a"
        f" copy of what can be read is kept by: {copied}"
    )


def counts_of(found: Sequence[Fault]) -> dict[str, int]:
    """Return how many faults of each kind there are."""
    counts = Counter(fault.rule for fault in found)
    return {rule: counts[rule] for rule in CURES if rule in counts}


# --- hook findings ------------------------------------------------------------------------------
# What `doctor` and `agents` say of hooks: in place, alive, trusted.

STORE = "hooks"

OLDER_FILES = ("places", "projects", "runs")
"""Below upthread's home, in `hooks/`: what an earlier version kept there."""


def hook_findings(project: Project, states: tuple[HookState, ...]) -> Iterator[Finding]:
    """Yield what is wrong with hooks on this machine, whose agents are set up so. Blocking."""
    home = Path(project.settings.home)
    installed = Installed(home)
    for told in installed.outdated():
        what, _, cure = told.partition(": ")
        yield _finding("", "", what, cure)
    for agent in installed.agents():
        for path, expected in installed.expected(agent):
            content = read_file(path)
            if content == expected:
                continue
            what = "has been changed since" if content else "is gone"
            cure = f"if that was not you: {command('upthread', 'setup', agent)}"
            yield _finding(agent, str(path), f"what setup wrote {what}", cure)
    for name in OLDER_FILES:
        path = home / "hooks" / name
        if path.exists():
            what = "files of an earlier version's hooks, which nothing reads any more"
            cure = "python -m tools.import_hook_files takes in what they hold; then delete them"
            yield _finding(name, str(path), what, cure)
    for each in states:
        if each.fault:
            yield _finding(each.agent, "", each.fault, each.cure)


def _finding(history: str, path: str, what: str, cure: str) -> Finding:
    return Finding(store=STORE, history=history, path=path, what=what, cure=cure)


class HookState(Struct, frozen=True, kw_only=True):
    """How one agent's hooks are; the names are the JSON keys.

    `is_alive` and `is_trusted` are None for one that is not set up; `is_trusted` also where the
    agent asks for no trust or could not be asked. `fault` and `cure` are empty when nothing is
    wrong.
    """

    agent: str
    is_installed: bool
    is_set_up: bool = False
    is_alive: bool | None = None
    is_trusted: bool | None = None
    fault: str = ""
    cure: str = ""

    @property
    def words(self) -> str:
        """The state in a few words."""
        if not self.is_set_up:
            return "not set up"
        said = ["set up", "alive" if self.is_alive else "not alive"]
        if self.is_trusted is not None:
            said.append("trusted" if self.is_trusted else "not trusted")
        return ", ".join(said)


async def hook_states(settings: Settings) -> tuple[HookState, ...]:
    """Return how the hooks of each agent are that can be set up; those set up are really asked."""
    home = Path(settings.home)
    set_up = await anyio.to_thread.run_sync(lambda: Installed(home).agents())
    fault = await anyio.to_thread.run_sync(launcher.probe, home) if set_up else ""
    states: list[HookState] = []
    for agent, target in TARGETS.items():
        is_installed = find_agent(AGENTS[target.name]) is not None
        state = HookState(agent=agent, is_installed=is_installed)
        if agent in set_up:
            trust = await target.trust(settings.working_directory) if target.trust else Trust()
            state = replace(
                state,
                is_set_up=True,
                is_alive=not fault,
                is_trusted=trust.is_given,
                fault=fault or trust.fault,
                cure=command("upthread", "setup", agent) if fault else trust.cure,
            )
        states.append(state)
    return tuple(states)


# --- probe --------------------------------------------------------------------------------------
# `doctor --probe`: what an agent really does about sessions, one line a check.

_STYLES = {"good": "green", "quirk": "yellow"}


def probe(call: Call, agent: str, *, rate_limit_prompt: str | None) -> None:
    """Probe an agent, after asking: it costs two prompts, and leaves a session with the agent."""
    output = call.output
    prompts = "two short prompts" if rate_limit_prompt is None else "three prompts"
    output.line(
        f"{agent} is started several times and killed once, in an empty directory; {prompts} "
        "go to its model, and its sessions stay with it."
    )
    call.confirm(f"Probe {agent}?", declined="nothing was done")
    probed = call.with_project(
        lambda project: project.probe(agent, rate_limit_prompt=rate_limit_prompt),
        needs=Needs(tables=STARTING),
    )
    capabilities = asdict(probed.capabilities)
    quirks = [each for each in probed.findings if each.verdict == "quirk"]
    findings = [{**asdict(each), "good_is": CHECKS[each.check]} for each in probed.findings]
    output.json(
        {
            "agent": agent,
            "version": probed.capabilities.version,
            "can": [
                name[4:]
                for name, can in capabilities.items()
                if can is True and name.startswith(("can_", "has_"))
            ],
            "quirks": len(quirks),
            "findings": findings,
        }
    )
    output.line(f"{agent} {one_line(probed.capabilities.version)}".rstrip(), "bold")
    for each in probed.findings:
        mark = each.verdict.replace("_", " ")
        output.row(
            (f"{mark:<12}", _STYLES.get(each.verdict, "dim")),
            f"{each.check}: {one_line(each.seen)}",
        )
        if each.verdict == "quirk":
            output.row(" " * 12, (f"good would be: {CHECKS[each.check]}", "dim"))
    output.line(counted(len(quirks), "quirk"), "yellow" if quirks else "green")


# --- holdings -----------------------------------------------------------------------------------
# Holdings: how much is recorded of the project, and which files hold it.
#
# Who can read a file is its owner and mode, and those of the directory it lies in.


class HeldFile(Struct, frozen=True, kw_only=True):
    """A file of upthread's; the names are the JSON keys. `read_by` is you, your group or others."""

    path: str
    size_bytes: int
    mode: str
    read_by: str


class Holdings(Struct, frozen=True, kw_only=True):
    """What is recorded of a project, and where. `oldest_at_ms` is None where there is no text."""

    record: RecordMode
    workstreams: int
    conversations: int
    parts: int
    content_bytes: int
    oldest_at_ms: int | None
    content_days: int | None
    stderr_days: int | None
    files: tuple[HeldFile, ...]


async def holdings(project: Project) -> Holdings:
    """Return what there is."""
    held = await project.forgetting.held(Selection())
    conversations = [each for workstream in held for each in workstream.conversations]
    total, keep = summed(conversations), project.settings.keep
    return Holdings(
        record=project.settings.record,
        workstreams=len(held),
        conversations=len(conversations),
        parts=total.parts,
        content_bytes=total.content_bytes,
        oldest_at_ms=total.oldest_at_ms,
        content_days=keep.content_days,
        stderr_days=keep.stderr_days,
        files=await anyio.to_thread.run_sync(lambda: tuple(_files(project))),
    )


def show(output: Output, found: Holdings) -> None:
    """Tell it to a person, what others could read in colour."""
    since = f", the oldest of {day_of(found.oldest_at_ms)}" if found.oldest_at_ms else ""
    kept = "kept for ever"
    if found.content_days is not None:
        kept = f"kept for {counted(found.content_days, 'day')} by `upthread keep`"
    output.line(
        f"recorded ({found.record}): {counted(found.workstreams, 'workstream')},"
        f" {counted(found.conversations, 'conversation')}, {counted(found.parts, 'part')},"
        f" {found.content_bytes:,} bytes of text{since}; {kept}"
    )
    for file in found.files:
        style = "dim" if file.read_by == "you" else "red"
        readers = f"{file.mode}, read by {file.read_by}"
        output.row((f"  {file.path}: {file.size_bytes:,} bytes, ", "dim"), (readers, style))


def _files(project: Project) -> Iterator[HeldFile]:
    home, database = Path(project.settings.home), project.settings.database
    own = (*database_files(database), key_path(database, home))
    for path in (
        *own,
        *(log.path for log in logs(home)),
        *_below(home / "hooks"),
        *_below(home / "repairs"),
    ):
        # Most may be there and need not be: a log of SQLite's is, only while the file is in use.
        if path.is_file():
            found = path.stat()
            yield HeldFile(
                path=str(path),
                size_bytes=found.st_size,
                mode=f"{stat.S_IMODE(found.st_mode):04o}",
                read_by=_read_by(found.st_mode, path.parent.stat().st_mode),
            )


def _below(place: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(place):
        yield from (Path(directory, name) for name in sorted(names))


def _read_by(mode: int, around: int) -> str:
    """A directory that nobody else may enter closes what is in it."""
    if mode & stat.S_IROTH and around & stat.S_IXOTH:
        return "everybody"
    return "your group" if mode & stat.S_IRGRP and around & stat.S_IXGRP else "you"
