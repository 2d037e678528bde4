"""The MCP server in the real Codex, which lists it, offers its tools and calls one."""

import json
from typing import Any

import pytest
from tests.live.codex import call, command
from tests.live.hooked import HookedCodex
from tests.live.shell import wait_until
from tests.support.sets import EXTENDED

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(300)]

TOOLS = ["answer", "delegate", "report", "status", "wait", "why"]
NAMESPACE = "mcp__upthread"


def offered(request: Any) -> list[str]:
    """Return the tools of ours that a request offers to the model."""
    of_ours = [tool for tool in request.body["tools"] if tool.get("name") == NAMESPACE]
    assert NAMESPACE not in json.dumps([t for t in request.body["tools"] if t not in of_ours])
    return sorted(tool["name"] for each in of_ours for tool in each["tools"])


def listed(set_up: HookedCodex) -> dict[str, Any]:
    """Return the servers that Codex itself knows, by name."""
    servers = json.loads(set_up.output_of([str(set_up.binary), "mcp", "list", "--json"]))
    return {each["name"]: each for each in servers}


def test_setup_gives_codex_our_server_with_six_tools_and_removal_takes_it_back(
    codex_binary, model, tmp_path
):
    set_up = HookedCodex(codex_binary, model, tmp_path)
    server = listed(set_up)["upthread"]
    assert (server["enabled"], server["transport"]["type"]) == (True, "stdio")

    # Codex asks its model for the first time while servers still start.
    for _ in range(200):
        model.answer_next(command("sleep 0.3"))
    running = set_up.start("Hello.")
    wait_until(lambda: offered_last(model) == TOOLS, "tools of ours")
    model.forget_answers()
    model.answer_next(call("status"))
    assert running.wait(timeout=120) == 0
    outputs = [
        each
        for each in model.model_requests[-1].body["input"]
        if each["type"] == "function_call_output"
    ]
    assert '{"workstreams":[]}' in json.dumps(outputs[-1]).replace("\\", "").replace(" ", "")

    set_up.upthread("setup", "codex", "--remove", "--yes")
    assert listed(set_up) == {}


def offered_last(model: Any) -> list[str]:
    return offered(model.model_requests[-1]) if model.model_requests else []
