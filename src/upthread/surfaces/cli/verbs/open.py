"""`upthread open`: become the agent's own interface, on a conversation's session."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from upthread.agents.registry import AGENTS_AND_REHEARSAL
from upthread.boundary import programs
from upthread.client.parts import Command
from upthread.client.project import Project
from upthread.client.worktrees import refuse_running
from upthread.core.states import OwnInterface, tell_command
from upthread.core.types import Link
from upthread.errors import UpthreadError, UsageError
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import conversation_name, one_line
from upthread.surfaces.cli.terminal.state_lines import open_link, opening_command


@options.verb
@options.address
@options.dry_run
def main(call: Call, *, address: str) -> int:
    """Resume a session in the agent's own interface. With --json, only print the command."""

    async def use(project: Project) -> tuple[RoleView, OwnInterface]:
        view = await project.role(address)
        return view, await project.own_interface(view.link)

    view, opened = call.with_project(use, needs=Needs(tables=STARTING))
    link = open_link(view.conversation, view.link)
    words = _command(view, link, opened)
    if call.output.is_json:
        told = {"address": view.conversation.address, "command": words}
        call.output.json({**told, "working_directory": link.working_directory})
        return 0
    line = opening_command(opened)
    if call.is_dry_run:
        call.output.line(line)
        return 0
    # Claude Code 2.1.329 lets two write, and loses one branch without a word.
    refuse_running(view, "open it when the turn has ended")
    call.output.note(f"{conversation_name(view.conversation)}: {line}", "dim")
    return _become(words, link)


def _command(view: RoleView, link: Link, opened: OwnInterface) -> Command:
    address = view.conversation.address
    if opened.command is None:
        here = f"go on from here: {tell_command(address)}"
        main = opened.main_command
        there = f"open that: {quoted(*main)}; {one_line(opened.there)}; or " if main else ""
        raise UsageError(
            f"nothing opens {one_line(link.upstream_session_id)}: {opened.why_not}",
            hint=f"{there}{here}",
            address=address,
        )
    return opened.command


def _become(command: Command, link: Link) -> NoReturn:
    entry = AGENTS_AND_REHEARSAL.get(link.agent)
    install = entry.how_to_install if entry else f"put {command[0]} on PATH"
    if not Path(link.working_directory).is_dir():
        raise UpthreadError(
            f"the session's working directory is gone: {link.working_directory}",
            hint="bring it back, or go on with upthread tell",
        )
    # Never a program of that name in the clone.
    outside = (link.working_directory, os.curdir)
    found = programs.absolute_command(command, os.environ, outside=outside)
    if found is None:
        raise UpthreadError(
            f"{command[0]} is not on PATH outside of {link.working_directory}", hint=install
        )
    os.chdir(link.working_directory)
    # The process is replaced, and unwritten buffers would be lost.
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, "PATH": programs.search_path(os.environ)}
    try:
        os.execve(found[0], found, environment)  # noqa: S606  # it takes this terminal over
    except OSError as error:
        raise UpthreadError(
            f"{command[0]} cannot be started: {error.strerror}", hint=install
        ) from error
