"""Files of lines in an agent's store: found, known by both their ends, and searched.

No link is followed. What is passed over is counted by its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from upthread.agent_stores.compressed import SUFFIX, CompressedError, expanded_ends
from upthread.agent_stores.compressed import expanded as expanded_stream
from upthread.agent_stores.lines import damage_of, decoded
from upthread.agent_stores.outline import Look, SessionOutline
from upthread.agent_stores.text_search import Said, Searched, Words
from upthread.boundary.directories import MORE_NAMES, Directory, FileEnds, open_below, walked


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

    agent: str
    look: Look
    counted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def files(self, top: Path, *levels: str, is_ordinary: bool = True) -> Iterator[LineFile]:
        """Yield the files whose names fit a pattern for each level, as `walked` has them."""
        found = walked(str(top), *levels, pass_over=self._count, is_ordinary=is_ordinary)
        for directory, name in found:
            yield LineFile(directory, name)

    def _count(self, place: str, why: str, number: int) -> None:
        if why == MORE_NAMES:
            self.look.is_cut_short |= bool(number)
        elif (place, why) not in self.counted:
            self.counted.add((place, why))
            self.look.pass_over(self.agent, why, number)

    def ends(self, file: LineFile, *, head_bytes: int, tail_bytes: int) -> FileEnds | None:
        """Return both ends of what a file holds, None where it cannot be read, which is counted."""
        try:
            ends = file.directory.ends(file.name, head_bytes=head_bytes, tail_bytes=tail_bytes)
            if not file.name.endswith(SUFFIX):
                return ends
            with file.directory.streamed(file.name) as stream:
                expanded = expanded_ends(stream, head_bytes=head_bytes, tail_bytes=tail_bytes)
            return FileEnds(ends.size_bytes, ends.written_at_ms, *expanded)
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
                stream = expanded_stream(raw) if name.endswith(SUFFIX) else raw
                for line in words.lines_of(stream):
                    yield from said_in(decoded(line))
        except OSError as error:  # what was said before it was told
            walk.pass_over(error)

    for file in files:
        place = file.directory.path
        yield Searched(
            agent=walk.agent,
            used_at_ms=file.directory.written_at_ms(file.name),
            outline=partial(outline, place, file.name),
            said=partial(said, place, file.name),
        )
