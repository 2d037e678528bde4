"""What a command hands to a shell, or starts, by its own words."""

from __future__ import annotations

import pytest

from upthread.core.outward.shell_commands import (
    HOLE,
    as_line,
    lines_run_by,
    name_of,
    unwrapped,
)


def words(line: str) -> tuple[str | None, ...]:
    return tuple(None if word == "?" else word for word in line.split())


@pytest.mark.parametrize(
    ("line", "run"),
    [
        ("sudo -u a git push", ("git", "push")),
        ("env A=b git push", ("git", "push")),
        ("timeout -k 1 5 nice -n 3 git push", ("git", "push")),
        ("flock /tmp/l git push", ("git", "push")),
        ("bash -lc line", "line"),
        ("sh -c ?", HOLE),
        ("sh -c", ""),
        ("eval a ?", f"a {HOLE}"),
        ("env -i", ()),
        ("", ()),
    ],
)
def test_what_is_run_at_last_is_told(line, run):
    assert unwrapped(words(line)) == run


def test_a_program_is_known_whatever_path_leads_to_it():
    assert (name_of("/usr/bin/git"), name_of("git"), name_of(None)) == ("git", "git", "")


def test_words_in_a_line_stay_what_they_are():
    assert as_line(["a b", None, "c"]) == f"'a b' {HOLE} c"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("find . -exec a {} ; -execdir b +", [f"a {HOLE}", "b"]),
        ("find . -ok a", ["a"]),
        ("git rebase -x line HEAD", ["line"]),
        ("git rebase --exec ?", [HOLE]),
        ("git status", []),
        ("git", []),
        ("git x b", []),
        ("ls", []),
        ("", []),
    ],
)
def test_what_runs_beside_a_command_is_told(line, lines):
    assert list(lines_run_by(words(line))) == lines
