"""The real OpenCode's sub-agents: what we keep of each is what OpenCode's own store holds of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.kept import assert_valid, messages_of, ours, words
from tests.live.opencode import opencode_environment
from tests.live.shell import Shell, agents_left, kill_tree, only
from tests.support import trusting

from upthread.agent_stores.base import VendorHistory
from upthread.agents.opencode.histories import read_histories

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def step(tool: str, **arguments: object) -> str:
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def task(prompt: str, **more: object) -> str:
    return step("task", description="sub", prompt=prompt, subagent_type="general", **more)


BASH = step("bash", command="pwd", description="where")


@pytest.fixture(params=["native", "acp"])
def way(request) -> str:
    return request.param


@pytest.fixture
def shell(way, opencode_binary, model, project, tmp_path) -> Iterator[Shell]:
    """OpenCode in both ways: its own one, found on PATH, and as any agent that speaks ACP."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    if way == "native":
        (binaries / "opencode").symlink_to(opencode_binary)
    else:
        command = json.dumps([str(opencode_binary), "acp"])
        configured = f'agent = "oc"\n[agents.oc]\ncommand = {command}\n'
        trusting.configure(project, tmp_path / "upthread", configured)
    environment = {
        **opencode_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def theirs(tmp_path: Path) -> dict[str, VendorHistory]:
    path = tmp_path / "home" / ".local" / "share" / "opencode" / "opencode.db"
    return {each.session_id: each for each in read_histories(path)}


def assert_same(shell: Shell, tmp_path: Path) -> None:
    """Every session of theirs has its conversation here, with the same words and no others."""
    stored, kept = theirs(tmp_path), ours(shell)
    assert kept.keys() == stored.keys()
    for session, history in stored.items():
        assert words(messages_of(kept[session])) == words(history.history), session
        parent = kept[session]["parent_conversation_id"]
        above = kept[history.parent_session_id]["conversation_id"] if parent else None
        assert parent == above
        assert_valid(messages_of(kept[session]))


def test_a_sub_agent_is_kept_whole_in_a_conversation_of_its_own(shell, tmp_path):
    child = f"Look around. {BASH} [[SAY child says]]"
    shell.lines("tell", "w/planner", f"{task(child)} {BASH} [[SAY done]]")
    assert_same(shell, tmp_path)
    parent, kept = ours(shell).values()
    assert parent["turns"][0]["quarantined"] == []
    assert kept["role"] == "general"
    assert words(messages_of(kept))[0] == ("user", child)
    assert ("assistant", "child says") in words(messages_of(kept))


def test_a_sub_agent_that_is_called_again_goes_on_where_it_was(shell, tmp_path):
    shell.lines("tell", "w/planner", f"{task('Begin. [[SAY one]]')} [[SAY ok]]")
    (child,) = (key for key, each in theirs(tmp_path).items() if each.parent_session_id)
    again = task(f"Once more. {BASH} [[SAY two]]", task_id=child)
    shell.lines("tell", "w/planner", f"{again} [[SAY done]]")
    assert_same(shell, tmp_path)
    assert [said for said in words(messages_of(ours(shell)[child])) if said[0] == "assistant"] == [
        ("assistant", "one"),
        ("assistant", "two"),
    ]


def test_a_sub_agent_that_fails_is_kept_with_what_it_had_done(shell, tmp_path):
    failing = f"Try. {BASH} [[FAIL 400 broken]]"
    shell.lines("tell", "w/planner", f"{task(failing)} [[SAY it failed]]")
    assert_same(shell, tmp_path)
    (kept,) = (each for each in ours(shell).values() if each["parent_conversation_id"])
    assert ("user", failing) in words(messages_of(kept))


IN_BACKGROUND = {"OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS": "true"}


def test_a_sub_agent_in_the_background_is_waited_for_and_its_end_is_on_record(way, shell, tmp_path):
    """A person has switched them on. Over ACP a prompt is answered before they end: none there."""
    shell.environment = {**shell.environment, **IN_BACKGROUND}
    child = f"Look long. [[SLEEP 4]] {BASH} [[SAY child says]]"
    lines = shell.lines("tell", "w/planner", f"{task(child, background=True)} [[SAY launched]]")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    parent, *children = ours(shell).values()
    (result,) = parts_of(parent, "tool_result")
    if way == "acp":
        assert (children, result["status"]) == ([], "failed")
        return
    (kept,) = children
    (stored,) = (each for each in theirs(tmp_path).values() if each.parent_session_id)
    assert words(messages_of(kept)) == words(stored.history)
    assert ("assistant", "child says") in words(messages_of(kept))
    ended, told = parts_of(parent, "unknown")[:2]
    assert ended["raw"]["outcome"] == "ok"
    assert "child says" in told["raw"]["text"]
    said = "".join(part["text"] for part in parts_of(parent, "text")[1:])
    assert said.startswith("launchedPlan"), "it goes on with what it is told"


def test_a_sub_agent_in_the_background_is_waited_for_no_longer_than_a_turn_may_take(
    way, shell, tmp_path
):
    if way == "acp":
        pytest.skip("there are none")
    shell.environment = {**shell.environment, **IN_BACKGROUND}
    shell.configure("prompt_timeout_s = 25\n")
    prompt = f"{task('Look long. [[HANG]]', background=True)} [[SAY launched]]"
    ended = only(shell.lines("tell", "w/planner", prompt, exit_code=None), "turn_ended")
    assert (ended["parked"]["reason"], ended["reply"]) == ("timed_out", "launched")
    assert ended["parked"]["detail"] == "no answer within 25 s", "it was not ended by force"
    parent, _ = ours(shell).values()
    ends = [part["raw"] for part in parts_of(parent, "unknown")]
    assert [each["outcome"] for each in ends if "outcome" in each] == ["cancelled"]


def parts_of(conversation: Any, *kinds: str) -> list[Any]:
    said = [m for turn in conversation["turns"] for m in turn["messages"]]
    return [part for m in said for part in m["parts"] if part["kind"] in kinds]


def test_sigkill_inside_a_sub_agent_leaves_the_parent_valid_and_free_of_its_words(
    way, shell, model, tmp_path
):
    """Over ACP the child is named with the result only: of one cut off nothing is known."""
    running = shell.start("tell", "w/planner", task("Look long. [[HANG]]"))
    deadline = time.monotonic() + 90
    while not any("Look long." in users(request) for request in model.model_requests):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1.0)  # what was said before the model was asked is on record
    kill_tree(running)
    lines = shell.lines("tell", "w/planner", "[[SAY I am back]]")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    stored, kept = theirs(tmp_path), ours(shell)
    (child,) = (each for each in stored.values() if each.parent_session_id)
    asked = [said for who, said in words(child.history) if who == "user"]
    assert asked == ["Look long. [[HANG]]"]
    assert (child.session_id in kept) is (way == "native")
    for each in kept.values():
        assert_valid(messages_of(each))
    (parent,) = (each for each in kept.values() if not each["parent_conversation_id"])
    spoken = [said for who, said in words(messages_of(parent)) if who not in {"user", "call"}]
    assert not any("Look long." in said for said in spoken)


def users(request: Any) -> list[str]:
    return [m["content"].split(" [[")[0] for m in request.body["messages"] if m["role"] == "user"]
