"""How much of a session's reading is known, in numbers and in words."""

import pytest

from upthread.core.decision.examined import ExaminedFile, Reading, reading_of
from upthread.core.types import ErasedPart, TextPart, ToolCallPart, ToolResultPart

ROOT = "/srv/project"
KNOWN = (
    ExaminedFile(path="a.py", how="shown", state="hashed"),
    ExaminedFile(path="src/b.py", how="wrote", state="hashed"),
)


def call(
    line: str | None, *, kind: str = "execute", title: str = "", cwd: str = ""
) -> ToolCallPart:
    arguments = {"command": line, "workdir": cwd} if line is not None else None
    return ToolCallPart(
        call_id=f"{kind} {line}", title=title or str(line), tool_kind=kind, arguments=arguments
    )


def failed(part: ToolCallPart) -> ToolResultPart:
    return ToolResultPart(call_id=part.call_id, status="failed", text="")


def commands_not_known(*parts: object) -> int:
    return reading_of(parts, KNOWN, root=ROOT).commands_not_known  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "part",
    [
        call("cat a.py"),
        call("cat *.py src/*.py"),
        call("cat b.py", cwd="src"),
        call("cat /dev/null && echo done"),
        call("cat a.py", kind="other"),
        call(None, kind="other", title="mcp__tracker__list"),
        call(None, kind="edit", title="Edit a.py"),
        ToolCallPart(call_id="r", title="read", tool_kind="read", locations=("a.py",)),
        TextPart(text="cat c.py"),
    ],
)
def test_what_names_all_it_reads_leaves_nothing_open(part):
    assert reading_of([part], KNOWN, root=ROOT) == Reading(files=2)


@pytest.mark.parametrize(
    "part",
    [
        call("pytest -q"),
        call("cat c.py"),
        call("cat b.py"),
        call("cat *.txt"),
        call("make", kind="other"),
        call("rg x", kind="read"),
        call("rg x", kind="search"),
        call(None, title="something"),
    ],
)
def test_a_command_of_which_it_is_not_known_what_it_read_is_counted(part):
    found = reading_of([part], KNOWN, root=ROOT)
    assert found == Reading(files=2, commands_not_known=1)


def test_a_reader_that_failed_showed_nothing_and_a_program_that_failed_may_have():
    reader, program = call("cat c.py"), call("pytest -q")
    assert commands_not_known(reader, failed(reader), program, failed(program)) == 1


def test_a_search_may_have_read_any_file_and_names_alone_are_none():
    grep = call(None, kind="search", title="Grep password")
    names = call(None, kind="search", title="Glob **/*.py")
    gone = call("x", kind="search", title="grep x")
    untitled = ToolCallPart(call_id="u", title="", tool_kind="search")
    found = reading_of([grep, names, untitled], (), root=ROOT)
    assert found == Reading(files=0, searches_not_known=2)
    assert commands_not_known(gone) == 1
    assert reading_of([grep, failed(grep)], (), root=ROOT) == Reading(files=0)


def test_calls_whose_words_were_forgotten_are_told_apart():
    parts = [ErasedPart(kind="tool_call", call_id="c"), ErasedPart(kind="text")]
    assert reading_of(parts, KNOWN, root=ROOT) == Reading(files=2, calls_not_kept=1)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (Reading(files=0), "no file"),
        (Reading(files=1), "1 file"),
        (
            Reading(files=12, commands_not_known=2),
            "12 files; 2 commands whose reading is not known",
        ),
        (
            Reading(files=3, commands_not_known=1, searches_not_known=2, calls_not_kept=1),
            "3 files; 1 command and 2 searches whose reading is not known; 1 call not kept",
        ),
    ],
)
def test_it_is_said_in_words(reading, words):
    assert reading.in_words == words
