"""`upthread setup`: shows what would change in an agent's settings, asks, and does or undoes it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import anyio
import click

from upthread.agents.registry import seen_way, version_here, version_warning
from upthread.boundary.own_files import home_directory, persons_home
from upthread.config import PROJECT_FILE, read_config, roles_of_agent
from upthread.core.agents import AGENTS, NATIVE, Agent, name_of
from upthread.core.names import BECAUSE, did_you_mean
from upthread.core.roles.role import BUILT_IN_ROLES, Role
from upthread.core.types import Continuity
from upthread.errors import ConfigError, UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.consent import DIFF_STYLES, HOOKS, Needs
from upthread.surfaces.cli.setup import claude_code, codex, launcher, opencode
from upthread.surfaces.cli.setup.changes import (
    Change,
    Changes,
    Installed,
    block_of,
    read_file,
    with_block,
)
from upthread.surfaces.cli.terminal.input import can_ask, choose
from upthread.surfaces.cli.terminal.phrases import short_path

TARGETS = {
    AGENTS[target.name].setup_name: target
    for target in (claude_code.TARGET, codex.TARGET, opencode.TARGET)
}
"""The agents that can be set up, by what `upthread setup` calls each."""


@options.verb
@click.argument(
    "agent",
    metavar="AGENT",
    help="claude, codex or opencode.",
    shell_complete=options.agents_to_set_up,
)
@click.option(
    "--role",
    "roles_given",
    metavar="NAME=HOW",
    multiple=True,
    help="A role: resume, fresh or auto.",
)
@options.flag("--remove", "is_removing", "Undo the set-up.")
@options.yes
@options.dry_run
@options.flag("--diff", "has_diff", "Show each file line by line.")
@click.option(
    "--status-line/--no-status-line",
    default=None,
    help="Claude Code's status line, with the workstream.",
)
def main(
    call: Call,
    *,
    agent: str,
    roles_given: Sequence[str],
    is_removing: bool,
    has_diff: bool,
    status_line: bool | None,
) -> None:
    """Set up an agent, so that each delegation finds its session."""
    if not call.is_dry_run:
        taken_back = ("--remove",) if is_removing else ()
        require_person("nobody changes the set-up", "setup", agent, *taken_back)
    known = AGENTS.get(name_of(agent))
    if known is None or known.setup_name not in TARGETS:
        like = did_you_mean(agent, TARGETS)
        raise UsageError(f"{agent!r} cannot be set up{like}", hint=f"one of: {', '.join(TARGETS)}")
    agent = known.setup_name
    persons_home(os.environ)  # without one, an agent would not find what is set up
    home = home_directory(os.environ)
    if is_removing:
        kept = Installed(home).undoing(agent, TARGETS[agent].taken_out)
        changes = kept
    else:
        _look_at_version(call, known)
        is_asked = not call.is_yes and not call.is_dry_run and can_ask(call.output)
        of_roles = role_changes(call, parsed_roles(roles_given), is_asked=is_asked)
        kept = (*_of_agent(call, agent, status_line=status_line, is_asked=is_asked), *of_roles)
        # The launcher first: a hook that names it must never find it missing.
        changes = (launcher.change(home), *kept)
    needed = tuple(change for change in changes if change.before != change.after)
    _show(call, agent, needed, is_removing=is_removing, has_diff=has_diff)
    if call.is_dry_run:
        _tell(call, agent, needed, is_done=False)
        return
    question = f"{'Change these back' if is_removing else 'Make these changes'}?"
    if needed:
        call.confirm(question)
    _carry_out(agent, home, kept, needed, is_removing=is_removing)
    _tell(call, agent, needed, is_done=True)
    if not is_removing:
        _show_what_happens(call, agent)


def _carry_out(
    agent: str, home: Path, kept: Iterable[Change], needed: Iterable[Change], *, is_removing: bool
) -> None:
    installed = Installed(home)
    if not is_removing:
        launcher.make_room(home)
        # Before any file is changed: killed in between, `--remove` still knows what was there.
        installed.write_down(agent, kept)
    for change in needed:
        change.make()
    if not is_removing:
        launcher.forget_told(home)
        return
    # After the files, so that a killed undo can be repeated.
    installed.forget(agent)
    # Other agents may still call the launcher.
    if not installed.agents():
        launcher.remove(home)


def _show_what_happens(call: Call, agent: str) -> None:
    """Print which roles continue here, in which workstream, and the next command."""
    # Opened once by a person, because hooks do nothing in an unused project.
    found = call.with_project(lambda project: project.in_use(), needs=Needs(tables=HOOKS))
    output = call.output
    if TARGETS[agent].then:
        output.note(TARGETS[agent].then, "yellow")
    if output.is_json:
        return
    settings = call.trusted_settings()
    of_agent = roles_of_agent(name_of(agent), Path(settings.working_directory), os.environ)
    roles = [role for _, role in of_agent]
    kept = settings.continued_roles
    # The roles in the agent's own files, and those that a person turned on.
    named = {role.name for role in roles if isinstance(role, Role)} - BUILT_IN_ROLES
    named |= BUILT_IN_ROLES & kept.keys()
    is_on = (name for name in named if name not in settings.native_roles or name in kept)
    names = sorted(n for n in is_on if n not in kept or kept[n].continuity != "fresh")
    output.line(f"continued here: {', '.join(names) or 'no role yet'}")
    for role in roles:
        if isinstance(role, ConfigError) and "role" in role.ids:
            output.line(f"not continued: {role}", "yellow")
    where = f"in {found.workstream}: {BECAUSE[found.because]}"
    if found.workstream is None:
        where = f"within one session of {agent}; across sessions: upthread use NAME"
    output.line(f"  {where}")
    if names:
        output.line(f'next: start {agent}, type "let the {names[0]} …", and the same again')
    else:
        output.line(f"next: a role file, or upthread setup {agent} --role general-purpose=resume")


def _look_at_version(call: Call, known: Agent) -> None:
    """Print a warning for an untested version of the agent."""
    version = anyio.run(version_here, known.name)
    tested = seen_way(known.name, NATIVE)
    notice = version_warning(known.name, tested, version) if tested else ""
    if notice:
        call.output.note(notice, "yellow")


def _of_agent(call: Call, agent: str, *, status_line: bool | None, is_asked: bool) -> Changes:
    home = home_directory(os.environ)
    if agent != claude_code.AGENT:
        if status_line:
            raise UsageError(f"{agent} shows no status line of ours", hint="claude does")
        return TARGETS[agent].changes(os.environ, home)
    if status_line is None and is_asked and not claude_code.has_status_line(os.environ):
        question = "Show the workstream in Claude Code's status line?"
        status_line = choose(call.output, question, ("yes", "no"), usual="no") == "yes"
    return TARGETS[agent].changes(os.environ, home, has_status_line=bool(status_line))


def _show(call: Call, agent: str, changes: Changes, *, is_removing: bool, has_diff: bool) -> None:
    """Show each file that would change, in at most ten lines, and how to see or undo all."""
    output = call.output
    if not changes:
        output.line("nothing is to be changed")
        return
    for change in changes:
        how = "new" if change.before is None else "gone" if change.after is None else "changed"
        output.row((f"{short_path(change.path)} ", "bold"), f"({how}): {change.what}")
        for line in change.diff() if has_diff else ():
            output.line(line, DIFF_STYLES.get(line[:1], ""))
    if not has_diff:
        again = f"upthread setup {agent}{' --remove' if is_removing else ''} --diff"
        undo = "" if is_removing else f"; to undo it: upthread setup {agent} --remove"
        output.line(f"line by line: {again} --dry-run{undo}", "dim")


def _tell(call: Call, agent: str, changes: Changes, *, is_done: bool) -> None:
    files = [str(change.path) for change in changes]
    call.output.json({"agent": agent, "is_done": is_done, "files": files})
    if is_done and changes:
        call.output.line(f"{agent}: done; start it again to see it", "green")


# --- roles --------------------------------------------------------------------------------------
# Roles: of each that is found here and says nothing of its continuity, a person is asked.
#
# The answers stand in the project's `upthread.toml`, where anybody can read and change them.

CONTINUITIES = get_args(Continuity)
USUAL = "resume"
"""What is offered for a role whose file says nothing: to continue is what people set up for."""


def parsed_roles(said: Iterable[str]) -> Mapping[str, str]:
    """Return what `--role NAME=HOW` said, by role. Raises UsageError."""
    found: dict[str, str] = {}
    for each in said:
        name, equals, how = each.partition("=")
        if not equals or how not in CONTINUITIES:
            choices = ", ".join(CONTINUITIES)
            raise UsageError(f"--role {each!r} says nothing", hint=f"NAME=HOW, of: {choices}")
        found[name] = how
    return found


def role_changes(call: Call, said: Mapping[str, str], *, is_asked: bool) -> Changes:
    """Return what is to be written of roles: what was said of each, else what a person answers."""
    settings = call.trusted_settings()
    path = Path(settings.working_directory) / PROJECT_FILE
    before = read_file(path)
    # The agents' own general roles are left alone until a person turns one on.
    unknown = sorted(set(said) - set(settings.native_roles) - BUILT_IN_ROLES)
    if unknown:
        known = ", ".join(sorted(settings.native_roles))
        like = did_you_mean(unknown[0], settings.native_roles)
        raise UsageError(f"there is no role {unknown[0]!r}{like}", hint=f"known roles: {known}")
    told = dict(said)
    tables = read_config(before or b"", source=PROJECT_FILE).roles
    # The roles of this project's own files of which nothing was said yet. A shipped role has its
    # continuity from us: a person is asked of their own alone.
    for name, role in sorted(settings.native_roles.items()):
        is_own = role.continuity == "auto" and Path(role.source).is_file()
        is_said = name in said or (name in tables and tables[name].continuity is not None)
        if is_own and not is_said:
            told[name] = USUAL  # `--yes` takes what is offered, as Enter does
            if is_asked:
                question = f"{name}: go on in its earlier session?"
                told[name] = choose(call.output, question, CONTINUITIES, usual=USUAL)
    if not told:
        return ()
    # All that our block said before: it is written anew as a whole.
    earlier = read_config(block_of(before or b""), source=PROJECT_FILE).roles
    whole = {**{name: str(table.continuity) for name, table in earlier.items()}, **told}
    lines = [
        line
        for name, how in sorted(whole.items())
        for line in (f"[roles.{name}]", f'continuity = "{how}"')
    ]
    after = with_block(path, before, tuple(lines))
    what = f"the continuity of {', '.join(sorted(told))}"
    return (Change(path=path, before=before, after=after, what=what),)
