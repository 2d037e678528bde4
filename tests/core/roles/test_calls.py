"""What a call is called with: each of its commands, its paths, what else names its object."""

from __future__ import annotations

from typing import Any

import pytest

from upthread.core.outward.repeatable import only_reads
from upthread.core.outward.shell_commands import COMMAND_CHARACTERS_MAX
from upthread.core.shell.expected_call import CalledWith, Told, called_with, foreseen


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


HIDING = [
    *("echo git push | sh", "bash -s < x", "alias gp='git push'; gp", "echo push | xargs git"),
    *("env -S 'git push'", "git -c alias.p=push p", "flock l -c 'git push'", "busybox sh -c ls"),
    *("V=push; git $V a", 'p() { git "$@"; }; p push', 'set -- push; git "$@"', "git ${X:-push}"),
    *("bash -c 'git \"$@\"' _ push", "for b in push; do git $b; done", "read a <<<push; git $a"),
]


@pytest.mark.parametrize(
    "arguments", [{}, {"command": "$A b"}, None, *({"command": each} for each in HIDING)]
)
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


# --- what certainly does nothing but read; of all else it is not certain --------------------------


READS = (
    *("cat a", "cat -n 'a b' | head -2", "cat < a", "cat a && ls; pwd", "cat a 2>/dev/null"),
    *("cat a 2>&1", "cat a > /dev/null", "sed -n 1,80p a", "sed -n '1,$p' a", "rg -n word src"),
    *("grep -rn word .", "find . -name 'a.py'", "sort -r a", "bash -lc 'cat a'", "cat *.py"),
    *("/bin/bash -lc \"sh -c 'cat a'\"", "tail -n +3 a", "sort -- a"),
)
NOT_CERTAIN = (
    *("", "# cat a", "rm a", "cat a > b", "cat a >> b", "cat a >| b", "cat a &> b", "cat a >&b"),
    *(
        "cat a > /dev/null/../b",
        "cat $(rm a)",
        "cat `rm a`",
        "cat $A",
        'echo "$(rm a)"',
        "A=b cat a",
    ),
    *("cat <(rm a)", "cat a; rm b", "cat a\nrm b", "ls | tee a", "ls | sh", "./cat a", "bin/cat a"),
    *("cat() { rm a; }; cat a", "alias cat=rm; cat a", "if true; then rm a; fi"),
    *("sed -n '1w b' a", "sed -i s/a/b/ a", "sed -n 1p -i a", "sed -n", "sed 1p a", "awk 1 a"),
    *("find . -delete", "find . -exec rm {} +", "find . -fprint b", "find *", "find {-delete,b}"),
    *("rg --pre=sh a", "rg --pr sh a", "rg -nz a", "rg --hostname-bin=sh a", "sort -o b a"),
    *("sort --output=b a", "sort -ro b a", "sort *", "bash -c 'rm a'", "bash a.sh", "bash -x -c a"),
    *("git log", "env cat a", "cat 'a", "echo a | xargs cat", "rg x *", "rg x ?pre=./a"),
    "cat " + "a" * COMMAND_CHARACTERS_MAX,
)


def test_a_line_of_known_readers_only_reads():
    assert [line for line in READS if not only_reads(line)] == []


def test_of_a_line_with_anything_else_it_is_not_certain():
    assert [line for line in NOT_CERTAIN if only_reads(line)] == []
