"""`upthread search`: hits as they come, each with the command that opens its session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec import Struct, to_builtins

from upthread.agent_stores.homes import store_of
from upthread.agent_stores.outline import SessionOutline, look
from upthread.agent_stores.text_search import Searched, Words
from upthread.agents.outlines import searched_sessions
from upthread.client.project import Project
from upthread.client.surroundings import Surroundings
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.search import Hit, found_in, own_hits
from upthread.surfaces.cli.sessions import opening_of
from upthread.surfaces.cli.terminal.neutral import (
    command as quoted,
)
from upthread.surfaces.cli.terminal.neutral import (
    midnight_ms,
    one_line,
)
from upthread.surfaces.cli.terminal.neutral import (
    since as when,
)
from upthread.surfaces.cli.terminal.phrases import counted

HITS_MAX: Final = 20
HITS_OF_SESSION_MAX: Final = 3
"""How many hits are shown, in all and of one session, without --all."""

SECONDS_MAX: Final = 3_600.0
"""A search reads everything; hits are shown as they come, so Ctrl-C loses none."""


class Asked(Struct, frozen=True, kw_only=True):
    """Which sessions are searched, and how many hits are shown."""

    role: str | None
    agent: str | None
    place: Path | None
    is_all: bool

    def takes(self, outline: SessionOutline) -> bool:
        """Return whether the filters take a session."""
        top = str(self.place.resolve()) if self.place else ""
        is_there = not top or Path(outline.directory).is_relative_to(top)
        return is_there and (self.role is None or outline.role == self.role)


@options.verb
@click.argument(
    "words", metavar="WORDS", nargs=-1, required=True, help="All of them, in one message."
)
@click.option("--role", metavar="ROLE", help="Only this role.")
@options.one_agent_only
@click.option(
    "--in",
    "place",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Only sessions in this directory.",
)
@click.option("--since", metavar="DATE", help="Only sessions used since, UTC.")
@click.option("--all", "is_all", is_flag=True, help="Every hit, not only the newest.")
def main(
    call: Call,
    *,
    words: Sequence[str],
    role: str | None,
    agent: str | None,
    place: Path | None,
    since: str | None,
    is_all: bool,
) -> None:
    """Search our record and all that the agents have stored, the newest session first."""
    call.is_stream = True
    asked = Asked(
        role=role, agent=None if agent is None else store_of(agent), place=place, is_all=is_all
    )
    sought = Words([*words])
    since_ms = midnight_ms(since, "--since 2026-11-20") if since else 0
    around = call.surroundings()
    seen = look(seconds_max=SECONDS_MAX)
    telling = _Telling(call, since_ms=since_ms, most=None if asked.is_all else HITS_MAX)
    _tell_own(call, around, sought, asked, telling)
    if not telling.is_full:
        with searched_sessions(os.environ, seen, agent=asked.agent) as sessions:
            _tell_theirs(sessions, sought, around, asked, telling)
    if telling.is_full:
        call.output.note("there may be more: --all, or more words", "dim")
    passed_over = sum(seen.passed_over.values())
    if call.output.is_json:
        result = {"hits": telling.told, "passed_over": passed_over}
        result["is_cut_short"] = seen.is_cut_short
        call.output.json({"type": "result", "status": "done", **result})
        return
    if not telling.told:
        call.output.note("nothing was found; all words have to be in one message", "dim")
    if passed_over:
        call.output.note(f"{counted(passed_over, 'file')} could not be read: upthread", "dim")


class _Telling:
    """Shows hits as they come, up to a maximum.

    `settled` are the agents' sessions that are not searched in their store as well: what is ours
    was told with its address, and what was forgotten here is not found again.
    """

    def __init__(self, call: Call, *, since_ms: int, most: int | None) -> None:
        self._call = call
        self._since_ms = since_ms
        self._most = most
        self.settled: set[str] = set()
        self.told = 0
        self.is_full = False

    def tell(self, hit: Hit) -> None:
        """Show a hit that is new enough. A hit above the maximum sets `is_full`."""
        if hit.at_ms < self._since_ms:
            return
        self.is_full = self.told == self._most
        if not self.is_full:
            self.told += 1
            _tell(self._call, hit)


def _tell_own(
    call: Call, around: Surroundings, words: Words, asked: Asked, telling: _Telling
) -> None:
    """Show the hits in our record."""
    if not around.has_record:
        return

    async def use(project: Project) -> None:
        for hit in own_hits(project, words, telling.settled):
            telling.settled.add(hit.session_id)
            is_asked = asked.role in {None, hit.role} and asked.agent in {None, hit.agent}
            if is_asked and asked.place is None:
                telling.tell(hit)
            if telling.is_full:
                return

    call.with_project(use)


def _tell_theirs(
    sessions: Iterator[Searched],
    words: Words,
    around: Surroundings,
    asked: Asked,
    telling: _Telling,
) -> None:
    """Show the hits in the agents' stores."""
    for session in sessions:
        for hit in _hits_of(session, words, around, asked):
            if hit.session_id in telling.settled:
                break
            telling.tell(hit)
            if telling.is_full:
                return


def _hits_of(session: Searched, words: Words, around: Surroundings, asked: Asked) -> Iterator[Hit]:
    outline: SessionOutline | None = None
    number = 0
    redact = around.redactor.redact
    for said in session.said(words):
        text = found_in(said, words, redact)
        if text is None:
            continue
        # Read with the first hit: of most sessions nothing has to be known.
        outline = outline or session.outline()
        if outline is None or not asked.takes(outline):
            return
        yield _hit(outline, said.speaker, said.at_ms or session.used_at_ms, text, around)
        number += 1
        if number == HITS_OF_SESSION_MAX and not asked.is_all:
            return


def _hit(outline: SessionOutline, speaker: str, at_ms: int, text: str, around: Surroundings) -> Hit:
    redact = around.redactor.redact
    opening = opening_of(outline)
    return Hit(
        agent=outline.agent,
        session_id=outline.session_id,
        speaker=speaker,
        at_ms=at_ms,
        text=text,
        directory=redact(outline.directory),
        role=redact(outline.role),
        title=outline.title(redact),
        resume_command=opening.resume_command,
        unarchive_command=opening.unarchive_command,
    )


def _tell(call: Call, hit: Hit) -> None:
    output = call.output
    if output.is_json:
        output.json({"type": "hit", **to_builtins(hit)})
        return
    name = hit.address or (f"{hit.agent}/{hit.role}" if hit.role else hit.agent)
    place = f"  {one_line(hit.directory)}" if hit.directory else ""
    output.row((one_line(name), "cyan"), (f"  {when(hit.at_ms)}{place}", "dim"))
    output.line(f"  {hit.speaker}: {one_line(hit.text)}")
    for words in (hit.unarchive_command, hit.resume_command):
        if words:
            output.command("    ", quoted(*words))
