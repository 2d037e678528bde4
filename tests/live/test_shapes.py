"""Each shape of a session on disk: what the real agent does with it is what the table says.

`UPTHREAD_WRITE_MEASURED=1` measures again, `UPTHREAD_RECORD_SHAPES=1` stores the sessions anew
that the shapes are made from.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.live import claude_code, codex
from tests.support.sets import SOAK
from tools.shapes import ANSWERS, DIRECTORY, NEXT, PROMPTS, SESSION, held, write
from tools.shapes import claude_code as claude_shapes
from tools.shapes import codex as codex_shapes
from tools.shapes.drive import resumed
from tools.shapes.measured import RECORDED, hold

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
    (RECORDED / "claude_code.jsonl").write_text(claude_shapes.shortened(raw))


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
    (RECORDED / "codex.jsonl").write_text(codex_shapes.shortened(lines))


@pytest.mark.parametrize("shape", claude_shapes.SHAPES, ids=lambda shape: shape.name)
def test_claude_code_does_with_each_shape_as_the_table_says(
    shape, claude_binary, model, project, tmp_path
):
    home = tmp_path / "home"
    environment = claude_code.claude_environment(home, model)
    raw = (RECORDED / "claude_code.jsonl").read_text()
    files = shape.files(claude_shapes.stored(raw, str(project)))
    write(files, home / ".claude")
    seen = resumed(
        [str(claude_binary), "-p", "--resume", SESSION, NEXT],
        project=project,
        environment=environment,
        model=model,
        what=shape.what,
        held=held(files),
    )
    hold("claude-code", claude_code.pinned_version(), shape.name, seen)


@pytest.mark.parametrize("shape", codex_shapes.SHAPES, ids=lambda shape: shape.name)
def test_codex_does_with_each_shape_as_the_table_says(
    shape, codex_binary, model, project, tmp_path
):
    home = tmp_path / "home"
    environment = codex.codex_environment(home, model)
    raw = (RECORDED / "codex.jsonl").read_text()
    files = shape.files(codex_shapes.stored(raw, str(project)))
    write(files, home / ".codex")
    seen = resumed(
        [str(codex_binary), "exec", "--skip-git-repo-check", "resume", SESSION, NEXT],
        project=project,
        environment=environment,
        model=model,
        what=shape.what,
        held=held(files),
    )
    hold("codex", codex.pinned_version(), shape.name, seen)
