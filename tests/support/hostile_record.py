"""Two records of the same structure: in one every text that is not ours is a stranger's attack.

A text that has one line by nature gets lines in the hostile one; one that has several has as many
in both. So whatever is printed of the two has the same number of lines, or a line was forged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from upthread.client.project_opener import open_project
from upthread.core import types
from upthread.core.agents import Actor
from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    OpenWorkstream,
    RecordDecision,
    RecordParts,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import (
    AnswerSuggested,
    PromptSent,
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEvent,
    RunParked,
    RunStarted,
    SessionAttached,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)

FORGED = "FORGED: approved"
SEPARATORS = "\n\r\v\f\x1c\x1d\x85\u2028\u2029"
ACTING = (
    "\x1b[2J\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b31m\u202e\u200b\U000e0041\t"
    "e" + "\u0301" * 50
)
HOSTILE_LINE = "id" + "".join(f"{end}{FORGED}" for end in SEPARATORS) + ACTING + "$(id) `id` ';|#"
HOSTILE_TEXT = f"{HOSTILE_LINE}\n# {FORGED}\n| a | b |\n```\n````\n{FORGED}\n{'─' * 300} {FORGED}"
BENIGN_LINE = "plain"
HOSTILE_NAME = "x'; $(touch pwned) `id` \"& spec"
NOW_MS = 1_795_200_000_000
PIPELINE = {"steps": [{"role": "planner", "task": "Plan it."}]}
TURN, PARKED_TURN, RUN = types.TurnId("trn_one"), types.TurnId("trn_two"), types.RunId("run_one")
OWN, CHILD = types.ConversationId("con_one"), types.ConversationId("con_child")


class Values:
    """What stands in the fields: a line, a text of several lines, a workstream's name."""

    def __init__(self, *, is_hostile: bool) -> None:
        self.line = f"{HOSTILE_LINE}\ud83d" if is_hostile else BENIGN_LINE
        self.text = HOSTILE_TEXT if is_hostile else re.sub(r"[^\n]+", "plain", HOSTILE_TEXT)
        # Half of a character in a message is a fault of its history, which is another matter.
        self.said_line = HOSTILE_LINE if is_hostile else BENIGN_LINE
        self.name = HOSTILE_NAME if is_hostile else "spec"


async def write_record(directory: Path, environment: Mapping[str, str], values: Values) -> None:
    async with open_project(directory, environment=environment) as project:
        project.store.commit(tuple(_writes(project.project_id, directory, values)))


def _writes(project_id: types.ProjectId, directory: Path, values: Values) -> list[Write]:
    key = types.ConversationKey(project_id=project_id, workstream=values.name, role="planner")
    return [
        OpenWorkstream(
            project_id=project_id, workstream=values.name, base_name="Kael", opened_at_ms=NOW_MS
        ),
        OpenConversation(
            conversation=types.Conversation(
                conversation_id=OWN, key=key, generation=1, base_name="Kael", opened_at_ms=NOW_MS
            )
        ),
        *(_link(number, directory, values) for number in (1, 2)),
        *_turns(values),
        *_messages(values),
        RecordQuarantine(
            conversation_id=OWN,
            turn_id=TURN,
            ordinal=0,
            reason=values.line,
            raw={"kind": values.line},
            recorded_at_ms=NOW_MS,
        ),
        RecordDecision(
            conversation_id=OWN,
            decision="refuse",
            reasons=("own_or_ancestor",),
            inputs={},
            decided_at_ms=NOW_MS,
        ),
        OpenRun(run_id=RUN, project_id=project_id, workstream=values.name, opened_at_ms=NOW_MS),
        *(
            RecordRunEvent(run_id=RUN, seq=seq, event=event, recorded_at_ms=NOW_MS)
            for seq, event in enumerate(_run_events(values), start=1)
        ),
    ]


