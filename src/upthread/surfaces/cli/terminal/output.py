"""Output: where a line goes, and what may be in it. All that a verb says goes through here.

Standard output is what was asked for; standard error is what a person is told beside it. Whatever a
verb hands in, `line`, `row` and `note` write one line each: what would end it, act or hide is shown
as its escape, so that to forget that a text is somebody else's forges no line. What has lines by
nature is handed to `quote`, `reply`, `document` or `foreign_document`, and is set apart there
(ADR 65). A reader that has gone away (a closed pipe) is no failure: the verb goes on to its end
without a word, since a turn under way is worth more than its listener.
"""

from __future__ import annotations

import io
import math
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias, cast

from msgspec import Struct

from upthread.core.text import MARKS_MAX, escaped, is_mark, visible_line, visible_row, visible_text
from upthread.errors import UpthreadError

if TYPE_CHECKING:
    from rich.status import Status


SCHEMA = 1

LINE_CHARACTERS_MAX = 8_192
"""No line of ours is longer; what is in it is shorter by far, and bounded where it is put in."""

QUOTED_LINES_MAX = 100
"""How many lines of somebody else's are shown within a message of ours."""

STATUS_CHARACTERS_MAX = 100

CLEAR = "\x1b[H\x1b[2J"

Shape: TypeAlias = dict[str, object]
"""What JSON says of something."""

Styled: TypeAlias = tuple[str, str]
"""A text with its style."""

Piece: TypeAlias = str | Styled
"""A part of a line."""

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Output:
    """The two streams of one invocation.

    A verb hands in what it has for people and what it has for programs. With --json only `json`
    writes to standard output; without it `json` writes nothing.

    `is_live` says that a person watches both of them, so that a status line may come and go.
    """

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json
        self._out = _prepared(sys.stdout)
        self._err = _prepared(sys.stderr)
        is_dumb = os.environ.get("TERM") == "dumb"
        is_plain = is_dumb or bool(os.environ.get("NO_COLOR"))
        out, err = _is_terminal(self._out), _is_terminal(self._err)
        self._paints_out = out and not is_plain and not is_json
        self._paints_err = err and not is_plain
        self.is_live = out and err and not is_dumb and not is_json
        self._bar = "│ " if _says_unicode(self._out) and _says_unicode(self._err) else "| "
        # Where a reply has the stream for itself no bar is put before its lines: pipes rely on it.
        is_mingled = out or _is_one_place(self._out, self._err)
        self._gutter = Gutter(self._bar, _columns(self._out)) if is_mingled else None
        self._is_at_line_start = True
        self._fault: OSError | None = None

    @property
    def columns(self) -> int | None:
        """How wide the terminal is that lines are written to; None for none."""
        return _columns(self._out)

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads what was asked for, as it comes."""
        return _is_terminal(self._out)

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line of what was asked for."""
        self.row((text, style))

    def row(self, *pieces: Piece) -> None:
        """Write a line of pieces, for example `row((name, "bold"), ": done")`."""
        if not self.is_json:
            self._write_row(self._out, pieces)

    def remark(self, text: str, style: str = "") -> None:
        """Tell a person something beside it that JSON has as a member."""
        if not self.is_json:
            self.note(text, style)

    def note(self, text: str, style: str = "") -> None:
        """Tell a person something beside it."""
        self._write_row(self._err, ((text, style),))

    def command(self, before: str, command: str) -> None:
        """Write a line that ends in a command to be copied; it is never broken into two."""
        if not self.is_json:
            self._write_row(self._out, ((before, "dim"), (command, "dim")), is_whole=True)

    def quote(self, text: str, indent: str = "  ", *, is_beside: bool = False) -> None:
        """Write somebody else's lines, each behind a bar, as far as they are worth showing."""
        if self.is_json and not is_beside:
            return
        stream = self._err if is_beside else self._out
        lines = visible_text(text).split("\n")
        gutter = Gutter(f"{indent}{self._bar}", _columns(stream))
        for line in lines[:QUOTED_LINES_MAX]:
            self._write(stream, gutter.feed(line[:LINE_CHARACTERS_MAX] + "\n"))
        if len(lines) > QUOTED_LINES_MAX:
            self._write_row(stream, (f"{indent}… {len(lines) - QUOTED_LINES_MAX} more",))

    def reply(self, text: str) -> None:
        """Write a piece of an agent's reply, as it comes.

        As it is where it has standard output for itself; where our own lines come between, each of
        its lines is behind a bar, which none of ours is.
        """
        if not text or self.is_json:
            return
        self._is_at_line_start = text.endswith("\n")
        shown = visible_text(text)
        self._write(self._out, self._gutter.feed(shown) if self._gutter else shown)

    def end_line(self) -> None:
        """End the line that a reply has left open."""
        if self._gutter:
            self._write(self._out, self._gutter.end())
        elif not self._is_at_line_start:
            self._write(self._out, "\n")
        self._is_at_line_start = True

    def json(self, shape: Mapping[str, object]) -> None:
        """Write one JSON object on a line; ASCII only, so that no text can act on a terminal."""
        from json import dumps

        if self.is_json:
            self._write(self._out, dumps(plain({"schema": SCHEMA, **shape})) + "\n")

    def document(self, text: str) -> None:
        """Write a text of our own making, whose foreign parts are set apart in it already."""
        self._write(self._out, visible_text(text))

    def foreign_document(self, text: str) -> None:
        """Write a text whole in which anybody's lines stand: at a terminal, all behind a bar.

        Elsewhere it is as it is, for who reads it on.
        """
        shown = visible_text(text)
        if _is_terminal(self._out):
            gutter = Gutter(self._bar, _columns(self._out))
            shown = gutter.feed(shown) + gutter.end()
        self._write(self._out, shown)

    def clear(self) -> None:
        """Empty the screen."""
        self._write(self._out, CLEAR)

    def _write_row(
        self, stream: TextIO, pieces: Sequence[Piece], *, is_whole: bool = False
    ) -> None:
        styled = [(each, "") if isinstance(each, str) else each for each in pieces]
        # Made visible before it is cut: cut first, half an escape could stand at the end.
        shown = _bounded([(visible_row(text.replace("\t", TAB)), style) for text, style in styled])
        is_painted = self._paints_out if stream is self._out else self._paints_err
        painted = "".join(
            f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and is_painted else text
            for text, style in _wrapped(shown, None if is_whole else _columns(stream))
        )
        self._write(stream, painted.rstrip() + "\n")

    def close(self) -> None:
        """Raise what kept a line from being written, once the work is done."""
        if self._fault is not None:
            # Told once: telling it may meet the same fault.
            fault, self._fault = self._fault, None
            raise UpthreadError(f"the output could not be written: {fault.strerror}") from fault

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        # `| head` has what it wanted; the turn behind it goes on.
        except BrokenPipeError:
            _silence(stream)
        except OSError as error:
            # Kept until the work is done: a turn under way is worth more than the line.
            self._fault = error
            _silence(stream)


