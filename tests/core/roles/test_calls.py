"""What a call is called with: each of its commands, its paths, what else names its object."""

from __future__ import annotations

from typing import Any

import pytest

from upthread.core.roles.calls import CalledWith, called_with
from upthread.core.shell.expected_call import Told, foreseen


def of(tool: str, arguments: Any, *, kind: str = "execute", reads: bool = False) -> CalledWith:
    told = foreseen([Told(title=tool, tool_kind=kind, arguments=arguments)])
    return called_with(told, tool=tool, reads_by_commands=reads)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git diff a", ("git diff a",)),
        ("cd b && rm -r c; ls", ("cd b", "rm -r c", "ls")),
        ("sudo rm a", ("sudo rm a", "rm a")),
        ("rm $A", ("rm ?",)),
        ("/bin/bash -lc 'git diff'", ("git diff",)),
        ("./bash -c 'git diff'", ("./bash -c git diff", "git diff")),
        ("bash a.sh", ("bash a.sh",)),
    ],
)
def test_each_command_of_a_line_is_compared_by_itself(line: str, words: tuple[str, ...]):
    assert of("Bash", {"command": line}) == CalledWith(words=words)


@pytest.mark.parametrize("arguments", [{}, {"command": "$A b"}, None])
def test_a_command_that_is_not_known_is_called_with_nothing_known(arguments: Any):
    assert of("bash", arguments) == CalledWith()


def test_a_command_without_a_tools_name_is_one_by_its_kind():
    assert of("", {"command": "ls"}) == CalledWith(words=("ls",))


def test_a_command_that_only_reads_is_reading_for_an_agent_that_reads_so():
    known = of("exec_command", {"command": "cat a b"}, reads=True)
    assert known == CalledWith(places=("a", "b"), only_reads=True)
    assert of("exec_command", {"command": "cat a"}) == CalledWith(words=("cat a",))
    assert of("exec_command", {"command": "rm a"}, reads=True) == CalledWith(words=("rm a",))


def test_other_tools_are_called_with_what_names_their_object():
    assert of("Edit", {"file_path": "a"}, kind="edit") == CalledWith(places=("a",))
    assert of("Task", {"subagent_type": "x", "p": 1}, kind="think") == CalledWith(words=("x",))
    assert of("webfetch", {"url": "http://a"}, kind="fetch") == CalledWith(words=("http://a",))
    assert of("webfetch", {"url": 7}, kind="fetch") == CalledWith()
    assert of("webfetch", None, kind="fetch") == CalledWith()
    assert of("mcp__a__b", {"x": "y"}, kind="other") == CalledWith()
