"""A history as the request of each provider, and what the test kit's rules say of it.

The rendering decides only form: what the provider would join is joined, and text is text. Reasoning
is never rendered, since it is nothing to another model; notes and erased parts are nobody's words.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct, field

from upthread.core.history.model import History, HistoryMessage, sendable
from upthread.core.text import unicode_text
from upthread.core.types import (
    ContextPart,
    FilePart,
    JsonValue,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from upthread.testing.rehearsal_model.messages import MESSAGES_RULES
from upthread.testing.rehearsal_model.protocol import Violation, apply_rules
from upthread.testing.rehearsal_model.responses import RESPONSES_RULES


def refusals(given: History) -> list[Violation]:
    """Return what the rehearsal model's rules say of a history as it would be sent.

    A prompt follows it, as it always does; JSON comes between, as on the wire.
    """
    messages, items = (
        json.loads(json.dumps(rendered(given), allow_nan=False))
        for rendered in (as_anthropic_messages, as_responses_input)
    )
    if not messages:
        assert items == []
        return []
    return [
        *apply_rules(MESSAGES_RULES, {"messages": messages}),
        *apply_rules(RESPONSES_RULES, {"input": items}),
    ]


# --- a repaired history as the messages of a provider's request -----------------------------------


NO_OUTPUT: Final = "(no output)"

Rendered = list[JsonValue]


def as_anthropic_messages(history: History) -> Rendered:
    """Return `messages` of the Messages API: results first in the user's message, then text."""
    rendered: list[tuple[str, Rendered]] = []
    for turn in _turns(history):
        role = "assistant" if turn.speaker is Speaker.ASSISTANT else "user"
        blocks: Rendered = [
            {
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "content": unicode_text(result.text) or NO_OUTPUT,
                "is_error": result.status != "completed",
            }
            for result in turn.results
        ]
        # Results, texts, uses, in this order: Anthropic refuses a user's message where results are
        # not first, and an answer where text follows a use.
        blocks += [{"type": "text", "text": text} for text in turn.texts]
        blocks += [
            {
                "type": "tool_use",
                "id": call.call_id,
                "name": call.title,
                "input": sendable(call.arguments),
            }
            for call in turn.calls
        ]
        if rendered and rendered[-1][0] == role:
            rendered[-1][1].extend(blocks)
        else:
            rendered.append((role, blocks))
    return [{"role": role, "content": blocks} for role, blocks in rendered]


def as_responses_input(history: History) -> Rendered:
    """Return `input` of the Responses API: messages, calls and outputs as items of their own."""
    rendered: Rendered = []
    for turn in _turns(history):
        kind = "output_text" if turn.speaker is Speaker.ASSISTANT else "input_text"
        content: Rendered = [{"type": kind, "text": text} for text in turn.texts]
        if content:
            role = str(turn.speaker)
            rendered.append({"type": "message", "role": role, "content": content})
        rendered += [
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.title,
                "arguments": sendable(call.arguments),
            }
            for call in turn.calls
        ]
        rendered += [
            {
                "type": "function_call_output",
                "call_id": result.call_id,
                "output": unicode_text(result.text) or NO_OUTPUT,
            }
            for result in turn.results
        ]
    return rendered


# --- turns -------------------------------------------------------------------------------------


class _Turn(Struct, kw_only=True):
    """What one speaker says at a stretch: texts, then calls; or results."""

    speaker: Speaker
    texts: list[str] = field(default_factory=list[str])
    calls: list[ToolCallPart] = field(default_factory=list[ToolCallPart])
    results: list[ToolResultPart] = field(default_factory=list[ToolResultPart])


def _turns(history: History) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in history:
        turn = _turn_of(message)
        # Notes and thoughts alone: an empty message is refused.
        if not (turn.texts or turn.calls or turn.results):
            continue
        if turns and turns[-1].speaker is turn.speaker:
            turns[-1].texts += turn.texts
            turns[-1].calls += turn.calls
            turns[-1].results += turn.results
        else:
            turns.append(turn)
    return turns


def _turn_of(message: HistoryMessage) -> _Turn:
    turn = _Turn(speaker=message.speaker)
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            turn.calls.append(part)
        elif isinstance(part, ToolResultPart):
            turn.results.append(part)
        elif text := _text_of(part):
            turn.texts.append(text)
    return turn


def _text_of(part: Part) -> str:
    match part:
        case TextPart(text=text) | ContextPart(text=text):
            return unicode_text(text) if text.strip() else ""
        case FilePart(uri=uri, mime_type=mime_type):
            # Named and not sent: the content may be gone, or of a kind that a provider refuses.
            kind = f" ({mime_type})" if mime_type else ""
            return unicode_text(f"[file: {uri}{kind}]")
        case _:
            return ""
