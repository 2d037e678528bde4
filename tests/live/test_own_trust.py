"""What the real agents trust is what their person said, before and after upthread drove them."""

import json
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, AGENTS
from tests.live.codex import codex_environment
from tests.live.shell import Shell
from tests.support.sets import EXTENDED, SOAK, spread

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SETTINGS = ("config.toml", "settings.json", "settings.local.json", "opencode.json", "hooks.json")
TRUST = ("hasTrustDialogAccepted", "allowedTools", "mcpServers", "enabledMcpjsonServers")


def said_by_the_person(home: Path) -> dict[str, str]:
    """All settings of the agents below a home, and of Claude Code's state what it trusts."""
    found = {str(file): file.read_text() for file in home.rglob("*") if file.name in SETTINGS}
    for file in home.rglob(".claude.json"):
        projects = json.loads(file.read_text()).get("projects", {})
        trusted = {
            place: {name: value for name, value in each.items() if name in TRUST and value}
            for place, each in projects.items()
        }
        found[str(file)] = json.dumps({place: each for place, each in trusted.items() if each})
    return found


def put_canary(shell: Shell, held: dict[str, str]) -> Path:
    """Put files into the clone; return the file that their code makes where it runs."""
    canary = shell.project.with_name("canary")
    for path, text in held.items():
        file = shell.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("CANARY", str(canary)))
    return canary


@pytest.mark.parametrize(
    ("name", "sandbox"),
    [
        ("codex", "workspace-write"),
        pytest.param("codex", "danger-full-access", marks=EXTENDED),
        pytest.param("claude-code", "", marks=EXTENDED),
        pytest.param("opencode", "", marks=SOAK),
    ],
)
def test_in_a_new_clone_an_agent_trusts_what_it_did_before(
    name: str, sandbox: str, shell: Shell, model: RehearsalModel
) -> None:
    if name == "codex":
        codex_environment(shell.home, model, settings={"sandbox_mode": sandbox})
    (shell.home / ".claude.json").write_text("{}")
    before = said_by_the_person(shell.home)
    assert before
    (shell.project / ".codex").mkdir()
    (shell.project / ".codex" / "config.toml").write_text("")
    lines = shell.lines("tell", ADDRESS, "Do it.")
    told = [line["text"] for line in lines if line.get("kind") == "not_trusted"]
    left_out = "codex leaves this project's settings out until you trust it in codex"
    assert told == ([left_out] if name == "codex" else [])
    assert shell.tell("And now?", address=ADDRESS)["decision"] == "resume"
    after = said_by_the_person(shell.home)
    assert {name: text for name, text in after.items() if name in before or text != "{}"} == before


HOOK = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch CANARY"}]}]}}
SERVER = {"mcpServers": {"x": {"command": "touch", "args": ["CANARY"]}}}
LOCAL = {"mcp": {"x": {"type": "local", "command": ["touch", "CANARY"]}}}
HELD = {
    "claude-code": {
        ".claude/settings.json": json.dumps(HOOK),
        ".mcp.json": json.dumps(SERVER),
        "CLAUDE.md": "Mind the heron.",
    },
    "opencode": {"opencode.json": json.dumps(LOCAL), "AGENTS.md": "Mind the heron."},
}


def trusting_in_claude(shell, project: str) -> None:
    state = {"projects": {project: {"hasTrustDialogAccepted": True}}}
    (shell.home / ".claude.json").write_text(json.dumps(state))


@pytest.mark.parametrize("name", spread(HELD))
def test_what_a_clone_has_an_agent_run_it_runs_once_its_person_trusts_it(
    name: str, shell: Shell, model: RehearsalModel
) -> None:
    canary = put_canary(shell, HELD[name])
    lines = shell.lines("tell", ADDRESS, "Do it.")
    assert not canary.exists()
    (said,) = (line for line in lines if line.get("kind") == "not_trusted")
    assert f"agents.{name}.project_settings' (it is driven without them)" in said["text"]
    sent = str([each.body for each in model.model_requests])
    assert "> Mind the heron." in sent
    assert sent.count("Mind the heron.") == sent.count("> Mind the heron.")
    shell.lines("trust", "--yes")
    lines = shell.lines("tell", ADDRESS, "Do it.", "--fresh")
    assert canary.exists(), "without this the test proves nothing"
    assert not any(line.get("kind") == "not_trusted" for line in lines)


@EXTENDED
@pytest.mark.parametrize("name", ["claude-code"])
def test_a_file_that_a_clone_mentions_is_not_sent(name: str, shell: Shell, model) -> None:
    secret = shell.home / "secret"
    secret.write_text("heron-7")
    (shell.project / "CLAUDE.md").write_text(f"Mind\n\n@{secret}\n")
    (shell.project / ".mcp.json").write_text("{}")
    shell.tell("Do it.")
    assert "Mind" in str([each.body for each in model.model_requests])
    assert "heron-7" not in str([each.body for each in model.model_requests])
    shell.tell(f"Look at @{secret}")
    assert "heron-7" in str([each.body for each in model.model_requests]), "a person may"


