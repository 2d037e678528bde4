"""`open`, `adopt`, `reset`, `fork`. Each says what it does; a reset and a fork ask first."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct, structs

from upthread.agents.registry import AGENTS_AND_REHEARSAL
from upthread.boundary import programs
from upthread.client.project import Project
from upthread.core.sessions import OwnInterface
from upthread.core.states import tell_command
from upthread.core.types import Conversation, Link
from upthread.errors import LeaseHeldError, NotFoundError, UpthreadError, UsageError
from upthread.runtime.record.fork import Fork as MadeFork
from upthread.runtime.record.fork import ForkPlan
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.input import DECLINED, UNCHANGED, confirm, with_agent
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted
from upthread.surfaces.cli.verbs.consent import STARTING, Needs
from upthread.surfaces.cli.verbs.session_id import open_link


def open_session(call: Call, address: str, *, is_dry_run: bool) -> int:
    """Become the agent's own interface, on this conversation's session."""

    async def use(project: Project) -> tuple[RoleView, Link, OwnInterface]:
        view = await project.role(address)
        link = open_link(view.conversation, view.link)
        return view, link, await project.own_interface(link)

    view, link, opened = call.with_project(use, needs=Needs(tables=STARTING))
    words = _command(view, link, opened)
    if call.output.is_json:
        told = {"address": view.conversation.key.address, "command": words}
        call.output.json({**told, "working_directory": link.working_directory})
        return 0
    line = f"cd {shlex.quote(link.working_directory)} && {shlex.join(words)}"
    if is_dry_run:
        call.output.line(line)
        return 0
    _refuse_two_writers(view)
    call.output.note(f"{conversation_name(view.conversation)}: {line}", "dim")
    return _become(words, link)


def adopt(call: Call, address: str, session: str, *, agent: str | None) -> int:
    """Take an existing session in."""

    async def use(project: Project, chosen: str | None) -> tuple[RoleView | None, RoleView]:
        # Looked at first: afterwards nobody could say what it took the place of.
        before = await _role_or_none(project, address)
        await project.adopt(address, session, agent=chosen)
        return before, await project.role(address)

    def attempt(chosen: str | None) -> tuple[RoleView | None, RoleView]:
        return call.with_project(lambda up: use(up, chosen), needs=Needs(tables=STARTING))

    before, after = with_agent(call.output, attempt, agent)
    link = open_link(after.conversation, after.link)
    held = before.link if before else None
    replaced = held.upstream_session_id if held and held.seq != link.seq else None
    if call.output.is_json:
        told = {
            "address": after.conversation.key.address,
            "instance_name": after.conversation.instance_name,
            "conversation_id": after.conversation.conversation_id,
            "agent": link.agent,
            "upstream_session_id": link.upstream_session_id,
            "replaced_upstream_session_id": replaced,
        }
        call.output.json(told)
        return 0
    instead = f", in place of {replaced}" if replaced else ""
    name = conversation_name(after.conversation)
    call.output.line(f"{name}: ADOPTED {link.upstream_session_id} of {link.agent}{instead}")
    return 0


def reset(call: Call, address: str, *, is_turn: bool, is_yes: bool, is_dry_run: bool) -> int:
    """Close a conversation and begin a new one, or free it from an agent, after asking."""
    if not is_dry_run:
        only = ("--turn",) if is_turn else ()
        require_person("nobody ends a conversation", "reset", address, *only)

    async def look(project: Project) -> RoleView:
        return await project.role(address)

    async def change(project: Project) -> Conversation:
        if not is_turn:
            return await project.reset(address)
        await project.free(address)
        return view.conversation

    view = call.with_project(look)
    output = call.output
    if not output.is_json:
        output.line(_plan_to_free(view) if is_turn else _plan(view))
    if is_dry_run:
        _tell_reset(call, view, None)
        return 0
    if not is_yes and not confirm(
        output, f"Reset {view.conversation.key.address}?", declined=UNCHANGED
    ):
        return DECLINED
    _tell_reset(call, view, call.with_project(change))
    return 0


def _plan_to_free(view: RoleView) -> str:
    holder = view.holder.in_words() if view.holder else "nobody"
    return (
        f"{conversation_name(view.conversation)}: in use by {holder}. Free it only if that agent "
        "is gone: otherwise two agents work in one session. The conversation continues."
    )


def _plan(view: RoleView) -> str:
    link = view.link
    session = f", session {link.upstream_session_id} of {link.agent}" if link else ""
    name = conversation_name(view.conversation)
    return (
        f"{name}: {counted(view.turns, 'turn')}{session}. A new conversation begins in its place, "
        "which remembers nothing of this one; the old one stays for the audit."
    )


def _tell_reset(call: Call, old: RoleView, new: Conversation | None) -> None:
    if call.output.is_json:
        told = {
            "address": old.conversation.key.address,
            "is_done": new is not None,
            "turns": old.turns,
            "upstream_session_id": old.link.upstream_session_id if old.link else None,
            "old_conversation_id": old.conversation.conversation_id,
            "new_conversation_id": new.conversation_id if new else None,
        }
        call.output.json(told)
    elif new is not None:
        is_free = new == old.conversation
        done = "FREED" if is_free else f"RESET, {new.conversation_id} begins"
        call.output.line(f"{conversation_name(new)}: {done}", "green")


async def _role_or_none(project: Project, address: str) -> RoleView | None:
    try:
        return await project.role(address)
    except NotFoundError:
        return None


def _command(view: RoleView, link: Link, opened: OwnInterface) -> tuple[str, ...]:
    address = view.conversation.key.address
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


def _refuse_two_writers(view: RoleView) -> None:
    """Two writers on one upstream session lose a branch of it."""
    # Claude Code 2.1.329 lets both write, and loses one branch without a word.
    if view.holder is None:
        return
    address = view.conversation.key.address
    raise LeaseHeldError(
        f"{address} is in a turn, held by {view.holder.in_words()}",
        holder=view.holder.in_words(),
        hint="open it when the turn has ended",
        address=address,
    )


def _become(command: tuple[str, ...], link: Link) -> NoReturn:
    entry = AGENTS_AND_REHEARSAL.get(link.agent)
    install = entry.how_to_install if entry else f"put {command[0]} on PATH"
    if not Path(link.working_directory).is_dir():
        raise UpthreadError(
            f"the session's working directory is gone: {link.working_directory}",
            hint="bring it back, or go on with upthread tell",
        )
    # A program of that name in the clone is nobody's choice.
    outside = (link.working_directory, os.curdir)
    found = programs.absolute_command(command, os.environ, outside=outside)
    if found is None:
        raise UpthreadError(
            f"{command[0]} is not on PATH outside of {link.working_directory}", hint=install
        )
    os.chdir(link.working_directory)
    # What is still in a buffer goes with the process that is replaced.
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, "PATH": programs.search_path(os.environ)}
    try:
        os.execve(found[0], found, environment)  # noqa: S606  # it takes this terminal over
    except OSError as error:
        raise UpthreadError(
            f"{command[0]} cannot be started: {error.strerror}", hint=install
        ) from error


EFFECTS_SHOWN_MAX: Final = 20


class Fork(Struct, frozen=True, kw_only=True):
    """What was typed. `at_message` None is the newest message that can be forked after."""

    address: str
    into: str
    at_message: int | None


def fork(call: Call, asked: Fork, *, is_yes: bool, is_dry_run: bool) -> int:
    """Branch off, after asking."""

    async def look(project: Project) -> ForkPlan:
        return await project.fork.plan(asked.address, asked.into, at_message=asked.at_message)

    async def change(project: Project) -> MadeFork:
        return await project.fork(asked.address, asked.into, at_message=asked.at_message)

    # Looked up and closed before the question: the plan is made again when it is carried out.
    plan = call.with_project(look)
    output = call.output
    if not output.is_json:
        for line in _fork_plan(plan):
            output.line(line)
    if is_dry_run:
        _tell_fork(call, plan, None)
        return 0
    if not is_yes and not confirm(output, f"Fork {plan.source.key.address}?", declined=UNCHANGED):
        return DECLINED
    _tell_fork(call, plan, call.with_project(change))
    return 0


def _fork_plan(plan: ForkPlan) -> Iterator[str]:
    copied = counted(len(plan.spoken), "message")
    how = (
        f"{plan.link.agent} is asked to fork its session; if it cannot, the first prompt replays"
        if plan.link
        else "the first prompt replays them into a new session"
    )
    name, into = conversation_name(plan.source), plan.target.address
    yield f"{name}: {copied}, up to message {plan.at_message}, go to {into}; {how}."
    for change in plan.changes:
        yield f"  repaired on the way: {change.in_words()}"
    if plan.children_left:
        children = counted(len(plan.children_left), "sub-agent")
        yield f"  left with the first branch: {children}; the results keep their text"
    if plan.effects:
        yield f"  not undone, {counted(len(plan.effects), 'action')}:"
        yield from (f"  - {one_line(each.in_words)}" for each in plan.effects[:EFFECTS_SHOWN_MAX])
    if len(plan.effects) > EFFECTS_SHOWN_MAX:
        yield f"  - and {len(plan.effects) - EFFECTS_SHOWN_MAX} more; all are in --json"


def _tell_fork(call: Call, plan: ForkPlan, made: MadeFork | None) -> None:
    link = made.link if made else None
    if call.output.is_json:
        call.output.json(
            {
                "address": plan.source.key.address,
                "as": plan.target.address,
                "is_done": made is not None,
                "at_message": plan.at_message,
                "messages": len(plan.spoken),
                "conversation_id": made.conversation.conversation_id if made else None,
                "upstream_session_id": link.upstream_session_id if link else None,
                "why_replay": made.why_replay if made else "",
                "effects": [
                    {"call_id": each.call_id, "title": each.title, "state": str(each.state)}
                    for each in plan.effects
                ],
                "children_left": list(plan.children_left),
                "changes": [structs.asdict(change) for change in plan.changes],
            }
        )
    elif made is not None:
        session = f", session {link.upstream_session_id}" if link else ""
        name = conversation_name(made.conversation)
        call.output.line(f"{name}: FORKED from {plan.source.key.address}{session}", "green")
        if made.why_replay:
            call.output.note(f"it will replay: {one_line(made.why_replay)}")
