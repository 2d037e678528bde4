"""What `doctor` tells of one fault, in whichever store, hook or file it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, and what to do; the names are the JSON keys."""

    store: str
    history: str
    path: str | None
    version: str
    faults: Mapping[str, int]
    unreadable: int
    what: str
    cure: str
