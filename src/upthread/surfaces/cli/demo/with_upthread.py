"""Part one: the pipeline on upthread, each step a new process, one of them killed in mid-turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from upthread.errors import UpthreadError
from upthread.surfaces.cli.demo.counts import Counts, count, read_log
from upthread.surfaces.cli.demo.processes import Finished, run_child
from upthread.surfaces.cli.demo.stage import ANSWERS, ANY_ANSWER, WORKSTREAM, Stage

STEPS_MAX = 40
KILLED_ROLE = "constructor"

Say = Callable[[str], None]


def play(stage: Stage, say: Say) -> Counts:
    """Run to the end and return what was counted. Raises UpthreadError when a step fails."""
    started_s = time.monotonic()
    status, has_killed = "running", False
    for number in range(STEPS_MAX):
        spec = ("--spec", "spec.md") if number == 0 else ()
        step = _run_step(stage, spec, may_kill=not has_killed)
        has_killed = has_killed or step.was_killed
        _tell(step, say)
        if step.was_killed:
            continue
        status = _status(step)
        if status == "waiting_for_human":
            _answer(stage, step, say)
        elif status not in {"running", "idle"}:
            break
    seconds = time.monotonic() - started_s
    return count(read_log(stage.log), status=status, seconds=seconds)


def _run_step(stage: Stage, spec: tuple[str, ...], *, may_kill: bool) -> Finished:
    command = ("run", WORKSTREAM, *spec, "--steps", "1", "--agent", "rehearsal", "--json")
    return run_child(
        ("upthread", *command),
        directory=str(stage.project),
        environment=stage.environment,
        kill_when=_in_mid_turn(KILLED_ROLE) if may_kill else lambda _: False,
    )


def _in_mid_turn(role: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a judge that says yes at the role's first tool call."""
    running = ""

    def judge(line: Mapping[str, Any]) -> bool:
        nonlocal running
        if line.get("type") == "turn_started":
            running = str(line["role"])
        return running == role and line.get("type") == "part" and line.get("kind") == "tool_call"

    return judge


def _status(step: Finished) -> str:
    result = step.last("result")
    if result is None:
        raise UpthreadError(
            f"a step ended with exit code {step.exit_code} and no result: {step.lines[-1:]}"
        )
    return str(result["status"])


def _answer(stage: Stage, step: Finished, say: Say) -> None:
    waiting = step.last("waiting")
    assert waiting is not None
    for question in waiting["questions"]:
        text = ANSWERS.get(question["id"], ANY_ANSWER)
        say(f"  question {question['id']}: {question['text']}")
        say(f"  you answer: {text}")
        answer = ("upthread", "answer", WORKSTREAM, question["id"], text, "--json")
        done = run_child(answer, directory=str(stage.project), environment=stage.environment)
        if done.exit_code not in {0, 4}:
            raise UpthreadError(f"the answer was not taken: {done.lines}")


def _tell(step: Finished, say: Say) -> None:
    started = step.last("turn_started")
    if started is None:
        return
    say(f"pid {step.pid}  {started['line']}")
    if step.was_killed:
        say(f"  ✗ killed with SIGKILL in the middle of the turn (pid {step.pid})")
        return
    ended: Mapping[str, Any] = step.last("turn_ended") or {}
    report: Mapping[str, Any] = ended.get("report") or {}
    verdict: Mapping[str, Any] = report.get("verdict") or {}
    if verdict:
        say(f"  verdict: {verdict['result']} — {verdict['evidence'][0]}")