def _link(number: int, directory: Path, values: Values) -> OpenLink:
    ended = values.line if number == 1 else None
    return OpenLink(
        link=types.Link(
            conversation_id=OWN,
            seq=number,
            upstream_session_id=types.UpstreamSessionId(f"{number}{values.line}"),
            agent=values.line,
            agent_version=values.line,
            working_directory=f"{directory}/{values.line}",
            opened_because=values.line,
            opened_at_ms=NOW_MS,
            ended_because=ended,
            ended_at_ms=NOW_MS if ended else None,
        )
    )


def _turns(values: Values) -> list[Write]:
    intended = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1)
    report = {
        "status": "done",
        "summary": values.text,
        "decisions": [values.line],
        "findings": [values.text],
        "verdict": {"result": "approved", "evidence": [values.line]},
    }
    lives: dict[types.TurnId, tuple[TurnEvent, ...]] = {
        TURN: (
            intended,
            *_sent(values),
            TurnEnded(outcome=types.Outcome.OK, report=report, detail=values.line, tokens_used=10),
        ),
        PARKED_TURN: (
            intended,
            *_sent(values),
            TurnParked(reason="permission", detail=values.line),
        ),
    }
    return [
        each
        for turn_id, events in lives.items()
        for each in (
            OpenTurn(turn_id=turn_id, conversation_id=OWN, opened_at_ms=NOW_MS),
            *(
                RecordTurnEvent(
                    conversation_id=OWN,
                    turn_id=turn_id,
                    seq=seq,
                    event=event,
                    recorded_at_ms=NOW_MS,
                )
                for seq, event in enumerate(events, start=1)
            ),
        )
    ]


def _sent(values: Values) -> tuple[TurnEvent, ...]:
    session = types.UpstreamSessionId(f"2{values.line}")
    return (
        SessionAttached(upstream_session_id=session, how="resumed", agent=values.line),
        PromptSent(prompt_seq=1),
    )


def _messages(values: Values) -> list[Write]:
    call = types.ToolCallPart(
        call_id=values.said_line,
        title=values.said_line,
        tool_kind="execute",
        arguments={"command": values.said_line},
        locations=(values.said_line,),
    )
    answered = {
        "title": values.said_line,
        "answer": values.said_line,
        "answered_by": values.said_line,
    }
    said: tuple[tuple[types.Speaker, tuple[types.Part, ...]], ...] = (
        (types.Speaker.USER, (types.TextPart(text=values.text),)),
        (types.Speaker.ASSISTANT, (call, types.UnknownPart(kind=types.PERMISSION, raw=answered))),
        (
            types.Speaker.TOOL,
            (types.ToolResultPart(call_id=values.said_line, status="completed", text=values.text),),
        ),
        (
            types.Speaker.ASSISTANT,
            (
                types.TextPart(text=values.text),
                types.UnknownPart(kind=values.said_line, raw=values.said_line),
            ),
        ),
    )
    return [
        RecordParts(
            conversation_id=OWN,
            seq=seq,
            first_ordinal=0,
            speaker=speaker,
            turn_id=TURN,
            upstream_session_id=types.UpstreamSessionId(f"2{values.line}"),
            recorded_at_ms=NOW_MS,
            parts=parts,
        )
        for seq, (speaker, parts) in enumerate(said, start=1)
    ]


def _run_events(values: Values) -> tuple[RunEvent, ...]:
    model = Actor(kind="model", name=values.line)
    report = {
        "status": "needs_input",
        "summary": values.text,
        "questions": [{"id": "q1", "text": values.text}, {"id": "q2", "text": values.text}],
    }
    return (
        RunStarted(specification=values.text, pipeline=PIPELINE),
        StepStarted(role="planner", turn_id=TURN),
        StepEnded(
            role="planner",
            turn_id=TURN,
            outcome=types.Outcome.OK,
            report=report,
            report_error=values.line,
        ),
        QuestionsAsked(
            role="planner",
            questions=(
                Question(question_id=f"1{values.line}", role="planner", text=values.text),
                Question(question_id=f"2{values.line}", role="planner", text=values.text),
            ),
        ),
        QuestionAnswered(question_id=f"1{values.line}", text=values.text, answered_by=model),
        AnswerSuggested(question_id=f"2{values.line}", text=values.text, by=model),
        RunParked(reason="blocked", detail=values.line, role="planner"),
    )
