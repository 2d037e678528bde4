"""A request as every protocol can say it: what was said, by whom, and which tools are offered.

Protocols read their bodies into this; scripts and roles read only this. A tool's result is no
user message, although Anthropic Messages sends it under that role.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Speaker: TypeAlias = Literal["user", "assistant", "tool"]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


class Said(Struct, frozen=True, kw_only=True):
    """One thing said. Clients merge user messages; each text block counts as one of its own."""

    speaker: Speaker
    text: str


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool the request offers, with the names of its arguments in the schema's order."""

    name: str
    argument_names: tuple[str, ...]


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
