"""What we keep of a real agent's sessions, to be laid beside what its own store holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.core.history.test_repair import refusals
from tests.live.shell import Shell

from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.proof import PROVIDERS, proof
from upthread.core.history.repair import repair
from upthread.core.types import ReasoningPart, Speaker, TextPart, ToolCallPart, ToolResultPart

Said = list[tuple[str, str]]


def ours(shell: Shell) -> dict[str, Mapping[str, Any]]:
    """What we keep of the workstream `w`, by the upstream session it was said in."""
    audit = shell.lines("audit", "w", "--format", "json")[0]
    return {each["chain"][0]["upstream_session_id"]: each for each in audit["conversations"]}


def messages_of(conversation: Mapping[str, Any]) -> History:
    """A conversation of the audit, as a history."""
    told = [m for turn in conversation["turns"] for m in turn["messages"]]
    told += conversation["child_messages"]
    return History(
        messages=tuple(
            HistoryMessage(
                speaker=Speaker(message["speaker"]),
                parts=tuple(part for each in as_sent(message) if (part := part_of(each))),
            )
            for message in sorted(told, key=lambda message: message["seq"])
        )
    )


def as_sent(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a message; our context is sent before the text, as one with it."""
    parts = message["parts"]
    context = [part["text"] for part in parts if part["kind"] == "context"]
    if not context:
        return parts
    text = "\n\n".join([*context, *(p["text"] for p in parts if p["kind"] == "text")])
    return [{"kind": "text", "text": text}]


def part_of(part: Mapping[str, Any]) -> TextPart | ReasoningPart | ToolCallPart | ToolResultPart:
    match part["kind"]:
        case "text":
            return TextPart(text=part["text"])
        case "reasoning":
            return ReasoningPart(text=part["text"])
        case "tool_call":
            return ToolCallPart(
                call_id=part["call_id"],
                title=part["title"],
                tool_kind=part["tool_kind"],
                arguments=part["arguments"],
            )
        case "tool_result":
            return ToolResultPart(call_id=part["call_id"], status=part["status"], text=part["text"])
    return None  # type: ignore[return-value]  # notes and our own context are no words of theirs


def words(history: History) -> Said:
    """What was said, called and answered, in order; a text in pieces is one."""
    said: Said = []
    for message in history.messages:
        begun = len(said)
        for part in message.parts:
            if isinstance(part, TextPart | ReasoningPart):
                who = str(message.speaker) if isinstance(part, TextPart) else "thought"
                _say(said, who, part.text, is_begun=len(said) > begun)
            elif isinstance(part, ToolCallPart):
                said.append(("call", part.call_id))
            elif isinstance(part, ToolResultPart):
                said.append(("result", f"{part.call_id} {part.status}"))
    return said


def _say(said: Said, who: str, text: str, *, is_begun: bool) -> None:
    """Add a text; what follows words of the same one without a break is the rest of them."""
    if said and said[-1][0] == who and (who != "user" or is_begun):
        said[-1] = (who, said[-1][1] + text)
    else:
        said.append((who, text))


def assert_valid(history: History) -> None:
    made = repair(history)
    assert {change.rule for change in made.changes} <= {"neighbours_are_one"}
    assert proof(made.history) == dict.fromkeys(PROVIDERS, ())
    assert refusals(made.history) == []
