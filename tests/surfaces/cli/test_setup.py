"""`upthread setup`: shown, made, undone byte for byte, and harmless once upthread is gone."""

import hashlib
import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from upthread.surfaces.cli.setup import claude_code, codex
from upthread.surfaces.cli.setup.changes import FORM

SETTINGS = """{
\t"permissions": {"allow": ["Read"]},

\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}  }"""
OTHER_PLUGIN = "// somebody's own\nexport const Other = async () => ({})\n"


def settings_of(up) -> Path:
    path = up.home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


def hooks_in(path: Path) -> dict:
    return json.loads(path.read_text())["hooks"]


def test_what_would_change_is_shown_and_nothing_is_changed(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    shown = up("setup", "claude", "--dry-run", "--diff").out
    assert f"--- {path}" in shown
    assert "+" in shown
    assert path.read_text() == SETTINGS
    assert up("setup", "claude", code=2).err.count("--yes") == 1, "nobody is there to ask"
    assert path.read_text() == SETTINGS


SUMMARY_LINES_MAX = 10


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_a_person_sees_each_file_and_the_way_back_in_ten_lines(with_roles, agent):
    roles = ("--role", "reviewer=resume", "--role", "scout=fresh")
    shown = with_roles("setup", agent, "--dry-run", *roles).out
    lines = shown.splitlines()
    assert 3 <= len(lines) <= SUMMARY_LINES_MAX, shown
    assert max(map(len, lines)) <= 200, shown
    for word in ("~/upthread/hooks/upthread-launcher", "upthread.toml", "reviewer, scout"):
        assert word in shown
    assert f"setup {agent} --remove" in shown
    assert f"setup {agent} --diff" in shown


def test_a_person_says_no(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    terminal = up.on_terminal("setup", "claude")
    terminal.wait_for("status line? (yes, no) [no]")
    terminal.type("")
    terminal.wait_for("[y/N]")
    terminal.type("n")
    assert terminal.end() == 1
    assert path.read_text() == SETTINGS


@pytest.mark.extended
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


@pytest.mark.extended
@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_setup_and_remove_leave_no_file_and_no_directory_of_ours(up, agent):
    def there() -> list[str]:
        found = [path for path in up.home.rglob("*") if "upthread" not in path.parts]
        return sorted(str(p) for p in found if not p.is_relative_to(up.home / "upthread"))

    before = there()
    up("setup", agent, "--yes")
    assert there() != before
    up("setup", agent, "--remove", "--yes")
    assert there() == before


CODEX = '# mine\nmodel = "o9"  # the best\n\n[mcp_servers.other]\ncommand = "other"'
"""A user's own, with comments, another server, and no line end."""


@pytest.mark.extended
def test_codex_gets_an_mcp_server_beside_others_and_gives_it_back(up):
    path = up.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    up("setup", "codex", "--yes")
    servers = tomllib.loads(path.read_text())["mcp_servers"]
    assert set(servers) == {"other", "upthread"}
    assert path.read_text().startswith(CODEX)
    (first, *rest) = (servers["upthread"]["command"], *servers["upthread"]["args"])
    done = subprocess.run(
        [first, *rest, "--help"], env=up.environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    up("setup", "codex", "--remove", "--yes")
    assert path.read_text() == CODEX


@pytest.mark.extended
def test_codex_gets_hooks_beside_others_and_a_person_is_told_to_trust_them(up):
    path = up.home / ".codex" / "hooks.json"
    path.parent.mkdir()
    path.write_text(SETTINGS)
    assert "type /hooks in codex" in up("setup", "codex", "--yes").err
    assert hooks_in(path)["Stop"] == json.loads(SETTINGS)["hooks"]["Stop"]
    assert set(hooks_in(path)) >= {"SessionStart", "PreToolUse", "SubagentStop"}
    assert "trust" not in path.read_text()
    up("setup", "codex", "--remove", "--yes")
    assert path.read_text() == SETTINGS


def test_doctor_says_when_codex_cannot_be_asked_whether_it_runs_the_hooks(up):
    up("setup", "codex", "--yes")
    (finding,) = up("doctor", "--json").json["findings"]
    assert finding["history"] == "codex"
    assert "could not be asked" in finding["what"]


def test_codex_configuration_that_was_changed_since_loses_only_ours(up):
    path = up.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    up("setup", "codex", "--yes")
    path.write_text(path.read_text() + '\n[mcp_servers.third]\ncommand = "third"\n')
    up("setup", "codex", "--remove", "--yes")
    assert set(tomllib.loads(path.read_text())["mcp_servers"]) == {"other", "third"}
    assert "upthread" not in path.read_text()


def test_a_server_somebody_has_named_upthread_is_left(up):
    path = up.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('[mcp_servers.upthread]\ncommand = "mine"\n')
    assert "no valid TOML" in up("setup", "codex", "--yes", code=2).err
    assert path.read_text() == '[mcp_servers.upthread]\ncommand = "mine"\n'


@pytest.fixture
def with_roles(up):
    folder = up.directory / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name in ("reviewer", "scout"):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\n---\nYou are the {name}.\n")
    return up


def continuities(up) -> dict[str, str]:
    tables = tomllib.loads((up.directory / "upthread.toml").read_text())["roles"]
    return {name: table["continuity"] for name, table in tables.items()}


def test_a_person_is_asked_of_each_role_that_is_found(with_roles):
    up = with_roles
    own = "# ours\ndepth_max = 2\n"
    (up.directory / "upthread.toml").write_text(own)
    terminal = up.on_terminal("setup", "claude")
    terminal.wait_for("reviewer: go on in its earlier session? (resume, fresh, auto) [resume]")
    terminal.type("auto")
    terminal.wait_for("scout:")
    terminal.type("maybe")
    terminal.wait_for("scout:")
    terminal.type("")
    terminal.wait_for("status line? (yes, no) [no]")
    terminal.type("yes")
    terminal.wait_for("[y/N]")
    terminal.type("y")
    terminal.wait_for('next: start claude, type "let the reviewer …", and the same again')
    assert terminal.end() == 0
    assert continuities(up) == {"reviewer": "auto", "scout": "resume"}
    assert "statusLine" in json.loads(settings_of(up).read_text())
    again = up("setup", "opencode", "--yes", "--role", "scout=fresh")
    assert "scout" in again.out
    assert "continued here: no role yet\n  within one session of opencode" in again.out
    assert continuities(up) == {"reviewer": "auto", "scout": "fresh"}
    up("setup", "claude", "--remove", "--yes")
    assert (up.directory / "upthread.toml").read_text() == own


def test_what_is_offered_holds_with_yes_and_an_agents_own_role_is_turned_on(with_roles):
    up = with_roles
    up("setup", "claude", "--yes", "--role", "general-purpose=resume")
    assert continuities(up) == dict.fromkeys(("general-purpose", "reviewer", "scout"), "resume")
    up("use", "spec-42")
    said = up("setup", "claude", "--yes").out
    assert "continued here: general-purpose, reviewer, scout\n  in spec-42: `upthread use`" in said


def test_roles_are_named_as_the_agent_calls_them_and_those_without_an_address_too(with_roles):
    up = with_roles
    for file, name in ((".claude/agents/scout.md", "Code Scout"), (".opencode/agent/odd.md", "")):
        (up.directory / file).parent.mkdir(parents=True, exist_ok=True)
        (up.directory / file).write_text(f"---\nname: {name}\n---\nScout.\n")
    own = up.home / ".claude/agents/file.md"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("---\nname: mine\n---\n")
    said = up("setup", "claude", "--yes").out
    assert "continued here: mine, reviewer\nnot continued: " in said
    assert "scout.md: 'Code Scout' is not a role name (lower-case letters" in said
    assert "continued here: odd\n  within" in up("setup", "opencode", "--yes").out


def test_a_role_nobody_knows_and_a_word_that_is_none_are_refused(with_roles):
    assert "no role" in with_roles("setup", "claude", "--yes", "--role", "x=fresh", code=2).err
    wrong = with_roles("setup", "claude", "--yes", "--role", "scout=sometimes", code=2).err
    assert "resume, fresh, auto" in wrong


def test_hooks_of_an_earlier_version_are_told_until_they_are_set_up_again(up):
    up("setup", "claude", "--yes")
    assert "earlier version" not in up("ls").err
    written = up.home / "upthread" / "hooks" / "installed.json"
    fields = json.loads(written.read_text())
    written.write_text(json.dumps({**fields, "forms": {"claude": FORM - 1}}))
    assert "the hooks of claude are of an earlier version: upthread setup claude" in up("ls").err
    findings = up("doctor", "--json", code=None).json["findings"]
    assert "upthread setup claude" in [each["cure"] for each in findings]
    up("setup", "claude", "--yes")
    assert "earlier version" not in up("ls").err


EVENTS = "c50d8d2d"


def test_a_new_event_raises_the_number_of_what_setup_writes():
    """Otherwise nobody who has set up an agent before is told of the event."""
    events = json.dumps([dict(each.EVENTS) for each in (claude_code, codex)], sort_keys=True)
    assert (FORM, hashlib.sha256(events.encode()).hexdigest()[:8]) == (2, EVENTS)


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


@pytest.mark.parametrize("hooks", ['"./run"', "[]", '{"Stop": "./run"}', "null"])
def test_hooks_of_another_form_are_refused_and_left(up, hooks):
    path = settings_of(up)
    path.write_text(f'{{"hooks": {hooks}}}')
    told = up("setup", "claude", "--yes", code=2).err
    assert f"{path}: hooks: Expected `" in told
    assert path.read_text() == f'{{"hooks": {hooks}}}'


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


STATUS_LINE = '{"statusLine": {"type": "command", "command": "mine"}}\n'


def test_doctor_says_that_what_was_set_up_answers(up):
    up("setup", "claude", "--yes")
    assert "set up, alive" in up("doctor", code=None).out


@pytest.mark.extended
def test_the_status_line_is_added_when_asked_for_and_taken_back(up):
    path = settings_of(up)
    path.write_text(SETTINGS)
    up("setup", "claude", "--yes")
    assert "statusLine" not in json.loads(path.read_text()), "nobody asked for it"
    up("setup", "claude", "--yes", "--status-line")
    up("use", "spec-42")
    line = json.loads(path.read_text())["statusLine"]["command"]
    asked = json.dumps({"cwd": str(up.directory)}).encode()
    done = subprocess.run(["/bin/sh", "-c", line], input=asked, capture_output=True, check=False)
    assert done.stdout == b"spec-42\n"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "opus"}))
    up("setup", "claude", "--remove", "--yes")
    assert json.loads(path.read_text()) == {**json.loads(SETTINGS), "model": "opus"}


def test_a_status_line_of_ones_own_stays_and_the_way_to_both_is_told(up):
    path = settings_of(up)
    path.write_text(STATUS_LINE)
    assert "status --snippet" in up("setup", "claude", "--yes", "--status-line", code=2).err
    assert path.read_text() == STATUS_LINE
    up("setup", "claude", "--yes")
    assert json.loads(path.read_text())["statusLine"]["command"] == "mine"


def test_an_unknown_agent_is_named_with_those_there_are(up):
    assert "claude, codex, opencode" in up("setup", "emacs", "--yes", code=2).err
