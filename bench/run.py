"""`make bench`: our figures beside the raw limit, in one interleaved run.

    PYTHONPATH=. python bench/run.py [--only W1,W3] [--quick] [--json]

Prints a table, and keeps that of a whole run in bench/results/. Exits with 1 where a limit is
missed that no busy machine can miss: errors, megabytes, counts. A ratio of times fails nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import w1_resolve
import w2_turn
import w3_prior_context
import w4_reload
import w5_cold_start
import w6_writers
import w7_validity
import w8_freshness
import w9_redaction
import w10_postgres
import w11_memory
import w12_turn
import w13_tell
import w14_first_contact
import w15_web
import w16_hooks
import w17_looks
import w18_opencode
from measure import Row, machine, machine_line
from scratch import RESULTS, scratch

WORKLOADS: dict[str, Callable[..., list[Row]]] = {
    "W1": w1_resolve.measure,
    "W2": w2_turn.measure,
    "W3": w3_prior_context.measure,
    "W4": w4_reload.measure,
    "W5": w5_cold_start.measure,
    "W6": w6_writers.measure,
    "W7": w7_validity.measure,
    "W8": w8_freshness.measure,
    "W9": w9_redaction.measure,
    "W10": w10_postgres.measure,
    "W11": w11_memory.measure,
    "W12": w12_turn.measure,
    "W13": w13_tell.measure,
    "W14": w14_first_contact.measure,
    "W15": w15_web.measure,
    "W16": w16_hooks.measure,
    "W17": w17_looks.measure,
    "W18": w18_opencode.measure,
}
HEADINGS = ("", "what", "raw", "ours", "ratio", "limit", "CPU", "", "note")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for and print it."""
    options = _options(arguments)
    started_s = time.monotonic()
    rows: list[Row] = []
    with scratch() as directory:
        about = machine(directory)
    for name in options.only:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += WORKLOADS[name](is_quick=options.quick)
    about["seconds"] = round(time.monotonic() - started_s)
    result = {"schema": 1, "machine": about, "rows": [row.as_json() for row in rows]}
    table = f"{machine_line(about)}\n\n{as_table(rows)}\n"
    if options.only == list(WORKLOADS) and not options.quick:
        (RESULTS / "latest.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        (RESULTS / "latest.md").write_text(table, "utf-8")
    print(json.dumps(result) if options.json else table)
    return 1 if any(row.is_met is False and not row.is_of_the_machine for row in rows) else 0


def as_table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table, its columns aligned."""
    lines = [HEADINGS, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    at_least = f"≥ {row.at_least}" if row.at_least is not None else ""
    verdict = {True: "met", False: "missed", None: ""}[row.is_met]
    return (
        row.workload,
        row.what,
        _figure(row.raw, row.unit),
        _figure(row.ours, row.unit),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        at_least or ("" if row.limit is None else f"≤ {row.limit:g}"),
        "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}",
        verdict,
        row.note,
    )


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "us" and value >= 1000:
        return f"{value / 1000:.3g} ms"
    return f"{value:,.4g} {unit}".strip() if value < 10_000 else f"{value:,.0f} {unit}".strip()


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Our figures beside the raw limit.")
    parser.add_argument(
        "--only", type=_names, default=list(WORKLOADS), help="workloads, such as W1,W3"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, no million rows")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = text.upper().split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
