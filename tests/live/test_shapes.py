"""Each shape of a session on disk: what the real agent does with it is what the table says.

`UPTHREAD_WRITE_MEASURED=1` measures again, `UPTHREAD_RECORD_SHAPES=1` stores the sessions anew
that the shapes are made from.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.agents import make_repository
from tests.support.sets import SOAK
from tools.shapes import ANSWERS, DIRECTORY, NEXT, PROMPTS, SESSION, claude_session
from tools.shapes import codex as codex_shapes
from tools.shapes.drive import resumed
from tools.shapes.measured import RECORDED, hold
from tools.shapes.opencode_rows import rows_in
from tools.shapes.ours import repaired
from tools.shapes.stages import CASES, HOMES, RESUME, name_of, write_session

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), SOAK]

RESULT = "printf 'FIG-%s' 2"
"""What the call of the second turn runs."""

RECORDING = pytest.mark.skipif(
    not os.environ.get("UPTHREAD_RECORD_SHAPES"), reason="only if a person asks for it"
)


@pytest.fixture
def model():
    """A model that answers whatever history it is shown, and notes which rule it breaks."""
    with RehearsalModel(strict=False) as model:
        yield model


def run(words, project: Path, environment) -> str:
    done = subprocess.run(
        words, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def prepare(model: RehearsalModel, answer: str, command: str) -> None:
    model.answer_next(f"{command if answer == ANSWERS[1] else ''} [[SAY {answer}]]")


@RECORDING
def test_a_session_of_claude_code_is_recorded(claude_binary, model, project, tmp_path):
    home = tmp_path / "home"
    environment = claude_code.claude_environment(home, model)
    claude_code.allow(home, "Bash")
    for number, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        prepare(model, answer, claude_code.command(RESULT))
        which = ("--resume", SESSION) if number else ("--session-id", SESSION)
        run([claude_binary, "-p", *which, prompt], project, environment)
    (path,) = (home / ".claude" / "projects").glob(f"*/{SESSION}.jsonl")
    raw = path.read_text().replace(str(project), DIRECTORY).replace(str(tmp_path), "/shape")
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / "claude-code.json").write_text(claude_session.shortened(raw))


@RECORDING
def test_a_thread_of_codex_is_recorded(codex_binary, model, project, tmp_path):
    home = tmp_path / "home"
    environment = codex.codex_environment(home, model)
    name = ""
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        prepare(model, answer, codex.command(RESULT))
        which = ("resume", name) if name else ()
        run([codex_binary, "exec", "--skip-git-repo-check", *which, prompt], project, environment)
        (path,) = (home / ".codex" / "sessions").glob("*/*/*/*.jsonl")
        name = path.stem[-36:]
    raw = path.read_text().replace(name, SESSION).replace(str(project), DIRECTORY)
    lines = raw.replace(str(tmp_path), "/shape")
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / "codex.json").write_text(codex_shapes.shortened(lines))


@RECORDING
def test_a_session_of_opencode_is_recorded(opencode_binary, model, project, tmp_path):
    home = tmp_path / "home"
    environment = opencode.opencode_environment(home, model)
    for number, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        prepare(model, answer, opencode.command(RESULT))
        run(
            [opencode_binary, "run", *(["--continue"] * bool(number)), prompt], project, environment
        )
    raw = json.dumps(rows_in(opencode.database_of(home)), indent=1)
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / "opencode.json").write_text(raw.replace(str(project), DIRECTORY) + "\n")


@pytest.fixture(scope="module")
def opencode_home(opencode_binary, tmp_path_factory):
    """A HOME and a project in which OpenCode has made its database, to be copied."""
    top = tmp_path_factory.mktemp("opencode")
    make_repository(top / "project")
    with RehearsalModel(strict=False) as model:
        environment = opencode.opencode_environment(top / "home", model)
        run([opencode_binary, "session", "list"], top / "project", environment)
    return top


BINARIES = {"claude-code": "claude_binary", "codex": "codex_binary", "opencode": "opencode_binary"}
ENVIRONMENTS = {
    "claude-code": claude_code.claude_environment,
    "codex": codex.codex_environment,
    "opencode": opencode.opencode_environment,
}
PACKAGES = {"claude-code": claude_code.PACKAGE, "codex": codex.PACKAGE, "opencode": "opencode-ai"}


@pytest.mark.parametrize(("agent", "shape"), CASES, ids=map(name_of, CASES))
def test_the_agent_does_with_each_shape_as_the_table_says(agent, shape, model, tmp_path, request):
    binary = str(request.getfixturevalue(BINARIES[agent]))
    is_row = agent == "opencode"
    top = request.getfixturevalue("opencode_home") if is_row else None

    def stage(name):
        place = tmp_path / name
        if top:
            shutil.copytree(top, place)
        else:
            make_repository(place / "project")
        home = place / "home"
        environment = ENVIRONMENTS[agent](home, model)
        session, held = write_session(agent, shape, home, str(place / "project"))

        def resume():
            words = [binary, *RESUME[agent], session, NEXT]
            project = place / "project"
            return resumed(words, project=project, environment=environment, model=model, held=held)

        return home / HOMES[agent], session, resume

    _, _, resume = stage("as_it_was")
    part = {"what": shape.what, **resume(), "repaired": ""}
    store, session, resume = stage("repaired")
    if copies := repaired(agent, store, session, tmp_path / "into"):
        damaged, copy = copies
        shutil.copy(copy, damaged.with_name(copy.name))
        part["repaired"] = resume()["outcome"]
    hold(agent, opencode.pinned_version(PACKAGES[agent]), shape.name, part)
