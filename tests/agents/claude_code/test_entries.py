"""Entries of a transcript, as whoever reads one tells them apart."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from upthread.agents.claude_code.entries import EXAMINING, PATHS, is_put_in
from upthread.agents.claude_code.tools import kind_of, locations_of
from upthread.core.decision.examined import examination_of
from upthread.core.types import ToolCallPart


@pytest.mark.parametrize(
    ("entry", "is_its_own"),
    [
        ({}, False),
        ({"isMeta": True}, True),
        ({"isMeta": True, "origin": {"kind": "coordinator"}}, False),
        ({"isMeta": True, "origin": "coordinator"}, True),
        ({"isMeta": False, "origin": {"kind": "human"}}, False),
    ],
)
def test_what_a_main_session_goes_on_with_is_a_prompt_and_a_note_is_none(entry, is_its_own):
    assert is_put_in(entry) is is_its_own


def test_a_hook_loads_nothing_else_with_it():
    source = Path(__file__).parents[3] / "src"
    program = f"import sys; sys.path.insert(0, {str(source)!r}); before = set(sys.modules); "
    program += "import upthread.agents.claude_code.entries; print(set(sys.modules) - before)"
    words = [sys.executable, "-I", "-S", "-c", program]
    said = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    loaded = set(re.findall(r"'([\w.]+)'", said))
    assert {each for each in loaded if not each.startswith("upthread")} <= {"__future__"}
    assert "upthread.agents.claude_code.entries" in loaded


@pytest.mark.parametrize(("tool", "how"), EXAMINING.items())
def test_a_tool_that_takes_a_file_is_of_that_kind_to_the_adapter_and_to_the_core(tool, how):
    assert kind_of(tool) == {"read": "read", "wrote": "edit"}[how]
    assert [locations_of({name: "a"}) for name in PATHS] == [("a",), ("a",)]
    call = ToolCallPart(call_id="c", title=tool, tool_kind="other", arguments={"file_path": "a"})
    found = examination_of(call, root="/srv/project")
    assert found is not None
    assert (found.how, found.paths) == (how, ("a",))
