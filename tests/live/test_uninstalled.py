"""After `pip uninstall` the agents run on, and a person is told once in a session that it is so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.opencode import REPOSITORY
from tests.live.test_claude_code_hooks import Hooked
from tests.live.test_claude_code_hooks import delegate as delegate_in_claude
from tests.live.test_codex_hooks import TRUSTED, WAIT, spawn
from tests.live.test_codex_hooks import Hooked as HookedCodex
from tests.live.test_opencode_plugin import Plugged, delegate, main_session

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


class Installation:
    """upthread as pip installs it, in an environment of its own."""

    def __init__(self, directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.python = str(directory / "bin" / "python")
        (packages,) = directory.glob("lib/python*/site-packages")
        # What it depends on is where the tests have it from; upthread itself is not.
        there = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "dependencies.pth").write_text("\n".join(there) + "\n")
        self.pip("install", "--no-deps", "--no-build-isolation", "--no-index", str(REPOSITORY))
        self.program = packages / "upthread" / "surfaces" / "hook" / "__main__.py"
        assert self.program.is_file()

    def pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.python, *words, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        self.pip("uninstall", "--yes", "upthread")
        assert not self.program.exists()


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "environment")


GONE = "is gone, so this session goes on without it; upthread setup"


def test_claude_code_runs_on_and_says_so_once(installation, claude_binary, tmp_path):
    with RehearsalModel() as model:
        hooked = Hooked(claude_binary, model, tmp_path / "claude", python=installation.python)
        hooked.upthread("use", "spec-1")
        there = hooked.run(f"Go.\n\n{delegate_in_claude('Plan.')}")
        assert any("STARTED" in line for line in there.lines)
        installation.uninstall()
        gone = hooked.run(f"Go.\n\n{delegate_in_claude('Plan.')}")
        (line,) = gone.lines
        assert f"{GONE} claude mends it" in line
        assert len(gone.by_children) == 1, "its sub-agent has worked"


def test_opencode_runs_on_and_says_so_in_its_log(installation, opencode_binary, tmp_path):
    with RehearsalModel() as model:
        (tmp_path / "opencode").mkdir()
        plugged = Plugged(opencode_binary, model, tmp_path / "opencode", python=installation.python)
        plugged.use("spec-1")
        installation.uninstall()
        with plugged.start() as agent:
            agent.prompt(main_session(agent, plugged), delegate("Plan it now."))
        logs = Path(plugged.environment["XDG_DATA_HOME"], "opencode", "log").glob("*.log")
        assert "".join(path.read_text() for path in logs).count(f"{GONE} opencode") == 1
        asked = [json.dumps(request.body["messages"]) for request in model.model_requests]
        assert any("You are the planner." in told and "Plan it now." in told for told in asked)


def test_codex_runs_on_with_no_hook_failing(installation, codex_binary, tmp_path):
    with RehearsalModel() as model:
        hooked = HookedCodex(codex_binary, model, tmp_path / "codex", python=installation.python)
        hooked.upthread("use", "spec-1")
        installation.uninstall()
        gone = hooked.run(f"Go. {spawn('Plan it now.')} {WAIT}", TRUSTED)
        assert "Plan it now." in gone.by_children[0], "its sub-agent has worked"
        of_hooks = [line for line in gone.written.splitlines() if "hook" in line]
        assert all(TRUSTED in line for line in of_hooks), "and no hook has failed"
