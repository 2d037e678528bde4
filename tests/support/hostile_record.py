"""Two records of the same structure: in one every text that is not ours is a stranger's attack.

A text that has one line by nature gets lines in the hostile one; one that has several has as many
in both. So whatever is printed of the two has the same number of lines, or a line was forged.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

from upthread.client.project_opener import open_project
from upthread.core import types
from upthread.core.agents import Actor
from upthread.core.commands import OpenConversation, OpenLink, Write
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
from upthread.testing.store_conformance import samples

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
TURN, PARKED_TURN, RUN = samples.TURN, types.TurnId("trn_two"), samples.RUN
OWN, CHILD = samples.CONVERSATION, types.ConversationId("con_child")


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
        samples.workstream(values.name, project_id=project_id),
        OpenConversation(conversation=samples.conversation(key=key)),
        *(_link(number, directory, values) for number in (1, 2)),
        *_turns(values),
        *_messages(values),
        structs.replace(samples.stray(raw={"kind": values.line}), reason=values.line),
        structs.replace(samples.refusal({}), reasons=("own_or_ancestor",)),
        structs.replace(samples.run(), project_id=project_id, workstream=values.name),
        *(samples.moved(seq, event) for seq, event in enumerate(_run_events(values), start=1)),
    ]


def _link(number: int, directory: Path, values: Values) -> OpenLink:
    ended = values.line if number == 1 else None
    return OpenLink(
        link=structs.replace(
            samples.link(number, f"{number}{values.line}"),
            agent=values.line,
            agent_version=values.line,
            agent_profile="",
            chose_profile=False,
            working_directory=f"{directory}/{values.line}",
            opened_because=values.line,
            ended_because=ended,
            ended_at_ms=NOW_MS if ended else None,
        )
    )


def _turns(values: Values) -> Iterator[Write]:
    intended = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1)
    report = {
        "status": "done",
        "summary": values.text,
        "decisions": [values.line],
        "findings": [values.text],
        "verdict": {"result": "approved", "evidence": [values.line]},
    }
    ends: dict[types.TurnId, TurnEvent] = {
        TURN: TurnEnded(
            outcome=types.Outcome.OK, report=report, detail=values.line, tokens_used=10
        ),
        PARKED_TURN: TurnParked(reason="permission", detail=values.line),
    }
    for turn_id, end in ends.items():
        yield samples.turn(turn_id)
        for seq, event in enumerate((intended, *_sent(values), end), start=1):
            yield samples.happened(seq, event, turn_id=turn_id)


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
    session = types.UpstreamSessionId(f"2{values.line}")
    return [
        structs.replace(samples.said(seq, *parts, speaker=speaker), upstream_session_id=session)
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
