"""Repair a rollout of Codex in a copy: calls and outputs become pairs, lines become readable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from upthread.agent_stores.copies import Plan, RepairedCopy, repaired_lines
from upthread.agent_stores.lines import Line
from upthread.agents.codex.reader import read_histories
from upthread.agents.codex.rollouts import OUTPUT_OF, OUTPUTS, is_unnumbered, read_records
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.json_values import object_of, text_of
from upthread.core.types import JsonValue

_Object = dict[str, JsonValue]
_SECONDS_MAX: Final = 100_000_000_000
"""A larger number counts milliseconds."""


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a rollout and repair the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    records = [each for each in read_records(path) if each.value]
    ordinals = count() if is_unnumbered(records) else None
    return repaired_lines(path, into, read_histories, partial(_lines, ordinals=ordinals))


def _lines(line: Line, plan: Plan, *, ordinals: Iterator[int] | None) -> Iterator[bytes]:
    item = object_of(line.value.get("payload"))
    kind, call_id = text_of(item.get("type")), text_of(item.get("call_id"))
    is_item = line.value.get("type") == "response_item"
    if is_item and kind in OUTPUTS and not plan.takes(call_id):
        plan.edit(line, f"an output that no call {call_id} waits for")
        return
    whole = _readable(line, ordinals)
    raw = line.text if whole == line.value else encode_json(whole)
    if raw != line.raw:
        plan.edit(line, "Codex does not read the line as it was", raw.decode())
    yield raw
    if is_item and kind in OUTPUT_OF:
        plan.made.add(call_id)
        if call_id in plan.open_calls:
            output: _Object = {"type": OUTPUT_OF[kind], "call_id": call_id, "output": INTERRUPTED}
            raw = encode_json({**_readable(line, ordinals), "payload": output})
            plan.edit(line, f"call {call_id} has no output", raw.decode(), is_new=True)
            yield raw


def _readable(line: Line, ordinals: Iterator[int] | None) -> _Object:
    """Return a line with a time that is text, and its number if the lines are to be numbered."""
    value: _Object = dict(line.value)
    if not text_of(value.get("timestamp")):
        value["timestamp"] = _time(value.get("timestamp"))
    if ordinals is not None:
        value["ordinal"] = next(ordinals)
    return value


def _time(number: JsonValue) -> str:
    seconds = float(number) if isinstance(number, int | float) else 0.0
    seconds = seconds if seconds < _SECONDS_MAX else seconds / 1000
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
