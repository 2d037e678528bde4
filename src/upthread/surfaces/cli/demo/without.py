"""Part two: the same job, the same prompts, the same kill, and no session is ever found again.

Each step is told all that a new session is told on upthread: role, specification, the reports it
needs, the answers. Only its own past is missing. When the rejections reach the cap, the person
starts over; after ATTEMPTS_MAX attempts, gives up.
"""

from __future__ import annotations

import time

import msgspec

from upthread.config import Settings
from upthread.core.events import (
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upthread.core.roles.reports import read_report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import AskHuman, Finish, Park, RunStep, RunView
from upthread.core.runs.stops import stop_in_words
from upthread.core.turns.prompt import role_block
from upthread.core.types import Outcome
from upthread.errors import UpthreadError
from upthread.surfaces.cli.demo.counts import Counts, count, read_log
from upthread.surfaces.cli.demo.processes import Finished, run_child
from upthread.surfaces.cli.demo.stage import ANSWERS, ANY_ANSWER, Stage
from upthread.surfaces.cli.demo.with_upthread import KILLED_ROLE, Say

ATTEMPTS_MAX = 2


def play(stage: Stage, settings: Settings, say: Say) -> Counts:
    """Run until approved or given up, and return what was counted."""
    started_s = time.monotonic()
    forgetful = _Forgetful(stage, settings, say)
    status = ""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        status = forgetful.run()
        if status in {"approved", "done"}:
            break
        say(f"  attempt {attempt} stopped: {status}")
    seconds = time.monotonic() - started_s
    return count(read_log(stage.log), status=status, seconds=seconds)


class _Forgetful:
    """Leads the pipeline with nothing kept but what the steps hand back."""

    def __init__(self, stage: Stage, settings: Settings, say: Say) -> None:
        self._stage = stage
        self._settings = settings
        self._say = say
        self._has_killed = False
        self._view = RunView()
        self._steps = 0

    def run(self) -> str:
        """One attempt from the beginning; returns how it ended."""
        started = RunStarted(
            specification=self._stage.specification,
            pipeline=pipelines.as_data(self._settings.pipeline),
        )
        self._view = pipelines.apply(RunView(), started)
        while True:
            match pipelines.next_command(self._view):
                case RunStep() as step:
                    self._step(step)
                case AskHuman() as ask:
                    self._apply(QuestionsAsked(role=ask.role, questions=ask.questions))
                    self._answer()
                case Finish(status=status):
                    self._apply(RunEnded(status=status))
                    return status
                case Park(reason=reason, role=role):
                    self._apply(RunParked(reason=reason, role=role))
                    return f"{role}: {stop_in_words(reason).said}"
                case other:
                    raise AssertionError(other)

    def _apply(self, event: RunEvent) -> None:
        self._view = pipelines.apply(self._view, event)

    def _answer(self) -> None:
        for question in self._view.open_questions:
            text = ANSWERS.get(question.question_id, ANY_ANSWER)
            self._say(f"  question {question.question_id}, you answer: {text}")
            self._apply(QuestionAnswered(question_id=question.question_id, text=text))

    def _step(self, command: RunStep) -> None:
        role = command.step.role
        block = role_block(self._settings.role(role))
        # All that upthread tells a new session, so that only continuity makes the difference.
        text = "\n\n".join((block, command.task.everything or command.task.news, command.task.text))
        done = self._prompt(role, text)
        if done.was_killed:
            self._say(f"pid {done.pid}  {role}: a new session")
            self._say(f"  ✗ killed with SIGKILL in the middle of the turn (pid {done.pid})")
            done = self._prompt(role, text)
        self._say(f"pid {done.pid}  {role}: a new session")
        ended = done.last("turn_ended")
        if ended is None or ended["outcome"] != Outcome.OK:
            raise UpthreadError(f"the {role} failed without continuity: {done.lines[-1:]}")
        report = read_report(str(ended["reply"]))
        if report.verdict:
            self._say(f"  verdict: {report.verdict.result} — {report.verdict.evidence[0]}")
        self._steps += 1
        turn_id = f"step-{self._steps}"
        self._apply(StepStarted(role=role, turn_id=turn_id, asked_again=command.asked_again))
        data = msgspec.to_builtins(report)
        self._apply(StepEnded(role=role, turn_id=turn_id, outcome=Outcome.OK, report=data))

    def _prompt(self, role: str, text: str) -> Finished:
        may_kill = role == KILLED_ROLE and not self._has_killed
        done = run_child(
            ("upthread.surfaces.cli.demo.one_prompt",),
            directory=str(self._stage.project),
            environment=self._stage.environment,
            stdin=text,
            kill_when=lambda line: may_kill and line.get("kind") == "tool_call",
        )
        self._has_killed = self._has_killed or done.was_killed
        return done
