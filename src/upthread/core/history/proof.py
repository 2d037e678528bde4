"""Proof: a history rendered for every provider, each request judged by that provider's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from upthread.core.history.anthropic_messages import ANTHROPIC_MESSAGES_RULES
from upthread.core.history.model import History
from upthread.core.history.openai_chat import OPENAI_CHAT_RULES
from upthread.core.history.openai_responses import OPENAI_RESPONSES_RULES
from upthread.core.history.provider_requests import (
    as_anthropic_messages,
    as_chat_messages,
    as_responses_input,
    tool_names,
)
from upthread.core.history.rules import Violation, violations
from upthread.core.types import JsonValue

PROVIDERS: Final = ("anthropic_messages", "openai_chat", "openai_responses")


def proof(history: History) -> Mapping[str, tuple[Violation, ...]]:
    """Return what each provider would refuse, empty tuples for a valid history.

    A history without a message of anybody's is valid: nothing would be sent of it.
    """
    messages = as_anthropic_messages(history)
    if not messages:
        return dict.fromkeys(PROVIDERS, ())
    # As an agent would define them: which tools there are is none of the history's faults.
    tools: list[JsonValue] = [{"name": name} for name in tool_names(history)]
    return {
        "anthropic_messages": violations(
            ANTHROPIC_MESSAGES_RULES, {"messages": messages, "tools": tools}
        ),
        "openai_chat": violations(OPENAI_CHAT_RULES, {"messages": as_chat_messages(history)}),
        "openai_responses": violations(
            OPENAI_RESPONSES_RULES, {"input": as_responses_input(history)}
        ),
    }
