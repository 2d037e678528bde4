"""An agent's folder is found by its row, and loaded by nobody who does not ask for it."""

import subprocess
import sys

import pytest

from upthread.agents.base import AgentAdapter
from upthread.agents.registry import part_of
from upthread.core.agents import AGENTS

CALLED = {
    "stored": ("read_stored", "read_session", "read_asked", "stamp_of"),
    "histories": ("find_histories", "read_histories", "repair"),
}
"""What is called of each part by name, which no type checker sees."""


@pytest.mark.parametrize("row", AGENTS.values(), ids=lambda row: row.name)
def test_every_folder_has_the_parts_that_the_house_calls(row):
    adapter = part_of(row.name, "adapter")
    if not row.folder:
        assert adapter is None
        return
    assert adapter is not None
    made: AgentAdapter = adapter.ADAPTER(command=row.ways[0].command, environment={})
    assert (made.agent, made.command) == (row.name, row.ways[0].command)
    for part, names in CALLED.items():
        assert all(callable(getattr(part_of(row.name, part), name)) for name in names), part


def test_an_agent_that_no_row_is_about_has_no_part():
    assert part_of("../codex", "adapter") is None


def test_whoever_looks_at_the_rows_loads_no_folder():
    program = (
        "import upthread.agents.registry, sys; print([m for m in sys.modules if '.codex' in m])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout == b"[]\n"
