"""Outlines of Claude Code's sessions: `projects/*/*.jsonl`, with their sub-agents beneath.

Sub-agents lie in `<session>/subagents/agent-*.jsonl`, with a `.meta.json` beside each; before 2.0
they lay beside their session, and say in each line which one it is. Seen in 2.1.197 to 2.1.330.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import structs

from upthread.agent_stores.lines import (
    damage_of,
    decoded,
    lines_backward,
    lines_forward,
    read_object,
)
from upthread.agent_stores.outline import (
    DAY_MS,
    Ending,
    Look,
    SessionOutline,
    epoch_ms,
    text_in,
    title_of,
)
from upthread.agents.claude_code.entries import SUBAGENTS
from upthread.boundary.directories import Directory, FileEnds, open_directory
from upthread.boundary.files import read_all, through_links
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of

AGENT: Final = "claude-code"
# What a list shows stands at a transcript's ends: directory and branch in its first entry, title
# and last words in its last. Nobody who asks for a list waits until all of them are read whole.
HEAD_BYTES: Final = 16 * 1024
TAIL_BYTES: Final = 32 * 1024
FAR_BYTES: Final = 512 * 1024
"""Where the usual ends hold no message: what Claude Code attaches can be long."""

KEPT_DAYS: Final = 30
"""What `cleanupPeriodDays` is where nobody has set it."""

SETTINGS_BYTES_MAX: Final = 1024 * 1024
_META: Final = ".meta.json"
_LINES: Final = ".jsonl"
_BESIDE: Final = "agent-"
_HEADING_BYTES: Final = 200
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""What a person called it, what a model called it, and what older versions did; first is best."""

_LAST_PROMPT: Final = "last-prompt"
"""Written anew at each turn's end: of use where the first prompt is longer than what is read."""


