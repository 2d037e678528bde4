"""What a role's file denies does not happen on the real agents, asking or not, on a resume either.

The person allows everything, upthread's own rules too: what stands in the way is the role alone.
Looked at are the disk, what the session was told, and the requests that reached the model.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.shell import Shell, agents_left, only
from tests.support import trusting

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ADDRESS = "spec-42/planner"
SECRET = "the-colour-is-teal"
ALL_ALLOWED = "".join(
    f'{kind} = "allow"\n'
    for kind in ("read", "edit", "delete", "move", "search", "execute", "fetch", "think", "other")
)
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How people have one agent, and the steps that write by shell, write by tool, and read."""

    agent: str
    binary: str
    environment: Callable[..., dict[str, str]]
    by_shell: Callable[[str], str]
    by_tool: Callable[[Path], str]
    read: Callable[[Path], str]
    settings: Callable[[Path], None] = lambda _home: None


def _claude_allows(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash", "Edit", "Write", "Read"]}}))


def _opencode_call(tool: str, **arguments: object) -> str:
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def _opencode_asks(home: Path, model: object) -> dict[str, str]:
    asking = {"bash": "ask", "edit": "ask"}
    return opencode.opencode_environment(home, model, permission=asking)


def _two_models(home: Path, model: object) -> dict[str, str]:
    environment = opencode.opencode_environment(home, model)
    config = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    models = config["provider"][opencode.PROVIDER]["models"]
    models["rehearsal-2"] = {**next(iter(models.values())), "name": "Another"}
    return {**environment, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}


def _codex_asks(home: Path, model: object) -> dict[str, str]:
    return codex.codex_environment(home, model, settings=codex.ASKS)


def _claude(*, allows: bool) -> Way:
    return Way(
        agent="claude-code",
        binary="claude",
        environment=claude_code.claude_environment,
        by_shell=claude_code.command,
        by_tool=lambda path: claude_code.call("Write", file_path=str(path), content="x"),
        read=lambda path: claude_code.call("Read", file_path=str(path)),
        settings=_claude_allows if allows else lambda _home: None,
    )


def _opencode(environment: Callable[..., dict[str, str]]) -> Way:
    return Way(
        agent="opencode",
        binary="opencode",
        environment=environment,
        by_shell=lambda line: _opencode_call("bash", command=line, description="run it"),
        by_tool=lambda path: _opencode_call("write", filePath=str(path), content="x"),
        read=lambda path: _opencode_call("read", filePath=str(path)),
    )


def _codex(environment: Callable[..., dict[str, str]], command: Callable[[str], str]) -> Way:
    return Way(
        agent="codex",
        binary="codex",
        environment=environment,
        by_shell=command,
        by_tool=lambda path: command(f"apply_patch <<'EOF'\n{PATCH.format(path.name)}EOF"),
        read=lambda path: command(f"cat {path.name}"),
    )


WAYS = {
    "claude-code": _claude(allows=True),
    "claude-code, asking": _claude(allows=False),
    "opencode": _opencode(opencode.opencode_environment),
    "opencode, asking": _opencode(_opencode_asks),
    "codex": _codex(codex.codex_environment, codex.command),
    "codex, asking": _codex(_codex_asks, codex.permission),
}

FILES = {
    "of opencode": (
        ".opencode/agent/planner.md",
        "---\npermission:\n  bash: deny\n  edit: deny\n---\nYou plan.\n",
    ),
    "of claude-code": (
        ".claude/agents/planner.md",
        "---\nname: planner\ndescription: plans\ntools: Read, Grep\n---\nYou plan.\n",
    ),
    "of codex": (
        ".codex/agents/planner.toml",
        'name = "planner"\nsandbox_mode = "read-only"\ndeveloper_instructions = "You plan."\n',
    ),
}
NATIVE = {"claude-code": "of claude-code", "opencode": "of opencode", "codex": "of codex"}


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A repository with a file to read, an agent on PATH, upthread beside them."""

    way: Way
    shell: Shell
    home: Path

    def write_role(self, file: str, text: str) -> None:
        path = self.shell.project / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        trusting.agree(self.shell.project, Path(self.shell.environment["UPTHREAD_HOME"]))

    def tell(self, *steps: str) -> dict:
        words = ("tell", ADDRESS, "Do it.\n\n" + "\n".join(steps), "--agent", self.way.agent)
        return only(self.shell.lines(*words), "turn_ended")

    def steps(self, name: str) -> list[str]:
        """Write in two ways, then read."""
        project = self.shell.project
        return [
            self.way.by_shell(f"echo x > {name}-by-shell"),
            self.way.by_tool(project / f"{name}-by-tool"),
            self.way.read(project / "notes.txt"),
        ]

    def written(self) -> list[str]:
        return sorted(path.name for path in self.shell.project.glob("*-by-*"))

    def was_read(self) -> int:
        """How often the file's content came back as a call's result."""
        audit = self.shell.lines("audit", "spec-42", "--format", "json")[0]
        results = [
            part
            for conversation in audit["conversations"]
            for turn in conversation["turns"]
            for message in turn["messages"]
            for part in message["parts"]
            if part["kind"] == "tool_result" and SECRET in part["text"]
        ]
        return len(results)


@pytest.fixture(params=WAYS)
def way(request) -> Way:
    return {**WAYS, "opencode, two models": _opencode(_two_models)}[request.param]


@pytest.fixture
def desk(request, way, model, tmp_path) -> Iterator[Desk]:
    binaries, home, project = tmp_path / "bin", tmp_path / "home", tmp_path / "project"
    binaries.mkdir()
    binary = request.getfixturevalue(f"{way.agent.partition('-')[0]}_binary")
    (binaries / way.binary).symlink_to(binary)
    environment = {
        **way.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    way.settings(home)
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    (project / "notes.txt").write_text(f"{SECRET}\n")
    Path(environment["UPTHREAD_HOME"]).mkdir(mode=0o700)
    own = Path(environment["UPTHREAD_HOME"]) / "config.toml"
    own.write_text(f"[permissions]\n{ALL_ALLOWED}")
    own.chmod(0o600)
    yield Desk(way=way, shell=Shell(project, environment), home=home)
    assert agents_left(tmp_path) == []


MODEL = {
    "claude-code": ("of claude-code", "tools: Read, Grep", "claude-haiku-4-5"),
    "opencode": ("of opencode", "permission:", "rehearsal/rehearsal-2"),
    "codex": ("of codex", 'name = "planner"', "rehearsal-2"),
}
"""By agent its own file, the line before which a model is named, and the model."""


@pytest.mark.parametrize("way", ["claude-code", "opencode, two models", "codex"], indirect=True)
def test_a_roles_model_is_the_one_that_is_asked_on_a_resumed_turn_too(desk, model):
    file, line, name = MODEL[desk.way.agent]
    path, text = FILES[file]
    said = f'model = "{name}"' if path.endswith(".toml") else f"model: {name}"
    desk.tell("[[SAY before]]")
    desk.write_role(path, text.replace(line, f"{said}\n{line}"))
    seen = len(model.model_requests)
    desk.tell(desk.way.read(desk.shell.project / "notes.txt"))
    desk.tell("[[SAY again]]")
    asked = [each.body["model"] for each in model.model_requests]
    assert set(asked[seen:]) == {name.rpartition("/")[2]}
    assert set(asked[:seen]).isdisjoint(asked[seen:]), "it was another one before"


@pytest.mark.parametrize("way", ["claude-code", "opencode"], indirect=True)
def test_what_a_role_denies_is_not_even_offered(desk, model):
    desk.write_role(*FILES["of claude-code"])
    for turn in ("first", "again"):
        seen = len(model.model_requests)
        desk.tell(f"[[SAY {turn}]]")
        offered = {
            _name(tool) for each in model.model_requests[seen:] for tool in each.body["tools"]
        }
        assert offered == {"read", "grep"}


def _name(tool: dict) -> str:
    return str(tool.get("function", tool)["name"]).lower()


@pytest.mark.parametrize("file", FILES)
def test_what_a_role_denies_does_not_happen_on_the_first_turn_nor_on_a_resumed_one(desk, file):
    desk.write_role(*FILES[file])
    first = desk.tell(*desk.steps("first"))
    assert (first["outcome"], desk.written(), desk.was_read()) == ("ok", [], 1), first
    again = desk.tell(*desk.steps("again"))
    assert (again["outcome"], desk.written(), desk.was_read()) == ("ok", [], 2), again
    assert again["upstream_session_id"] == first["upstream_session_id"]
