"""Which commands their words do not tell, and what is to be read for it."""

from __future__ import annotations

import pytest

from upthread.core.outward.opaque import is_writing, opaque_of
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
