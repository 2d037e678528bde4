"""A request and its answer as every protocol can say them.

Protocols read their bodies into a `Conversation`; scripts and roles read only this, and give an
`Answer`, which the protocol writes. A tool's result is no user message, although Anthropic Messages
sends it under that role.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

from msgspec import Struct, to_builtins

from upthread.testing.rehearsal_model._json import JsonObject

Speaker: TypeAlias = Literal["user", "assistant", "tool"]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


class Said(Struct, frozen=True, kw_only=True):
    """One thing said. Clients merge user messages; each text block counts as one of its own."""

    speaker: Speaker
    text: str


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool the request offers, with the names of its arguments in the schema's order.

    Only Responses has namespaces, and tools whose input is plain text (`is_free_form`).
    """

    name: str
    argument_names: tuple[str, ...]
    namespace: str = ""
    is_free_form: bool = False


class Conversation(Struct, frozen=True, kw_only=True):
    """What the model is shown in one request."""

    system: str
    said: tuple[Said, ...]
    tools: tuple[OfferedTool, ...]

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What the user said, oldest first."""
        return tuple(item.text for item in self.said if item.speaker == "user")

    @property
    def since_last_user(self) -> tuple[Said, ...]:
        """What was said after the last user message: the present turn so far."""
        positions = [index for index, item in enumerate(self.said) if item.speaker == "user"]
        return self.said[positions[-1] + 1 :] if positions else self.said

    @property
    def model_calls_of_turn(self) -> int:
        """How often the model has answered in the present turn."""
        return sum(1 for item in self.since_last_user if item.speaker == "assistant")


def without_reminders(text: str) -> str:
    """Return the text without the blocks that Claude Code puts into user messages by itself."""
    return _REMINDER.sub("", text).strip()


class ToolCall(Struct, frozen=True, kw_only=True):
    """The model wants a tool. The id is minted when the answer is written."""

    name: str
    arguments: JsonObject


class Reply(Struct, frozen=True, kw_only=True):
    """Text, reasoning before it, tool calls after it.

    `delay_s` passes before the first byte, `pace_s` before each streamed frame. `tokens_in` is what
    the provider says it has read, None for a rough count of the prompt; `tokens_cached` is how much
    of that it says came from its cache.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    delay_s: float = 0.0
    pace_s: float = 0.0
    tokens_in: int | None = None
    tokens_cached: int = 0


class Failure(Struct, frozen=True, kw_only=True):
    """An HTTP error. `is_context_full` gives it the provider's words for a prompt too long."""

    status: int
    message: str
    retry_after_s: float | None = None
    is_context_full: bool = False
    delay_s: float = 0.0


class Silence(Struct, frozen=True, kw_only=True):
    """No byte is sent until the client goes or the server stops."""

    delay_s: float = 0.0


Answer: TypeAlias = Reply | Failure | Silence


def as_json(answer: Answer) -> JsonObject:
    """Return the answer as it is logged."""
    return {"kind": type(answer).__name__.lower(), **cast("JsonObject", to_builtins(answer))}
