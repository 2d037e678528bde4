"""What `doctor` has to say of hooks: whether they are in place, and what they could not decide."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from upthread.client import Project
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.files import UnreadableError
from upthread.runtime.bindings.light_json import number_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.cli.doctor.finding import Finding
from upthread.surfaces.cli.doctor.hook_states import HookState
from upthread.surfaces.cli.setup.changes import Installed, read_file
from upthread.surfaces.cli.setup.hook_entries import is_of_an_environment
from upthread.surfaces.cli.setup.verb import TARGETS
from upthread.surfaces.cli.terminal.neutral import command
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.cli.terminal.words import counted

STORE = "hooks"


def hook_findings(project: Project) -> Iterator[Finding]:
    """Yield what is wrong with hooks on this machine and in this project. Blocking."""
    home = Path(project.settings.home)
    yield from _installation(home)
    place = Place(str(home), project.settings.working_directory)
    # As if read: the place's own file may be what is damaged.
    place.known = {"project_id": project.project_id}
    try:
        yield from [*_undecided(place), *_set_aside(place)]
    except UnreadableError as error:
        yield _finding(
            "spool", spool.directory(place), str(error), "move it away, and nothing else"
        )


def state_findings(states: tuple[HookState, ...]) -> list[Finding]:
    """Return what is wrong with the hooks of agents that are set up."""
    return [_finding(each.agent, "", each.fault, each.cure) for each in states if each.fault]


def _installation(home: Path) -> Iterator[Finding]:
    installed = Installed(home)
    for agent in installed.agents():
        for path, expected in installed.expected(agent):
            content = read_file(path)
            # The names come from a file: one that no target has was set up by another version.
            target = TARGETS.get(agent)
            if content is not None and target is not None and target.is_unsafe(path, content):
                what = "an earlier version's entry, which runs a repository's upthread.py"
                yield _finding(agent, str(path), what, f"upthread setup {agent}")
                continue
            # Works today, and not after the environment is made anew: worth a word before it fails.
            if content is not None and is_of_an_environment(content):
                what = "an earlier version's hooks, which end with its virtual environment"
                yield _finding(agent, str(path), what, f"upthread setup {agent}")
                continue
            if content == expected:
                continue
            what = "has been changed since" if content else "is gone"
            cure = f"if that was not you: {command('upthread', 'setup', agent)}"
            yield _finding(agent, str(path), f"what setup wrote {what}", cure)


def _undecided(place: Place) -> Iterator[Finding]:
    missed = [
        path for path in spool.names(place) if path.endswith(("-undecided.json", "-told.json"))
    ]
    if not missed:
        return
    try:
        last = files.read(missed[-1]) or {}
    except UnreadableError as error:
        last = {"why": str(error)}
    at = moment(number_in(last, "at_ms"))
    what = f"{counted(len(missed), 'call')} UNDECIDED, the last at {at}: {text_in(last, 'why')}"
    yield _finding("undecided", missed[-1], what, "the agent went on without upthread; see why")


def _set_aside(place: Place) -> Iterator[Finding]:
    try:
        listed = os.listdir(spool.directory(place))  # noqa: PTH208  # a name may be anything
    except FileNotFoundError:
        return
    for name in sorted(listed):
        if name.endswith(spool.SET_ASIDE):
            path = str(Path(spool.directory(place), name))
            yield _finding(name, path, "an event that cannot be read", "look at it, then delete it")


def _finding(history: str, path: str, what: str, cure: str) -> Finding:
    return Finding(
        store=STORE,
        history=history,
        path=path,
        version="",
        faults={},
        unreadable=0,
        what=what,
        cure=cure,
    )