def plain(value: object) -> object:
    """Return a value as JSON can say it: tuples as lists, values as objects, NaN, paths as text."""
    # NaN is no JSON, and other languages' parsers refuse the whole line for it.
    if isinstance(value, Path) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        return {str(key): plain(member) for key, member in members.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(member) for member in cast("Sequence[object]", value)]
    if not isinstance(value, Struct):
        return value
    return {name: plain(getattr(value, name)) for name in value.__struct_fields__}


def members(value: object, *names: str) -> Shape:
    """Return members of a value that JSON calls the same, as `members(link, "seq agent")`.

    Where there is no value, each of them is None.
    """
    each = (name for several in names for name in several.split())
    return {name: None if value is None else getattr(value, name) for name in each}


def members_or_none(value: object, names: str) -> Shape | None:
    """Return members of a value, None where there is no value."""
    return None if value is None else members(value, names)


def _bounded(pieces: Sequence[Styled]) -> list[Styled]:
    """The end of a line that is too long is left out, and that it is."""
    left = LINE_CHARACTERS_MAX
    told: list[Styled] = []
    for text, style in pieces:
        told.append((text if len(text) <= left else text[:left] + "…", style))
        left -= len(text)
        if left < 0:
            break
    return told


def _wrapped(pieces: Sequence[Styled], columns: int | None) -> Sequence[Styled]:
    """Return the pieces of a line, broken where the terminal would break it, and indented there."""
    if columns is None:
        return pieces
    places = list(breaks("".join(text for text, _ in pieces), max(columns, COLUMNS_MIN)))
    told: list[Styled] = []
    begun = 0
    for text, style in pieces:
        taken = 0
        while places and places[0] < begun + len(text):
            cut = places.pop(0) - begun
            told += [(text[taken:cut], style), ("\n" + INDENT, "")]
            taken = cut
        told.append((text[taken:], style))
        begun += len(text)
    return told


