"""The reader of an agent's own store: the port that each agent has, and what readers share.

A reader opens nothing for writing and leaves no file behind. What it cannot read it reports with
its place and leaves where it is. `home` is the directory that `agent_stores/homes.py` names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import re2
from msgspec import Struct, field

from upthread.agent_stores.base import Look, SessionOutline, VendorHistory, look
from upthread.agent_stores.lines import (
    LINE_BYTES_MAX,
    SUFFIX,
    CompressedError,
    Line,
    damage_of,
    decoded,
    ends_in,
    is_plain,
    last_time_ms,
    lines_from_end,
    lines_in,
    read_lines,
)
from upthread.boundary.directories import MORE_NAMES, Directory, FileEnds, open_below, walked
from upthread.core import types
from upthread.core.codec import encode_text
from upthread.core.events import AgentsCall
from upthread.core.history.model import faults
from upthread.core.turns.agent_history import StoredSession, UndecidedCall
from upthread.core.types import JsonValue, ToolCallPart, ToolResultPart, UpstreamSessionId
from upthread.errors import StoreError, UsageError


class Reader(Protocol):
    """Reads the sessions of one agent: by its id, listed, searched, diagnosed, and as events."""

    def read_session(self, home: Path, session: UpstreamSessionId, /) -> StoredSession | None:
        """Return a session as events, None where it is not there. Raises OSError, StoreError."""
        ...

    def stamp_of(self, home: Path, session: UpstreamSessionId, /) -> str:
        """Return what changes with each prompt of a session, empty where it is not there."""
        ...

    def version_of(self, home: Path, session: UpstreamSessionId, /) -> str:
        """Return the version of the agent that a session is of, empty where it is not known."""
        ...

    def writers_of(self, home: Path, sessions: Collection[str], /) -> Mapping[str, int]:
        """Return by session the process that has it open; left out where nobody has or can tell."""
        ...

    def outlines(self, home: Path, look: Look, /) -> Iterator[SessionOutline]:
        """Yield each session, by a row or by both ends of its file; counts what it passes over."""
        ...

    def sessions(self, home: Path, look: Look, held: ExitStack, /) -> Iterator[Searched]:
        """Yield each session to be searched, in any order; `held` keeps open what they read."""
        ...

    def find_histories(self, home: Path, walk: FileWalk | None = None, /) -> Iterator[Path]:
        """Yield each file that may hold sessions, a sub-agent's after its main session's.

        `walk` counts the places that cannot be read.
        """
        ...

    def read_histories(self, path: Path, /) -> Iterator[VendorHistory]:
        """Yield the sessions of a file as the agent would send them, texts outlined. StoreError."""
        ...

    def repair(
        self, path: Path, into: Path, /, *, session_id: str | None, sessions: Iterable[str]
    ) -> RepairedCopy:
        """Copy a file and repair the copy; UsageError where a copy is there already."""
        ...

    def read_stored(self, home: Path, call: AgentsCall, /) -> StoredSession | None:
        """Return a sub-agent's session by the call that made it. Otherwise as `read_session`."""
        ...

    def undecided_calls(self, home: Path, mark: str, since_ns: int, /) -> Iterator[UndecidedCall]:
        """Yield the calls of sub-agents beside which our hook wrote a mark since a moment."""
        ...


# --- search: all words in one message, in any case ------------------------------------------------

# What has none of them is passed over undecoded, a megabyte at a time, by RE2: linear in the text
# whatever the words. Matched is what a person reads, so a word with a quotation mark in it is
# looked for as JSON writes it first, and as it is in the text then.


WORDS_MAX = 20
WORD_CHARACTERS_MAX = 200
PIECE_BYTES = 1024 * 1024

TIMED_BYTES = 256 * 1024
"""How much of a file's end is searched for an entry with a time."""


class Said(Struct, frozen=True, kw_only=True):
    """One thing that was said in a session: by whom, and what. `at_ms` is None where unknown."""

    speaker: str
    text: str
    at_ms: int | None = None


class Searched(Struct, frozen=True, kw_only=True):
    """A session that is known by its place alone until something of it is asked for.

    `used_at_ms` is the latest time that it can have been used; `written_at_ns` reads that of its
    last entry, None where they are the same. `outline` returns None where it holds no session.
    `said` yields what may have the words, the newest last, each to be looked at again as it will be
    shown.
    """

    agent: str
    used_at_ms: int
    written_at_ns: Callable[[], int] | None = None
    outline: Callable[[], SessionOutline | None]
    said: Callable[[Words], Iterator[Said]]


