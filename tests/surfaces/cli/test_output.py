"""Output: whatever a stranger's text holds, every line is ours, and there are as many of them.

The oracle is a record of the same structure with plain words in it. The verbs are those the program
has, so that a new one is looked at without being named here.
"""

import fcntl
import json
import os
import re
import shutil
import struct
import termios
import threading
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from tests.support import completing
from tests.support.hostile_record import FORGED, HOSTILE_TEXT, Values, write_record

from upthread.surfaces.cli.program import ALIASES, load_verb, main
from upthread.surfaces.cli.program import VERBS as VERBS_THERE_ARE
from upthread.surfaces.cli.terminal.output import Output, width

COLUMNS = 60
VERBS = sorted({*VERBS_THERE_ARE, *ALIASES})
SKIPPED = {
    "demo": "plays a story of its own, in a store of its own",
    "export": "sends to a collector: tests/surfaces/exports",
    "mcp": "serves standard input: tests/surfaces/mcp_server",
    "web": "serves until it is ended: tests/surfaces/web",
}
READING = {"ls", "show", "why", "id", "audit", "brief", "status", "agents", "doctor"}
STRANGER_S_LINES = {"brief"}
"""A document for a model, in which what ends a line for anybody does; its headings are compared."""

PAINT = re.compile(r"\x1b\[\d+m")


class Place(NamedTuple):
    values: Values
    directory: Path
    home: Path


class Said(NamedTuple):
    out: str
    err: str
    code: int


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> tuple[Place, Place]:
    made: list[Place] = []
    for is_hostile in (False, True):
        values = Values(is_hostile=is_hostile)
        top = tmp_path_factory.mktemp("hostile" if is_hostile else "benign")
        directory, home = top / "project", top / "home"
        directory.mkdir()
        environment = {"UPTHREAD_HOME": str(home), "PATH": os.environ["PATH"], "HOME": str(top)}
        anyio.run(write_record, directory, environment, values)
        made.append(Place(values, directory, home))
    return made[0], made[1]


def arguments_of(verb: str, values: Values) -> list[str]:
    """What a verb asks for, from its own parameters: a metavar that is new has to be said here."""
    address = f"{values.name}/planner"
    known = {
        "WS": values.name,
        "[WS]": values.name,
        "WS|ADDRESS": values.name,
        "ADDRESS": address,
        "AGENT|ADDRESS": address,
        "ID": values.line,
        "AGENT": "claude",
        "FILE": values.line,
        "ROLE": values.line,
        "FIRST": values.line,
        "THEN": values.line,
        "[QUESTION] TEXT": "an answer",
        "WORDS": re.findall("[A-Za-z]{3,}", values.line)[0],
    }
    if verb in ALIASES:
        return [address] if verb == "brief" else []
    given: list[str] = []
    for each in load_verb(verb).params:
        if each.param_type_name == "argument" and (each.required or each.metavar == "[WS]"):
            given.append(known[each.metavar])
        elif each.required:
            given += [each.opts[0], f"{values.name}/auditor"]
    return given


def run_verb(place: Place, verb: str, more: list[str], monkeypatch, capfd, tmp_path) -> Said:
    """Run it on a copy of the record, as it is typed into a pipe."""
    enter(place, monkeypatch, tmp_path)
    capfd.readouterr()
    code = main([verb, *arguments_of(verb, place.values), *more])
    out, err = capfd.readouterr()
    return Said(out, err, code)


def enter(place: Place, monkeypatch, tmp_path: Path) -> None:
    copy = tmp_path / place.home.parent.name / "home"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place.home, copy)
    monkeypatch.setenv("UPTHREAD_HOME", str(copy))
    monkeypatch.setenv("HOME", str(copy.parent))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(place.directory)


def structure(value: Any) -> Any:
    """What JSON is made of, without what it says."""
    if isinstance(value, dict):
        return {
            name if re.fullmatch("[a-z_]+", name) else "*": structure(v)
            for name, v in value.items()
        }
    if isinstance(value, list):
        return [structure(each) for each in value]
    return type(value).__name__


def headings(document: str) -> list[str]:
    return [line for line in document.splitlines() if re.match("##? ", line)]


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in SKIPPED])
def test_every_verb_says_as_many_lines_of_a_hostile_record(
    verb, places, monkeypatch, capfd, tmp_path
):
    benign, hostile = (run_verb(place, verb, [], monkeypatch, capfd, tmp_path) for place in places)
    assert hostile.code == benign.code, hostile
    assert "a bug in upthread" not in hostile.err
    assert hostile.code == 0 or verb not in READING
    for ours, theirs in ((benign.out, hostile.out), (benign.err, hostile.err)):
        if verb in STRANGER_S_LINES:
            assert headings(theirs) == headings(ours)
        else:
            assert theirs.count("\n") == ours.count("\n"), theirs
        assert not [c for c in theirs if not c.isprintable() and c not in "\n\t\u00a0"]
    lines = [*hostile.out.split("\n"), *hostile.err.split("\n")]
    if verb not in {"audit", *STRANGER_S_LINES}:
        assert not [line for line in lines if line.startswith(FORGED[:6])]
    assert max(map(len, lines)) < 10_000