@EXTENDED
@pytest.mark.parametrize("link", ["AGENTS.md", "CLAUDE.md", ".claude/skills/x/SKILL.md"])
@pytest.mark.parametrize("name", ["opencode"])
def test_a_file_that_a_clone_links_to_is_not_sent(name: str, link: str, shell: Shell, model):
    secret = shell.home / "secret"
    secret.write_text("---\nname: x\ndescription: heron-7\n---\nheron-7\n")
    path = shell.project / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(secret)
    told = [line.get("kind") for line in shell.lines("tell", ADDRESS, "Do it.")]
    assert "not_trusted" in told
    assert "heron-7" not in str([each.body for each in model.model_requests])
    path.unlink()
    path.write_text(secret.read_text())
    shell.lines("trust", "--yes")
    shell.lines("tell", ADDRESS, "Do it.", "--fresh")
    assert "heron-7" in str([each.body for each in model.model_requests]), "else it proves nothing"


PLUGIN = 'import fs from "fs"; fs.writeFileSync("CANARY", ""); export const x = async () => ({})'
NAMED = json.dumps({"plugin": ["./x.js"]})


@pytest.mark.parametrize(
    "held",
    spread(
        [
            {".opencode/plugin/x.js": PLUGIN},
            {".opencode/plugins/x.ts": PLUGIN},
            {"opencode.json": NAMED, "x.js": PLUGIN},
            {".opencode/opencode.jsonc": NAMED, ".opencode/x.js": PLUGIN},
        ],
        first=1,
    ),
)
@pytest.mark.parametrize("name", ["opencode"])
def test_opencode_is_not_started_where_it_would_run_a_plugin_that_nobody_trusts(
    name: str, held: dict[str, str], shell: Shell
) -> None:
    """It imports them whatever its variables say (1.18.33)."""
    canary = put_canary(shell, held)
    error = shell.lines("tell", ADDRESS, "Do it.", exit_code=None)[-1]["error"]
    assert "OpenCode would run" in error["message"]
    assert "upthread trust" in error["hint"]
    shell.run("opencode", "run", "Do it.")
    assert canary.exists(), "without this the test proves nothing"


@EXTENDED
@pytest.mark.parametrize("name", ["opencode"])
def test_opencode_does_not_start_where_a_tsconfig_names_code_for_its_runtime(
    name: str, shell: Shell
) -> None:
    paths = json.dumps({"compilerOptions": {"paths": {"*": ["./evil.js"]}}})
    evil = 'require("fs").writeFileSync("CANARY", "")'
    canary = put_canary(shell, {"tsconfig.json": paths, "evil.js": evil})
    shell.tell(f"Do it. {AGENTS[name].command('touch done')}")
    assert (shell.project / "done").exists(), "it works in the project all the same"
    assert not canary.exists()
    shell.run("opencode", "run", "Do it.")
    assert canary.exists(), "without this the test proves nothing"


@EXTENDED
@pytest.mark.parametrize("place", [".", ".."])
@pytest.mark.parametrize("name", ["claude-code"])
def test_what_its_person_trusts_in_claude_code_needs_no_other_word(
    name: str, place: str, shell: Shell
) -> None:
    canary = put_canary(shell, {".claude/settings.json": json.dumps(HOOK)})
    trusting_in_claude(shell, str((shell.project / place).resolve()))
    lines = shell.lines("tell", ADDRESS, "Do it.")
    assert canary.exists()
    assert not any(line.get("kind") == "not_trusted" for line in lines)


@EXTENDED
@pytest.mark.parametrize("name", ["opencode"])
def test_an_agent_that_opencode_cannot_have_is_named_with_the_cure_and_by_doctor(
    name: str, shell: Shell
) -> None:
    """`constructor` is one of our roles, and a property of each JavaScript object."""
    file = shell.project / ".opencode" / "agent" / "constructor.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: constructor\n---\nBuild it.\n")
    assert shell.tell("Do it.", address=ADDRESS)["decision"] == "first", "nobody trusts it"
    shell.lines("trust", "--yes")
    for _ in range(2):
        error = shell.lines("tell", ADDRESS, "Do it.", exit_code=1)[-1]["error"]
    # OpenCode has refused nothing: it was not started.
    assert "new session" not in shell.run(*shell.command("why", ADDRESS))
    assert f"{file}: OpenCode fails each prompt while it is there" in error["message"]
    assert "rename it" in error["hint"]
    assert str(file) in [each["history"] for each in shell.one("doctor")["findings"]]
    (shell.project / "agents").mkdir()
    file.rename(shell.project / "agents" / file.name)
    assert shell.tell("Do it.", address=ADDRESS)["decision"] == "resume"
