"""Words that are looked for in what agents have stored: all of them, in one message, in any case.

What has none of them is passed over undecoded, a megabyte at a time, by RE2: linear in the text
whatever the words. Matched is what a person reads, so a word with a quotation mark in it is looked
for as JSON writes it first, and as it is in the text then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import re2
from msgspec import Struct

from upthread.agent_stores.lines import LINE_BYTES_MAX
from upthread.agent_stores.outline import SessionOutline
from upthread.core import types
from upthread.core.types import JsonValue
from upthread.errors import UsageError

WORDS_MAX: Final = 20
WORD_CHARACTERS_MAX: Final = 200
PIECE_BYTES: Final = 1024 * 1024


class Said(Struct, frozen=True, kw_only=True):
    """One thing that was said in a session: by whom, and what. `at_ms` is None where unknown."""

    speaker: str
    text: str
    at_ms: int | None = None


class Searched(Struct, frozen=True, kw_only=True):
    """A session that is known by its place alone until something of it is asked for.

    `outline` returns None where it holds no session. `said` yields what may have the words, the
    newest last, each to be looked at again as it will be shown.
    """

    agent: str
    used_at_ms: int
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
        self._in_lines = [re2.compile(_raw(each), options=_options()) for each in stored]
        self._in_text = [re2.compile(_raw(each), options=_options()) for each in said]
        self._is_plain = stored == said

    def place_in(self, text: str) -> int | None:
        """Return where the first of the words stands in a text that has them all, else None."""
        raw = _raw(text)
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


def _options() -> re2.Options:
    options = re2.Options()
    options.case_sensitive = False
    options.literal = True
    options.log_errors = False
    return options


def _raw(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


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
