"""The summary: one table of all passages, kills by victim and by the state of the turn when hit.

And how long it took, after a worker was lost, until another had its runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tests.support.laboratory.plan import Victim

if TYPE_CHECKING:  # every test session imports this
    from tests.support.laboratory.passage import Ended

PROPERTY = "crash laboratory"
"""The name under which a test keeps what its passage came to, for the end of the test run."""

TAKE_OVERS = "take-overs"
"""The name under which a test keeps how long its take-overs took."""

SUMMED = ("turns", "prompts", "effects", "acknowledged", "adopted")
COUNTED = ("parked", "recognised")

Json = dict[str, Any]


def as_property(ended: Ended) -> tuple[str, str]:
    """Return what a passage came to, as a property of its test."""
    hits = [[hit.victim.value, hit.state] for hit in ended.hits]
    told = {"hits": hits, "faults": len(ended.faults), "counts": ended.counts}
    return PROPERTY, json.dumps(told)


def lines(properties: Sequence[str]) -> list[str]:
    """Return the table and the figures below it."""
    passages: list[Json] = [json.loads(each) for each in properties]
    hits = Counter((victim, state) for each in passages for victim, state in each["hits"])
    figures = Counter[str]()
    for each in passages:
        figures.update({name: each["counts"][name] for name in SUMMED})
    faults = sum(each["faults"] for each in passages)
    return [
        *_table(hits),
        f"{len(passages)} passages, {hits.total()} kills, {faults} faults, all ended",
        ", ".join(f"{figures[name]} {name}" for name in SUMMED),
        *(f"{name}: {_counted(each['counts'][name] for each in passages)}" for name in COUNTED),
    ]


def percentile(took_s: Sequence[float], share: float) -> float:
    """Return the time that so large a share of take-overs took at most."""
    return sorted(took_s)[min(int(len(took_s) * share), len(took_s) - 1)]


def take_overs_as_property(after: str, took_s: Sequence[float]) -> tuple[str, str]:
    """Return how long take-overs took, `after` what, as a property of its test."""
    return TAKE_OVERS, json.dumps({"after": after, "took_s": list(took_s)})


def take_over_lines(properties: Sequence[str]) -> list[str]:
    """Return one line for each way in which workers were lost."""
    took_s: dict[str, list[float]] = {}
    for each in map(json.loads, properties):
        took_s.setdefault(each["after"], []).extend(each["took_s"])
    return [
        f"after {after}: {len(times)} take-overs, median {percentile(times, 0.5):.1f} s,"
        f" p95 {percentile(times, 0.95):.1f} s, longest {max(times):.1f} s"
        for after, times in took_s.items()
        if times
    ]


def _table(hits: Counter[tuple[str, str]]) -> list[str]:
    states = sorted({state for _, state in hits})
    rows = [["", *states, "all"]]
    for victim in Victim:
        row = [hits[victim.value, state] for state in states]
        rows.append([victim.value, *map(str, row), str(sum(row))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _counted(counts: Iterable[dict[str, int]]) -> str:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return ", ".join(f"{count} {name}" for name, count in sorted(total.items())) or "none"
