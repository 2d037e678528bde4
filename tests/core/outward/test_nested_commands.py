"""What a command hands to a shell, or starts, by its own words."""

from __future__ import annotations

import subprocess

import pytest

from upthread.core.outward.nested_commands import (
    HOLE,
    aliases_in,
    arguments_of,
    as_line,
    given_by_xargs,
    lines_run_by,
    name_of,
    output_of,
    unwrapped,
)
from upthread.core.outward.shell_commands import commands_in


def words(line: str) -> tuple[str | None, ...]:
    return tuple(None if word == "?" else word for word in line.split())


@pytest.mark.parametrize(
    ("line", "run"),
    [
        ("sudo -u a git push", ("git", "push")),
        ("env A=b git push", ("git", "push")),
        ("timeout -k 1 5 nice -n 3 git push", ("git", "push")),
        ("flock /tmp/l git push", ("git", "push")),
        ("trap line EXIT", "line"),
        ("trap EXIT", ("trap", "EXIT")),
        ("bash -lc line", "line"),
        ("sh -c ?", HOLE),
        ("sh -c", ""),
        ("eval a ?", f"a {HOLE}"),
        ("env -S line rest", "line rest"),
        ("env -Sline rest", "line rest"),
        ("env -i", ()),
        ("busybox", ()),
        ("flock l -c line", "line"),
        ("script -qc line out", "line"),
        ("script out", ("script", "out")),
        ("", ()),
    ],
)
def test_what_is_run_at_last_is_told(line, run):
    assert unwrapped(words(line)) == run


def test_what_a_shell_has_as_its_arguments_comes_after_its_line_and_its_name():
    assert arguments_of(words("sudo sh -c line name a b")) == ("a", "b")
    assert arguments_of(words("sh file a")) == arguments_of(words("env")) == ()


def test_a_program_is_known_whatever_path_leads_to_it():
    assert (name_of("/usr/bin/git"), name_of("git"), name_of(None)) == ("git", "git", "")


def test_words_in_a_line_stay_what_they_are():
    assert as_line(["a b", None, "c"]) == f"'a b' {HOLE} c"


@pytest.mark.parametrize(
    ("line", "told", "run"),
    [
        ("xargs git", ("push", "a"), ("git", "push", "a")),
        ("xargs -n1 git push", ("a",), ("git", "push", "a")),
        ("xargs -I% git push %", ("a",), ("git", "push", "a")),
        ("xargs -I % git push x%", ("a",), ("git", "push", "xa")),
        ("xargs -I{} git push {} ?", ("a", "b"), ("git", "push", None, None)),
        ("cat", ("a",), ()),
        ("", ("a",), ()),
    ],
)
def test_xargs_runs_what_it_is_told(line, told, run):
    assert given_by_xargs(words(line), told) == run


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("find . -exec a {} ; -execdir b +", [f"a {HOLE}", "b"]),
        ("find . -ok a", ["a"]),
        ("npm exec -c line", ["line"]),
        ("git rebase -x line HEAD", ["line"]),
        ("git rebase -i --exec=line HEAD", ["line"]),
        ("git -C a bisect run b c", ["b c"]),
        ("git submodule foreach --recursive line", ["line"]),
        ("git submodule foreach a b", ["a b"]),
        ("git status", []),
        ("git", []),
        ("git -C a z b", ["git -C a push b"]),
        ("git x b", ["line b"]),
        ("g b", ["git b"]),
        ("ls", []),
        ("", []),
    ],
)
def test_what_runs_beside_a_command_is_told(line, lines):
    aliases = {"git z": "push", "git x": "!line", "g": "git"}
    assert list(lines_run_by(words(line), aliases)) == lines


def test_aliases_are_those_that_a_command_makes():
    assert list(aliases_in(words("alias a=b c -p"))) == [("a", "b")]
    assert list(aliases_in(words("git -c alias.a=b -c c.d=e a"))) == [("git a", "b")]
    assert list(aliases_in(words("git config --global alias.a b"))) == [("git a", "b")]
    assert list(aliases_in(words("git config alias.a ?"))) == [("git a", HOLE)]
    assert list(aliases_in(words("git config user.name b"))) == []
    assert list(aliases_in(())) == []


# --- what a line of shell says of its own names ---------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("A=x; p $A", ("p", "x")),
        ("A='x y'; p $A", ("p", "x", "y")),
        ("A='x y'; p \"$A\"", ("p", "x y")),
        ('A="x y"; p "a ${A}  $A b"', ("p", "a x y  x y b")),
        ("A=x; p a${A}b", ("p", "axb")),
        ("export A=x; p $A", ("p", "x")),
        ("p ${A:-x}", ("p", "x")),
        ("p ${A-x}", ("p", "x")),
        ("p $(which git)", ("p", "git")),
        ('set -- a b; p "$@"', ("p", "a", "b")),
        ('set -- a b; p "x $*"', ("p", "x a b")),
        ('f() { p "$2" $1; }; f a b', ("p", "b", "a")),
        ("sh -c 'p $1' _ a", ("p", "a")),
        ("f() { p x; }; f", ("p", "x")),
        ("A=x; sh -c 'p $A'", ("p", "x")),
    ],
)
def test_a_value_that_a_line_gives_is_known(line, words):
    assert words in [each.words for each in commands_in(line)]


@pytest.mark.parametrize(
    "line",
    [
        *("A=x; A=y; p $A", "A=x; A+=y; p $A", "A=x; read A; p $A", "for A in x; do p $A; done"),
        *("A=$(q); p $A", 'A="$x"; p $A', "A=x*; p $A", "p $1", "p ${A#x}"),
        *("f() { p $3; }; f a b", "p $@", "p $A", "sh -c 'A=x; A=y; p $A'"),
    ],
)
def test_a_value_that_may_be_another_is_not_known(line):
    told = [each.words for each in commands_in(line) if each.words[0] == "p"]
    assert set(told) == {("p", None)}


def test_a_value_is_never_told_alone_as_something_may_have_come_between():
    first, again = (each for each in commands_in("A=x; p $A"))
    assert (first.words, first.is_told_again) == (("p", None), True)
    assert (again.words, again.is_told_again) == (("p", "x"), False)


def test_functions_that_call_each_other_come_to_an_end():
    calls = "; ".join(["f $1"] * 20)
    assert commands_in(f"f() {{ {calls}; }}; f a")


def test_a_function_that_calls_itself_with_more_each_time_comes_to_an_end():
    found = [each.words for each in commands_in("f() { git push $1; f $1 x $@; }; f a")]
    assert ("git", "push", "a") in found
    assert ("f", "a", "x", "a", "x", "a") in found, "with other words it is another call"
    assert len(found) < 1_000


@pytest.mark.parametrize(
    "words",
    [
        ("echo", "a", "b c"),
        ("echo", "-e", "a\\nb"),
        ("printf", "git %s %s\\n", "a", "b", "c", "d"),
        ("printf", "100%%\\n"),
        ("printf", "a\\tb", "c"),
        ("printf", "%s"),
    ],
)
def test_what_is_written_is_what_a_real_shell_writes(words):
    line = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert (output_of(words) or "").rstrip("\n") == done.stdout.decode().rstrip("\n")


def test_of_another_program_it_is_not_known_what_it_writes():
    assert output_of(("cat", "a")) is output_of(()) is output_of(("printf",)) is None
