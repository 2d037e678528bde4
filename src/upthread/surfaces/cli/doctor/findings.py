"""Findings of `doctor`, and those about the histories that agents stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from upthread.agent_stores.base import VendorHistory
from upthread.core.history.model import CURES, Fault, HistoryMessage, faults, is_sound
from upthread.errors import StoreError
from upthread.surfaces.cli.terminal.neutral import command, one_line
from upthread.surfaces.cli.terminal.phrases import counted

_IN_WORDS: Final = {
    "every_call_has_a_result": ("call without a result", "calls without a result"),
    "every_result_has_a_call": ("result without a call", "results without a call"),
    "one_result_for_a_call": ("second result", "second results"),
    "call_ids_differ": ("call id used twice", "call ids used twice"),
    "results_stand_after_their_calls": ("late result", "late results"),
    "text_is_unicode": ("half of a character", "halves of characters"),
}


class Finding(Struct, frozen=True, kw_only=True):
    """What is wrong, and what to do; the names are the JSON keys."""

    store: str
    history: str
    path: str | None = None
    version: str = ""
    faults: Mapping[str, int] = field(default_factory=dict[str, int])
    unreadable: int = 0
    what: str
    cure: str


def finding_of(stored: VendorHistory | StoreError) -> Finding | None:
    """Return what is wrong with an agent's history, None when it is sound."""
    if isinstance(stored, StoreError):
        return Finding(store="?", history="", unreadable=1, what=stored.message, cure=stored.hint)
    found = faults_of(stored.history.messages)
    # Months of histories are always of other versions: that alone is nothing to do about.
    if not found and not stored.unreadable:
        return None
    return Finding(
        store=stored.agent,
        history=stored.session_id,
        path=str(stored.path),
        version=stored.version,
        faults=counts_of(found),
        unreadable=len(stored.unreadable),
        what="; ".join(_words(stored, found)),
        cure=_cure(stored, found),
    )


def faults_of(messages: Sequence[HistoryMessage]) -> tuple[Fault, ...]:
    """Return the faults of a history, quickly for a sound one."""
    return () if is_sound(messages) else faults(messages)


def _words(stored: VendorHistory, found: Sequence[Fault]) -> Iterator[str]:
    for rule, number in counts_of(found).items():
        yield counted(number, *_IN_WORDS[rule])
    if stored.unreadable:
        first = stored.unreadable[0]
        yield f"{counted(len(stored.unreadable), 'place')} unreadable, first {first.place}: " + (
            one_line(first.why)
        )
    if not stored.is_version_known:
        version = one_line(stored.version) or "unknown"
        yield f"written by version {version}, which this upthread does not know"


def _cure(stored: VendorHistory, found: Sequence[Fault]) -> str:
    if not stored.is_version_known:
        return "read as far as it goes and left alone; a newer upthread may know it"
    if found or stored.is_of_lines:
        return command("upthread", "repair", stored.agent, stored.session_id)
    return "left as it is; if the agent cannot read it, the next prompt begins a new session"


def counts_of(found: Sequence[Fault]) -> dict[str, int]:
    """Return how many faults of each kind there are."""
    counts = Counter(fault.rule for fault in found)
    return {rule: counts[rule] for rule in CURES if rule in counts}
