"""Output: where a line goes, and what may be in it.

Standard output is what was asked for; standard error is what a person is told beside it. Text is
neutral before it is written. A reader that has gone away (a closed pipe) is no failure: the verb
goes on to its end without a word, since a turn under way is worth more than its listener.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final, TextIO, cast

from upthread.errors import UpthreadError
from upthread.surfaces.cli.neutral import neutral

SCHEMA: Final = 1

_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Output:
    """The two streams of one invocation.

    `is_live` says that a person watches both of them, so that a status line may come and go.
    """

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json
        self._out = _prepared(sys.stdout)
        self._err = _prepared(sys.stderr)
        is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._paints_out = not is_plain and not is_json and _is_terminal(self._out)
        self._paints_err = not is_plain and _is_terminal(self._err)
        self.is_live = (
            not is_json
            and os.environ.get("TERM") != "dumb"
            and _is_terminal(self._out)
            and _is_terminal(self._err)
        )
        self._is_at_line_start = True
        self._fault: OSError | None = None

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line of what was asked for."""
        self._write(self._out, self.painted(neutral(text), style) + "\n")

    def row(self, *pieces: tuple[str, str]) -> None:
        """Write a line of (text, style) pieces."""
        painted = "".join(self.painted(neutral(text), style) for text, style in pieces)
        self._write(self._out, painted.rstrip() + "\n")

    def note(self, text: str, style: str = "") -> None:
        """Tell a person something beside it."""
        start, end = _codes(style) if self._paints_err else ("", "")
        self._write(self._err, f"{start}{neutral(text)}{end}\n")

    def reply(self, text: str) -> None:
        """Write a piece of an agent's reply, as it comes."""
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._write(self._out, neutral(text))

    def end_line(self) -> None:
        """End the line that a reply has left open."""
        if not self._is_at_line_start:
            self._is_at_line_start = True
            self._write(self._out, "\n")

    def json(self, shape: Mapping[str, object]) -> None:
        """Write one JSON object on a line; ASCII only, so that no text can act on a terminal."""
        self._write(self._out, json.dumps(plain({"schema": SCHEMA, **shape})) + "\n")

    def document(self, text: str) -> None:
        """Write a text of our own making whose foreign parts are neutral already."""
        self._write(self._out, text)

    def painted(self, text: str, style: str) -> str:
        """Return the text in a style, unchanged where colour is not wanted."""
        start, end = _codes(style) if self._paints_out else ("", "")
        return f"{start}{text}{end}"

    def close(self) -> None:
        """Raise what kept a line from being written, once the work is done."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise UpthreadError(f"the output could not be written: {fault.strerror}") from fault

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            _silence(stream)
        except OSError as error:
            self._fault = error
            _silence(stream)


def plain(value: object) -> object:
    """Return a value as JSON can say it: tuples as lists, values as objects, NaN as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        return {str(key): plain(member) for key, member in members.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(member) for member in cast("Sequence[object]", value)]
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def _prepared(stream: TextIO | None) -> TextIO:
    """A text that the terminal's encoding cannot say is shown escaped; it never crashes us."""
    if stream is None:  # started with a closed descriptor
        return io.StringIO()
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
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
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _codes(style: str) -> tuple[str, str]:
    return (f"\x1b[{_STYLES[style]}m", "\x1b[0m") if style else ("", "")
