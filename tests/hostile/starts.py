"""What a verb started, whatever it is called: no decoy has to bear its name to be missed by."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One program that was started: by what name, and with which PATH."""

    program: str
    path: str


def starts_in(file: Path) -> tuple[Start, ...]:
    """Return what the driver has written down."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return tuple(Start(**json.loads(line)) for line in lines)


def looked_up(starts: Sequence[Start], clone: Path) -> Iterator[str]:
    """Say what was looked up in a clone or by a name, or was given a PATH that leads there."""
    for start in starts:
        program = Path(start.program)
        if not program.is_absolute() or program.is_relative_to(clone):
            yield f"STARTED {start.program}"
        if start.path and not all(map(os.path.isabs, start.path.split(os.pathsep))):
            yield f"HANDED ON to {start.program} the PATH {start.path[:60]}"
