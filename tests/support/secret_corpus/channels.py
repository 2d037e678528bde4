"""Channels: the ways in which a text with a secret in it reaches the record.

What read, search and version tools put before each line, what comes of a text in JSON, source code
and mark-up, and how it arrives: whole, in pieces, as an argument, as a report.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import RedactedStream, settled_length
from upthread.core.types import JsonValue

Keep: TypeAlias = Callable[[Redactor, str], str]

FIRST_LINE = 8
"""Of the numbered ones: so that the numbers get longer on the way."""

_COLOUR = re.compile(r"(?:\x1b|\\+(?:u001b|x1b|033))\[[0-9;]*[mK]")

PROSE = "The plan is to read the file, look at what it says, and go on from there.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way. `keep` returns all that is kept of a text which came by it."""

    name: str
    keep: Keep


def _before(gutter: str) -> Keep:
    """Return a channel with a gutter before each line; `{n}` in it is the number of the line."""
    return _as(
        lambda text: "\n".join(
            gutter.replace("{n}", str(number))
            .replace("{n6}", f"{number:6}")
            .replace("{n05}", f"{number:05}")
            + line
            for number, line in enumerate(text.split("\n"), FIRST_LINE)
        )
    )


def _around(before: str, after: str, *, between: str = "\n") -> Keep:
    return _as(lambda text: between.join(f"{before}{line}{after}" for line in text.split("\n")))


def _as(written: Callable[[str], str]) -> Keep:
    return lambda redactor, text: redactor.redact(written(text))


def _numbered(text: str) -> str:
    return "\n".join(f"{number:05}| {line}" for number, line in enumerate(text.split("\n"), 1))


def _matches(text: str) -> str:
    """As `grep -n -C` writes it: the line that was looked for, and those around it."""
    lines = text.split("\n")
    return "\n".join(
        f"src/conf.d/app{':' if not at else '-'}{at + 9}{':' if not at else '-'}{line}"
        for at, line in enumerate(lines)
    )


def _painted(paint: Callable[[str], str], written: Callable[[str], str] = str) -> Keep:
    """Return a channel in colours; what is kept is looked at without them, as a person sees it."""

    def keep(redactor: Redactor, text: str) -> str:
        lines = (paint(line) for line in text.split("\n"))
        return _COLOUR.sub("", redactor.redact(written("\n".join(lines))))

    return keep


def _painted_in_pieces(redactor: Redactor, text: str) -> str:
    return _COLOUR.sub("", settled(redactor, _each_word(text)))


def _each_word(line: str) -> str:
    """As a highlighter writes it, which paints names, signs and values apart."""
    return re.sub(r"\w+", lambda word: f"\x1b[38;5;208m{word[0]}\x1b[0m", line)


def _found_by_grep(line: str) -> str:
    """As `grep --color` writes it: the file, the number, and all from where it found a word."""
    found = re.sub(
        r"[A-Za-z]+", lambda word: f"\x1b[01;31m\x1b[K{word[0]}\x1b[m\x1b[K", line, count=1
    )
    file = "\x1b[35m\x1b[Kf.env\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K"
    return f"{file}\x1b[32m\x1b[K3\x1b[m\x1b[K:{found}"


def _found_by_ripgrep(line: str) -> str:
    """As `rg --color` does where the whole line is what it looked for."""
    return f"\x1b[0m\x1b[35mf.env\x1b[0m\x1b[36m:\x1b[0m\x1b[32m3\x1b[0m:\x1b[1m{line}\x1b[0m"


def _from_its_sign(line: str) -> str:
    """As `grep --color` does where the value is what it looked for."""
    return re.sub(r"([:=] ?)(.+)", "\\1\x1b[01;31m\\2\x1b[m", line, count=1)


def _in_json(value: Callable[[str], JsonValue]) -> Keep:
    def keep(redactor: Redactor, text: str) -> str:
        kept = redactor.redact_json(value(text))
        return "\n".join(_texts(kept))

    return keep


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _streamed(pieces: Callable[[bytes], Iterable[bytes]]) -> Keep:
    def keep(redactor: Redactor, text: str) -> str:
        stream = RedactedStream(redactor)
        written = [stream.feed(piece) for piece in pieces(f"{PROSE}{text}\n{PROSE}".encode())]
        return b"".join([*written, stream.finish()]).decode()

    return keep


def _cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def settled(redactor: Redactor, text: str, *, size: int = 5) -> str:
    """A reply as it is recorded: what is settled at each step, then the rest."""
    kept, held = "", ""
    for at in range(0, len(text), size):
        held += text[at : at + size]
        length = settled_length(held)
        kept, held = kept + redactor.redact(held[:length]), held[length:]
    return kept + redactor.redact(held)


def _settled_numbered(redactor: Redactor, text: str) -> str:
    return settled(redactor, _numbered(text))


