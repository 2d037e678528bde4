"""Every reason, decision, outcome and stop there is, each at least once, as a project's record.

For tests that hold every surface to one thing: what is in here is in whatever a person looks at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from msgspec import structs

from upthread.client.project import Project
from upthread.core import types
from upthread.core.agents import Actor
from upthread.core.commands import OpenConversation, OpenLink, OpenRun, Write
from upthread.core.decision.model import DECISIONS
from upthread.core.decision.rules import RULES
from upthread.core.decision.words import OTHER_REASONS
from upthread.core.events import (
    AnswerSuggested,
    PromptSent,
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    SessionAttached,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.runs.pipeline import Pipeline, Step, as_data
from upthread.core.runs.stops import _STOPS
from upthread.core.turns.recorder import ALARM, ALARMS
from upthread.runtime.turns.delegation import TurnResult
from upthread.testing.store_conformance import samples

REASONS = (*(rule.reason for rule in RULES), *OTHER_REASONS)
STOPS = tuple(reason for reason in _STOPS if reason not in set(types.Outcome))
ENDS = (*types.Outcome, *STOPS)
TOOL_STATES = ("completed", "failed", "in_progress", "interrupted")
ANSWERS = ("allow_once", "allow_always", "reject_once", "reject_always", "cancelled")
KINDS = ("edit", "execute", "switch_mode", "other", "read")


@dataclass(frozen=True)
class Case:
    """One role of one workstream: how it was decided, and what became of it."""

    number: int
    decision: str
    reason: str
    end: str

    @property
    def workstream(self) -> str:
        return f"case-{self.number}"

    @property
    def conversation_id(self) -> types.ConversationId:
        return types.ConversationId(f"con_{self.number}")

    @property
    def turn_id(self) -> types.TurnId:
        return types.TurnId(f"trn_{self.number}")

    @property
    def run_id(self) -> types.RunId:
        return types.RunId(f"run_{self.number}")

    def events(self) -> Iterator[TurnEvent]:
        yield TurnIntended(decision=self.decision, reasons=(self.reason, "unchanged"), prompt_seq=1)
        session = types.UpstreamSessionId(f"ses_{self.number}")
        yield SessionAttached(upstream_session_id=session, how="new", agent="rehearsal")
        yield PromptSent(prompt_seq=1)
        if self.end in STOPS:
            yield TurnParked(reason=self.end, detail="as it is")
        elif self.end:
            yield TurnEnded(outcome=types.Outcome(self.end), detail="as it is")

    def run_events(self) -> Iterator[RunEvent]:
        pipeline = Pipeline(steps=(Step(role="planner", task="Plan."),))
        yield RunStarted(specification="Greet.", pipeline=as_data(pipeline))
        yield StepStarted(role="planner", turn_id=self.turn_id)
        outcome = types.Outcome(self.end) if self.end in set(types.Outcome) else types.Outcome.OK
        asks = {"status": "needs_input", "questions": [{"id": "q1", "text": "Which?"}]}
        yield StepEnded(role="planner", turn_id=self.turn_id, outcome=outcome, report=asks)
        asked = Question(question_id="q1", role="planner", text="Which?")
        yield QuestionsAsked(role="planner", questions=(asked,))
        by = Actor(kind="model", name="through MCP")
        yield AnswerSuggested(question_id="q1", text="that", by=by)
        yield QuestionAnswered(question_id="q1", text="this")
        yield RunParked(reason=self.end or "no_report", detail="as it is", role="planner")
        yield RunResumed(because="the limit has passed")
        if self.number % 3 == 0:
            yield RunEnded(status="forgotten" if self.number % 2 else "rejected")
        elif self.number % 3 == 1:
            yield RunParked(reason=self.end or "no_report", detail="as it is", role="planner")


def _cases() -> list[Case]:
    """Every reason, every decision and every end, each at least once."""
    decisions = [*DECISIONS, "forked"]
    rows = zip_longest(REASONS, ENDS, fillvalue="")
    return [
        Case(number, decisions[number % len(decisions)], reason or REASONS[0], end)
        for number, (reason, end) in enumerate(rows)
    ]


CASES = _cases()


def parts(number: int) -> tuple[types.Part, ...]:
    answer = ANSWERS[number % len(ANSWERS)]
    alarm = [*ALARMS][number % len(ALARMS)]
    kind = KINDS[number % len(KINDS)]
    erased = ("tool_call", "tool_result", "text", "reasoning")[number % 4]
    return (
        types.ToolCallPart(call_id="c", title="Write a.txt", tool_kind=kind, arguments=None),
        types.ToolResultPart(call_id="c", status=TOOL_STATES[number % len(TOOL_STATES)], text=""),
        types.UnknownPart(
            kind=types.PERMISSION,
            raw={"title": "Write a.txt", "answer": answer, "answered_by": "nobody"},
        ),
        types.UnknownPart(
            kind=ALARM, raw={"alarm": alarm, "depth": 2, "upstream_session_id": "ses_1"}
        ),
        types.ErasedPart(kind=erased, digest=b"0" * 32, size_bytes=3),
    )


def writes_of(case: Case, project_id: types.ProjectId) -> Iterator[Write]:
    name, owner, turn_id = case.workstream, case.conversation_id, case.turn_id
    base_name = f"Kael{case.number}"
    yield samples.workstream(name, base_name=base_name, project_id=project_id)
    child = types.ConversationId(f"{owner}-child")
    for slot, own, parent in ((types.MAIN_SLOT, owner, None), (types.CHILD_SLOT, child, owner)):
        key = types.ConversationKey(
            project_id=project_id, workstream=name, role="planner", slot=slot
        )
        opened = samples.conversation(own, key=key, base_name=base_name, parent=parent)
        yield OpenConversation(conversation=opened)
    for seq in (1, 2):
        link = samples.link(seq, f"ses_{case.number}", owner=owner)
        yield OpenLink(link=structs.replace(link, opened_because=case.reason))
        if seq == 1:
            yield samples.end_of(seq, case.reason, owner=owner)
    yield OpenRun(run_id=case.run_id, project_id=project_id, workstream=name, opened_at_ms=1)
    yield structs.replace(samples.turn(turn_id, owner=owner), run_id=case.run_id)
    yield samples.said(1, types.TextPart(text="Plan."), owner=owner, turn_id=turn_id)
    yield samples.said(
        2, *parts(case.number), speaker=types.Speaker.ASSISTANT, owner=owner, turn_id=turn_id
    )
    for seq, event in enumerate(case.events(), start=1):
        yield samples.happened(seq, event, owner=owner, turn_id=turn_id)
    for seq, event in enumerate(case.run_events(), start=1):
        yield samples.moved(seq, event, run_id=case.run_id)
    yield structs.replace(samples.refusal(owner=owner), reasons=(case.reason,))


def environment_of(place: Path) -> dict[str, str]:
    return {"HOME": str(place), "UPTHREAD_HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}


async def fill(project: Project) -> None:
    """Put every case into a project's record, with the conversations and runs it takes."""
    for case in CASES:
        project.store.commit(tuple(writes_of(case, project.project_id)))


def result_of(case: Case) -> TurnResult:
    is_parked = case.end in STOPS
    return TurnResult(
        conversation=samples.conversation(),
        turn_id=types.TurnId("trn_1"),
        decision=case.decision,
        reasons=(case.reason,),
        upstream_session_id=None,
        outcome=types.Outcome.UNKNOWN if is_parked else types.Outcome(case.end or "ok"),
        reply="",
        report=None,
        parked=TurnParked(reason=case.end, detail="") if is_parked else None,
        detail="",
        reset_at_ms=None,
        turn_number=2,
    )
