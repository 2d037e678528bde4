"""Which commands their words do not tell, and what is to be read for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.outward.opaque import included_in, is_writing, opaque_of, recipe_of, script_of
from upthread.core.outward.shell_commands import ShellCommand, commands_in


def of(line):
    return [found for each in commands_in(line) if (found := opaque_of(each))]


@pytest.mark.parametrize(
    ("line", "way", "files", "arguments"),
    [
        ("./a b", "program", ("./a",), ("b",)),
        ("sh -x a b c", "shell", ("a",), ("b", "c")),
        (". a", "shell", ("a",), ()),
        ("python3.11 -u a.py b", "code", ("a.py",), ("b",)),
        ("python -m a.b", "code", ("a/b.py", "a/b/__main__.py"), ()),
        ("make -C d t A=b", "make", ("d/GNUmakefile", "d/makefile", "d/Makefile"), ("t",)),
        ("make -f f t", "make", ("f",), ("t",)),
        ("npm --prefix d run t", "package", ("d/package.json",), ("t",)),
        ("npm t", "package", ("package.json",), ("test",)),
        ("uv run ./a", "program", ("./a",), ()),
        ("V=a.py; python $V", "code", ("a.py",), ()),
    ],
)
def test_what_is_to_be_read_is_named(line, way, files, arguments):
    (found,) = of(line)
    assert (found.way, found.files, found.arguments) == (way, files, arguments)
    assert not found.is_closed


@pytest.mark.parametrize("line", ["$X a", "sh $X", "python $X", "python -c $X", "git zz", "git $X"])
def test_what_cannot_be_told_is_closed(line):
    assert [each.is_closed for each in of(line)] == [True]


@pytest.mark.parametrize(
    "line",
    [
        *("ls", "git status", "git", "sh", "sh -s", "python", "python -", "make -n a", "npm ci"),
        *("npm run", "npm", "awk 1 a", "/usr/bin/ls", "/usr/lib/git-core/git-status", "uv"),
    ],
)
def test_what_its_words_tell_is_not_opaque(line):
    assert of(line) == []


def test_no_words_are_no_command():
    assert opaque_of(ShellCommand(words=())) is None


def test_a_program_that_makes_files_of_others_is_known():
    assert is_writing(("/bin/cp", "a", "b"))
    assert not is_writing(("cat", "a"))


# --- the commands that a task stands for, read as text --------------------------------------------


MAKEFILE = """\
# what it does
A := x
B = $(A) y
.PHONY: one
one: two three
\t@echo ${B} $$HOME
two:
\t-two \\
\tagain
three: one ; third
a b: c
\tboth
url = http://x
"""


def test_a_target_is_its_commands_and_those_it_depends_on():
    assert recipe_of(MAKEFILE, ["one"]).split("\n") == [
        "echo x y $HOME",
        *("two  \tagain", "third"),
    ]
    assert recipe_of(MAKEFILE, []) == recipe_of(MAKEFILE, ["one"])
    assert recipe_of(MAKEFILE, ["b"]) == "both"
    assert recipe_of(MAKEFILE, ["none"]) == recipe_of("", []) == ""


def test_variables_that_hold_themselves_come_to_an_end():
    assert len(recipe_of("A = $(A)$(A)\na:\n\t$(A)\n", ["a"])) < 1000


def test_what_is_taken_in_is_named():
    assert included_in("include a.mk b.mk\n-include c\nimport 'd.just'\nx: y\n") == (
        *("a.mk", "b.mk", "c", "d.just"),
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"scripts": []}', '{"scripts": {"a": 1}}', "[" * 100_000]
)
def test_a_package_without_such_a_script_has_none(text):
    assert script_of(text, "a") == ""


def test_a_script_is_what_comes_before_and_after_as_well():
    package = '{"scripts": {"prea": "1", "a": "2", "posta": "3", "b": "4"}}'
    assert script_of(package, "a") == "1\n2\n3"


@pytest.mark.extended
@given(st.text())
def test_any_text_is_read(text):
    recipe_of(text, [])
    included_in(text)
    script_of(text, "a")
