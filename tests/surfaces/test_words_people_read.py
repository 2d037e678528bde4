"""What a person reads has words in it: no name that only our own code knows, in any verb's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import anyio
import pytest

from upthread.client import open_project
from upthread.core.actors import Actor
from upthread.core.commands import (
    EndLink,
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    OpenWorkstream,
    RecordDecision,
    RecordParts,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.decision_words import OTHER_REASONS, RECOGNISED
from upthread.core.decisions import DECISIONS
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
from upthread.core.freshness import Freshness
from upthread.core.handshake import RULES, because
from upthread.core.nesting import ALARM, ALARMS
from upthread.core.pipeline import Pipeline, Step, as_data
from upthread.core.stops import _STOPS
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    PERMISSION,
    Conversation,
    ConversationId,
    ConversationKey,
    ErasedPart,
    Link,
    Outcome,
    Part,
    ProjectId,
    RunId,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.errors import LeaseHeldError, RefusedError
from upthread.runtime.delegation import TurnResult, TurnStarted
from upthread.surfaces.cli.__main__ import main
from upthread.surfaces.cli.failures import failure_of
from upthread.surfaces.cli.running import step_in_words
from upthread.surfaces.cli.words import failure_in_words, stopped_in_words
from upthread.surfaces.mcp_server.delegations import _trouble

SETTINGS = ("prompt_timeout_s", "resume_tokens_max", "depth_max", "relays_max")
"""Names with an underscore that a person writes into upthread.toml, and so has to read."""

CODE = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+")
ID = re.compile(r"\b(?:ses|con|trn|run|prj)_[A-Za-z0-9-]+")

REASONS = (*(rule.reason for rule in RULES), *OTHER_REASONS)
STOPS = tuple(reason for reason in _STOPS if reason not in set(Outcome))
ENDS = (*Outcome, *STOPS)
TOOL_STATES = ("completed", "failed", "in_progress", "interrupted")
ANSWERS = ("allow_once", "allow_always", "reject_once", "reject_always", "cancelled")
KINDS = ("edit", "execute", "switch_mode", "other", "read")


def codes_in(text: str) -> set[str]:
    """The tokens with an underscore that are neither ids nor what a person writes."""
    return {each for each in CODE.findall(ID.sub("", text)) if each not in SETTINGS}


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
    def conversation_id(self) -> ConversationId:
        return ConversationId(f"con_{self.number}")

    @property
    def turn_id(self) -> TurnId:
        return TurnId(f"trn_{self.number}")

    @property
    def run_id(self) -> RunId:
        return RunId(f"run_{self.number}")

    def events(self) -> Iterator[TurnEvent]:
        yield TurnIntended(decision=self.decision, reasons=(self.reason, "unchanged"), prompt_seq=1)
        session = UpstreamSessionId(f"ses_{self.number}")
        yield SessionAttached(upstream_session_id=session, how="new", agent="rehearsal")
        yield PromptSent(prompt_seq=1, prompts_before=0)
        if self.end in STOPS:
            yield TurnParked(reason=self.end, detail="as it is")
        elif self.end:
            yield TurnEnded(outcome=Outcome(self.end), detail="as it is")

    def run_events(self) -> Iterator[RunEvent]:
        pipeline = Pipeline(steps=(Step(role="planner", task="Plan."),))
        yield RunStarted(specification="Greet.", pipeline=as_data(pipeline))
        yield StepStarted(role="planner", turn_id=self.turn_id)
        outcome = Outcome(self.end) if self.end in set(Outcome) else Outcome.OK
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


def cases() -> list[Case]:
    """Every reason, every decision and every end, each at least once."""
    decisions = [*DECISIONS, "forked"]
    rows = zip_longest(REASONS, ENDS, fillvalue="")
    return [
        Case(number, decisions[number % len(decisions)], reason or REASONS[0], end)
        for number, (reason, end) in enumerate(rows)
    ]


CASES = cases()


def parts(number: int) -> tuple[Part, ...]:
    answer = ANSWERS[number % len(ANSWERS)]
    alarm = [*ALARMS][number % len(ALARMS)]
    kind = KINDS[number % len(KINDS)]
    erased = ("tool_call", "tool_result", "text", "reasoning")[number % 4]
    return (
        ToolCallPart(call_id="c", title="Write a.txt", tool_kind=kind, arguments=None),
        ToolResultPart(call_id="c", status=TOOL_STATES[number % len(TOOL_STATES)], text=""),
        UnknownPart(
            kind=PERMISSION,
            raw={"title": "Write a.txt", "answer": answer, "answered_by": "nobody"},
        ),
        UnknownPart(kind=ALARM, raw={"alarm": alarm, "depth": 2, "upstream_session_id": "ses_1"}),
        ErasedPart(kind=erased, digest=b"0" * 32, size_bytes=3),
    )


def writes_of(case: Case, project_id: ProjectId) -> Iterator[Write]:
    name, at = case.workstream, 1_000 + case.number
    owner = case.conversation_id
    yield OpenWorkstream(
        project_id=project_id, workstream=name, base_name=f"Kael{case.number}", opened_at_ms=at
    )
    for slot, conversation_id in ((MAIN_SLOT, owner), (CHILD_SLOT, f"{owner}-child")):
        key = ConversationKey(project_id=project_id, workstream=name, role="planner", slot=slot)
        yield OpenConversation(
            conversation=Conversation(
                conversation_id=ConversationId(conversation_id),
                key=key,
                generation=1,
                base_name=f"Kael{case.number}",
                opened_at_ms=at,
                parent_conversation_id=owner if slot == CHILD_SLOT else None,
            )
        )
    for seq in (1, 2):
        yield OpenLink(
            link=Link(
                conversation_id=owner,
                seq=seq,
                upstream_session_id=UpstreamSessionId(f"ses_{case.number}"),
                agent="rehearsal",
                agent_version="1",
                working_directory="/srv",
                opened_because=case.reason,
                opened_at_ms=at,
            )
        )
        if seq == 1:
            yield EndLink(conversation_id=owner, seq=1, ended_because=case.reason, ended_at_ms=at)
    yield OpenRun(run_id=case.run_id, project_id=project_id, workstream=name, opened_at_ms=at)
    yield OpenTurn(turn_id=case.turn_id, conversation_id=owner, opened_at_ms=at, run_id=case.run_id)
    for seq, speaker in ((1, Speaker.USER), (2, Speaker.ASSISTANT)):
        yield RecordParts(
            conversation_id=owner,
            seq=seq,
            first_ordinal=0,
            speaker=speaker,
            turn_id=case.turn_id,
            upstream_session_id=UpstreamSessionId(f"ses_{case.number}"),
            recorded_at_ms=at,
            parts=(TextPart(text="Plan."),) if seq == 1 else parts(case.number),
        )
    for seq, event in enumerate(case.events(), start=1):
        yield RecordTurnEvent(turn_id=case.turn_id, seq=seq, event=event, recorded_at_ms=at)
    for seq, event in enumerate(case.run_events(), start=1):
        yield RecordRunEvent(run_id=case.run_id, seq=seq, event=event, recorded_at_ms=at)
    yield RecordDecision(
        conversation_id=owner,
        decision="refuse",
        reasons=(case.reason,),
        inputs=None,
        decided_at_ms=at,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("words")
    (place / "project").mkdir()
    environment = environment_of(place)

    async def fill() -> None:
        async with open_project(place / "project", environment=environment) as project:
            for case in CASES:
                project.store.commit(tuple(writes_of(case, project.project_id)))

    anyio.run(fill)
    return place


def environment_of(place: Path) -> dict[str, str]:
    return {"HOME": str(place), "UPTHREAD_HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def told(place, monkeypatch, capsys):
    """Runs a verb in this process, and returns all that a person reads of it."""
    for name, value in environment_of(place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place / "project")

    def tell(*words: str) -> str:
        code = main(words)
        found = capsys.readouterr()
        assert "this is a bug in upthread" not in found.err, found.err
        assert code in {0, 3, 4}, found
        return found.out + found.err

    return tell


VERBS = (
    ("ls", "{workstream}"),
    ("show", "{workstream}"),
    ("show", "{workstream}/planner"),
    ("show", "{workstream}", "--effects"),
    ("why", "{workstream}/planner"),
    ("brief", "{workstream}/planner"),
    ("audit", "{workstream}"),
    ("id", "{workstream}/planner"),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_no_reading_verb_prints_a_name_of_our_code(told, verb):
    found = {}
    for case in CASES:
        text = told(*(word.format(workstream=case.workstream) for word in verb))
        if codes := codes_in(text):
            found[case] = codes
    assert found == {}


@pytest.mark.parametrize("verb", ["ls", "agents", "doctor", "status"])
def test_no_verb_on_all_of_a_project_prints_a_name_of_our_code(told, verb):
    assert codes_in(told(verb)) == set()


def conversation() -> Conversation:
    key = ConversationKey(project_id=ProjectId("prj_1"), workstream="w", role="planner", slot=1)
    return Conversation(
        conversation_id=ConversationId("con_1"),
        key=key,
        generation=1,
        base_name="Kael",
        opened_at_ms=0,
    )


def result_of(case: Case) -> TurnResult:
    is_parked = case.end in STOPS
    return TurnResult(
        conversation=conversation(),
        turn_id=TurnId("trn_1"),
        decision=case.decision,
        reasons=(case.reason,),
        upstream_session_id=None,
        outcome=Outcome.UNKNOWN if is_parked else Outcome(case.end or "ok"),
        reply="",
        report=None,
        parked=TurnParked(reason=case.end, detail="") if is_parked else None,
        detail="",
        reset_at_ms=None,
        turn_number=2,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_no_line_of_a_turn_has_a_name_of_our_code(case):
    result = result_of(case)
    started = [
        TurnStarted(
            conversation=conversation(),
            turn_id=TurnId("trn_1"),
            decision=case.decision,
            reasons=(case.reason, "unchanged"),
            recognition=recognition,
            agent="rehearsal",
            upstream_session_id=UpstreamSessionId("ses_1"),
            turn_number=2,
        ).line
        for recognition in ("", *RECOGNISED)
    ]
    refused = RefusedError("no", reasons=(case.reason,), address="w/planner")
    held = LeaseHeldError("held", holder="process 1", address="w/planner")
    failures = [failure_of(error) for error in (refused, held)]
    lines = [
        *started,
        *stopped_in_words(case.end or "ok", detail="", until_ms=None),
        *failure_in_words(result),
        *step_in_words(result),
        *(each.refused for each in failures if each),
        because((case.reason, "unchanged"), Freshness()),
        _trouble(result, "parked" if result.parked else "failed"),
    ]
    assert codes_in("\n".join(lines)) == set()
    assert all(lines[: len(started)])
