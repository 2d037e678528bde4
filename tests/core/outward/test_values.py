"""What a line of shell says of its own names."""

from __future__ import annotations

import subprocess

import pytest

from upthread.core.outward.shell_commands import commands_in
from upthread.core.outward.values import output_of


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
