"""The commands in a line, as a shell would run them; compared with a real one."""

import shlex
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.sets import EXTENDED

from upthread.core.outward.shell_commands import (
    HOLE,
    as_line,
    commands_in,
    lines_run_by,
    name_of,
    unwrapped,
)

LINES = [
    *("p a b", "p 'a b'", 'p "a b"', "p a\\ b", "p $'a\\tb'", "p a'b'\"c\"", 'p "a\\"b"', "p \\$x"),
    *("p -- a", "p 'a;b'", "p a; p b", "p a && p b", "(p a; p b)", "{ p a; }", "p a | cat", "p ''"),
    *("if true; then p a; fi", "for i in 1; do p a; done", "x=1 p a", "p a # b", "p \\\n a"),
    *("p a > /dev/null; p b", "sh -c 'p a'", "eval 'p a'", "f() { p a; }; f", "p 12", "! p a"),
    *(
        "case a in a) p a;; esac",
        "while p a; do break; done",
        "p a &\nwait",
        "p 'a\nb'",
        'p "a\\b"',
    ),
]


@EXTENDED
@pytest.mark.parametrize("line", LINES)
def test_words_are_those_that_a_real_shell_hands_over(line, tmp_path):
    """The oracle is bash itself: `p` is a program that keeps its words."""
    program = tmp_path / "p"
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$#" "$@" >> "$KEPT"\n')
    program.chmod(0o700)
    kept = tmp_path / "kept"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KEPT": str(kept)}
    subprocess.run(["/bin/bash", "-c", line], env=environment, check=False, capture_output=True)
    read = "\0".join([*_told(line), ""]) if _told(line) else ""
    assert read == kept.read_bytes().decode() if kept.exists() else ""


def _told(line):
    found = [each.words for each in commands_in(line) if each.words[0] == "p"]
    return [word for words in found for word in (str(len(words) - 1), *words[1:])]


@EXTENDED
@given(st.lists(st.text(min_size=1).filter(lambda t: "\0" not in t), min_size=1, max_size=4))
@example(["==", "=~"])
def test_words_that_were_quoted_for_a_shell_come_back(words):
    line = shlex.join(["p", *(w.encode("utf-8", "replace").decode() for w in words)])
    assert commands_in(line)[0].words == tuple(shlex.split(line))


BRACES = """
import sys
from upthread.core.outward.shell_commands import commands_in
for code in range(0x10000, 0x110000, int(sys.argv[1])):
    words = [word for each in commands_in(f"done {{{chr(code)}*=") for word in each.words]
    assert any(chr(code) in (word or "") for word in words), code
"""


@pytest.mark.parametrize("every", ["2003", pytest.param("101", marks=EXTENDED)])
def test_no_character_ends_the_process_that_reads_it(every):
    """The grammar's own scanner asks a table of C's about them that has 256 places."""
    done = subprocess.run([sys.executable, "-c", BRACES, every], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_words_beyond_ascii_come_back():
    said = "echo na\u00efve \"\u00c0\u00cf \u2026\" '\U0001f600' $'\u00e9'"
    line = f"{said}; sh -c 'git push \u00c5 \u03a9'"
    assert [command.words for command in commands_in(line)] == [
        ("echo", "na\u00efve", "\u00c0\u00cf \u2026", "\U0001f600", "\u00e9"),
        ("git", "push", "\u00c5", "\u03a9"),
    ]


@given(st.text())
def test_any_text_is_read(text):
    for command in commands_in(text):
        assert command.words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("p $x", ("p", None)),
        ('p "a$x"', ("p", None)),
        ("p a$x", ("p", None)),
        ("p $(q)", ("p", None)),
        ("p 10#${x}", ("p", None)),
        ("$x a", (None, "a")),
    ],
)
def test_what_only_running_it_would_tell_is_not_known(line, words):
    assert words in [each.words for each in commands_in(line)]


def test_commands_within_commands_are_found_to_a_depth():
    line = "git push"
    for _ in range(4):
        line = shlex.join(["sh", "-c", line])
    assert [each.words for each in commands_in(line)] == [("git", "push")]


def test_a_directory_is_the_one_that_was_gone_to():
    where = {each.words[0]: each.directory for each in commands_in("a; cd x; b; cd y; c; cd /z; d")}
    assert where == {"a": "", "cd": "x/y", "b": "x", "c": "x/y", "d": "/z"}


@EXTENDED
def test_a_line_is_read_to_a_length_and_never_slowly():
    assert commands_in("a " * 1_000_000)[0].words[0] == "a"
    commands_in("((" * 100_000)
    commands_in("$(" * 100_000)


# --- what a command hands to a shell, or starts, by its own words ---------------------------------


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
