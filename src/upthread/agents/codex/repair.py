"""Repair a rollout of Codex in a copy: calls and outputs are made pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from upthread.agent_stores.copies import Plan, RepairedCopy, repaired_lines
from upthread.agent_stores.lines import Line
from upthread.agents.codex.reader import read_histories
from upthread.agents.codex.rollouts import OUTPUT_OF, OUTPUTS
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.json_values import object_of, text_of


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a rollout and make its calls and outputs pairs in the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    return repaired_lines(path, into, read_histories, _lines)


def _lines(line: Line, plan: Plan) -> Iterator[bytes]:
    item = object_of(line.value.get("payload"))
    kind, call_id = text_of(item.get("type")), text_of(item.get("call_id"))
    is_item = line.value.get("type") == "response_item"
    if is_item and kind in OUTPUTS and not plan.takes(call_id):
        plan.edit(line, f"an output that no call {call_id} waits for")
        return
    yield line.raw
    if is_item and kind in OUTPUT_OF:
        plan.made.add(call_id)
        if call_id in plan.open_calls:
            output = {"type": OUTPUT_OF[kind], "call_id": call_id, "output": INTERRUPTED}
            raw = encode_json({**line.value, "payload": output})
            plan.edit(line, f"call {call_id} has no output", raw.decode(), is_new=True)
            yield raw
