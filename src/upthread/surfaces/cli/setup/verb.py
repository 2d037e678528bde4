"""The verb: what would change is shown, a person agrees, and it is done, or undone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final

from upthread.boundary import programs
from upthread.client import Project
from upthread.client.trusting import load_trusting
from upthread.config import home_directory
from upthread.errors import UsageError
from upthread.surfaces.cli.asking import can_ask, choose, confirm
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.changing import DECLINED
from upthread.surfaces.cli.consenting import HOOKS, Needs
from upthread.surfaces.cli.setup import blocks, claude_code, codex, opencode, roles
from upthread.surfaces.cli.setup.changes import Change, Installed, is_of_repository

DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Target:
    """How one agent is set up: `name` is its own in the store, `then` what a person does next."""

    name: str
    changes: Callable[[Mapping[str, str], tuple[str, ...]], tuple[Change, ...]]
    taken_out: Callable[[Path, bytes], bytes | None]
    then: str = ""


TARGETS: Final[Mapping[str, Target]] = {
    claude_code.AGENT: Target(claude_code.HOOK_AGENT, claude_code.changes, claude_code.taken_out),
    codex.AGENT: Target(codex.AGENT, codex.changes, codex.taken_out, codex.THEN),
    opencode.AGENT: Target(opencode.AGENT, opencode.changes, opencode.taken_out),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person wants. `roles` are `NAME=HOW`, the continuity of each."""

    is_removing: bool
    is_yes: bool
    is_dry_run: bool
    roles: tuple[str, ...]


def setup(call: Call, agent: str, asked: Asked) -> int:
    """Set an agent up, or take that back, after asking."""
    if agent not in TARGETS:
        raise UsageError(f"{agent!r} cannot be set up", hint=f"one of: {', '.join(TARGETS)}")
    home = home_directory(os.environ)
    installed = Installed(home)
    if asked.is_removing:
        changes = installed.undoing(agent, partial(_taken_out, TARGETS[agent]))
    else:
        changes = (
            *TARGETS[agent].changes(os.environ, hook_command(TARGETS[agent].name, home)),
            *_roles(call, asked),
        )
    needed = tuple(change for change in changes if change.is_needed)
    if not call.output.is_json:
        _show(call, needed)
    question = f"{'Change these back' if asked.is_removing else 'Make these changes'}?"
    if asked.is_dry_run:
        return _tell(call, agent, needed, is_done=False)
    if needed and not asked.is_yes and not confirm(call.output, question):
        call.output.note("nothing was changed")
        return DECLINED
    if not asked.is_removing:
        installed.write_down(agent, changes, drain=drain_command())
    for change in needed:
        change.make()
    if asked.is_removing:
        installed.forget(agent)
    else:
        call.with_project(_publish, needs=Needs(tables=HOOKS))
        if TARGETS[agent].then:
            call.output.note(TARGETS[agent].then, "yellow")
    return _tell(call, agent, needed, is_done=True)


def _roles(call: Call, asked: Asked) -> tuple[Change, ...]:
    settings = load_trusting(Path(), environment=os.environ)

    def ask(role: str) -> str:
        question = f"{role}: go on in its earlier session?"
        return choose(call.output, question, roles.CONTINUITIES, usual=roles.USUAL)

    is_asked = not asked.is_yes and not asked.is_dry_run and can_ask(call.output)
    return roles.changes(settings, roles.parsed(asked.roles), ask if is_asked else None)


def _taken_out(target: Target, path: Path, content: bytes) -> bytes | None:
    return (blocks.taken_out if is_of_repository(path) else target.taken_out)(path, content)


def hook_command(agent: str, home: Path) -> tuple[str, ...]:
    """Return how the hook program is run: one file, no site, nothing of the environment."""
    program = resources.files("upthread").joinpath("surfaces/hook/__main__.py")
    return programs.own_file(str(program), agent, str(home.absolute()))


def drain_command() -> tuple[str, ...]:
    """Return how hooks start a drain."""
    return programs.own_module("upthread", "drain")


async def _publish(project: Project) -> None:
    await project.hooks.publish()


def _show(call: Call, changes: tuple[Change, ...]) -> None:
    for change in changes:
        for line in change.diff():
            call.output.line(line, DIFF_STYLES.get(line[:1], ""))
    if not changes:
        call.output.line("nothing is to be changed")


def _tell(call: Call, agent: str, changes: tuple[Change, ...], *, is_done: bool) -> int:
    if call.output.is_json:
        files = [str(change.path) for change in changes]
        call.output.json({"agent": agent, "is_done": is_done, "files": files})
    elif is_done and changes:
        call.output.line(f"{agent}: done; start it again to see it", "green")
    return 0
