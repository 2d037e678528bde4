"""Outlines of Codex's threads: `sessions/Y/M/D/rollout-*.jsonl`, plain or compressed, and archived.

Since 0.137 a rollout that is older than 7 days may be `.jsonl.zst`, and what a person archived lies
in `archived_sessions/`. Where a thread is there both ways, the plain file is the newer one. Titles
that a person gave are in `session_index.jsonl`, the last one of a thread counts. A sub-agent names
its parent in its first line. Seen in 0.144 to 0.169.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import structs

from upthread.agent_stores.compressed import SUFFIX, CompressedError, expanded_ends
from upthread.agent_stores.lines import damage_of, decoded, lines_backward, lines_forward
from upthread.agent_stores.outline import Ending, Look, SessionOutline, epoch_ms, text_in, title_of
from upthread.boundary.directories import Directory, FileEnds, open_directory
from upthread.core.agents import AGENTS
from upthread.core.history.rules import JsonObject, object_of, text_of

AGENT: Final = "codex"
HEAD_BYTES: Final = 64 * 1024
"""The first line has the instructions of the whole thread."""

TAIL_BYTES: Final = 32 * 1024
INDEX_BYTES_MAX: Final = 4 * 1024 * 1024
LEVELS: Final = 3
"""Year, month and day."""

_SESSIONS: Final = "sessions"
_ARCHIVED: Final = "archived_sessions"
_PREFIX: Final = "rollout-"
_LINES: Final = ".jsonl"
_STAMP_CHARACTERS: Final = len("2026-11-23T01-24-53-")
_ENDINGS: Final[Mapping[str, Ending]] = {
    "task_complete": "ended",
    "turn_complete": "ended",
    "task_started": "interrupted",
    "turn_started": "interrupted",
    "turn_aborted": "interrupted",
}
_HEADING: Final = 400
"""Within so many bytes a line says what it is: what is long in it comes after."""


def outlines(home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each thread under a Codex home (`~/.codex`), the newest days first."""
    given = titles(home)
    told: set[str] = set()
    for directory, name in files(home, look):
        if not look.goes_on():
            return
        outline = outline_of(directory, name, look)
        # What was archived while it was copied stands in both places: the first is the newer.
        if outline is not None and outline.session_id not in told:
            told.add(outline.session_id)
            yield entitled(outline, given)


def entitled(outline: SessionOutline, given: Mapping[str, str]) -> SessionOutline:
    """Return an outline with the title that a person gave the thread, where one did."""
    return structs.replace(
        outline,
        unredacted_title=title_of(given.get(outline.session_id) or outline.unredacted_title),
    )


def files(home: Path, look: Look) -> Iterator[tuple[Directory, str]]:
    """Yield each rollout by the directory that is held and its name there."""
    for place, levels in ((_SESSIONS, LEVELS), (_ARCHIVED, 0)):
        try:
            top = open_directory(str(home / place))
        except FileNotFoundError:
            continue
        except OSError as error:
            look.pass_over(AGENT, f"{error.strerror}: {home / place}")
            continue
        with top:
            yield from _below(top, levels, look)


def _below(directory: Directory, levels: int, look: Look) -> Iterator[tuple[Directory, str]]:
    names = directory.names()
    look.is_cut_short |= names.is_cut_short
    look.pass_over(AGENT, "no ordinary file", names.others)
    if not levels:
        yield from ((directory, name) for name in _rollouts(names.files))
        return
    for name in sorted(names.directories, reverse=True):
        try:
            inner = directory.within(name)
        except OSError as error:
            look.pass_over(AGENT, str(error.strerror))
            continue
        with inner:
            yield from _below(inner, levels - 1, look)


def _rollouts(names: Sequence[str]) -> Iterator[str]:
    present = set(names)
    for name in sorted(names, reverse=True):
        plain = name.removesuffix(SUFFIX)
        is_second = name != plain and plain in present
        if plain.startswith(_PREFIX) and plain.endswith(_LINES) and not is_second:
            yield name


def outline_of(directory: Directory, name: str, look: Look) -> SessionOutline | None:
    """Return the outline of a rollout, None where it holds no thread, which is counted."""
    try:
        ends = _ends(directory, name)
    except CompressedError:
        look.pass_over(AGENT, "not Zstandard")
        return None
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))
        return None
    damage = damage_of(ends)
    if damage:
        look.pass_over(AGENT, damage)
        return None
    outline = _outline(ends, directory.path, name)
    return structs.replace(outline, is_archived=directory.path.endswith(f"/{_ARCHIVED}"))


