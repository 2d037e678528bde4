"""What a role's file denies does not happen on the real agents, asking or not, on a resume either.

The person allows everything, and upthread's own rules allow everything: the role alone stops the
agent. The tests read the disk, the session's tool results and the requests that reached the model.
"""

import json
from pathlib import Path

import pytest
from tests.live import opencode
from tests.live.agents import AGENTS, RULES, WAYS, RealAgent
from tests.live.shell import Shell
from tests.support import trusting
from tests.support.sets import EXTENDED, SOAK, spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SECRET = "the-colour-is-teal"
ALL_ALLOWED = RULES + "".join(
    f'{kind} = "allow"\n' for kind in ("read", "edit", "delete", "move", "search", "fetch", "think")
)
FILES = {
    "opencode": (
        ".opencode/agent/planner.md",
        "---\npermission:\n  bash: deny\n  edit: deny\n---\nYou plan.\n",
    ),
    "claude-code": (
        ".claude/agents/planner.md",
        "---\nname: planner\ndescription: plans\ntools: Read, Grep\n---\nYou plan.\n",
    ),
    "codex": (
        ".codex/agents/planner.toml",
        'name = "planner"\nsandbox_mode = "read-only"\ndeveloper_instructions = "You plan."\n',
    ),
}
"""By agent the file of a role that may only read."""


class Desk:
    """A repository with a file to read, an agent on PATH, upthread beside them."""

    def __init__(self, agent: RealAgent, shell: Shell) -> None:
        self.agent = agent
        self.shell = shell
        self.notes = shell.project / "notes.txt"
        self.notes.write_text(f"{SECRET}\n")
        (shell.own / "config.toml").write_text(ALL_ALLOWED)

    def write_role(self, file: str, text: str) -> None:
        path = self.shell.project / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        trusting.agree(self.shell.project, self.shell.own)

    def tell(self, *steps: str) -> dict:
        return self.shell.tell("Do it.\n\n" + "\n".join(steps))

    def write_and_read(self, name: str) -> dict:
        """Have the role write by shell and by tool, then read."""
        by_shell = self.agent.command(f"echo x > {name}-by-shell")
        by_tool = self.agent.write(self.shell.project / f"{name}-by-tool")
        return self.tell(by_shell, by_tool, self.agent.read(self.notes))

    def written(self) -> list[Path]:
        return sorted(self.shell.project.glob("*-by-*"))

    def was_read(self) -> int:
        """Return how often the file's content came back as a call's result."""
        audit = self.shell.one("audit", "spec-42", "--format", "json")
        parts = [
            part
            for conversation in audit["conversations"]
            for turn in conversation["turns"]
            for message in turn["messages"]
            for part in message["parts"]
        ]
        return sum(part["kind"] == "tool_result" and SECRET in part["text"] for part in parts)


@pytest.fixture
def desk(name, shell) -> Desk:
    return Desk(WAYS[name], shell)


MODELS = {
    "claude-code": ("tools: Read, Grep", "claude-haiku-4-5"),
    "opencode": ("permission:", "rehearsal/rehearsal-2"),
    "codex": ('name = "planner"', "rehearsal-2"),
}
"""By agent the line of the role's file before which a model is named, and the model."""


def offer_second_model(environment: dict[str, str]) -> None:
    """OpenCode asks only for models that its configuration has."""
    config = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    models = config["provider"][opencode.PROVIDER]["models"]
    models["rehearsal-2"] = {**next(iter(models.values())), "name": "Another"}
    environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(config)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_the_model_of_a_role_is_asked_on_a_resumed_turn_too(name, desk, model):
    if name == "opencode":
        offer_second_model(desk.shell.environment)
    path, text = FILES[name]
    line, wanted = MODELS[name]
    named = f'model = "{wanted}"' if path.endswith(".toml") else f"model: {wanted}"
    desk.tell("[[SAY before]]")
    desk.write_role(path, text.replace(line, f"{named}\n{line}"))
    seen = len(model.model_requests)
    desk.tell(desk.agent.read(desk.notes))
    desk.tell("[[SAY again]]")
    asked = [each.body["model"] for each in model.model_requests]
    assert set(asked[seen:]) == {wanted.rpartition("/")[2]}
    assert set(asked[:seen]).isdisjoint(asked[seen:]), "another model was asked before"


@pytest.mark.parametrize("name", ["claude-code", pytest.param("opencode", marks=SOAK)])
@EXTENDED
def test_a_tool_that_a_role_denies_is_not_even_offered(desk, model):
    desk.write_role(*FILES["claude-code"])
    for turn in ("first", "again"):
        seen = len(model.model_requests)
        desk.tell(f"[[SAY {turn}]]")
        requests = model.model_requests[seen:]
        tools = [tool for each in requests for tool in each.body["tools"]]
        names = {str(tool["name"]).lower() for tool in tools}
        # Claude Code offers a placeholder for tools that it would load later.
        assert names - {"deferredtoolplaceholder"} == {"read", "grep"}


PAIRS = [(name, file) for name in WAYS for file in FILES if name != "claude-code, some rules"]
PAIRWISE = [
    ("claude-code", "opencode"),
    ("claude-code, asking", "claude-code"),
    ("codex", "codex"),
    ("codex, asking", "opencode"),
]


@pytest.mark.parametrize(
    ("name", "file"),
    [pytest.param(*pair, marks=EXTENDED if pair in PAIRWISE else SOAK) for pair in PAIRS],
)
def test_what_a_role_denies_does_not_happen_on_the_first_turn_nor_on_a_resumed_turn(desk, file):
    desk.write_role(*FILES[file])
    first = desk.write_and_read("first")
    assert (first["outcome"], desk.written(), desk.was_read()) == ("ok", [], 1), first
    again = desk.write_and_read("again")
    assert (again["outcome"], desk.written(), desk.was_read()) == ("ok", [], 2), again
    assert again["upstream_session_id"] == first["upstream_session_id"]
