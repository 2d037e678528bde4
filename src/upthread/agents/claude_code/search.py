"""What Claude Code's transcripts say, for a search: prompts, answers, calls and results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from upthread.agent_stores.lines import decoded
from upthread.agent_stores.outline import Look, SessionOutline, epoch_ms
from upthread.agent_stores.text_search import Said, Searched, Words, texts_in
from upthread.agents.claude_code.outline import AGENT, files, outline_of
from upthread.boundary.directories import Directory, open_below
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of

_SPOKEN: Final = {"user", "assistant"}


def sessions(home: Path, look: Look, _held: ExitStack) -> Iterator[Searched]:
    """Yield each session under a Claude home, in no order."""
    for directory, name, parent in files(home, look):
        try:
            used_at_ms = directory.written_at_ms(name)
        except OSError:
            continue  # gone since its name was read
        yield Searched(
            agent=AGENT,
            used_at_ms=used_at_ms,
            outline=partial(_outline, home, directory.path, name, parent, look),
            said=partial(_said, home, directory.path, name, look),
        )


def _outline(home: Path, place: str, name: str, parent: str, look: Look) -> SessionOutline | None:
    try:
        with _opened(home, place) as directory:
            return outline_of(directory, name, look, parent=parent)
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))
        return None


def _said(home: Path, place: str, name: str, look: Look, words: Words) -> Iterator[Said]:
    try:
        with _opened(home, place) as directory, directory.streamed(name) as stream:
            for line in words.lines_of(stream):
                yield from said_in(decoded(line))
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))


def _opened(home: Path, place: str) -> Directory:
    return open_below(str(home / "projects"), place)


def said_in(value: JsonObject) -> Iterator[Said]:
    """Yield what an entry says."""
    kind = text_of(value.get("type"))
    if kind not in _SPOKEN:
        return
    at_ms = epoch_ms(text_of(value.get("timestamp")))
    content = object_of(value.get("message")).get("content")
    if isinstance(content, str):
        yield Said(speaker=kind, text=content, at_ms=at_ms)
    for block in items_of(content):
        is_tool = block.get("type") in {"tool_use", "tool_result"}
        text = "\n".join(_texts(block))
        if text:
            yield Said(speaker="tool" if is_tool else kind, text=text, at_ms=at_ms)


def _texts(block: JsonObject) -> Iterator[str]:
    yield from filter(None, (text_of(block.get(name)) for name in ("text", "thinking")))
    yield from texts_in(block.get("input"))
    yield from texts_in(block.get("content"))
