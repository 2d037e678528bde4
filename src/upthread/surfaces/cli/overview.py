"""`upthread` alone. It reads, offline, and changes nothing: neither an agent's store nor ours."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from upthread import __version__
from upthread.agent_stores.base import Look, SessionOutline, look
from upthread.agent_stores.homes import home_of
from upthread.agents.stored import stored_outlines, writers_of
from upthread.client.project import Project
from upthread.client.project_opener import Surroundings
from upthread.core.decision.words import Tokens, cache_state
from upthread.core.states import State
from upthread.errors import StoreError
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.sessions import (
    SOON_DAYS,
    Numbers,
    Opening,
    Redact,
    Totals,
    can_be_adopted,
    opening_of,
    outline_shape,
)
from upthread.surfaces.cli.terminal.output import Output, Shape, StatusLine, members
from upthread.surfaces.cli.terminal.phrases import (
    ago,
    counted,
    one_line,
    short_path,
    standing_in_words,
)
from upthread.surfaces.cli.terminal.phrases import command as quoted

KEPT_MAX = 10
"""How many sessions are told of one by one, unless all are asked for."""

PATIENCE_S = 0.5
"""Who waits longer than this is told what for."""

_EVERY = 100


def overview(call: Call, *, is_all: bool) -> int:
    """Show which sessions there are, what needs somebody, what may be lost, and what to type."""
    around = call.surroundings()
    now_ms = time.time_ns() // 1_000_000
    redact, output = around.redactor.redact, call.output
    record = _record(call, around)
    roles = [
        (str(role.link.upstream_session_id), role)
        for view in record.views
        for role in view.roles
        if role.link
    ]
    held = {session: role.conversation.address for session, role in roles}
    most = None if is_all else SHOWN_MAX
    lines = Lines(output, redact, now_ms=now_ms, most=most, held=held)
    output.row(
        (f"upthread {__version__}", "bold"),
        (f"  {one_line(around.settings.working_directory)}", "dim"),
    )
    if record.fault:
        output.remark(f"upthread's own record is not told: {record.fault}", "yellow")
    lines.write_record(record.views)
    seen = look()
    totals = Totals(_told_of(call, seen), around.is_here, now_ms=now_ms, held=held)
    # Of our own sessions that have a turn now, the process that drives it.
    ours = {session: role.holder.pid for session, role in roles if role.holder}
    open_in = {**_open_in(totals, None if is_all else KEPT_MAX), **ours}
    if output.is_json:
        output.json(
            {
                "here": around.settings.working_directory,
                **lines.shape(totals, seen, open_in),
                "workstreams": record.shapes,
                "record_fault": record.fault or None,
            }
        )
    else:
        lines.write_all(totals, seen, open_in)
    return 0


def _open_in(totals: Totals, most: int | None) -> Mapping[str, int]:
    """Return the processes that have sessions here open, by session, as the agents tell."""
    told = [*totals.sessions_here[:most], *totals.interrupted_here[:most]]
    writers: dict[str, int] = {}
    for agent in {each.agent for each in told}:
        its = {each.session_id for each in told if each.agent == agent}
        writers |= writers_of(os.environ, agent, its)
    return writers


class _Record(NamedTuple):
    """What our own record has; `fault` says why it could not be read, empty where it could."""

    views: tuple[WorkstreamView, ...] = ()
    shapes: Sequence[Shape] = ()
    fault: str = ""


def _record(call: Call, around: Surroundings) -> _Record:
    # To open a record makes one: without any there is nothing of it to tell.
    if not around.has_record:
        return _Record()

    async def use(project: Project) -> _Record:
        views = await project.workstreams()
        return _Record(views, await shapes.workstreams(project, views))

    try:
        return call.with_project(use)
    except StoreError as error:  # what the agents have is there all the same
        hint = f" ({error.hint})" if error.hint else ""
        return _Record(fault=one_line(f"{error.message}{hint}"))


def _told_of(call: Call, seen: Look) -> Iterator[SessionOutline]:
    """Yield the outlines; to who waits it is said how many there are so far."""
    status = StatusLine(call.output)
    began_s = time.monotonic()
    try:
        for number, outline in enumerate(stored_outlines(os.environ, seen)):
            if number % _EVERY == 0 and time.monotonic() - began_s > PATIENCE_S:
                status.show(f"reading sessions: {number}")
            yield outline
    finally:
        status.hide()


# --- lines --------------------------------------------------------------------------------------
# The overview in lines, for people: at most 25 of them, unless all are asked for.
#
# What a session is called is its agent's, or its first prompt: redacted, and one line whatever it
# is.

SHOWN_MAX = 2
"""How many of each kind are told, unless all are asked for: so that all of it is 25 lines."""

COLUMNS = 80
TITLE_CHARACTERS_MIN = 16
NEEDING = frozenset(State) - {State.APPROVED, State.DONE, State.IDLE}
"""What a person is told of: it runs, or it does not go on by itself."""

NAME_CHARACTERS_MAX = 24

_WORD = re.compile(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*")


class Lines(Struct):
    """Writes the overview. `most` is how many of each kind are told, None for all.

    `held` has the sessions that are in our own record, by their address there.
    """

    output: Output
    redact: Redact
    now_ms: int
    most: int | None
    held: Mapping[str, str]

    # --- our own record ------------------------------------------------------------------------

    def write_record(self, views: Sequence[WorkstreamView]) -> None:
        """Write what of our own record runs, or needs somebody, the command that goes on below."""
        needing = [view for view in views if view.standing.state in NEEDING]
        if not needing:
            return
        told = needing[: self.most]
        number = f"{len(told)} of {counted(len(views), 'workstream')}: upthread ls"
        self.output.row(("In upthread's own record", "bold"), (f"  {number}", "dim"))
        for view in told:
            standing = view.standing
            name = one_line(view.workstream.workstream)
            said = f"{standing.state}: {standing_in_words(standing)}"
            self.output.row("  ", (name, "cyan"), (f"  {said}", "yellow"))
            if standing.command:
                self.output.command("    ", standing.command)

    # --- the agents' stores --------------------------------------------------------------------

    def write_all(self, totals: Totals, look: Look, open_in: Mapping[str, int]) -> None:
        """Write all that was found, what is here first."""
        if totals.agents:
            self._write_totals(totals)
            self._write_roles(totals)
            self._write_newest(totals, open_in)
            self._write_elsewhere(totals)
        elif look.passed_over or totals.foreign:
            self.output.line("What agents have stored here could not be read:", "bold")
        else:
            for text, style in _NOTHING:
                self.output.line(text, style)
        self._write_losses(totals, look)
        if totals.agents:
            more = ", --all" if self.most is not None and totals.sessions > self.most else ""
            next_words = f"upthread search WORDS, upthread setup AGENT{more}, --help"
            self.output.row(("Next: ", "bold"), next_words)

    def _write_totals(self, totals: Totals) -> None:
        """Write how many sessions each agent has, here first."""
        width = max(map(len, totals.agents))
        for agent, everywhere in totals.agents.items():
            here = totals.agents_here.get(agent, Numbers())
            last = ago(here.used_at_ms or everywhere.used_at_ms, now_ms=self.now_ms)
            told = f"{_both(here)} here · {_both(everywhere)} in all"
            self.output.row((f"  {agent:<{width}}", "cyan"), f"  {told}", (f" · {last}", "dim"))

    def _write_newest(self, totals: Totals, open_in: Mapping[str, int]) -> None:
        """Write the sessions open here, those that look cut off, then those gone on with last.

        The second, since somebody may wait for what they were to do. Of the first no command is
        told that opens them: a second writer loses a branch.
        """
        for each in totals.sessions_here:
            if pid := open_in.get(each.session_id):
                does = "at work" if each.ending == "interrupted" else "open"
                self._write_session(each, f"{each.agent}  {does} in process {pid}")
        free = [each for each in totals.sessions_here if each.session_id not in open_in]
        cut_off = [each for each in free if each.ending == "interrupted"]
        ended = [each for each in free if each.ending != "interrupted"]
        most = None if self.most is None else self.most - 1
        self._write_sessions("Cut off here", len(cut_off), cut_off[:most])
        self._write_sessions("Gone on with last here", len(ended), ended[:most])

    def _write_sessions(self, title: str, number: int, told: Sequence[SessionOutline]) -> None:
        if told:
            self.output.row((title, "bold"), (f"  {len(told)} of {number}", "dim"))
        for outline in told:
            age = ", too old to resume" if outline.is_too_old else ""
            self._write_session(outline, outline.agent + age)
            self._write_opening(opening_of(outline))

    def _write_opening(self, opening: Opening) -> None:
        lead = "    in its main session: " if opening.is_by_main else "    "
        for words in (opening.unarchive_command, opening.resume_command):
            if words:
                self.output.command(lead, quoted(*words))

    def _write_session(self, outline: SessionOutline, name: str) -> None:
        told = [ago(outline.used_at_ms, now_ms=self.now_ms)]
        if outline.tokens is not None:
            held = Tokens(count=outline.tokens, is_estimate=False)
            idle_s = (self.now_ms - outline.used_at_ms) / 1000
            cache = cache_state(outline.agent, idle_s=idle_s)
            told.append(
                f"{held.in_words} tokens" + ("" if cache == "unknown" else f", cache {cache}")
            )
        known = " · ".join(told)
        columns = max(self.output.columns or COLUMNS, COLUMNS)
        room = columns - len(name) - len(known) - len("  “”    ")
        title = one_line(outline.title(self.redact), characters_max=max(room, TITLE_CHARACTERS_MIN))
        said = f"“{title}”" if title else "without a title"
        self.output.row((f"  {name}", "cyan"), f"  {said}", (f"  {known}", "dim"))

    def _write_roles(self, totals: Totals) -> None:
        """Write the roles here whose sub-agents can be gone on with, and what that takes."""
        if not totals.sub_agents_here:
            return
        told = counted(len(totals.sub_agents_here), "sub-agent")
        self.output.row(("Roles here that can be gone on with", "bold"), (f"  {told}", "dim"))
        for role in totals.roles_here[: self.most]:
            newest = role[0]
            name = one_line(self.redact(newest.role), characters_max=NAME_CHARACTERS_MAX)
            number = f" ×{len(role)}" if len(role) > 1 else ""  # noqa: RUF001  # times
            self._write_session(newest, f"{name}{number}  {newest.agent}")
            self._write_way(newest)

    def _write_way(self, outline: SessionOutline) -> None:
        address = self.held.get(outline.session_id)
        if address:
            self.output.command("    ", f'{quoted("upthread", "tell", address)} "…"')
            return
        if not can_be_adopted(outline):
            self._write_opening(opening_of(outline))
            return
        session = one_line(outline.session_id)
        role = outline.role if _WORD.fullmatch(outline.role) else "ROLE"
        words = ("upthread", "adopt", f"WORKSTREAM/{role}", session, "--agent", outline.agent)
        self.output.command("    ", quoted(*words))

    def _write_elsewhere(self, totals: Totals) -> None:
        """Write which other directories there are, the newest first."""
        if not totals.elsewhere:
            return
        newest = sorted(totals.elsewhere.items(), key=lambda each: -each[1].used_at_ms)
        number = counted(len(newest), "directory", "directories")
        self.output.row(("Elsewhere", "bold"), (f"  {number}, the newest", "dim"))
        for directory, numbers in newest[: self.most]:
            place = one_line(self.redact(directory)) or "no directory"
            last = ago(numbers.used_at_ms, now_ms=self.now_ms)
            told = [counted(numbers.sessions, "session")] if numbers.sessions else []
            told += [counted(numbers.sub_agents, "sub-agent")] if numbers.sub_agents else []
            self.output.row((f"  {place}", "cyan"), f"  {', '.join((*told, last))}")

    # --- what may be lost ----------------------------------------------------------------------

    def _write_losses(self, totals: Totals, look: Look) -> None:
        """Write what will be deleted soon, what is damaged, and what was not reached."""
        for agent, soon in totals.soon.items():
            day = time.strftime("%Y-%m-%d", time.localtime(soon.first_at_ms // 1000))
            when = f"on {day}" if soon.first_at_ms > self.now_ms else "at any time now"
            here = f", {soon.here} of them here and not kept" if soon.here else ""
            self.output.line(
                f"{agent} deletes {counted(soon.sessions, 'session')} within {SOON_DAYS} days"
                f"{here}, the first {when}",
                "yellow",
            )
            ways = ["upthread keep --soon copies those here"] if soon.here else []
            home = one_line(short_path(home_of(agent, os.environ)))
            ways += [_KEPT_BY[agent].format(home)] if agent in _KEPT_BY else []
            self.output.line(f"  {'; '.join(ways)}", "dim")
        for agent in dict.fromkeys(agent for agent, _ in look.passed_over):
            reasons = {why: n for (whose, why), n in look.passed_over.items() if whose == agent}
            why = ", ".join(f"{number} {one_line(why)}" for why, number in reasons.items())
            said = f"{agent}: {counted(sum(reasons.values()), 'file')} not read ({why})"
            self.output.line(f"{said}: {quoted('upthread', 'doctor', agent)}", "yellow")
        foreign = sum(totals.foreign.values())
        if foreign:
            self.output.line(
                f"{counted(foreign, 'file')} of a form this upthread does not know: left alone",
                "dim",
            )
        if look.is_cut_short:
            self.output.line(
                f"not all were read: {look.sessions} sessions in the time there is", "yellow"
            )

    # --- for programs ---------------------------------------------------------------------------

    def shape(self, totals: Totals, look: Look, open_in: Mapping[str, int]) -> Shape:
        """Return all that is told as JSON, what is here first."""
        most = None if self.most is None else KEPT_MAX
        return {
            "agents": [
                {
                    "agent": agent,
                    "here": totals.agents_here.get(agent, Numbers()).shape,
                    "everywhere": everywhere.shape,
                }
                for agent, everywhere in totals.agents.items()
            ],
            "sessions": [self._session(each, open_in) for each in totals.sessions_here[:most]],
            "sub_agents": [self._session(each, open_in) for each in totals.sub_agents_here[:most]],
            "interrupted": sum(each.session_id not in open_in for each in totals.interrupted_here),
            "elsewhere": [
                {"directory": self.redact(directory), **numbers.shape}
                for directory, numbers in totals.elsewhere.items()
            ],
            "deleted_soon": [
                {"agent": agent, **members(soon, "sessions here first_at_ms")}
                for agent, soon in totals.soon.items()
            ],
            "passed_over": [
                {"agent": agent, "why": why, "files": number}
                for (agent, why), number in look.passed_over.items()
            ],
            "foreign": dict(totals.foreign),
            "is_cut_short": look.is_cut_short,
        }

    def _session(self, outline: SessionOutline, open_in: Mapping[str, int]) -> Shape:
        """Return one session; its commands are null where it is open, or opened for nobody."""
        opening, open_in_pid = opening_of(outline), open_in.get(outline.session_id)
        is_opened = open_in_pid is None and not opening.is_by_main
        return {
            **outline_shape(outline, self.redact),
            "parent_session_id": outline.parent_session_id or None,
            "model": outline.model or None,
            "cache": cache_state(outline.agent, idle_s=(self.now_ms - outline.used_at_ms) / 1000),
            "version": outline.version or None,
            **members(outline, "begun_at_ms tokens ending is_archived"),
            "open_in_pid": open_in_pid,
            "resume_command": opening.resume_command if is_opened else None,
            "unarchive_command": opening.unarchive_command,
        }


_NOTHING = (
    ("No sessions of Claude Code, OpenCode or Codex were found here.", "bold"),
    ('Try it without any: upthread tell demo/planner "hi" --agent rehearsal', ""),
    ("Which agents are here: upthread agents; what else there is: --help", ""),
)
"""What to do where no agent has stored anything."""

_KEPT_BY = {
    "claude-code": '"cleanupPeriodDays": 365 in {}/settings.json keeps all',
}
"""What keeps an agent from deleting sessions, in its home."""


def _both(numbers: Numbers) -> str:
    """Return `35 + 5 sub-agents`, `35` without any."""
    sub_agents = f" + {counted(numbers.sub_agents, 'sub-agent')}" if numbers.sub_agents else ""
    return f"{numbers.sessions}{sub_agents}"
