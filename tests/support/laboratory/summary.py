"""The summary: one table of all passages, kills by victim and by the state of the turn when hit."""

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
