"""What Codex's rollouts say, for a search: the items of the Responses API, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from upthread.agent_stores.compressed import SUFFIX, CompressedError, expanded
from upthread.agent_stores.lines import decoded
from upthread.agent_stores.outline import Look, SessionOutline, epoch_ms
from upthread.agent_stores.text_search import Said, Searched, Words, texts_in
from upthread.agents.codex.outline import AGENT, entitled, files, outline_of, titles
from upthread.boundary.directories import open_below
from upthread.core.history.rules import JsonObject, object_of, text_of


def sessions(home: Path, look: Look, _held: ExitStack) -> Iterator[Searched]:
    """Yield each thread under a Codex home, in no order."""
    for directory, name in files(home, look):
        try:
            used_at_ms = directory.written_at_ms(name)
        except OSError:
            continue  # gone since its name was read
        yield Searched(
            agent=AGENT,
            used_at_ms=used_at_ms,
            outline=partial(_outline, home, directory.path, name, look),
            said=partial(_said, home, directory.path, name, look),
        )


def _outline(home: Path, place: str, name: str, look: Look) -> SessionOutline | None:
    try:
        with open_below(str(home), place) as directory:
            outline = outline_of(directory, name, look)
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))
        return None
    return outline and entitled(outline, titles(home))


def _said(home: Path, place: str, name: str, look: Look, words: Words) -> Iterator[Said]:
    try:
        with open_below(str(home), place) as directory, directory.streamed(name) as file:
            stream = expanded(file) if name.endswith(SUFFIX) else file
            for line in words.lines_of(stream):
                yield from said_in(decoded(line))
    except CompressedError:
        look.pass_over(AGENT, "not Zstandard")  # what came before is what it says
    except OSError as error:
        look.pass_over(AGENT, str(error.strerror))


def said_in(value: JsonObject) -> Iterator[Said]:
    """Yield what a line says; what Codex tells of an item again is not said twice."""
    if value.get("type") != "response_item":
        return
    item = object_of(value.get("payload"))
    kind = text_of(item.get("type"))
    speaker = text_of(item.get("role")) if kind == "message" else "tool"
    parts = ("content", "arguments", "input", "action", "output", "summary")
    text = "\n".join(each for part in parts for each in texts_in(item.get(part)))
    if text and speaker in {"user", "assistant", "tool"}:
        who = "assistant" if kind == "reasoning" else speaker
        yield Said(speaker=who, text=text, at_ms=epoch_ms(text_of(value.get("timestamp"))))
