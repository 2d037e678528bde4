"""Each framework's example runs offline in an empty folder, and goes on when it is run again."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "examples" / "frameworks"
SAID = {
    "agent_framework_workflow": ("", ["going on after step 1", "built from 'the parser: a plan'"]),
    "claude_agent_sdk_store": ("Plan the parser.", ["Plan the parser.", "Plan the parser."]),
    "dbos_pipeline": ("constructor: ok", ["spec-42/planner: ok", "spec-42/constructor: ok"]),
    "google_adk_runner": ("I was given 1 messages.", ["I was given 3 messages."]),
    "langgraph_graph": (
        "kept: plan, build\n",
        ["waits for deploy", "deploy works", "build, deploy"],
    ),
    "openai_agents_chat": ("I remember 0 items.", ["I remember 2 items."]),
    "pydantic_ai_conversation": ("conversation had 0 messages", ["conversation had 2 messages"]),
    "temporal_activity": ("first: ok", ["first: ok", "again: ok"]),
}
"""What the first run prints, and lines of the second in their order."""


def test_every_example_is_tried():
    assert sorted(SAID) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", SAID)
def test_an_example_keeps_what_it_did_and_goes_on_from_it(name, sqlite_place):
    first_says, again_says = SAID[name]
    first, again = (
        subprocess.run(
            [sys.executable, FOLDER / f"{name}.py"],
            cwd=sqlite_place.repository,
            env=sqlite_place.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    )
    assert first_says in first.stdout, first.stderr[-2000:]
    assert again.returncode == 0, again.stderr[-2000:]
    at = 0
    for line in again_says:
        at = again.stdout.index(line, at) + len(line)
    assert "Warning" not in again.stderr


def test_two_apps_of_dbos_on_one_record_are_each_told_under_the_same_workflow_id(sqlite_place):
    """Each has a DBOS database of its own, which knows nothing of the other's workflows."""
    program = (FOLDER / "dbos_pipeline.py").read_text()
    other = program.replace('"pipeline"', '"other"').replace("dbos.sqlite", "other.sqlite")
    told = [
        subprocess.run(
            [sys.executable, "-c", each],
            cwd=sqlite_place.repository,
            env=sqlite_place.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for each in (program, other, program)
    ]
    assert told[0] == told[2]
    assert len({*told[0], *told[1]}) == 4


def test_every_line_of_code_in_the_docs_stands_in_an_example():
    page = (REPOSITORY / "docs" / "frameworks.md").read_text()
    examples = {line for path in FOLDER.glob("*.py") for line in path.read_text().splitlines()}
    blocks = page.split("```python\n")[1:]
    assert len(blocks) == len(SAID)
    for block in blocks:
        for line in block.split("```")[0].splitlines():
            assert line in examples, line