FORMS = (
    ("show", "--tree"),
    ("audit", "--format", "html"),
    ("audit", "--format", "atif"),
    ("audit", "--format", "otel", "--content"),
)
"""Other forms of what a verb shows of the record."""


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_every_form_says_as_many_lines_of_a_hostile_record(
    form, places, monkeypatch, capfd, tmp_path
):
    verb, *more = form
    benign, hostile = (
        run_verb(place, verb, more, monkeypatch, capfd, tmp_path) for place in places
    )
    assert (hostile.code, benign.code) == (0, 0), hostile
    assert hostile.out.count("\n") == benign.out.count("\n"), hostile.out
    assert not [c for c in hostile.out if not c.isprintable() and c not in "\n\t\u00a0"]


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in SKIPPED])
def test_every_verb_s_json_has_the_same_structure(verb, places, monkeypatch, capfd, tmp_path):
    told = [
        run_verb(place, verb, ["--json"], monkeypatch, capfd, tmp_path).out.splitlines()
        for place in places
    ]
    benign, hostile = ([structure(json.loads(line)) for line in lines] for lines in told)
    assert hostile == benign
    assert all(line.isascii() for line in told[1])


@pytest.mark.parametrize("verb", ["ls", "show", "why", "id", "run", "answer", "open", "reset"])
def test_no_line_on_a_narrow_terminal_begins_with_a_stranger_s_words(
    verb, places, monkeypatch, tmp_path
):
    enter(places[1], monkeypatch, tmp_path)
    shown = on_terminal(lambda: main([verb, *arguments_of(verb, places[1].values)]), monkeypatch)
    for line in shown.split("\n"):
        assert not line.startswith(FORGED[:6])
        is_command = any(each in line for each in ("upthread ", "cd "))
        assert width(line) <= COLUMNS or is_command, line


def on_terminal(act: Any, monkeypatch) -> str:
    """What somebody sees who looks at a terminal of so many columns."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                return
            if not piece:
                return
            seen.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with (
        os.fdopen(theirs, "w", encoding="utf-8") as out,
        os.fdopen(os.dup(theirs), "w", encoding="utf-8") as err,
    ):
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setenv("TERM", "xterm")
        act()
        monkeypatch.undo()
    reader.join(30)
    os.close(ours)
    return PAINT.sub("", seen.decode("utf-8", "replace").replace("\r\n", "\n"))


def test_each_line_of_a_reply_on_a_terminal_is_behind_a_bar(monkeypatch):
    def act() -> None:
        output = Output()
        output.note("ours: the beginning")
        for piece in re.findall(r"(?s).{1,7}", f"{HOSTILE_TEXT}\n{'word ' * 40}{FORGED}"):
            output.reply(piece)
        output.end_line()
        output.note("ours: the end")

    first, *reply, last, rest = on_terminal(act, monkeypatch).split("\n")
    assert (first, last, rest) == ("ours: the beginning", "ours: the end", "")
    assert all(line.startswith("│") and width(line) <= COLUMNS for line in reply)
    assert len(reply) > HOSTILE_TEXT.count("\n") + 4
    assert "\u0301" * 5 not in "".join(reply)


def test_a_reply_alone_in_a_pipe_is_as_it_was_said(capfd):
    output = Output()
    output.note("ours")
    for piece in ("# He", "llo\n\tworld", "\n"):
        output.reply(piece)
    output.end_line()
    assert capfd.readouterr().out == "# Hello\n\tworld\n"


def test_a_reply_in_one_file_with_our_lines_is_behind_a_bar(tmp_path, monkeypatch):
    with (
        (tmp_path / "log").open("w", encoding="utf-8") as log,
        os.fdopen(os.dup(log.fileno()), "w", encoding="utf-8") as err,
    ):
        monkeypatch.setattr("sys.stdout", log)
        monkeypatch.setattr("sys.stderr", err)
        output = Output()
        output.note("ours")
        output.reply(f"hello\n{FORGED}\n")
        output.end_line()
        monkeypatch.undo()
    assert (tmp_path / "log").read_text() == f"ours\n│ hello\n│ {FORGED}\n"


@pytest.mark.soak
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_shell_is_offered_a_name_that_it_would_look_into(shell, places, monkeypatch, tmp_path):
    for place, is_offered in zip(places, (True, False), strict=True):
        enter(place, monkeypatch, tmp_path)
        offered, said = completing.completed("upthread show ", shell=shell)
        assert ("spec" in "".join(offered)) == is_offered
        assert "touch" not in "".join(offered) + said


def test_a_command_that_is_suggested_is_read_back_by_a_shell_as_what_it_means(
    places, monkeypatch, capfd, tmp_path
):
    said = run_verb(places[1], "show", [], monkeypatch, capfd, tmp_path)
    whole = said.out + run_verb(places[1], "run", [], monkeypatch, capfd, tmp_path).out
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "upthread"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$#" >> "$COUNTED"\n')
    program.chmod(0o755)
    commands = re.findall(r"^(?:  then go on:|   ) (upthread .*)$", whole, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        done = os.spawnve(
            os.P_WAIT,
            "/bin/sh",
            ["sh", "-c", command],
            {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "COUNTED": str(tmp_path / "counted")},
        )
        assert done == 0, command
    assert set((tmp_path / "counted").read_text().split()) == {"2", "4"}
    assert not Path("pwned").exists()