def outlines(home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each session under a Claude home (`~/.claude`), sub-agents after their session."""
    kept_days = _kept_days(home)
    for directory, name, parent in files(home, look):
        if not look.goes_on():
            return
        outline = outline_of(directory, name, look, parent=parent)
        if outline is not None:
            yield structs.replace(outline, deleted_at_ms=_deleted_at_ms(outline, kept_days))


def _deleted_at_ms(outline: SessionOutline, kept_days: int | None) -> int | None:
    return None if kept_days is None else outline.used_at_ms + kept_days * DAY_MS


def files(home: Path, look: Look) -> Iterator[tuple[Directory, str, str]]:
    """Yield each transcript by the directory that is held and its name there.

    With it the session whose sub-agent's it is, empty for none.
    """
    try:
        top = open_directory(str(home / "projects"))
    except FileNotFoundError:
        return
    except OSError as error:
        look.pass_over(AGENT, f"{error.strerror}: {home / 'projects'}")
        return
    with top:
        names = top.names()
        look.pass_over(AGENT, "no ordinary file", names.others)
        # The newest first: where the look is cut short, that is what is wanted most.
        for name in sorted(names.directories, key=lambda each: -_written(top, each)):
            yield from _of_project(top, name, look)


def _written(directory: Directory, name: str) -> int:
    try:
        return directory.written_at_ms(name)
    except OSError:
        return 0


def _of_project(top: Directory, name: str, look: Look) -> Iterator[tuple[Directory, str, str]]:
    try:
        project = top.within(name)
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))
        return
    with project:
        names = project.names()
        look.is_cut_short |= names.is_cut_short
        look.pass_over(AGENT, "no ordinary file", names.others)
        for file in names.files:
            if file.endswith(_LINES):
                yield project, file, ""
        for session in names.directories:
            yield from _of_session(project, session, look)


def _of_session(
    project: Directory, session: str, look: Look
) -> Iterator[tuple[Directory, str, str]]:
    try:
        with project.within(session) as own, own.within(SUBAGENTS) as directory:
            names = directory.names()
            look.pass_over(AGENT, "no ordinary file", names.others)
            for file in names.files:
                if file.startswith(_BESIDE) and file.endswith(_LINES):
                    yield directory, file, session
    except FileNotFoundError:
        return  # what a session keeps beside its transcript need not be sub-agents
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))


def outline_of(
    directory: Directory, name: str, look: Look, *, parent: str
) -> SessionOutline | None:
    """Return the outline of a transcript, None where it holds no session, which is counted."""
    try:
        ends = directory.ends(name, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
        damage = damage_of(ends)
        if damage:
            look.pass_over(AGENT, damage)
            return None
        outline = _outline(ends, directory.path, name, parent=parent)
        if not outline.directory or (outline.tokens is None and not ends.is_whole):
            far = directory.ends(name, head_bytes=FAR_BYTES, tail_bytes=FAR_BYTES)
            outline = _outline(far, directory.path, name, parent=parent)
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))
        return None
    meta: JsonObject = _meta(directory, name.removesuffix(_LINES) + _META) if parent else {}
    return structs.replace(
        outline,
        role=text_of(meta.get("agentType")) or outline.role,
        unredacted_title=title_of(text_of(meta.get("description"))) or outline.unredacted_title,
    )


def _meta(directory: Directory, name: str) -> JsonObject:
    try:
        return decoded(directory.ends(name, head_bytes=HEAD_BYTES, tail_bytes=0).head)
    except OSError:
        return {}


def _outline(ends: FileEnds, place: str, name: str, *, parent: str) -> SessionOutline:
    head, tail = _Head(), _Tail()
    for line in lines_forward(ends):
        if head.is_full:
            break
        head.take(decoded(line))
    for line in lines_backward(ends):
        if tail.is_full:
            break
        tail.take(line)
    is_beside = name.startswith(_BESIDE)
    newest = {**head.entry, **tail.entry}
    return SessionOutline(
        agent=AGENT,
        session_id=name.removesuffix(_LINES),
        path=f"{place}/{name}",
        parent_session_id=parent or (text_of(newest.get("sessionId")) if is_beside else ""),
        role=text_of(newest.get("attributionAgent")),
        unredacted_title=title_of(tail.title or head.title or head.prompt or tail.last_prompt),
        directory=text_of(newest.get("cwd")),
        branch=text_of(newest.get("gitBranch")),
        begun_at_ms=epoch_ms(text_of(head.entry.get("timestamp"))),
        used_at_ms=ends.written_at_ms,
        model=tail.model,
        tokens=tail.tokens,
        size_bytes=ends.size_bytes,
        version=text_of(newest.get("version")),
        ending=tail.ending,
        is_foreign=not newest,
    )


class _Head:
    """What the first lines tell: when and where it was begun, and with which prompt."""

    def __init__(self) -> None:
        self.entry: JsonObject = {}
        self.title = ""
        self.prompt = ""

    @property
    def is_full(self) -> bool:
        return bool(self.entry and self.prompt)

    def take(self, value: JsonObject) -> None:
        kind = text_of(value.get("type"))
        if kind in _TITLES:
            self.title = text_of(value.get(_TITLES[kind])) or self.title
        if kind not in {"user", "assistant"}:
            return
        self.entry = self.entry or value
        if kind == "user" and not value.get("isMeta"):
            said = text_in(object_of(value.get("message")).get("content"))
            # A command of Claude Code's own and what it printed are no prompt.
            self.prompt = self.prompt or ("" if said.lstrip().startswith("<") else said)


class _Tail:
    """What the last lines tell: what it is called, what it held, how it ended."""

    def __init__(self) -> None:
        self.entry: JsonObject = {}
        self.model = ""
        self.tokens: int | None = None
        self.ending: Ending = "unknown"
        self._titles: dict[str, str] = {}

    @property
    def title(self) -> str:
        return next((self._titles[kind] for kind in _TITLES if self._titles.get(kind)), "")

    @property
    def last_prompt(self) -> str:
        return self._titles.get(_LAST_PROMPT, "")

    @property
    def is_full(self) -> bool:
        # A title that a person gave is written again after each turn; no other is better.
        return bool(self.entry and self.tokens is not None and "custom-title" in self._titles)

    def take(self, line: bytes) -> None:
        # A look that costs little, before decoding: most that is long is none of these.
        heading = line[:_HEADING_BYTES]
        is_title = any(word in heading for word in (b'-title"', b'"summary"', b'"last-prompt"'))
        is_wanted = not self.entry or self.tokens is None
        is_said = is_wanted and (b'"assistant"' in line or b'"user"' in line)
        if not is_title and not is_said:
            return
        value = decoded(line)
        kind = text_of(value.get("type"))
        if kind in _TITLES or kind == _LAST_PROMPT:
            title = value.get(_TITLES.get(kind, "lastPrompt"))
            self._titles.setdefault(kind, text_of(title))
        if not is_said or kind not in {"user", "assistant"}:
            return
        if not self.entry:
            self.entry = value
            self.ending = _ending(value)
        if kind == "assistant" and self.tokens is None:
            self._weigh(object_of(value.get("message")))

    def _weigh(self, message: JsonObject) -> None:
        usage = object_of(message.get("usage"))
        counts = [usage.get(name) for name in _USAGE]
        numbers = [each for each in counts if isinstance(each, int)]
        if sum(numbers) > 0:  # what Claude Code says itself has a usage of nothing
            self.tokens = sum(numbers)
            self.model = text_of(message.get("model"))


_USAGE: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


def _ending(value: JsonObject) -> Ending:
    message = object_of(value.get("message"))
    if value.get("type") == "user" or value.get("isApiErrorMessage"):
        return "interrupted"  # a prompt or a result that nothing answered, or a person's Esc
    blocks = items_of(message.get("content"))
    is_calling = any(each.get("type") == "tool_use" for each in blocks)
    return "interrupted" if is_calling else "ended"


def _kept_days(home: Path) -> int | None:
    """Return after how many days without use Claude Code deletes a transcript.

    None where it deletes none: of a setting that it cannot take it says that it skips this (its
    words in 2.1.330).
    """
    try:
        path = str(home / "settings.json")  # a person's own, who may keep it elsewhere
        raw = read_all(through_links(path), path, bytes_max=SETTINGS_BYTES_MAX)
    except OSError:
        return KEPT_DAYS
    settings, _ = read_object(raw)
    days = settings.get("cleanupPeriodDays", KEPT_DAYS)
    return days if isinstance(days, int) and not isinstance(days, bool) and days > 0 else None
