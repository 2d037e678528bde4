"""The MCP server in the real Codex: what it lists, what its model is told of, and an answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.live.codex import call
from tests.live.test_codex_hooks import Hooked

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TOOLS = ["answer", "delegate", "report", "status", "wait", "why"]
NAMESPACE = "mcp__upthread"
UNTIL_SERVED = " ".join([call("exec_command", cmd="sleep 5", yield_time_ms=10_000)] * 4)
"""Codex asks its model for the first time while servers still start; they take a second or more."""


@pytest.fixture
def served(codex_binary, tmp_path) -> Iterator[Hooked]:
    with RehearsalModel() as model:
        yield Hooked(codex_binary, model, tmp_path)
    assert model.violations == []


def offered(request: Any) -> list[str]:
    """The tools of ours that a request to the model offers."""
    of_ours = [tool for tool in request.body["tools"] if tool.get("name") == NAMESPACE]
    assert NAMESPACE not in json.dumps([t for t in request.body["tools"] if t not in of_ours])
    return sorted(tool["name"] for each in of_ours for tool in each["tools"])


def listed(served: Hooked) -> dict[str, Any]:
    """The servers that Codex itself says it knows, by name."""
    words = [str(served.binary), "mcp", "list", "--json"]
    done = subprocess.run(
        words, cwd=served.project, env=served.environment, capture_output=True, check=True
    )
    return {each["name"]: each for each in json.loads(done.stdout)}


def test_after_setup_it_lists_our_server_tells_its_model_of_six_tools_and_gets_an_answer(served):
    server = listed(served)["upthread"]
    assert (server["enabled"], server["transport"]["type"]) == (True, "stdio")
    *_, last = served.run(f"Hello. {UNTIL_SERVED} {call('status')}").requests
    assert offered(last) == TOOLS
    outputs = [each for each in last.body["input"] if each["type"] == "function_call_output"]
    assert '{"workstreams":[]}' in json.dumps(outputs[-1]).replace("\\", "").replace(" ", "")


def test_after_it_was_taken_back_it_lists_none(served):
    served.upthread("setup", "codex", "--remove", "--yes")
    assert listed(served) == {}
