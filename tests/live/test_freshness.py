"""Changed files: what a real agent has read is known, and its model is told once it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.acp_process import AcpProcess
from tests.live.agents import ADDRESS, AGENTS
from tests.live.asked import last_request
from tests.live.reading import NOT_READ, NOT_TOLD, NOT_WHOLLY_TOLD, WAYS
from tests.live.shell import Shell, only
from tests.support.sets import SOAK, spread

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

FILES = tuple(f"f{number}.txt" for number in range(1, 8))


def write(project: Path, *names: str, text: str = "somebody else's\n") -> None:
    for name in names:
        (project / name).write_text(text)


@pytest.mark.parametrize("name", spread(AGENTS, first=0))
def test_a_file_that_was_read_in_any_of_forty_ways_is_stale_once_it_has_changed(name, shell):
    lines = [*WAYS, *NOT_READ, *NOT_TOLD]
    files = [f"file-{number}.txt" for number in range(len(lines))]
    for file in files:
        write(shell.project, file, text=f"{file}\nmore\n")
    command = AGENTS[name].command
    steps = [command(line.format(file, file)) for line, file in zip(lines, files, strict=True)]
    assert shell.tell("Look.\n\n" + "\n".join(steps))["outcome"] == "ok"
    write(shell.project, *files)
    why = shell.one("why", ADDRESS)
    stale = set(why["now"]["stale_files"])

    assert len(WAYS) >= 40
    read = dict(zip(WAYS, files, strict=False))
    assert [way for way, file in read.items() if file not in stale] == []
    assert stale.difference(read.values()) == set()
    known = {"files": len(WAYS), "commands_not_known": len(NOT_WHOLLY_TOLD)}
    assert why["reading"] == {**known, "searches_not_known": 0, "calls_not_kept": 0}


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["opencode"]))
def test_a_stale_planner_is_told_which_files_changed_and_a_staler_planner_is_briefed(
    name, shell, model
):
    write(shell.project, *FILES, text="as it was\n")
    reads = "\n".join(AGENTS[name].read(shell.project / file) for file in FILES)
    first = shell.tell(f"We agreed on KIWI-42.\n\n{reads}")
    assert first["outcome"] == "ok"

    write(shell.project, "f1.txt", "f2.txt")
    now = shell.one("why", ADDRESS)["now"]
    assert now["stale_files"] == ["f1.txt", "f2.txt"]
    assert now["tokens_to_resume"] > now["tokens_to_brief"] > 0
    assert not now["tokens_are_estimated"]
    told = shell.tell("Go on.")
    assert (told["decision"], told["reasons"]) == ("resume_with_update", ["files_changed"])
    assert told["upstream_session_id"] == first["upstream_session_id"]
    update = last_request(model).rpartition("Go on.")[0].rpartition("as it was")[2]
    assert "`f1.txt`: changed" in update
    assert "`f2.txt`: changed" in update
    assert "f3.txt" not in update

    write(shell.project, *FILES[:6], text="changed again\n")
    told = shell.tell("And now?")
    assert (told["decision"], told["reasons"]) == ("start_fresh_with_briefing", ["many_changed"])
    assert told["upstream_session_id"] != first["upstream_session_id"]
    for words in ("# Briefing", "KIWI-42", "`f6.txt`: changed"):
        assert words in last_request(model)


# --- the cost of a second delegation, in three ways ----------------------------------------------

SPECIFICATION = f"Paint it.\nTo be read: {', '.join(FILES)}\n"
CONFIGURATION = '[[pipeline.steps]]\nrole = "clarifier"\ntask = "Clarify."\n'


def run(shell: Shell, specification: str) -> str:
    """Run the pipeline of one step; returns what was decided."""
    (shell.project / "spec.md").write_text(specification)
    lines = shell.lines("run", "spec-42", "--spec", "spec.md", exit_code=None)
    return only(lines, "turn_started")["decision"]


@SOAK
@pytest.mark.parametrize("name", ["opencode"])
def test_resumed_briefed_and_fresh_differ_by_the_files_read_and_the_questions_asked_again(
    name, shell, model: RehearsalModel, opencode_binary
):
    """The model reads what it was not shown and asks what it was not told, and nothing else."""
    seen = 0

    def counted() -> tuple[int, int, int]:
        """Count requests, reads and questions since the last count."""
        nonlocal seen
        new = model.model_requests[seen:]
        seen += len(new)
        answers = [request.response for request in new]
        reads = sum(len(answer.get("calls", ())) for answer in answers)
        questions = sum('"needs_input"' in answer.get("text", "") for answer in answers)
        return len(new), reads, questions

    shell.configure(CONFIGURATION)
    write(shell.project, *FILES, text="as it was\n")
    run(shell, SPECIFICATION)
    shell.lines("answer", "spec-42", "Green.")
    shell.lines("run", "spec-42")
    assert counted()[1:] == (len(FILES), 1)

    assert run(shell, f"{SPECIFICATION}\nOnce more.") == "resume"
    resumed = counted()
    write(shell.project, *FILES[:6])
    assert run(shell, f"{SPECIFICATION}\nAnd again.") == "start_fresh_with_briefing"
    briefed = counted()
    command = [str(opencode_binary), "acp"]
    with AcpProcess(command, environment=shell.environment, cwd=shell.project) as agent:
        made = agent.call("session/new", cwd=str(shell.project), mcpServers=[])
        role = '<role name="clarifier">\nClarify.\n</role>'
        agent.prompt(made["result"]["sessionId"], f"{role}\n\n{SPECIFICATION}\nAnd again.")
    fresh = counted()
    assert resumed[1:] == (0, 0)
    assert briefed[1:] == (len(FILES), 0)
    assert fresh[1:] == (len(FILES), 1)
    assert resumed[0] < briefed[0]
