"""What Codex's command line says for a hook of ours: readable TOML, and trusted as Codex counts.

The hooks Codex lists: which of them it would run. The real one is asked in tests/live.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from upthread.agents.codex.adapter import TIMEOUT_S, Hook, hook_words, hooks_in


def given() -> dict:
    """What the words after each `-c` add up to."""
    words = hook_words()
    assert words[::2] == ("-c",) * (len(words) // 2)
    return tomllib.loads("\n".join(words[1::2]))["hooks"]


def test_one_hook_stands_before_every_tool():
    ((matcher),) = given()["PreToolUse"]
    (hook,) = matcher["hooks"]
    assert (matcher["matcher"], hook["type"]) == ("*", "command")
    assert hook["timeout"] == TIMEOUT_S


def test_it_runs_isolated_by_absolute_path_and_is_there():
    ((matcher),) = given()["PreToolUse"]
    python, *options, program = shlex.split(matcher["hooks"][0]["command"])
    assert Path(python).is_absolute()
    assert options == ["-I", "-S"]
    assert Path(program).is_file()
    done = subprocess.run(
        [python, *options, program], input="{}", capture_output=True, text=True, check=False
    )
    assert "deny" in done.stdout, done


def test_the_trust_is_of_exactly_that_hook():
    """As Codex 0.169.0 counts it: sorted keys, no spaces, the event's name in lower case."""
    ((matcher),) = given()["PreToolUse"]
    hooks = [{"async": False, **matcher["hooks"][0]}]
    identity = {"event_name": "pre_tool_use", "hooks": hooks, "matcher": "*"}
    text = json.dumps(identity, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    ((key, trusted),) = given()["state"].items()
    assert key.endswith(":pre_tool_use:0:0")
    assert trusted == {"trusted_hash": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


def listed(**more):
    return {"eventName": "preToolUse", "command": "look", "enabled": True, **more}


@pytest.mark.parametrize(
    ("more", "is_run"),
    [
        ({"trustStatus": "trusted"}, True),
        ({"trustStatus": "managed"}, True),
        ({"trustStatus": "untrusted"}, False),
        ({"trustStatus": "modified"}, False),
        ({"trustStatus": "trusted", "enabled": False}, False),
        ({}, False),
    ],
)
def test_a_hook_is_run_when_it_is_on_and_somebody_trusts_it(more, is_run):
    answer = {"data": [{"cwd": "/p", "hooks": [listed(**more)]}]}
    assert hooks_in(answer) == (Hook(event="preToolUse", command="look", is_run=is_run),)


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": [{"hooks": "none"}]}])
def test_an_answer_without_hooks_lists_none(answer):
    assert hooks_in(answer) == ()
