"""Entries of a transcript, as whoever reads one tells them apart."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from upthread.agents.claude_code.entries import is_put_in


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
