"""`upthread doctor --probe` on the real agents: it finds what the docs say of them."""

import json

import pytest
from tests.live.agents import WAYS
from tests.support.sets import EXTENDED, SOAK

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

LIMIT = "[[FAIL 429 retry-after=600 rate limit reached]]"
FOUND = {
    "claude-code": ({"listed"}, "rate_limited"),
    "codex": (set(), "rate_limited"),
    "opencode": ({"rate_limit"}, "timed_out"),
}
"""The checks that do not find the agent good, and how a rate limit is seen. OpenCode over ACP keeps
a rate limit to itself."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=SOAK if each == "opencode" else EXTENDED) for each in FOUND]
)
def test_a_probe_finds_what_an_agent_lacks(name, shell, model, request):
    probed = name
    if name == "opencode":
        probed = "oc"
        command = json.dumps([str(request.getfixturevalue(WAYS[name].fixture)), "acp"])
        shell.configure(f"[agents.oc]\ncommand = {command}\n")
    told = shell.one("doctor", "--probe", probed, "--rate-limit-prompt", LIMIT, "--yes")
    found = {each["check"]: each for each in told["findings"] if each["check"] != "remembers"}
    lacking, limit = FOUND[name]
    assert {check for check, each in found.items() if each["verdict"] != "good"} == lacking, found
    assert all(found[check]["verdict"] == "quirk" for check in lacking & {"rate_limit"})
    assert found["rate_limit"]["seen"].startswith(limit)
    bodies = [json.dumps(request.body) for request in model.model_requests]
    asked = [body for body in bodies if "Which word did I ask you" in body]
    assert asked
    assert all("Please remember the word heron-" in body for body in asked), "before the kill"
