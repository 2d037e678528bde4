"""The kinds of calls, and which rule on them is the stricter."""

import json
from typing import get_args

import pytest

from upthread.core.shell.call_commands import (
    CHANGING,
    EXECUTE,
    KINDS,
    OTHER,
    STRICTNESS,
    Rule,
    holds_command,
    is_command,
)


def test_to_deny_is_stricter_than_to_ask_and_that_than_to_allow():
    assert sorted(STRICTNESS, key=lambda rule: STRICTNESS[rule]) == ["allow", "ask", "deny"]
    assert set(STRICTNESS) == set(get_args(Rule))


def test_what_changes_files_and_what_runs_is_said_by_its_kind_and_other_says_nothing():
    assert CHANGING | {EXECUTE} <= KINDS
    assert OTHER not in KINDS


# --- a command is found wherever an agent puts it, and ordinary calls of real agents hold non -----


ORDINARY = [
    None,
    {},
    [],
    "README.md",
    {"file_path": "/project/README.md", "offset": 1, "limit": 20},
    {"filePath": "/project/README.md", "metadata": {"loaded": []}},
    {"pattern": "def command", "path": "/project", "output_mode": "content", "-n": True},
    {"path": "scripts/shell/command.py", "query": '"command": "git push"'},
    {"bash_id": "b1", "filter": "cmd"},
    {"shell_id": "s1"},
    {"permission": "read", "patterns": "*.command"},
    {"url": "https://example.org/?cmd=ls", "prompt": "what does the command do"},
    {"todos": [{"content": "run the command", "status": "pending"}]},
    {"command": ""},
    {"command": None, "shell": False, "script": []},
    {"file_path": ".mcp.json", "content": '{"mcpServers": {"a": {"command": "npx"}}}'},
    {"filePath": "a.json", "oldString": '{"command": "a"}', "newString": '{"command": "b"}'},
    {"changes": [{"path": "a.json", "kind": {"type": "add"}, "diff": '{"script": "b"}'}]},
    {"arguments": '{"path": "a", "command": null}'},
]
PUSH = {"command": "git push"}
DEEP = {"a": [{"b": {"c": [[{"d": {"e": {"f": {"Shell-Command": "git push"}}}}]]}}]}


@pytest.mark.parametrize("arguments", ORDINARY)
def test_what_real_agents_read_search_and_write_with_holds_no_command(arguments):
    assert not holds_command(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        PUSH,
        {"cmd": "git push"},
        {"args": PUSH},
        {"Command": "git push"},
        {"script": ["git", "push"]},
        {"shell": {"line": "git push"}},
        {"command_line": "git push"},
        DEEP,
        [PUSH],
        json.dumps(PUSH),
        json.dumps([1, {"input": {"CMD": ["git", "push"]}}]),
        {"input": "  " + json.dumps(PUSH)},
        {"input": json.dumps({"input": json.dumps(PUSH)})},
        '{"\\u0063ommand": "git push"}',
    ],
)
def test_a_command_is_found_under_whatever_key_at_whatever_depth(arguments):
    assert holds_command(arguments)


@pytest.mark.parametrize("title", ["`git push`", " `git push origin main` (publish)", "`make`"])
def test_a_title_that_begins_as_a_command_in_backquotes_is_one(title):
    assert is_command(title)


@pytest.mark.parametrize("title", [None, "", "Read `a b.py`", "git push", "``", "`"])
def test_another_title_is_no_command(title):
    assert not is_command(title)


@pytest.mark.extended
@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["\\", '"', '"a', '"a" ', " ", "\\u", '{"a": ', "`"])
def test_a_long_text_is_looked_through_in_one_go(piece):
    text = "{" + piece * (300_000 // len(piece))
    assert not holds_command({"path": text})
    assert not is_command(text)
