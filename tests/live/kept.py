"""Our record of a real agent's sessions, in the form in which its own store is read."""

from collections.abc import Mapping
from typing import Any

from tests.core.history.requests import refusals
from tests.live.shell import Shell

from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.repair import repair
from upthread.core.types import ReasoningPart, Speaker, TextPart, ToolCallPart, ToolResultPart

Said = list[tuple[str, str]]


def ours(shell: Shell) -> dict[str, Mapping[str, Any]]:
    """Return our conversations of the workstream by the upstream session of each."""
    audit = shell.one("audit", "spec-42", "--format", "json")
    return {each["chain"][0]["upstream_session_id"]: each for each in audit["conversations"]}


def messages_of(conversation: Mapping[str, Any]) -> History:
    """Return a conversation of the audit as a history."""
    told = [m for turn in conversation["turns"] for m in turn["messages"]]
    told += conversation["child_messages"]
    return tuple(
        HistoryMessage(
            speaker=Speaker(message["speaker"]),
            parts=tuple(part for each in as_sent(message) if (part := part_of(each))),
            place=f"message {message['seq']}",
        )
        for message in sorted(told, key=lambda message: message["seq"])
    )


def as_sent(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a message; our context is sent before the text, in one part."""
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
    return None  # type: ignore[return-value]  # notes and our context are not the agent's texts


def words(history: History) -> Said:
    """Return the texts, calls and results in order; the pieces of a text are joined."""
    said: Said = []
    for message in history:
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
    """Add a text; joins it to the text before if the same speaker continues."""
    if said and said[-1][0] == who and (who != "user" or is_begun):
        said[-1] = (who, said[-1][1] + text)
    else:
        said.append((who, text))


def assert_valid(history: History) -> None:
    made = repair(history)
    assert made.changes == ()
    assert refusals(made.history) == []
