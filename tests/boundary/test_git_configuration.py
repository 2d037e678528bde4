"""Git's configuration format, held to the real git.

upthread.boundary.git.files and upthread.boundary.git.private,
with the person's own from upthread.boundary.git.process.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.world import git, make_repository

from upthread.boundary.git.files import GitFileError, parse, read_configuration
from upthread.boundary.git.places import find_place
from upthread.boundary.git.private import tree_of

PIECES = (
    "[core]",
    '[remote "origin"]', '[a "b\\"c\\\\d"]', "[a.B]", "[", "]", "\n", "\n", "\n", " ", "\t",
    "url", "key-1", "=", " = ", "value", "two  words", '"quoted # no comment"', '"', "\\", "\\n",
    "\\\n", "# comment", "; comment", "true", "\r\n", "ü", "\\q", "1x", "_",
)  # fmt: skip


def told_by_git(path: Path) -> list[tuple[str, str]] | None:
    done = subprocess.run(
        ["git", "config", "--file", str(path), "--no-includes", "--list", "-z"],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        return None
    lines = os.fsdecode(done.stdout).split("\0")[:-1]
    # Before 2.45 git took any white space between two words for a blank.
    pairs = (line.replace("\t", " ").partition("\n") for line in lines)
    return [(name, value if equals else "true") for name, equals, value in pairs]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example('[core]\n\tfilemode = true\n[remote "origin"]\n\turl = git@x:y.git # why\n')
@example("[]")
@example('[ "x"]a=1')
@example('[a]b=c d  \n[a] e = " f "g ;x\n')
@example('[a]b = "it\'s; $(x)"\n')
def test_a_configuration_is_read_as_git_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, newline="")
    told = told_by_git(path)
    try:
        found = parse(text)
    except ValueError:
        # Where git reads more than we do nothing is guessed: the repository is refused.
        return
    assert told is not None
    kept = ((name, value) for name, values in found.values.items() for value in values)
    listed = [(name, value.replace("\t", " ")) for name, value in kept]
    assert sorted(listed) == sorted(told)


@pytest.mark.parametrize("piece", ['""', ' ""', " ", "\\\n", '"\\\n"', "x", ' x""', '"x" '])
def test_a_value_that_is_made_to_be_slow_is_refused_at_once(piece: str) -> None:
    before_s = time.process_time()
    with pytest.raises(ValueError):  # as it stands, git refuses it
        parse(f"[a]b = {piece * 20_000}\\q")
    assert time.process_time() - before_s < 2, "tried twice, some take 30 s"


@pytest.mark.parametrize(
    "text", ["", "[core]\n\tbare = false\n", '[branch "a/b"]\n\tmerge = refs/heads/a/b\n']
)
def test_what_git_writes_is_never_refused(text: str) -> None:
    parse(text)


def test_what_no_configuration_is_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[core\n")
    with pytest.raises(GitFileError, match=r"config: bad configuration line 1"):
        read_configuration(str(tmp_path / "config"))


def test_git_is_given_known_values_alone(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    (tmp_path / "patterns").write_text("*.log\n")
    for key, value in (
        ("core.autocrlf", "input"),
        ("core.eol", "lf\n[filter]"),
        ("core.fileMode", "no"),
        ("core.fsmonitor", "/bin/true"),
        ("core.excludesFile", str(tmp_path / "patterns")),
    ):
        git(root, "config", key, value)
    place = find_place(str(root))
    assert place is not None
    with tree_of(place, None) as told:
        given = Path(told.directory, "config").read_text()
        assert Path(told.directory, "excludesfile").read_bytes() == b"*.log\n"
    assert 'autocrlf = "input"' in given
    assert 'filemode = "no"' in given
    assert not [word for word in ("eol", "fsmonitor", "filter") if word in given]