_WAYS: tuple[tuple[str, Keep], ...] = (
    # Gutters of read, search and version tools
    ("as it is", _as(lambda text: text)),
    ("`00008| `", _before("{n05}| ")),
    ("`8: `", _before("{n}: ")),
    ("`     8→`", _before("{n6}→")),
    ("`8→`", _before("{n}→")),
    ("cat -n", _before("{n6}\t")),
    ("number and tab", _before("{n}\t")),
    ("nl", _before("{n6}  ")),
    ("`8 | `", _before("  {n} | ")),
    ("code frame", _before("> {n} | ")),
    ("bat", _before("{n6} │ ")),
    ("`L8: `", _before("L{n}: ")),
    ("`[8] `", _before("[{n}] ")),
    ("grep", _before("src/app-1.conf:")),
    ("grep -n", _before("src/app-1.conf:{n}:")),
    ("grep -n, one file", _before("{n}:")),
    ("grep -C", _as(_matches)),
    ("grep -C, one file", _before("{n}-")),
    ("`  Line 8: `", _before("  Line {n}: ")),
    ("diff +", _before("+")),
    ("diff -", _before("-")),
    ("diff, same", _before(" ")),
    ("git blame", _before("^1a2b3c4d (Ann Lee 2026-01-02 03:04:05 +0000 {n}) ")),
    ("log line", _before("2026-01-02T03:04:05.678Z INFO app: ")),
    ("docker compose", _before("db-1  | ")),
    ("painted", _around("\x1b[32m", "\x1b[0m")),
    ("bold", _painted(lambda line: f"\x1b[1m{line}\x1b[0m")),
    ("highlighted", _painted(_each_word)),
    ("grep --color", _painted(_found_by_grep)),
    ("grep --color, the value", _painted(_from_its_sign)),
    ("rg --color", _painted(_found_by_ripgrep)),
    ("highlighted, in JSON", _painted(_each_word, lambda text: json.dumps({"output": text}))),
    ("rg --color, in JSON", _painted(_found_by_ripgrep, lambda text: json.dumps({"x": text}))),
    ("highlighted, in source code", _painted(_each_word, lambda text: ascii(text)[1:-1])),
    ("highlighted, in octal", _painted(_each_word, lambda text: text.replace("\x1b", "\\033"))),
    ("highlighted, in pieces", _painted_in_pieces),
    # Where texts stand in others
    ("quoted", _before("> ")),
    ("quoted twice", _before("> > ")),
    ("indented", _before("    ")),
    ("indented by a tab", _before("\t")),
    ("list", _before("- ")),
    ("comment #", _before("# ")),
    ("comment //", _before("// ")),
    ("comment *", _before(" * ")),
    ("comment --", _before("-- ")),
    ("YAML block", _as(lambda text: "x: |\n  " + text.replace("\n", "\n  "))),
    ("fenced", _as(lambda text: f"```text\n{text}\n```")),
    ("table", _around("| ", " |")),
    ("in a sentence", _as(lambda text: f"It says: {text} and no more.")),
    ("after much prose", _as(lambda text: PROSE * 200 + text + "\n" + PROSE)),
    ("CRLF", _as(lambda text: text.replace("\n", "\r\n") + "\r\n")),
    ("cat -n, CRLF", _around("     8\t", "", between="\r\n")),
    ("cat -A", _around("", "$")),
    ("source code", _around('    "', '\\n" +')),
    ("source code in brackets", _around("  '", "\\n'")),
    ("HTML lines", _around("", "", between="<br>")),
    ("HTML", _as(lambda text: f"<pre>{html.escape(text, quote=False)}</pre>")),
    ("CDATA", _as(lambda text: f"<x><![CDATA[{text}]]></x>")),
    ("file element", _as(lambda text: f"<file>\n{_numbered(text)}\n</file>")),
    # JSON
    ("JSON text", _as(lambda text: json.dumps({"output": text}))),
    ("JSON in JSON", _as(lambda text: json.dumps({"output": json.dumps({"x": text})}))),
    ("numbered in JSON", _as(lambda text: json.dumps({"output": _numbered(text)}))),
    ("argument", _in_json(lambda text: {"command": f"cat <<EOF\n{text}\nEOF"})),
    ("nested argument", _in_json(lambda text: {"edits": [{"new": text}, {"at": 1}]})),
    ("member's name", _in_json(lambda text: {text: 1})),
    ("report", _in_json(lambda text: {"status": "done", "notes": [f"found {text}"]})),
    # In pieces
    ("reply in pieces", settled),
    ("stderr, a byte at a time", _streamed(lambda content: _cut(content, 1))),
    ("stderr, seven bytes", _streamed(lambda content: _cut(content, 7))),
    ("stderr, by lines", _streamed(lambda content: content.splitlines(keepends=True))),
    ("numbered, in pieces", _settled_numbered),
)

CHANNELS = tuple(Channel(name=name, keep=keep) for name, keep in _WAYS)
"""All of them."""
