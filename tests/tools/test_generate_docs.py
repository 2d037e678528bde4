import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

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
