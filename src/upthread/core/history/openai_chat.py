"""OpenAI Chat Completions: what it demands of a history.

Sources: the API reference (https://platform.openai.com/docs/api-reference/chat/create), the guide
to function calling (https://platform.openai.com/docs/guides/function-calling), and error texts
quoted in public threads, named at their rule. All seen in November 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from upthread.core.codec import read_json
from upthread.core.history.rules import (
    IMAGE_TYPES,
    Finding,
    JsonObject,
    Request,
    items_of,
    messages_of,
    names_fit,
    object_of,
    repeated,
    rule,
    text_is_unicode,
    text_of,
    there_is_a_message,
)
from upthread.core.lazy_regex import regex
from upthread.errors import StoreError

_REFERENCE: Final = "https://platform.openai.com/docs/api-reference/chat/create"
_GUIDE: Final = "https://platform.openai.com/docs/guides/function-calling"
_ROLES: Final = frozenset({"developer", "system", "user", "assistant", "tool", "function"})
_ID_CHARACTERS_MAX: Final = 40
_INLINE_IMAGE: Final = regex("data:([^;,]*)[;,]")


def _calls(message: JsonObject) -> Sequence[JsonObject]:
    return items_of(message.get("tool_calls"))


def _call_ids(message: JsonObject) -> list[str]:
    return [text_of(call.get("id")) for call in _calls(message)]


@rule(
    "A role is one of the six.", source=_REFERENCE, cure="send it as the user's or the assistant's"
)
def _roles_are_known(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        if message.get("role") not in _ROLES:
            yield index, f"role {message.get('role')!r}"


def _pairs(request: Request) -> Iterator[tuple[int, list[str], int, list[str]]]:
    """Yield each run of tool messages, empty ones too, with the calls before it.

    A run is (position of the caller, its call ids, position of the run, the ids it answers).
    """
    messages = messages_of(request)
    index = 0
    while index < len(messages):
        is_tool = messages[index].get("role") == "tool"
        asked = [] if is_tool else _call_ids(messages[index])
        # A run that nobody called is a run, too: its answers have no call.
        start = end = index if is_tool else index + 1
        while end < len(messages) and messages[end].get("role") == "tool":
            end += 1
        answered = [text_of(message.get("tool_call_id")) for message in messages[start:end]]
        yield index, asked, start, answered
        index = end


@rule(
    "After a message with `tool_calls` comes a tool message for each of them.",
    source="error text in https://github.com/langgenius/dify/issues/32222, and " + _GUIDE,
    cure="close the call with an unknown outcome",
)
def _calls_are_answered_next(request: Request) -> Iterator[Finding]:
    for caller, asked, _, answered in _pairs(request):
        for call_id in asked:
            if call_id not in answered:
                yield caller, f"call {call_id} has no tool message directly after it"


@rule(
    "A tool message answers a call of the message before the run of them.",
    source=_GUIDE,
    cure="take the answer out",
)
def _answers_have_their_call(request: Request) -> Iterator[Finding]:
    for _, asked, start, answered in _pairs(request):
        for offset, call_id in enumerate(answered):
            if call_id not in asked:
                yield start + offset, f"answer to call {call_id}, which the message before lacks"


@rule("A call has one tool message.", source=_GUIDE, cure="take all but the first out")
def _one_answer_for_a_call(request: Request) -> Iterator[Finding]:
    for _, _, start, answered in _pairs(request):
        for call_id in repeated(answered):
            yield start, f"call {call_id} is answered more than once"


@rule(
    "The calls of a message have ids of their own.",
    source=_GUIDE,
    cure="give the later call another id",
)
def _call_ids_differ(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        # Within one message: across messages ids may come again, unlike Anthropic's.
        for call_id in repeated(_call_ids(message)):
            yield index, f"two calls have the id {call_id}"


@rule(
    "A call's id is 1 to 40 characters long.",
    source=(
        "error text in https://community.openai.com/t/"
        "error-for-messages-assistant-tool-calls-id-object/626732"
    ),
    cure="use a shorter id that follows from it",
)
def _call_ids_fit(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        for call_id in _call_ids(message):
            if not 0 < len(call_id) <= _ID_CHARACTERS_MAX:
                yield index, f"call id of {len(call_id)} characters"


@rule(
    "`arguments` is a text that holds a JSON object; servers alike refuse a cut one.",
    source=_REFERENCE,
    cure="write the arguments as JSON",
)
def _arguments_are_json_text(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        for call in _calls(message):
            arguments = object_of(call.get("function")).get("arguments")
            if not isinstance(arguments, str) or not is_json_object(arguments):
                yield index, f"arguments of call {text_of(call.get('id'))} are no JSON object"


def _names(request: Request) -> Iterator[tuple[int, str]]:
    for index, message in enumerate(messages_of(request)):
        for call in _calls(message):
            yield index, text_of(object_of(call.get("function")).get("name"))


@rule(
    "Only an assistant's message with calls may have no content.",
    source=_REFERENCE,
    cure="leave the message out",
)
def _content_is_there(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        if message.get("content") is None and not _calls(message):
            yield index, "it has neither content nor calls"


@rule(
    "Images in the request are PNG, JPEG, GIF or WebP.",
    source="https://platform.openai.com/docs/guides/images-vision",
    cure="name the file in place of its content",
)
def _images_are_of_known_type(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        for part in items_of(message.get("content")):
            url = text_of(object_of(part.get("image_url")).get("url"))
            # Of an address nobody knows the type before it is fetched.
            inline = _INLINE_IMAGE.match(url)
            if inline and inline[1] not in IMAGE_TYPES:
                yield index, f"image of type {inline[1]!r}"


def is_json_object(text: str) -> bool:
    """Return whether the text is a JSON object."""
    try:
        return isinstance(read_json(text.encode("utf-8", "surrogatepass")), dict)
    except (StoreError, RecursionError):
        return False


OPENAI_CHAT_RULES: Final = (
    there_is_a_message(_REFERENCE),
    text_is_unicode(messages_of),
    _roles_are_known,
    _calls_are_answered_next,
    _answers_have_their_call,
    _one_answer_for_a_call,
    _call_ids_differ,
    _call_ids_fit,
    _arguments_are_json_text,
    names_fit(_REFERENCE, _names),
    _content_is_there,
    _images_are_of_known_type,
)
"""What Chat Completions demands of a history. A leading system message is custom, and no rule."""
