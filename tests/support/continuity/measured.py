"""What was measured of an agent, as it is kept: one JSON file for each way of driving one.

The file is written by the suite alone, and what the docs show is generated from it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from upthread.core.types import Outcome

SCHEMA = 1

History: TypeAlias = Literal["whole", "part", "none"]
"""How many of the session's earlier prompts the model was shown in the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was seen in one case.

    `outcome` is how the prompt or the attach ended that the case is about; `after` how the next
    prompt on that session ended and `history` what the model was shown in it, None where a case has
    no next prompt. `note` is what else was seen.
    """

    outcome: Outcome
    after: Outcome | None = None
    history: History | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was measured of one way of driving an agent, by the case's name."""

    name: str
    driven_by: str
    version: str
    cases: Mapping[str, Measurement] = field(default_factory=dict[str, Measurement])
    schema: int = SCHEMA


def read_measured(directory: Path) -> tuple[Measured, ...]:
    """Return what a directory holds, in the order of the files' names."""
    return tuple(_read(path) for path in sorted(directory.glob("*.json")))


def measured_of(directory: Path, name: str) -> Measured | None:
    """Return what is kept under a name, None when nothing is."""
    path = directory / f"{name}.json"
    return _read(path) if path.exists() else None


def write_measured(directory: Path, measured: Measured) -> None:
    """Replace what is kept under a name, whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{measured.name}.json"
    ordered = msgspec.json.format(msgspec.json.encode(measured, order="deterministic"), indent=2)
    beside = path.with_suffix(".new")
    beside.write_bytes(ordered + b"\n")
    os.replace(beside, path)  # noqa: PTH105  # the plain call, atomic


def _read(path: Path) -> Measured:
    return msgspec.json.decode(path.read_bytes(), type=Measured)
