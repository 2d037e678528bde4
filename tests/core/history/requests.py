"""A history as the request of each provider, and what the test kit's rules say of it.

The rendering decides only form: what the provider would join is joined, ids and names take the
pattern it wants, arguments are objects, text is text. Reasoning is never rendered, since it is
nothing to another model; notes and erased parts are nobody's words.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from msgspec import Struct, field

from upthread.core.codec import encode_json
from upthread.core.history.model import History, HistoryMessage, sendable
from upthread.core.text import PARAGRAPH, unicode_text
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
from upthread.testing.rehearsal_model.chat_completions import CHAT_COMPLETIONS_RULES
from upthread.testing.rehearsal_model.messages import MESSAGES_RULES
from upthread.testing.rehearsal_model.protocol import Violation, apply_rules
from upthread.testing.rehearsal_model.responses import RESPONSES_RULES


def refusals(given: History) -> list[Violation]:
    """Return what the rehearsal model's rules say of a history as it would be sent.

    A prompt follows it, as it always does; JSON comes between, as on the wire.
    """
    tools = [{"name": name, "function": {"name": name}} for name in tool_names(given)]
    messages, chat, items = (
        json.loads(json.dumps(rendered(given), allow_nan=False))
        for rendered in (as_anthropic_messages, as_chat_messages, as_responses_input)
    )
    if not messages:
        assert chat == items == []
        return []
    return [
        *apply_rules(MESSAGES_RULES, {"messages": messages, "tools": tools}),
        *apply_rules(CHAT_COMPLETIONS_RULES, {"messages": chat, "tools": tools}),
        *apply_rules(RESPONSES_RULES, {"input": items}),
    ]


# --- a repaired history as the messages of a provider's request -----------------------------------


NO_OUTPUT = "(no output)"
NAMELESS = "tool"

# The narrowest of the providers': Anthropic's pattern, and OpenAI's 40 characters for a Chat id.
_CALL_ID = re.compile("[a-zA-Z0-9_-]{1,40}")
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_-]+")
_NAME_CHARACTERS_MAX = 64

Rendered = list[JsonValue]


def as_anthropic_messages(history: History) -> Rendered:
    """Return `messages` of the Messages API: results first in the user's message, then text."""
    rendered: list[tuple[str, Rendered]] = []
    for turn in _turns(history):
        role = "assistant" if turn.speaker is Speaker.ASSISTANT else "user"
        blocks: Rendered = [
            {
                "type": "tool_result",
                "tool_use_id": wire_id(result.call_id),
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
                "id": wire_id(call.call_id),
                "name": tool_name(call),
                "input": _arguments(call),
            }
            for call in turn.calls
        ]
        if rendered and rendered[-1][0] == role:
            rendered[-1][1].extend(blocks)
        else:
            rendered.append((role, blocks))
    _trim_end(rendered)
    return [{"role": role, "content": blocks} for role, blocks in rendered]


def as_chat_messages(history: History) -> Rendered:
    """Return `messages` of Chat Completions: one message for each result."""
    rendered: Rendered = []
    for turn in _turns(history):
        text = PARAGRAPH.join(turn.texts)
        if turn.speaker is Speaker.TOOL:
            rendered += [
                {
                    "role": "tool",
                    "tool_call_id": wire_id(result.call_id),
                    "content": unicode_text(result.text) or NO_OUTPUT,
                }
                for result in turn.results
            ]
        elif turn.calls:
            calls: Rendered = [
                {
                    "id": wire_id(call.call_id),
                    "type": "function",
                    "function": {"name": tool_name(call), "arguments": _arguments_text(call)},
                }
                for call in turn.calls
            ]
            rendered.append({"role": "assistant", "content": text or None, "tool_calls": calls})
        else:
            rendered.append({"role": str(turn.speaker), "content": text})
    return rendered


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
                "call_id": wire_id(call.call_id),
                "name": tool_name(call),
                "arguments": _arguments_text(call),
            }
            for call in turn.calls
        ]
        rendered += [
            {
                "type": "function_call_output",
                "call_id": wire_id(result.call_id),
                "output": unicode_text(result.text) or NO_OUTPUT,
            }
            for result in turn.results
        ]
    return rendered


def tool_names(history: History) -> tuple[str, ...]:
    """Return the names of all tools called, once each: a request must define what it shows."""
    names = {
        tool_name(part): None
        for message in history
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    return tuple(names)


def tool_name(call: ToolCallPart) -> str:
    """Return a call's name as every provider takes it."""
    # Titles are what agents show to people; a provider refuses a blank in a name.
    name = _NOT_IN_NAMES.sub("_", call.title or call.tool_kind)[:_NAME_CHARACTERS_MAX]
    return name or NAMELESS


def wire_id(call_id: str) -> str:
    """Return a call's id as every provider takes it: the same, or one that follows from it."""
    if _CALL_ID.fullmatch(call_id):
        return call_id
    # Follows from the id, so that a call and its result meet again without a table.
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[:32]}"


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


def _arguments(call: ToolCallPart) -> Mapping[str, JsonValue]:
    """Return an object, as providers demand; what is none stands under `arguments`."""
    arguments = sendable(call.arguments)
    if isinstance(arguments, Mapping):
        return arguments
    # A call without arguments is one, and needs an object all the same.
    return {} if arguments is None else {"arguments": arguments}


def _arguments_text(call: ToolCallPart) -> str:
    return encode_json(_arguments(call)).decode()


def _trim_end(rendered: list[tuple[str, Rendered]]) -> None:
    """A final answer must not end in white space: Anthropic takes it for one to go on with."""
    if rendered and rendered[-1][0] == "assistant":
        last = rendered[-1][1][-1]
        if isinstance(last, dict) and last.get("type") == "text":
            last["text"] = str(last["text"]).rstrip()