def _ends(directory: Directory, name: str) -> FileEnds:
    ends = directory.ends(name, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
    if not name.endswith(SUFFIX):
        return ends
    with directory.streamed(name) as file:
        head, tail, is_whole = expanded_ends(file, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
    return FileEnds(ends.size_bytes, ends.written_at_ms, head, tail, is_whole)


def _outline(ends: FileEnds, place: str, name: str) -> SessionOutline:
    meta, prompt, model = _of_head(ends)
    tail = _of_tail(ends)
    payload = object_of(meta.get("payload"))
    thread = name.removesuffix(SUFFIX).removesuffix(_LINES).removeprefix(_PREFIX)
    spawned = _spawned(payload)
    return SessionOutline(
        agent=AGENT,
        session_id=text_of(payload.get("id")) or thread[_STAMP_CHARACTERS:],
        path=f"{place}/{name}",
        parent_session_id=text_of(payload.get("parent_thread_id"))
        or text_of(spawned.get("parent_thread_id")),
        role=text_of(payload.get("agent_role")) or text_of(spawned.get("agent_role")),
        unredacted_title=title_of(prompt),
        directory=text_of(payload.get("cwd")),
        branch=text_of(object_of(payload.get("git")).get("branch")),
        begun_at_ms=epoch_ms(text_of(meta.get("timestamp"))),
        used_at_ms=ends.written_at_ms,
        model=tail.model or model,
        tokens=tail.tokens,
        size_bytes=ends.size_bytes,
        version=text_of(payload.get("cli_version")),
        ending=tail.ending or "unknown",
        is_foreign=not payload,
    )


def _spawned(payload: JsonObject) -> JsonObject:
    return object_of(
        object_of(object_of(payload.get("source")).get("subagent")).get("thread_spawn")
    )


def _of_head(ends: FileEnds) -> tuple[JsonObject, str, str]:
    """Return the line that describes the thread, its first prompt, and the first model."""
    meta: JsonObject = {}
    prompt, model = "", ""
    for line in lines_forward(ends):
        heading = line[:_HEADING]
        if not meta and b"session_meta" in heading:
            meta = decoded(line)
        elif not model and b"turn_context" in heading:
            model = text_of(object_of(decoded(line).get("payload")).get("model"))
        elif not prompt and b'"user' in heading:
            prompt = _prompt(object_of(decoded(line).get("payload")))
            prompt = prompt.rpartition(AGENTS[AGENT].request_heading)[2].lstrip()
        if meta and prompt and model:
            break
    return meta, prompt, model


def _prompt(payload: JsonObject) -> str:
    if payload.get("type") == "user_message":
        return text_of(payload.get("message"))
    if payload.get("type") != "message" or payload.get("role") != "user":
        return ""
    content = payload.get("content")
    said = text_in(content)
    # What Codex itself puts before a prompt is in angle brackets, or names the file it is from.
    return "" if said.lstrip().startswith(("<", "# AGENTS.md")) else said


class _Tail:
    """What the last lines tell: the model, what it held, how it ended."""

    def __init__(self) -> None:
        self.model = ""
        self.tokens: int | None = None
        self.ending: Ending | None = None

    @property
    def is_full(self) -> bool:
        return bool(self.model and self.tokens is not None and self.ending)

    def take(self, line: bytes) -> None:
        heading = line[:_HEADING]
        if b"event_msg" in heading:
            payload = object_of(decoded(line).get("payload"))
            kind = text_of(payload.get("type"))
            self.ending = self.ending or _ENDINGS.get(kind)
            if kind == "token_count" and self.tokens is None:
                self._weigh(object_of(payload.get("info")))
        elif not self.model and b"turn_context" in heading:
            self.model = text_of(object_of(decoded(line).get("payload")).get("model"))

    def _weigh(self, info: JsonObject) -> None:
        held = object_of(info.get("last_token_usage")).get("total_tokens")
        self.tokens = held if isinstance(held, int) else None


def _of_tail(ends: FileEnds) -> _Tail:
    tail = _Tail()
    for line in lines_backward(ends):
        if tail.is_full:
            break
        tail.take(line)
    return tail


def titles(home: Path) -> Mapping[str, str]:
    """Return the titles that people gave, by the thread."""
    found: dict[str, str] = {}
    with suppress(OSError), open_directory(str(home)) as directory:
        ends = directory.ends("session_index.jsonl", head_bytes=0, tail_bytes=INDEX_BYTES_MAX)
        for line in lines_backward(ends):
            value = decoded(line)
            found.setdefault(text_of(value.get("id")), text_of(value.get("thread_name")))
    return found