def _columns(stream: TextIO) -> int | None:
    """Return how wide a terminal is, None for none and for one that does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _is_one_place(out: TextIO, err: TextIO) -> bool:
    """Where both go into one file or pipe (`&> log`), our lines stand between those of a reply."""
    try:
        return os.path.sameopenfile(out.fileno(), err.fileno())
    except (OSError, ValueError):
        return False


def _says_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def _prepared(stream: TextIO | None) -> TextIO:
    """A text that the terminal's encoding cannot say is shown escaped; it never crashes us."""
    if stream is None:  # started with a closed descriptor
        return io.StringIO()
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # Locales without UTF-8 are common in containers, and one arrow would end the verb.
        reconfigure(errors="backslashreplace")
    return stream


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _silence(stream: TextIO) -> None:
    """Let what is still to be written, at exit too, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # The descriptor and not the stream: the interpreter
    # flushes it at exit, and would complain there.
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class StatusLine:
    """A spinner with a few words, on standard error: what the agent is doing.

    On a terminal alone, and gone before any other text is written: it never shares a line with the
    reply. Where nobody watches it does nothing and loads nothing.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show these words until `hide`; on a line of their own."""
        if not self._output.is_live:
            return
        from rich.console import Console
        from rich.text import Text

        shown = visible_line(text, characters_max=STATUS_CHARACTERS_MAX)
        words = Text(shown, style="dim", overflow="ellipsis")
        if self._status is None:
            # It is drawn over the line it stands in, which may be the reply's.
            self._output.end_line()
            # On standard error: of standard output every byte is the reply.
            self._status = Console(stderr=True).status(words)
            self._status.start()
        self._status.update(words)

    def hide(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


# --- line wrap ----------------------------------------------------------------------------------
# Line wrap: where lines end on a terminal, so that none of them begins with somebody else's words.
#
# A terminal that wraps by itself puts the rest at its left edge, where it looks like a line of
# ours.

INDENT = "    "
"""What the rest of a line that is too long begins with."""

COLUMNS_MIN = 20
"""A terminal that is narrower wraps as it likes: nothing can be read there anyway."""

TAB = "    "
"""A tabulator's width depends on where it stands; this does not."""


def width(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(map(width_of, text))


def width_of(character: str) -> int:
    """Return how many columns a character takes."""
    if is_mark(character) or character in "\u200c\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def breaks(text: str, columns: int) -> Iterator[int]:
    """Yield where a line is broken, as indexes into it; after a space where one is near."""
    used, space = 0, 0
    begun = 0
    for index, character in enumerate(text):
        used += width_of(character)
        if used > columns:
            # A word longer than the line is cut: left whole,
            # the terminal would cut it, without our indent.
            place = space if space > begun else index
            # A character wider than all that is left must not be broken before for ever.
            if place > begun:
                yield place
                begun = place
                used = len(INDENT) + width(text[place : index + 1])
        if character == " " and text[begun:index].strip():
            space = index + 1


class Gutter:
    """A reply as it comes, each line of it behind a mark that is ours.

    `columns` None: the lines are as long as they are, where no terminal would wrap them.
    """

    def __init__(self, mark: str, columns: int | None) -> None:
        self._mark = mark
        self._columns = None if columns is None else max(columns - width(mark), COLUMNS_MIN)
        self._used = 0
        self._marks = 0
        self._is_at_start = True
        self._word = ""

    def feed(self, text: str) -> str:
        """Return what is to be written for a piece; its last word may wait for its end."""
        if self._columns is None:
            return "".join(map(self._put, text))
        told: list[str] = []
        for character in text.replace("\t", TAB):
            if character in " \n":
                told.append(self._flushed() + self._put(character))
            else:
                self._word += character
                # Written before it ends: a word without end
                # would be kept in memory and never be seen.
                if width(self._word) >= self._columns:
                    told.append(self._flushed())
        return "".join(told)

    def end(self) -> str:
        """Return what ends the line that is open; empty when none is."""
        last = self._flushed()
        return last + ("" if self._is_at_start else self._put("\n"))

    def _flushed(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        is_too_long = self._columns is not None and self._used + width(word) > self._columns
        head = self._put("\n") if is_too_long and self._used else ""
        return head + "".join(map(self._put, word))

    def _put(self, character: str) -> str:
        if character == "\n":
            head = self._mark.rstrip() if self._is_at_start else ""
            self._used, self._marks, self._is_at_start = 0, 0, True
            return head + "\n"
        self._marks = self._marks + 1 if is_mark(character) else 0
        # Marks take no column of their own: piled up they would cover the lines around.
        shown = character if self._marks <= MARKS_MAX else escaped(character)
        head = ""
        if self._columns is not None and self._used + width(shown) > self._columns:
            head = self._put("\n")
        if self._is_at_start:
            head += self._mark
            self._is_at_start = False
        self._used += width(shown)
        return head + shown
