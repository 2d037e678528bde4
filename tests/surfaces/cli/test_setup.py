"""`upthread setup`: shown, made, undone byte for byte, and harmless once upthread is gone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

SETTINGS = """{
\t"permissions": {"allow": ["Read"]},

\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}  }"""
OTHER_PLUGIN = "// somebody's own\nexport const Other = async () => ({})\n"


@pytest.fixture
def up(tmp_path, make_upthread):
    return make_upthread(tmp_path)


def settings_of(up) -> Path:
    path = up.home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


def hooks_in(path: Path) -> dict:
    return json.loads(path.read_text())["hooks"]


def test_what_would_change_is_shown_and_nothing_is_changed(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    shown = up("setup", "claude", "--dry-run").out
    assert f"--- {path}" in shown
    assert "+" in shown
    assert path.read_text() == SETTINGS
    assert up("setup", "claude", code=2).err.count("--yes") == 1, "nobody is there to ask"
    assert path.read_text() == SETTINGS


def test_a_person_says_no(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    terminal = up.on_terminal("setup", "claude")
    terminal.wait_for("[y/N]")
    terminal.type("n")
    assert terminal.end() == 1
    assert path.read_text() == SETTINGS


def test_setup_and_remove_leave_every_file_as_it_was(up):
    path, plugins = settings_of(up), up.home / ".config" / "opencode" / "plugin"
    path.write_text(SETTINGS)
    path.chmod(0o640)
    plugins.mkdir(parents=True)
    (plugins / "other.js").write_text(OTHER_PLUGIN)
    for agent in ("claude", "opencode"):
        up("setup", agent, "--yes")
    assert hooks_in(path)["Stop"] == json.loads(SETTINGS)["hooks"]["Stop"]
    assert "PreToolUse" in hooks_in(path)
    assert (plugins / "upthread.js").exists()
    for agent in ("claude", "opencode"):
        up("setup", agent, "--remove", "--yes")
    assert path.read_text() == SETTINGS
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in plugins.iterdir()] == ["other.js"]
    assert (plugins / "other.js").read_text() == OTHER_PLUGIN


def test_setting_up_twice_is_setting_up_once(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    up("setup", "claude", "--yes")
    once = path.read_text()
    assert "nothing is to be changed" in up("setup", "claude", "--yes").out
    assert path.read_text() == once
    up("setup", "claude", "--remove", "--yes")
    assert path.read_text() == SETTINGS


def test_what_somebody_changed_since_stays_and_only_ours_is_taken_out(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    up("setup", "claude", "--yes")
    changed = {**json.loads(path.read_text()), "model": "opus"}
    path.write_text(json.dumps(changed))
    assert "changed since" in up("doctor").out
    up("setup", "claude", "--remove", "--yes")
    assert json.loads(path.read_text()) == {**json.loads(SETTINGS), "model": "opus"}


def test_settings_nobody_had_are_gone_again(up):
    path = settings_of(up)
    up("setup", "claude", "--yes")
    assert "SessionStart" in hooks_in(path)
    up("setup", "claude", "--remove", "--yes")
    assert not path.exists()


def test_settings_with_comments_are_refused_and_left(up):
    path = settings_of(up)
    path.write_text('{"a": 1} // mine\n')
    refused = up("setup", "claude", "--yes", code=2)
    assert "not plain JSON" in refused.err
    assert path.read_text() == '{"a": 1} // mine\n'


def test_a_link_to_settings_kept_elsewhere_stays_one(up):
    kept = up.home / "dotfiles.json"
    kept.write_text(SETTINGS)
    path = settings_of(up)
    path.symlink_to(kept)
    up("setup", "claude", "--yes")
    assert path.is_symlink()
    assert "PreToolUse" in hooks_in(kept)
    up("setup", "claude", "--remove", "--yes")
    assert kept.read_text() == SETTINGS


def test_a_hook_does_nothing_once_its_program_is_gone(up):
    up("setup", "claude", "--yes")
    line = hooks_in(settings_of(up))["SessionStart"][0]["hooks"][0]["command"]
    for word in ("python", "__main__.py"):
        gone = " ".join(each + "-gone" if each.endswith(word) else each for each in line.split())
        done = subprocess.run(["sh", "-c", gone], input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_unknown_agent_is_named_with_those_there_are(up):
    assert "claude, opencode" in up("setup", "emacs", "--yes", code=2).err
