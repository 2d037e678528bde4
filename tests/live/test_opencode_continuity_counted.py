"""What a second delegation costs with the real OpenCode, three ways, counted at the model.

The model reads what it was not shown and asks what it was not told, and goes by nothing else: so
what it does again is what its session had lost.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.shell import Shell, only

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
FILES = tuple(f"f{number}.txt" for number in range(1, 8))
SPECIFICATION = f"Paint it.\nTo be read: {', '.join(FILES)}\n"
CONFIGURATION = '[[pipeline.steps]]\nrole = "clarifier"\ntask = "Clarify."\n'


@dataclass(frozen=True, slots=True)
class Counted:
    """One delegation in figures; `bytes` are those of all requests to the model."""

    requests: int
    reads: int
    questions: int
    bytes: int


class Meter:
    """Counts what reached the model since the last look."""

    def __init__(self, model: RehearsalModel) -> None:
        self._model = model
        self._seen = 0

    def read(self) -> Counted:
        new = self._model.model_requests[self._seen :]
        self._seen += len(new)
        answers = [request.response for request in new]
        return Counted(
            requests=len(new),
            reads=sum(len(answer.get("calls", ())) for answer in answers),
            questions=sum('"needs_input"' in answer.get("text", "") for answer in answers),
            bytes=sum(len(json.dumps(request.body)) for request in new),
        )


def run(shell: Shell, specification: str) -> list[dict]:
    (shell.project / "spec.md").write_text(specification)
    return shell.lines("run", "spec-42", "--spec", "spec.md", exit_code=None)


def change(project: Path, *names: str) -> None:
    for name in names:
        (project / name).write_text("somebody else's\n")


def test_resumed_briefed_and_fresh_differ_by_what_is_asked_and_read_again(
    opencode_shell, start_opencode, model, project
):
    opencode_shell.configure(CONFIGURATION)
    for name in FILES:
        (project / name).write_text("as it was\n")
    meter = Meter(model)
    run(opencode_shell, SPECIFICATION)
    opencode_shell.lines("answer", "spec-42", "Green.")
    opencode_shell.lines("run", "spec-42")
    first = meter.read()
    assert (first.reads, first.questions) == (len(FILES), 1)

    started = only(run(opencode_shell, f"{SPECIFICATION}\nOnce more."), "turn_started")
    resumed = meter.read()
    assert started["decision"] == "resume"

    change(project, *FILES[:6])
    started = only(run(opencode_shell, f"{SPECIFICATION}\nAnd again."), "turn_started")
    briefed = meter.read()
    assert started["decision"] == "start_fresh_with_briefing"

    agent = start_opencode()
    made = agent.call("session/new", cwd=str(project), mcpServers=[])
    role = '<role name="clarifier">\nClarify.\n</role>'
    agent.prompt(made["result"]["sessionId"], f"{role}\n\n{SPECIFICATION}\nAnd again.")
    fresh = meter.read()

    sys.stdout.write(f"resumed {resumed}\nbriefed {briefed}\nfresh   {fresh}\n")
    assert (resumed.reads, resumed.questions) == (0, 0)
    assert (briefed.reads, briefed.questions) == (len(FILES), 0)
    assert (fresh.reads, fresh.questions) == (len(FILES), 1)
    assert resumed.requests < briefed.requests
