"""`upthread search`: hits as they come, each with the command that opens its session.

A text is redacted before it is searched: a word that redaction takes out is no hit. Of a long
message only the part around the words is redacted.
"""

import os
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import click
from msgspec import Struct, to_builtins

from upthread.agent_stores.base import SessionOutline, look
from upthread.agent_stores.homes import store_of
from upthread.agent_stores.reader import Said, Searched, Words, texts_in
from upthread.agents.stored import searched_sessions
from upthread.client.parts import Command
from upthread.client.project import Project
from upthread.client.project_opener import Surroundings
from upthread.client.stores import conversations_in
from upthread.core.types import (
    Conversation,
    ErasedPart,
    Link,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from upthread.store.base import Store
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.sessions import Redact, opening_of
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import counted, midnight_ms, one_line
from upthread.surfaces.cli.terminal.phrases import since as when

HITS_MAX = 20
"""How many hits are shown without --all. Of a session or conversation, one."""

SECONDS_MAX = 3_600.0
"""A search reads everything; hits are shown as they come, so Ctrl-C loses none."""


CONTEXT_CHARACTERS = 120
REDACTED_CHARACTERS = 128 * 1024
"""So much around the words is redacted: more than the longest secret."""

MESSAGES_AT_ONCE = 128


class Hit(Struct, frozen=True, kw_only=True):
    """Words that were found: in which session, who said them, and what stands around them.

    `address` and `message` are set for what is in our own record: a number from 1.
    `resume_command` is what opens it, `unarchive_command` what comes before that for a session that
    was archived.
    """

    agent: str
    session_id: str
    speaker: str
    at_ms: int
    text: str
    directory: str
    role: str
    title: str = ""
    address: str = ""
    message: int | None = None
    resume_command: Command | None
    unarchive_command: Command | None = None


def found_in(said: Said, words: Words, redact: Redact) -> str | None:
    """Return what stands around the words in a text, None where they are not in it."""
    place = words.place_in(said.text)
    if place is None:
        return None
    start = max(0, place - REDACTED_CHARACTERS // 2)
    around = redact(said.text[start : start + REDACTED_CHARACTERS])
    place = words.place_in(around)
    if place is None:
        return None
    begun = max(0, place - CONTEXT_CHARACTERS // 3)
    text = " ".join(around[begun : begun + CONTEXT_CHARACTERS].split())
    return f"{'…' if begun else ''}{text}{'…' if begun + CONTEXT_CHARACTERS < len(around) else ''}"


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
@options.flag("--all", "is_all", "Every hit, not only the newest.")
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
    search = _Search(
        call=call,
        around=call.surroundings(),
        words=Words([*words]),
        role=role,
        agent=None if agent is None else store_of(agent),
        place=place,
        since_ms=midnight_ms(since, "--since 2026-11-20") if since else 0,
        is_all=is_all,
    )
    seen = look(seconds_max=SECONDS_MAX)
    search.own()
    if not search.is_full:
        with searched_sessions(os.environ, seen, agent=search.agent) as sessions:
            search.theirs(sessions)
    if search.is_full or search.has_left_out:
        call.output.note("there may be more: --all, or more words", "dim")
    passed_over = sum(seen.passed_over.values())
    call.output.json(
        {
            "type": "result",
            "status": "done",
            "hits": search.told,
            "passed_over": passed_over,
            "is_cut_short": seen.is_cut_short,
        }
    )
    if not search.told:
        call.output.remark("nothing was found; all words have to be in one message", "dim")
    if passed_over:
        call.output.remark(f"{counted(passed_over, 'file')} could not be read: upthread", "dim")


class _Search(Struct, kw_only=True):
    """Shows hits as they come, up to a maximum.

    `role`, `agent` and `place` say which sessions are searched, `is_all` that every hit is shown.
    `settled` are the agents' sessions that are not searched in their store as well: what is ours
    was told with its address, and what was forgotten here is not found again.
    """

    call: Call
    around: Surroundings
    words: Words
    role: str | None
    agent: str | None
    place: Path | None
    since_ms: int
    is_all: bool
    settled: set[str] = set()
    told: int = 0
    is_full: bool = False
    has_left_out: bool = False

    def own(self) -> None:
        """Show the hits in our record."""
        if not self.around.has_record:
            return

        async def use(project: Project) -> None:
            told: set[str] = set()
            for hit in own_hits(project, self.words, self.settled):
                self.settled.add(hit.session_id)
                is_asked = self.role in {None, hit.role} and self.agent in {None, hit.agent}
                if hit.address in told and not self.is_all:
                    self.has_left_out = True
                elif is_asked and self.place is None:
                    self._tell(hit)
                    told.add(hit.address)
                if self.is_full:
                    return

        self.call.with_project(use)

    def theirs(self, sessions: Iterator[Searched]) -> None:
        """Show the hits in the agents' stores."""
        for session in sessions:
            searched = ""
            for number, hit in enumerate(self._hits_of(session)):
                self.has_left_out |= number > 0 and not self.is_all
                if hit.session_id in self.settled or (number and not self.is_all):
                    break
                self._tell(hit)
                searched = hit.session_id
                if self.is_full:
                    return
            self.settled.add(searched)  # what follows of it is an older copy

    def _tell(self, hit: Hit) -> None:
        """Show a hit that is new enough. A hit above the maximum sets `is_full`."""
        if hit.at_ms < self.since_ms:
            return
        self.is_full = not self.is_all and self.told == HITS_MAX
        if not self.is_full:
            self.told += 1
            output = self.call.output
            output.json({"type": "hit", **to_builtins(hit)})
            name = hit.address or (f"{hit.agent}/{hit.role}" if hit.role else hit.agent)
            place = f"  {one_line(hit.directory)}" if hit.directory else ""
            output.row((one_line(name), "cyan"), (f"  {when(hit.at_ms)}{place}", "dim"))
            at = f", message {hit.message}" if hit.message else ""
            output.line(f"  {hit.speaker}{at}: {one_line(hit.text)}")
            for words in (hit.unarchive_command, hit.resume_command):
                if words:
                    output.command("    ", quoted(*words))

    def _hits_of(self, session: Searched) -> Iterator[Hit]:
        outline: SessionOutline | None = None
        redact = self.around.redactor.redact
        for said in session.said(self.words):
            text = found_in(said, self.words, redact)
            if text is None:
                continue
            # Read with the first hit: of most sessions nothing has to be known.
            outline = outline or session.outline()
            if outline is None or self.role not in {None, outline.role}:
                return
            if self.place and not Path(outline.directory).is_relative_to(self.place.resolve()):
                return
            opening = opening_of(outline)
            yield Hit(
                agent=outline.agent,
                session_id=outline.session_id,
                speaker=said.speaker,
                at_ms=said.at_ms or session.used_at_ms,
                text=text,
                directory=redact(outline.directory),
                role=redact(outline.role),
                title=outline.title(redact),
                resume_command=opening.resume_command,
                unarchive_command=opening.unarchive_command,
            )


# --- our own record ------------------------------------------------------------------------------
# Hits in our own record, and which of the agents' sessions were forgotten here.
#
# What a person had us forget is not found again in an agent's own copy of it. The record is gone
# through from its newest end, some messages at a time: however much there is, the newest hit is
# told at once, and no more is held than those. Most are looked at as they are stored, and never
# made.


def own_hits(project: Project, words: Words, forgotten: set[str]) -> Iterator[Hit]:
    """Yield the hits of a project's record, of the conversation first that was used last.

    `forgotten` is given the sessions of which something was erased: all of them, at the end.
    """
    store = project.store
    used = [
        (newest.recorded_at_ms, each)
        for each in conversations_in(store, project.project_id)
        for newest in store.messages(each.conversation_id, newest=1)
    ]
    for _, conversation in sorted(used, key=itemgetter(0), reverse=True):
        by_session: dict[str, Link] | None = None
        for message in _backwards(store, conversation, words):
            if by_session is None:  # most conversations have none of the words
                links = store.links(conversation.conversation_id)
                by_session = {str(each.upstream_session_id): each for each in links}
            session = message.upstream_session_id
            if session and any(isinstance(part, ErasedPart) for part in message.parts):
                forgotten.add(session)
            link = by_session.get(session) if session else None
            yield from _own_hits_of(message, conversation, link, words)


def _backwards(store: Store, conversation: Conversation, words: Words) -> Iterator[Message]:
    """Yield a conversation's messages that may have the words, the newest first.

    And those of which something was erased.
    """
    owner, until = conversation.conversation_id, store.message_count(conversation.conversation_id)
    while until > 0:
        after = max(0, until - MESSAGES_AT_ONCE)
        contents = store.said_in_messages(owner, after_seq=after, first=until - after)
        # At once, for which there is one call of RE2; a line end is in no word.
        if None in contents or words.may_be_in_parts(
            b"\n".join(_unescaped(each) for each in contents if each is not None)
        ):
            yield from reversed(store.messages(owner, after_seq=after, first=until - after))
        until = after


def _unescaped(content: bytes) -> bytes:
    """Return JSON with its texts as they are, but for control characters, which no word has."""
    if b"\\" not in content:
        return content
    return content.replace(b"\\\\", b"\0").replace(b'\\"', b'"').replace(b"\0", b"\\")


def _own_hits_of(
    message: Message, conversation: Conversation, link: Link | None, words: Words
) -> Iterator[Hit]:
    for said in _said(message):
        # It was redacted, or was to be kept whole, when it was written.
        text = found_in(said, words, str)
        if text is not None:
            yield Hit(
                agent=link.agent if link else "",
                session_id=message.upstream_session_id or "",
                speaker=said.speaker,
                at_ms=message.recorded_at_ms,
                text=text,
                directory=link.working_directory if link else "",
                role=conversation.key.role,
                address=conversation.address,
                message=message.seq,
                resume_command=("upthread", "show", conversation.address),
            )


def _said(message: Message) -> Iterator[Said]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield Said(speaker=str(message.speaker), text=part.text)
        elif isinstance(part, ToolResultPart):
            yield Said(speaker="tool", text=part.text)
        elif isinstance(part, ToolCallPart):
            yield Said(speaker="tool", text="\n".join((part.title, *texts_in(part.arguments))))
