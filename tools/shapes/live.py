"""The real agents on the shapes: sessions are recorded, shapes are measured."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.live import claude_code, codex, opencode
from tests.live.agents import make_repository
from tools.shapes import ANSWERS, DIRECTORY, NEXT, PROMPTS, SESSION, Shape, claude_session
from tools.shapes import codex as codex_shapes
from tools.shapes import opencode as opencode_shapes
from tools.shapes import opencode_rows as rows
from tools.shapes.drive import resumed
from tools.shapes.measured import RECORDED, hold
from tools.shapes.opencode_server import Server, serving
from tools.shapes.ours import repaired
from tools.shapes.stages import CASES, HOMES, RESUME, write_session

from upthread.testing.rehearsal_model import RehearsalModel

RESULT = "printf 'FIG-%s' 2"
"""What the call of the second turn runs."""

OPENCODE = partial(opencode.opencode_environment, protocol="chat_completions")
"""Over Chat Completions. Anthropic Messages also refuses a history that begins with an answer."""

ENVIRONMENTS = {
    "claude-code": claude_code.claude_environment,
    "codex": codex.codex_environment,
    "opencode": OPENCODE,
}
PACKAGES = {"claude-code": claude_code.PACKAGE, "codex": codex.PACKAGE, "opencode": "opencode-ai"}
ROWS = [shape for shape in opencode_shapes.SHAPES if shape.change_rows]
OF_FILES = [case for case in CASES if case[1] not in ROWS]


# --- the recorded sessions -----------------------------------------------------------------------


def record(agent: str, binary: str, model: RehearsalModel, place: Path) -> None:
    """Let the agent store a session of three turns, from which its shapes are made."""
    project, home = place / "project", place / "home"
    make_repository(project)
    environment = ENVIRONMENTS[agent](home, model)
    text = {"claude-code": _claude, "codex": _codex, "opencode": _opencode}[agent](
        binary, model, home, project, environment
    )
    kept = text.replace(str(project), DIRECTORY).replace(str(place), "/shape")
    (RECORDED / f"{agent}.json").write_text(kept)


def _claude(
    binary: str, model: RehearsalModel, home: Path, project: Path, environment: Mapping[str, str]
) -> str:
    claude_code.allow(home, "Bash")
    for number, prompt in enumerate(_prompts(model, claude_code.command(RESULT))):
        which = ("--resume", SESSION) if number else ("--session-id", SESSION)
        run((binary, "-p", *which, prompt), project, environment)
    (path,) = (home / ".claude" / "projects").glob(f"*/{SESSION}.jsonl")
    return claude_session.shortened(path.read_text())


def _codex(
    binary: str, model: RehearsalModel, home: Path, project: Path, environment: Mapping[str, str]
) -> str:
    name = ""
    for prompt in _prompts(model, codex.command(RESULT)):
        which = ("resume", name) if name else ()
        run((binary, "exec", "--skip-git-repo-check", *which, prompt), project, environment)
        (path,) = (home / ".codex" / "sessions").glob("*/*/*/*.jsonl")
        name = path.stem[-36:]
    return codex_shapes.shortened(path.read_text().replace(name, SESSION))


def _opencode(
    binary: str, model: RehearsalModel, home: Path, project: Path, environment: Mapping[str, str]
) -> str:
    for number, prompt in enumerate(_prompts(model, opencode.command(RESULT))):
        run((binary, "run", *(("--continue",) * bool(number)), prompt), project, environment)
    return json.dumps(rows.rows_in(opencode.database_of(home)), indent=1) + "\n"


def _prompts(model: RehearsalModel, command: str) -> Iterator[str]:
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        model.answer_next(f"{command if answer == ANSWERS[1] else ''} [[SAY {answer}]]")
        yield prompt


def run(words: Sequence[str], project: Path, environment: Mapping[str, str]) -> None:
    """Run an agent's command, which must succeed."""
    done = subprocess.run(
        words,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


# --- the shapes ----------------------------------------------------------------------------------


def measure(
    agent: str,
    shape: Shape | rows.Shape,
    *,
    binary: str,
    model: RehearsalModel,
    place: Path,
    top: Path | None,
) -> None:
    """Compare what an agent does with a shape with the table, and with its repaired copy.

    `top` holds a HOME and a project to begin with, None for a new project.
    """

    def stage(name: str) -> tuple[Path, str, list[str]]:
        shutil.copytree(top, place / name) if top else make_repository(place / name / "project")
        session, held = write_session(
            agent, shape, place / name / "home", str(place / name / "project")
        )
        return place / name, session, held

    def resume(stage: tuple[Path, str, list[str]]) -> dict[str, str]:
        where, session, held = stage
        return resumed(
            (binary, *RESUME[agent], session, NEXT),
            project=where / "project",
            environment=ENVIRONMENTS[agent](where / "home", model),
            model=model,
            held=held,
        )

    part = {"what": shape.what, **resume(stage("as_it_was")), "repaired": ""}
    again = stage("repaired")
    copies = repaired(agent, again[0] / "home" / HOMES[agent], again[1], place / "into")
    if copies:
        damaged, copy = copies
        shutil.copy(copy, damaged.with_name(copy.name))
        part["repaired"] = resume(again)["outcome"]
    hold(agent, opencode.pinned_version(PACKAGES[agent]), shape.name, part)


def made_home(binary: str, top: Path) -> Path:
    """Let OpenCode make its database in a new HOME, and return where HOME and project are."""
    make_repository(top / "project")
    with RehearsalModel(strict=False) as model:
        environment = OPENCODE(top / "home", model)
        run((binary, "session", "list"), top / "project", environment)
    return top


@contextmanager
def opencode_server(binary: str, top: Path) -> Iterator[Server]:
    """Serve the HOME of `made_home`."""
    with RehearsalModel(strict=False) as model:
        environment = OPENCODE(top / "home", model)
        with serving(binary, top / "home", top / "project", environment, model) as server:
            yield server


def measure_rows(shape: rows.Shape, server: Server, place: Path) -> None:
    """As `measure`, for rows of OpenCode's database, which one server reads."""
    number = 2 * ROWS.index(shape) + 1
    made = server.rows(number)
    assert made.session is not None
    session = made.session["id"]
    held = shape.write(made, server.database)
    part = {"what": shape.what, **server.resume(session, held), "repaired": ""}
    session, _ = write_session("opencode", shape, place)
    if copies := repaired("opencode", place / HOMES["opencode"], session, place / "into"):
        found = rows.renumbered(rows.rows_in(copies[1]), number + 1)
        (row,) = found["session"]
        whole = {**(server.rows(number + 1).session or {}), "id": row["id"]}
        server.add(rows.Rows(whole, found["message"], found["part"]))
        part["repaired"] = server.resume(row["id"], held)["outcome"]
    hold("opencode", opencode.pinned_version(), shape.name, part)
