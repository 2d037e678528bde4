"""The recorded events of a real server, and a scripted server as a real process."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.opencode.adapter import OpenCodeAdapter
from upthread.agents.opencode.turn import Turn
from upthread.core.events import AgentEvent

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded_1_18_33.json").read_text())
WINDOW_TOKENS = 100_000
NOW_MS = 1_795_000_000_000


@pytest.fixture
def scripted_opencode(tmp_path: Path) -> Callable[..., OpenCodeAdapter]:
    """Make an adapter of the scripted server that misbehaves as the given word says."""

    def make(word: str = "well") -> OpenCodeAdapter:
        words = (str(HERE / "scripted_server.py"), word, str(tmp_path / "posts"))
        adapter = OpenCodeAdapter(command=(sys.executable, "-I", *words))
        adapter.now_ms = lambda: NOW_MS
        return adapter

    return make


@pytest.fixture
async def connection(
    scripted_opencode: Callable[..., OpenCodeAdapter], request_for: Callable[..., OpenRequest]
) -> AsyncIterator[AgentConnection]:
    """The scripted server that behaves well, running."""
    async with scripted_opencode().open(request_for()) as connection:
        yield connection


@pytest.fixture
def posts(tmp_path: Path) -> Callable[[], list[list[Any]]]:
    """What was posted to the scripted server so far, as [path, body]."""
    return lambda: [json.loads(line) for line in (tmp_path / "posts").read_text().splitlines()]


def new_turn(name: str = "reply", **changes: Any) -> Turn:
    settings: dict[str, Any] = {
        "stale": frozenset(),
        "window_of": lambda _message: WINDOW_TOKENS,
        "now_ms": lambda: NOW_MS,
    }
    return Turn(RECORDED[name]["session"], **{**settings, **changes})


def told(turn: Turn, name: str) -> list[AgentEvent]:
    """Feed a turn with a recorded scenario until it is over; returns what belongs to it."""
    events: list[AgentEvent] = []
    for event in RECORDED[name]["events"]:
        events += turn.take(event["type"], event["properties"])
        if turn.is_over:
            break
    return events
