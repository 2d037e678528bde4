"""Shapes of a stored session: ways in which it may lie on disk, different in structure.

Each agent's module has a table of shapes. A shape is made from one session that the real agent
stored, so that a later version can be measured again. `measured` keeps what the real agent does
with each shape, and `tests/agents/test_shapes.py` holds our readers to that.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upthread.agent_stores.lines import CompressedError, lines_in

SESSION = "5e551000-0000-4000-8000-000000000001"
DIRECTORY = "/shape/project"
"""What stands in a recorded session for the directory that it worked in."""

PROMPTS = ("PLUM-1", "PLUM-2", "PLUM-3")
ANSWERS = ("PEAR-1", "PEAR-2", "PEAR-3")
RESULT = "FIG-2"
"""What the call of the second turn printed."""

MARKS = ("PLUM-1", "PEAR-1", "PLUM-2", RESULT, "PEAR-2", "PLUM-3", "PEAR-3")
"""What was said in the recorded session, in order."""

WRITTEN_AT_S = 1_795_210_000
"""Long enough ago that nobody is writing to the file."""

NEXT = "LIME-4"
"""The prompt with which the agent is asked to resume."""

_MARK = re.compile(r"(?:PLUM|PEAR|FIG|SLOE)-\d+")

Line = dict[str, Any]
Files = Mapping[str, bytes]


@dataclass
class Stored:
    """The lines of a stored session, its path below the agent's home, and where it worked."""

    lines: list[Line]
    path: str
    directory: str = DIRECTORY
    session: str = SESSION
    more: dict[str, bytes] = field(default_factory=dict)

    def at(self, mark: str) -> int:
        """Return the position of the first line that says a mark."""
        return next(i for i, line in enumerate(self.lines) if mark in json.dumps(line))

    def line(self, mark: str) -> Line:
        """Return the first line that says a mark."""
        return self.lines[self.at(mark)]

    @property
    def raw(self) -> bytes:
        """The lines as a file."""
        return b"".join(map(encoded, self.lines))

    @property
    def files(self) -> Files:
        """All files, by their paths below the agent's home."""
        return {self.path: self.raw, **self.more}


Make = Callable[[Stored], "bytes | Files | None"]
"""Changes what is stored; returns its one file or all files, None where the lines are changed."""


@dataclass(frozen=True)
class Shape:
    """One way in which a session may lie on disk."""

    name: str
    make: Make

    @property
    def what(self) -> str:
        """The shape in words."""
        return " ".join((self.make.__doc__ or "").split()).rstrip(".")

    def files(self, stored: Stored) -> Files:
        """Return the files of a session of this shape."""
        made = self.make(stored)
        if made is None:
            return stored.files
        return {stored.path: made} if isinstance(made, bytes) else made


class Table(list[Shape]):
    """The shapes of one agent, in the order in which they are declared."""

    def __call__(self, make: Make) -> Make:
        self.append(Shape(make.__name__.strip("_"), make))
        return make


def encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line of JSON with its end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def marks_in(text: str) -> list[str]:
    """Return which marks a text has, in the order of their first appearance."""
    return list(dict.fromkeys(_MARK.findall(text)))


def held(files: Files) -> list[str]:
    """Return which marks the files of a shape hold, whatever an agent makes of them."""
    return marks_in(" ".join(_text(name, raw) for name, raw in sorted(files.items())))


def _text(name: str, raw: bytes) -> str:
    if name.endswith(".zst"):
        with suppress(CompressedError):
            raw = lines_in(io.BytesIO(raw), ".zst").read()
    is_wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    return raw.decode("utf-16" if is_wide else "utf-8", "replace")


def write(files: Files, home: Path) -> None:
    """Write the files of a shape below an agent's home."""
    for name, raw in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        os.utime(path, (WRITTEN_AT_S, WRITTEN_AT_S))
