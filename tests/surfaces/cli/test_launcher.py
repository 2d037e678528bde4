"""The launcher: what agents call outlives an environment, and a person reads when it is gone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED

pytestmark = EXTENDED

SESSION = {"hook_event_name": "SessionStart", "session_id": "main-1", "source": "startup"}


class Environment:
    """upthread in a virtual environment of its own, as a person has it, and as it can go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = directory / "bin" / "python"
        self.make()

    def make(self) -> None:
        made = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(self.directory)]
        subprocess.run(made, check=True)
        (packages,) = self.directory.glob("lib/python*/site-packages")
        there = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "dependencies.pth").write_text("\n".join(there) + "\n")

    def remove(self) -> None:
        self.directory.rename(self.directory.with_name(f"{self.directory.name}-removed"))


class SetUp:
    """upthread set up for Claude Code from one environment, and asked from any."""

    def __init__(self, up, tmp_path: Path) -> None:
        self.up = up
        self.first = Environment(tmp_path / "first")
        self.settings = up.home / ".claude" / "settings.json"
        self.launcher = up.home / "upthread" / "hooks" / "upthread-launcher"
        self.by(self.first, "setup", "claude", "--yes")
        self.by(self.first, "use", "spec-42")

    def by(self, environment: Environment, *words: str) -> str:
        done = subprocess.run(
            [str(environment.python), "-m", "upthread", *words],
            cwd=self.up.directory,
            env=self.up.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def hook(self, event: str = "SessionStart", session: str = "main-1") -> dict[str, object]:
        """Run a hook's line as Claude Code does, in a shell that this process is the parent of."""
        hooks = json.loads(self.settings.read_text())["hooks"]
        line = hooks[event][0]["hooks"][0]["command"]
        request = {**SESSION, "hook_event_name": event, "session_id": session}
        request["cwd"] = str(self.up.directory)
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            input=json.dumps(request).encode(),
            capture_output=True,
            env={"PATH": "/nowhere", "HOME": str(self.up.home)},
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return json.loads(done.stdout or b"{}")


@pytest.fixture
def set_up(make_upthread, tmp_path: Path) -> SetUp:
    return SetUp(make_upthread(tmp_path), tmp_path)


def state_of(listed: dict, agent: str = "claude-code") -> dict:
    (found,) = (each for each in listed["agents"] if each["agent"] == agent)
    return found["hooks"]


@pytest.mark.soak
def test_an_environment_that_is_gone_is_told_once_in_each_session(set_up):
    assert "is gone" not in json.dumps(set_up.hook())
    set_up.first.remove()
    told = set_up.hook()
    assert set(told) == {"systemMessage"}
    for word in (str(set_up.first.python), "is gone", "upthread setup claude mends it"):
        assert word in told["systemMessage"]
    assert set_up.hook() == {}, "a session is told once, compacted or gone on with"
    assert set_up.hook("UserPromptSubmit") == {}
    assert set_up.hook("SessionEnd") == {}
    assert "is gone" in json.dumps(set_up.hook(session="main-2"))


@pytest.mark.soak
def test_a_home_that_is_gone_is_told_at_a_sessions_start(set_up):
    set_up.launcher.unlink()
    told = set_up.hook()
    assert str(set_up.launcher) in str(told["systemMessage"])
    assert "setup claude --remove" in str(told["systemMessage"])
    assert set_up.hook("UserPromptSubmit") == {}


@EXTENDED
def test_setup_from_a_new_environment_renews_it_and_leaves_the_settings_alone(set_up, tmp_path):
    set_up.first.remove()
    before = set_up.settings.read_text()
    second = Environment(tmp_path / "second")
    found = json.loads(set_up.by(second, "doctor", "--json"))
    (finding,) = (each for each in found["findings"] if each["history"] == "claude")
    assert str(set_up.first.python) in finding["what"]
    assert finding["cure"] == "upthread setup claude"
    assert state_of(json.loads(set_up.by(second, "agents", "--json")))["is_alive"] is False
    shown = set_up.by(second, "setup", "claude", "--yes")
    assert f"starts {second.python}, no longer {set_up.first.python}" in shown
    assert set_up.settings.read_text() == before, "so trust in hooks stays"
    assert "is gone" not in json.dumps(set_up.hook(session="main-3"))
    state = state_of(json.loads(set_up.by(second, "agents", "--json")))
    assert state["is_alive"] is True
    assert (state["fault"], state["cure"]) == ("", "")
    assert json.loads(set_up.by(second, "doctor", "--json"))["findings"] == []


def test_agents_and_doctor_say_set_up_and_alive(set_up):
    listed = json.loads(set_up.by(set_up.first, "agents", "--json"))
    state = state_of(listed)
    assert (state["is_set_up"], state["is_alive"], state["is_trusted"]) == (True, True, None)
    assert state_of(listed, "codex")["is_set_up"] is False
    for verb in ("agents", "doctor"):
        shown = set_up.by(set_up.first, verb)
        assert "hooks claude: " in shown
        assert "set up, alive\n" in shown
        assert "hooks codex: " in shown


@EXTENDED
def test_a_program_that_does_not_answer_is_not_alive(set_up):
    text = set_up.launcher.read_text()
    (line,) = (each for each in text.splitlines() if each.startswith("python="))
    set_up.launcher.write_text(text.replace(line, "python=/bin/false"))
    done = subprocess.run(
        [sys.executable, "-m", "upthread", "agents", "--json"],
        cwd=set_up.up.directory,
        env=set_up.up.environment,
        capture_output=True,
        check=True,
    )
    state = state_of(json.loads(done.stdout))
    assert state["is_alive"] is False
    assert "does not answer" in state["fault"]


@EXTENDED
def test_a_launcher_that_others_can_write_is_named_and_none_is_made_there(set_up):
    set_up.launcher.chmod(0o666)
    found = json.loads(set_up.by(set_up.first, "doctor", "--json"))["findings"]
    assert any("can be written by others" in each["what"] for each in found), found
    refused = set_up.up("setup", "opencode", "--yes", code=2)
    assert "can be written by others" in refused.err
    set_up.launcher.chmod(0o600)
    set_up.launcher.parent.chmod(0o777)
    assert "can be written by others" in set_up.up("setup", "opencode", "--yes", code=2).err
    plugin = set_up.up.home / ".config" / "opencode" / "plugin" / "upthread.js"
    assert not plugin.exists(), "nothing was written"


@pytest.mark.soak
def test_the_launcher_is_its_persons_alone_and_goes_with_the_last_agent(set_up):
    assert set_up.launcher.stat().st_mode & 0o777 == 0o600
    assert set_up.launcher.parent.stat().st_mode & 0o777 == 0o700
    set_up.by(set_up.first, "setup", "opencode", "--yes")
    set_up.by(set_up.first, "setup", "claude", "--remove", "--yes")
    assert set_up.launcher.exists(), "OpenCode calls it"
    set_up.by(set_up.first, "setup", "opencode", "--remove", "--yes")
    assert not set_up.launcher.exists()


@pytest.mark.soak
def test_a_path_with_anything_in_it_starts_and_is_told_as_it_is(make_upthread, tmp_path):
    odd = tmp_path / 'it\'s $(touch canary) "odd" \\ `x`'
    odd.mkdir()
    there = SetUp(make_upthread(odd), odd)
    assert "is gone" not in json.dumps(there.hook())
    there.first.remove()
    told = there.hook()
    assert str(there.first.python) in str(told["systemMessage"])
    assert not list(tmp_path.rglob("canary"))