class Words:
    """The words. UsageError for none, for too many, and for one that is too long."""

    def __init__(self, words: Sequence[str]) -> None:
        said = [word for each in words for word in each.split()]
        if not said or len(said) > WORDS_MAX or max(map(len, said)) > WORD_CHARACTERS_MAX:
            raise UsageError(
                f"a search takes 1 to {WORDS_MAX} words of at most {WORD_CHARACTERS_MAX} letters",
                hint="upthread search WORDS",
            )
        # The longest first: it is in the fewest lines.
        said.sort(key=len, reverse=True)
        stored = [json.dumps(each, ensure_ascii=False)[1:-1] for each in said]
        options = re2.Options()
        options.case_sensitive = False
        options.literal = True
        options.log_errors = False
        self._in_lines, self._in_text = (
            [re2.compile(encode_text(each), options=options) for each in words]
            for words in (stored, said)
        )
        self._is_plain = stored == said

    def place_in(self, text: str) -> int | None:
        """Return where the first of the words stands in a text that has them all, else None."""
        raw = encode_text(text)
        places = [match.start() for each in self._in_text if (match := each.search(raw))]
        if len(places) < len(self._in_text):
            return None
        return len(raw[: min(places)].decode("utf-8", "surrogatepass"))

    def may_be_in(self, raw: bytes) -> bool:
        """Return whether stored bytes have them all, be it as a name or in another message."""
        return all(each.search(raw) for each in self._in_lines)

    def may_be_in_parts(self, raw: bytes) -> bool:
        """Return whether parts as our record stores them have them all: texts, and JSON."""
        if self._is_plain:
            return self.may_be_in(raw)
        return all(
            in_line.search(raw) or in_text.search(raw)
            for in_line, in_text in zip(self._in_lines, self._in_text, strict=True)
        )

    def lines_of(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the lines of a stream that have them all. A line that is too long has none.

        What comes after a byte that no text has is not read: that file is no transcript, or was
        cut off there by a crash. Sparse ones are as large as they say they are.
        """
        left: list[bytes] = []
        for piece in _pieces(stream):
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield from self._lines_in(b"".join([*left, piece[:cut]]))
                left.clear()
            left.append(piece[cut:])
            if sum(map(len, left)) > LINE_BYTES_MAX:
                left.clear()
        yield from self._lines_in(b"".join(left))

    def _lines_in(self, block: bytes) -> Iterator[bytes]:
        start = 0
        while match := self._in_lines[0].search(block, start):
            begun = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.end())
            start = len(block) if end < 0 else end
            line = block[begun:start]
            if all(each.search(line) for each in self._in_lines[1:]):
                yield line


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(PIECE_BYTES):
        text, nul, _ = piece.partition(b"\0")
        yield text
        if nul:
            return


def said_of(part: types.Part, *, speaker: str, at_ms: int | None) -> Iterator[Said]:
    """Yield the text of a part of a message, if it has one."""
    match part:
        case types.TextPart(text=text) | types.ReasoningPart(text=text):
            pass
        case types.ToolResultPart(text=text):
            speaker = "tool"
        case types.ToolCallPart(arguments=arguments):
            speaker, text = "tool", "\n".join(texts_in(arguments))
        case types.UnknownPart(raw=raw):
            text = "\n".join(texts_in(raw))
        case _:
            return
    if text:
        yield Said(speaker=speaker, text=text, at_ms=at_ms)


def texts_in(value: JsonValue) -> Iterator[str]:
    """Yield the texts in a value, of whatever form a tool has given it.

    What kind a block of text is, the agent says: nobody has said it in the session.
    """
    waiting = [value]
    while waiting:  # no recursion: what agents store may be nested deeper than our stack
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            is_block = isinstance(each.get("type"), str) and isinstance(each.get("text"), str)
            said = (inner for name, inner in each.items() if not (is_block and name == "type"))
            waiting.extend(reversed([*said]))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


# --- files of lines: found, known by both their ends, and searched --------------------------------

# No link is followed. What is passed over is counted by its reason.


class LineFile(Struct, frozen=True):
    """A file by the directory that holds it open, and its name there."""

    directory: Directory
    name: str

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.directory.path}/{self.name}"


class FileWalk(Struct, frozen=True):
    """A walk through one agent's files, which counts what it passes over, each place once."""

    agent: str = ""
    look: Look = field(default_factory=look)
    counted: set[tuple[str, str]] = set()

    def files(self, top: Path, *levels: str, is_ordinary: bool = True) -> Iterator[LineFile]:
        """Yield the files whose names fit a pattern for each level, as `walked` has them."""
        found = walked(str(top), *levels, pass_over=self._count, is_ordinary=is_ordinary)
        for directory, name in found:
            yield LineFile(directory, name)

    def _count(self, place: str, why: str, number: int) -> None:
        if why == MORE_NAMES:
            self.look.is_cut_short |= bool(number)
        elif number and (place, why) not in self.counted:
            self.counted.add((place, why))
            self.look.pass_over(self.agent, why, number)

    def ends(self, file: LineFile, *, head_bytes: int, tail_bytes: int) -> FileEnds | None:
        """Return both ends of what a file holds, None where it cannot be read, which is counted."""
        try:
            ends = file.directory.ends(file.name, head_bytes=head_bytes, tail_bytes=tail_bytes)
            if is_plain(file.name):
                return ends
            with file.directory.streamed(file.name) as stream:
                held = ends_in(stream, file.name, head_bytes=head_bytes, tail_bytes=tail_bytes)
            return FileEnds(ends.size_bytes, ends.written_at_ms, *held)
        except OSError as error:
            self.pass_over(error)
            return None

    def is_sound(self, ends: FileEnds) -> bool:
        """Return whether a file holds lines, as far as its ends say; counts one that does not."""
        damage = damage_of(ends)
        self.look.pass_over(self.agent, damage, bool(damage))
        return not damage

    def pass_over(self, error: OSError) -> None:
        """Count what cannot be read."""
        why = "not Zstandard" if isinstance(error, CompressedError) else str(error.strerror)
        self.look.pass_over(self.agent, why)


def written_at_ns(path: Path) -> int:
    """Return when a session's last entry was written, in epoch nanoseconds; 0 without a file."""
    with suppress(OSError):  # what cannot be read is refused where it is opened
        at_ms = last_time_ms(lines_from_end(path, TIMED_BYTES))
        if at_ms is not None:  # it counts in milliseconds: the whole of the last one is its own
            return (at_ms + 1) * 1_000_000
    return path.lstat().st_mtime_ns if os.path.lexists(path) else 0


def facts_in(
    lines: Iterable[bytes],
    wanted: AbstractSet[str],
    facts_of: Callable[[bytes, AbstractSet[str]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what lines say of their session, until all that is wanted is known; the first counts.

    `facts_of` gives the facts of a line. It is given the names that are still missing, so that a
    line with none of them is not decoded.
    """
    known: dict[str, Any] = {}
    missing = wanted
    for line in lines:
        if told := facts_of(line, missing):
            new = {name: value for name, value in told.items() if value not in (None, "")}
            known = {**new, **known}
            missing = wanted - known.keys()
            if not missing:
                break
    return known


def searched(
    walk: FileWalk,
    top: Path,
    files: Iterable[LineFile],
    *,
    outline_of: Callable[[FileWalk, LineFile], SessionOutline | None],
    said_in: Callable[[dict[str, Any]], Iterator[Said]],
) -> Iterator[Searched]:
    """Yield each file's session for a search; a file is opened again, from the top, to be read."""

    def outline(place: str, name: str) -> SessionOutline | None:
        try:
            with open_below(str(top), place) as directory:
                return outline_of(walk, LineFile(directory, name))
        except OSError as error:
            walk.pass_over(error)
            return None

    def said(place: str, name: str, words: Words) -> Iterator[Said]:
        try:
            with open_below(str(top), place) as directory, directory.streamed(name) as raw:
                for line in words.lines_of(lines_in(raw, name)):
                    yield from said_in(decoded(line))
        except OSError as error:  # what was said before it was told
            walk.pass_over(error)

    for file in files:
        place = file.directory.path
        yield Searched(
            agent=walk.agent,
            used_at_ms=file.directory.written_at_ms(file.name),
            written_at_ns=partial(written_at_ns, Path(file.path)),
            outline=partial(outline, place, file.name),
            said=partial(said, place, file.name),
        )


# --- repair of a store, in a copy: the original is only read, and both are kept -------------------

# Beside each other in a directory of ours (0700, files 0600): `before/` is the original byte for
# byte, `after/` the copy that was changed. Putting it in the original's place is left to a person,
# who knows whether the agent is running. The copy is read again, and what is still wrong is said.


_SHOWN_CHARACTERS = 200


class Edit(Struct, frozen=True, kw_only=True):
    """One place that differs between the copies, in words; None for what is not there."""

    place: str
    before: str | None
    after: str | None
    why: str


class RepairedCopy(Struct, frozen=True, kw_only=True):
    """A repaired copy. `left` is what is still wrong with it, empty when it is valid."""

    source: Path
    before: Path
    after: Path
    edits: tuple[Edit, ...]
    left: tuple[str, ...]


def still_wrong(history: VendorHistory) -> Iterator[str]:
    """Yield what is wrong with a history, each `SESSION PLACE: WHAT`; what is unreadable last."""
    for fault in faults(history.history):
        yield f"{history.session_id} {fault.place}: {fault.what}"
    for each in history.unreadable:
        yield f"{history.session_id} {each.place}: {each.why}"


def prepare(into: Path, path: Path) -> tuple[Path, Path]:
    """Make the two directories, and return where the copies go."""
    try:
        # Parents one by one: mkdir gives those it makes on the way the umask's mode.
        missing = [each for each in (into, *into.parents) if not each.exists()]
        for directory in (*reversed(missing), into / "before", into / "after"):
            directory.mkdir(mode=0o700)
    except FileExistsError as error:
        raise UsageError(
            f"{into} has a repaired copy already", hint="name another place with --into"
        ) from error
    except OSError as error:
        raise StoreError(
            f"{into} cannot be made: {error.strerror}", hint="name another place with --into"
        ) from error
    return into / "before" / path.name, into / "after" / path.name


def keep(source: Path, copy: Path) -> None:
    """Copy a file byte for byte, for nobody else to read."""
    # Made first: a copy that shutil makes is for all to read who the umask lets.
    copy.touch(mode=0o600)
    shutil.copyfile(source, copy)


class Plan(Struct):
    """What is to be done, by call id, and what has been met on the way."""

    open_calls: set[str]
    made: set[str] = set()
    answered: set[str] = set()
    parents: dict[str, str] = {}
    edits: list[Edit] = []

    def takes(self, call_id: str) -> bool:
        """Whether a result belongs to a call before it, and is the first."""
        if call_id in self.answered or call_id not in self.made:
            return False
        self.answered.add(call_id)
        return True

    def edit(self, line: Line, why: str, after: str | None = None, *, is_new: bool = False) -> None:
        before = None if is_new else _shown(line.raw.decode("utf-8", "backslashreplace"))
        shown = None if after is None else _shown(after)
        self.edits.append(Edit(place=line.place, before=before, after=shown, why=why))


def repaired_lines(
    path: Path,
    into: Path,
    read: Callable[[Path], Iterator[VendorHistory]],
    rewrite: Callable[[Line, Plan], Iterator[bytes]],
) -> RepairedCopy:
    """Copy a session that is a file of lines, each as `rewrite` has it; all others stay as bytes.

    What to do is decided by core/history: calls without a result are closed, results without a call
    and second ones go. Lines that cannot be read are left out, and stay in the one kept before.
    """
    (history,) = read(path)
    before, after = prepare(into, path)
    # What was compressed is plain once it is repaired, and of two its agent takes the plain one.
    if not is_plain(path.name):
        after = after.with_suffix("" if after.suffix == SUFFIX else ".jsonl")
    keep(path, before)
    parts = [part for message in history.history for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    plan = Plan(open_calls=calls - answered)
    after.touch(mode=0o600)
    with after.open("wb") as copy:
        # Of what was kept: the agent may be writing to its own file meanwhile.
        for line in read_lines(before):
            if line.why:
                plan.edit(line, line.why)
            else:
                copy.writelines(raw + b"\n" for raw in rewrite(line, plan))
    # Read again: that it is mended is told by what a reader finds, not by the plan.
    left = tuple(line for each in read(after) for line in still_wrong(each))
    return RepairedCopy(source=path, before=before, after=after, edits=tuple(plan.edits), left=left)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
