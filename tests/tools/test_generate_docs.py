import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the documents and of the tool, which finds them beside itself."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "generate_docs.py", tmp_path / "tools")
    return tmp_path


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.generate_docs", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # a copy has no tests/support of its own
    return subprocess.run(
        command,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


PAGES = ("docs/decisions.md", "docs/state-machines.md", "docs/adr/README.md")
"""What `make check` takes a quarter of a minute for, a few pages show."""


def test_the_documents_say_what_the_tables_say():
    done = run(ROOT, "--check", *PAGES)
    assert done.returncode == 0, done.stdout


def test_a_page_that_there_is_not_is_named():
    done = run(ROOT, "--check", "docs/nothing.md")
    assert (done.returncode, "docs/nothing.md" in done.stdout) == (2, True)


def test_a_stale_document_is_named_and_left_alone_by_a_check_and_written_without_one(
    checkout: Path,
):
    document = checkout / "docs" / "decisions.md"
    right = document.read_text(encoding="utf-8")
    stale = right.replace("| 1 | `own_or_ancestor`", "| 1 | `something_else`")
    assert stale != right
    document.write_text(stale, encoding="utf-8")
    done = run(checkout, "--check", *PAGES)
    assert done.returncode == 1
    assert "docs/decisions.md is stale: make docs" in done.stdout
    assert document.read_text(encoding="utf-8") == stale
    by_hand = checkout / "docs" / "state-machines.md"
    changed = by_hand.read_text(encoding="utf-8").replace("# State machines", "# Machines")
    by_hand.write_text(changed, encoding="utf-8")
    assert run(checkout, *PAGES).returncode == 0
    assert document.read_text(encoding="utf-8") == right
    assert by_hand.read_text(encoding="utf-8") == changed, "what is written by hand is left alone"


def test_every_state_and_transition_is_in_the_diagram():
    text = (ROOT / "docs" / "state-machines.md").read_text(encoding="utf-8")
    assert text.count("```mermaid") == 1
    assert "sent --> uncertain: RecoveryStarted" in text
    assert "ended --> [*]" in text


def test_every_agent_that_was_measured_has_its_section():
    measured = {path.stem for path in (ROOT / "docs" / "agents" / "measured").glob("*.json")}
    page = (ROOT / "docs" / "agents" / "continuity.md").read_text(encoding="utf-8")
    assert {
        name for name in measured if f"<!-- generated: continuity-{name} -->" in page
    } == measured
    assert measured


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    decisions = sorted(folder.glob("[0-9]*.md"))
    assert len(decisions) > 50
    assert [each.name for each in decisions if f"]({each.name})" not in index] == []


def test_a_decision_that_begins_in_another_way_is_named(checkout: Path):
    decision = checkout / "docs" / "adr" / "0001-pure-core.md"
    text = decision.read_text(encoding="utf-8")
    decision.write_text(text.replace("*Accepted", "Status: accepted"), encoding="utf-8")
    done = run(checkout, "--check", *PAGES)
    assert done.returncode == 1
    assert "0001-pure-core.md does not begin as" in done.stderr
