"""`upthread forget`: erases what was said, after it showed what that is and asked.

It never removes what agents have stored themselves; it prints where that is.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
import click
from msgspec import Struct, structs

from upthread.agents.stored import stored_histories
from upthread.client.file_permissions import Log, day_of, logs, remove_logs
from upthread.client.project import Project
from upthread.core.agents import WITH_A_STORE
from upthread.core.names import did_you_mean, parse_role, parse_workstream, shown
from upthread.core.states import effects_command
from upthread.core.trust import Keep
from upthread.errors import NotFoundError, StoreError, UsageError
from upthread.runtime.record.erasure import HeldWorkstream, Selection, summed
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import KEEPING, Needs
from upthread.surfaces.cli.terminal.output import Output, members
from upthread.surfaces.cli.terminal.phrases import counted, midnight_ms, one_line

DAY_MS = 24 * 60 * 60 * 1000
ANY_DAY = "~"
"""Comes after every day."""


class _Elsewhere(Struct, frozen=True, kw_only=True):
    """A session that an agent's own store may hold; no path where that store is not known."""

    agent: str
    upstream_session_id: str
    path: str | None


class _Found(Struct, frozen=True, kw_only=True):
    """The content that would be erased: how it was selected, and what was found."""

    selections: tuple[Selection, ...]
    workstreams: tuple[HeldWorkstream, ...]
    logs: tuple[Log, ...]
    elsewhere: tuple[_Elsewhere, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not self.workstreams and not self.logs


@options.verb
@click.argument(
    "workstream",
    metavar="[WS]",
    required=False,
    help="Only this workstream; all, with --role or --before.",
    shell_complete=options.workstreams,
)
@click.option("--role", metavar="ROLE", help="Only what this role said.")
@click.option("--before", metavar="DATE", help="Only what is older, UTC.")
@options.yes
@options.dry_run
def main(
    call: Call,
    *,
    workstream: str | None,
    role: str | None,
    before: str | None,
) -> None:
    """Erase what was said. The record still shows that something was said, by whom and when."""
    if workstream is None and before is None:
        raise UsageError("forget what?", hint="name a workstream, or say --before 2026-01-31")
    selection = Selection(
        workstream=parse_workstream(workstream) if workstream is not None else None,
        role=parse_role(role) if role is not None else None,
        before_ms=midnight_ms(before, "like 2026-01-31, in UTC") if before is not None else None,
    )

    async def look(project: Project) -> _Found:
        await project.workstreams()  # a call whose agent died is read back first
        if workstream is not None:
            await project.show(workstream)  # raises NotFoundError for an unknown workstream
            if role is not None:
                await anyio.to_thread.run_sync(_require_role, project, workstream, role)
        held = await project.forgetting.held(selection)
        if before is not None:  # a workstream without such old content has nothing to forget
            held = tuple(filter(_has_content, held))
        # A log does not name its workstream, so each log may belong to this workstream.
        kept = await _logs_before(project, before or ANY_DAY)
        found = _Found(selections=(selection,), workstreams=held, logs=kept)
        return await anyio.to_thread.run_sync(lambda: _with_elsewhere(found))

    _carry_out(call, call.with_project(look), "Forget it?")


def _require_role(project: Project, workstream: str, role: str) -> None:
    """Raise NotFoundError for a role that was never in a workstream. Blocking."""
    known = {each.key.role for each in project.store.conversations(project.project_id, workstream)}
    if role not in known:
        raise NotFoundError(
            f"{shown(workstream)} has no role {shown(role)}{did_you_mean(role, known)}",
            hint=f"its roles: {', '.join(sorted(map(one_line, known)))}",
        )


def forget_outlived(call: Call) -> None:
    """Erase what is older than the `[keep]` rules of the configuration allow."""
    found, in_doubt, rule = call.with_project(_outlived, needs=Needs(tables=KEEPING))
    for name in in_doubt:
        call.output.note(f"{one_line(name)} is kept until you have looked: {effects_command(name)}")
    if rule == Keep():
        call.output.remark("nothing is configured: all is kept for ever ([keep] content_days = 90)")
    _carry_out(call, found, "Forget what is older?")


async def _outlived(project: Project) -> tuple[_Found, Sequence[str], Keep]:
    """Return the older content, the workstreams that stay because they are in doubt, the rules."""
    await project.workstreams()  # as above
    rule, now_ms = project.settings.keep, project.now_ms()
    held: list[HeldWorkstream] = []
    in_doubt: tuple[str, ...] = ()
    before_ms = now_ms - (rule.content_days or 0) * DAY_MS
    if rule.content_days is not None:
        chosen = Selection(before_ms=before_ms)
        in_doubt = await project.forgotten_in_doubt(chosen)
        held = [
            each
            for each in await project.forgetting.held(chosen)
            if each.workstream not in in_doubt
        ]
    # Each by its name, so that those in doubt are left out.
    selections = tuple(Selection(workstream=each.workstream, before_ms=before_ms) for each in held)
    old: tuple[Log, ...] = ()
    if rule.stderr_days is not None:
        old = await _logs_before(project, day_of(now_ms - rule.stderr_days * DAY_MS))
    outlived = tuple(filter(_has_content, held))
    return _Found(selections=selections, workstreams=outlived, logs=old), in_doubt, rule


async def _logs_before(project: Project, day: str) -> tuple[Log, ...]:
    kept = await anyio.to_thread.run_sync(logs, Path(project.settings.home))
    return tuple(log for log in kept if log.day < day)


def _has_content(held: HeldWorkstream) -> bool:
    return any(each.held.parts for each in held.conversations)


def _carry_out(call: Call, found: _Found, question: str) -> None:
    _show(call.output, found)
    if call.is_dry_run or found.is_nothing:
        _tell(call.output, found, is_done=False)
        return
    call.confirm(question)

    async def change(project: Project) -> None:
        for selection in found.selections:
            await project.forget(selection)
        await anyio.to_thread.run_sync(lambda: remove_logs(found.logs))

    call.with_project(change)
    _tell(call.output, found, is_done=True)


# --- telling -----------------------------------------------------------------------------------


def _show(output: Output, found: _Found) -> None:
    for each in found.workstreams:
        total = summed(each.conversations)
        oldest = total.oldest_at_ms
        since = f", the oldest of {day_of(oldest)}" if oldest is not None else ""
        output.line(
            f"{each.workstream}: {counted(len(each.conversations), 'conversation')},"
            f" {counted(len(each.runs), 'run')}, {counted(total.parts, 'part')},"
            f" {total.content_bytes:,} bytes{since}"
        )
    if found.logs:
        size = sum(log.size_bytes for log in found.logs)
        output.line(f"agents' stderr: {counted(len(found.logs), 'log')}, {size:,} bytes, whoever's")
    if found.is_nothing:
        output.line("there is nothing to forget", "green")


def _tell(output: Output, found: _Found, *, is_done: bool) -> None:
    output.json(
        {
            "is_done": is_done,
            "workstreams": [
                {
                    "workstream": each.workstream,
                    "conversations": len(each.conversations),
                    "runs": len(each.runs),
                    **members(summed(each.conversations), "parts content_bytes oldest_at_ms"),
                }
                for each in found.workstreams
            ],
            "logs": [members(log, "path size_bytes") for log in found.logs],
            "agents_hold": found.elsewhere,
        }
    )
    if is_done:
        output.line("FORGOTTEN: what was said is in no file of upthread's", "green")
        if found.workstreams:
            output.remark("that it was, under which name and when, stays in the record", "dim")
    for each in found.elsewhere:
        where = each.path or "its own store"
        output.remark(
            f"{each.agent} may still hold {each.upstream_session_id}, in {where}:"
            " remove it with the agent's own commands",
            "yellow",
        )


# --- what others hold --------------------------------------------------------------------------


def _with_elsewhere(found: _Found) -> _Found:
    sessions = dict.fromkeys(
        (link.agent, link.upstream_session_id)
        for each in found.workstreams
        for conversation in each.conversations
        for link in conversation.links
    )
    paths: dict[tuple[str, str], str] = {}
    for agent in {agent for agent, _ in sessions} & set(WITH_A_STORE):
        for stored in stored_histories(os.environ, agent=agent):
            # An unreadable store may hold the session too, so it is named without a path.
            if not isinstance(stored, StoreError):
                paths[agent, stored.session_id] = str(stored.path)
    elsewhere = tuple(
        _Elsewhere(agent=agent, upstream_session_id=session, path=paths.get((agent, session)))
        for agent, session in sessions
    )
    return structs.replace(found, elsewhere=elsewhere)
