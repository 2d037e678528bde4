"""What `doctor` finds, whoever looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with one history, and what to do; the names are the JSON keys."""

    store: str
    history: str
    path: str | None
    version: str
    faults: Mapping[str, int]
    unreadable: int
    what: str
    cure: str
