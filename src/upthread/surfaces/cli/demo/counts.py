"""Counts: what the agent received and did, from the log it wrote itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct


class Counts(Struct, frozen=True, kw_only=True):
    """One part of the demo in figures. "Again" is by role: the first time does not count."""

    status: str
    prompts: int
    sessions: int
    questions: int
    questions_again: int
    reads: int
    reads_again: int
    tool_calls: int
    tool_calls_again: int
    bytes_sent: int
    seconds: float


def read_log(path: Path) -> list[Mapping[str, Any]]:
    """Return the agent's log, oldest first; empty when it was never started."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def count(log: Iterable[Mapping[str, Any]], *, status: str, seconds: float) -> Counts:
    """Return the figures of a part."""
    events = list(log)
    prompts = [event for event in events if event["event"] == "prompt"]
    # By role: two roles that read one file have each read it once.
    questions = [(e["role"], e["question"]) for e in events if e["event"] == "question"]
    reads = [(e["role"], e["path"]) for e in events if e["event"] == "read"]
    actions = [_action(e) for e in events if e["event"] in {"write", "execute"}]
    return Counts(
        status=status,
        prompts=len(prompts),
        sessions=len({event["session_id"] for event in prompts}),
        questions=len(questions),
        questions_again=_again(questions),
        reads=len(reads),
        reads_again=_again(reads),
        tool_calls=len(reads) + len(actions),
        tool_calls_again=_again(reads) + _again(actions),
        bytes_sent=sum(event["bytes"] for event in prompts),
        seconds=seconds,
    )


def _action(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return (event["event"], event["role"], event.get("path") or event.get("command"))


def _again(things: list[tuple[Any, ...]]) -> int:
    return sum(times - 1 for times in Counter(things).values())
