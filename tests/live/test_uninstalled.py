"""After `pip uninstall` the agents run on, and a person is told once in a session."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.hooked import SET_UPS
from tests.live.opencode import REPOSITORY
from tests.support.sets import spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]


class Installation:
    """upthread as pip installs it, in an environment of its own."""

    def __init__(self, directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.python = str(directory / "bin" / "python")
        (packages,) = directory.glob("lib/python*/site-packages")
        # The dependencies are where the tests have them; upthread itself is not.
        there = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "dependencies.pth").write_text("\n".join(there) + "\n")
        self.pip("install", "--no-deps", "--no-build-isolation", "--no-index", str(REPOSITORY))
        self.program = packages / "upthread" / "surfaces" / "hook" / "__main__.py"
        assert self.program.is_file()

    def pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.python, *words, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        self.pip("uninstall", "--yes", "upthread")
        assert not self.program.exists()


GONE = "is gone, so this session goes on without it; upthread setup"


@pytest.mark.parametrize("name", spread(SET_UPS, first=0, extended=["claude-code"]))
def test_an_agent_runs_on_without_upthread_and_says_so_once(name, request, model, tmp_path):
    installation = Installation(tmp_path / "environment")
    kind = SET_UPS[name]
    binary = request.getfixturevalue(kind.agent.fixture)
    set_up = kind(binary, model, tmp_path / name, python=installation.python)
    set_up.use("spec-1")
    there = set_up.run(f"Go.\n\n{set_up.delegate('Plan.')}")
    assert set_up.planner("spec-1", turns=1)["turns"] == 1, "the hooks did their work"
    installation.uninstall()
    gone = set_up.run(f"Go.\n\n{set_up.delegate('Plan it now.')}")
    assert "Plan it now." in gone.by_children[0], "its sub-agent has worked"
    if name == "claude-code":
        assert any("STARTED" in line for line in there.lines)
        (line,) = gone.lines
        assert f"{GONE} claude mends it" in line
    elif name == "opencode":
        logs = Path(set_up.environment["XDG_DATA_HOME"], "opencode", "log").glob("*.log")
        assert "".join(path.read_text() for path in logs).count(f"{GONE} opencode") == 1
    else:  # `codex exec` prints nothing of what a hook says
        of_hooks = [line for line in gone.written.splitlines() if "hook" in line]
        assert all("--dangerously-bypass-hook-trust" in line for line in of_hooks)
