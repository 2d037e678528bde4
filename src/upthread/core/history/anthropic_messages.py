"""Anthropic Messages: what it demands of a history.

Sources: the API reference (https://platform.claude.com/docs/en/api/messages), the guides to tool
calls and extended thinking, and error texts quoted in public threads, named at their rule. All seen
in November 2026. Neighbouring messages of one role count as one, as the API joins them; a position
is that of the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from upthread.core.history.rules import (
    IMAGE_TYPES,
    Finding,
    JsonObject,
    Request,
    items_of,
    messages_of,
    object_of,
    repeated,
    rule,
    text_is_unicode,
    text_of,
    there_is_a_message,
)
from upthread.core.lazy_regex import regex

_REFERENCE: Final = "https://platform.claude.com/docs/en/api/messages"
_TOOLS: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls"
_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
_ID: Final = regex("[a-zA-Z0-9_-]+")
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


class _Joined(NamedTuple):
    """Neighbouring messages of one role, as the API sees them."""

    start: int
    role: str
    blocks: list[JsonObject]

    def ids(self, kind: str, name: str) -> list[str]:
        return [text_of(b.get(name)) for b in self.blocks if b.get("type") == kind]

    @property
    def used(self) -> list[str]:
        return self.ids("tool_use", "id")

    @property
    def answered(self) -> list[str]:
        return self.ids("tool_result", "tool_use_id")


_NOTHING: Final = _Joined(0, "", [])


def _joined(request: Request) -> list[_Joined]:
    joined: list[_Joined] = []
    for index, message in enumerate(messages_of(request)):
        content = message.get("content")
        role = text_of(message.get("role"))
        text: JsonObject = {"type": "text", "text": content}
        blocks: list[JsonObject] = [text] if isinstance(content, str) else [*items_of(content)]
        # As the API does before it judges: results may stand in two messages of the user.
        if joined and joined[-1].role == role:
            joined[-1].blocks.extend(blocks)
        else:
            joined.append(_Joined(index, role, blocks))
    return joined


def _blocks(request: Request, kind: str) -> Iterator[tuple[int, JsonObject]]:
    for joined in _joined(request):
        for block in joined.blocks:
            if block.get("type") == kind:
                yield joined.start, block


@rule(
    "A role is `user` or `assistant`; the system prompt is a field of its own.",
    source=_REFERENCE,
    cure="send it as the user's or the assistant's",
)
def _roles_are_known(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        if message.get("role") not in {"user", "assistant"}:
            yield index, f"role {message.get('role')!r}"


@rule(
    "The first message is the user's.",
    source=_REFERENCE,
    cure="put a user's message before it that says something is missing",
)
def _the_user_begins(request: Request) -> Iterator[Finding]:
    for first in _joined(request)[:1]:
        if first.role == "assistant":
            yield 0, "the history begins with an answer"


@rule(
    "Every tool use has its result in the very next message.",
    source="https://github.com/anomalyco/opencode/issues/10616, and " + _TOOLS,
    cure="close the call with an unknown outcome",
)
def _uses_are_answered_next(request: Request) -> Iterator[Finding]:
    joined = _joined(request)
    # The last message, too: a use that nothing follows is refused when the history is sent.
    for message, following in pairwise([*joined, _NOTHING]):
        for use_id in message.used:
            if use_id not in following.answered:
                yield message.start, f"tool use {use_id} has no result in the next message"


@rule(
    "A tool result answers a tool use of the message before it.",
    source=_TOOLS,
    cure="take the result out",
)
def _results_have_their_use(request: Request) -> Iterator[Finding]:
    for before, message in pairwise([_NOTHING, *_joined(request)]):
        for use_id in message.answered:
            if use_id not in before.used:
                yield message.start, f"result of {use_id}, which the message before lacks"


@rule(
    "In a user's message the tool results stand before everything else.",
    source=_TOOLS,
    cure="put the results first",
)
def _results_come_first(request: Request) -> Iterator[Finding]:
    for message in _joined(request):
        kinds = [block.get("type") for block in message.blocks]
        results = kinds.count("tool_result")
        if "tool_result" in kinds[results:]:
            yield message.start, "something stands before a tool result"


@rule(
    "In an answer no text stands after a tool use.",
    source=(
        "recorded refusal `rejects malformed assistant tool order` in "
        "https://github.com/anomalyco/opencode (packages/llm/test)"
    ),
    cure="send the text after the result",
)
def _uses_come_last(request: Request) -> Iterator[Finding]:
    for message in _joined(request):
        kinds = [text_of(block.get("type")) for block in message.blocks]
        if "tool_use" in kinds and "text" in kinds[kinds.index("tool_use") :]:
            yield message.start, "text stands after a tool use"


@rule("A tool use has a single result.", source=_TOOLS, cure="take all but the first out")
def _one_result_for_a_use(request: Request) -> Iterator[Finding]:
    for message in _joined(request):
        for use_id in repeated(message.answered):
            yield message.start, f"tool use {use_id} has several results"


@rule(
    "A tool use id occurs once in the whole history.",
    source=_TOOLS,
    cure="give the later use another id",
)
def _use_ids_differ(request: Request) -> Iterator[Finding]:
    uses = [(start, text_of(use.get("id"))) for start, use in _blocks(request, "tool_use")]
    for use_id in repeated(use_id for _, use_id in uses):
        yield [start for start, each in uses if each == use_id][1], f"tool use id {use_id} again"


@rule(
    "A tool use id is made of a-z, A-Z, 0-9, _ and -.",
    source=_REFERENCE,
    cure="use an id that follows from it",
)
def _use_ids_fit(request: Request) -> Iterator[Finding]:
    for start, use in _blocks(request, "tool_use"):
        if not _ID.fullmatch(text_of(use.get("id"))):
            yield start, f"tool use id {use.get('id')!r}"


@rule("The input of a tool use is an object.", source=_REFERENCE, cure="put it into an object")
def _input_is_an_object(request: Request) -> Iterator[Finding]:
    for start, use in _blocks(request, "tool_use"):
        # `object_of` makes an empty object of anything else: only an object comes back as itself.
        if use.get("input") is None or object_of(use.get("input")) is not use.get("input"):
            yield start, f"input of tool use {text_of(use.get('id'))} is no object"


@rule(
    "A history that uses tools comes with `tools`.", source=_TOOLS, cure="define the tools it names"
)
def _tools_are_defined(request: Request) -> Iterator[Finding]:
    if not items_of(request.get("tools")) and any(m.used or m.answered for m in _joined(request)):
        yield None, "tools are used and none is defined"


@rule("A text block holds more than white space.", source=_REFERENCE, cure="leave the block out")
def _text_says_something(request: Request) -> Iterator[Finding]:
    for start, block in _blocks(request, "text"):
        if not text_of(block.get("text")).strip():
            yield start, "a text of nothing but white space"


@rule("Only a final answer may be empty.", source=_REFERENCE, cure="leave the message out")
def _content_is_there(request: Request) -> Iterator[Finding]:
    messages = messages_of(request)
    for index, message in enumerate(messages):
        # The answer that the model is to go on with may be empty.
        is_final_answer = index + 1 == len(messages) and message.get("role") == "assistant"
        if not message.get("content") and not is_final_answer:
            yield index, "it has no content"


@rule("A final answer does not end in white space.", source=_REFERENCE, cure="trim it")
def _the_end_is_trimmed(request: Request) -> Iterator[Finding]:
    for last in _joined(request)[-1:]:
        text = text_of(last.blocks[-1].get("text")) if last.blocks else ""
        if last.role == "assistant" and text != text.rstrip():
            yield last.start, "the final answer ends in white space"


@rule(
    "With thinking on, the history ends with the user.",
    source="https://github.com/anomalyco/opencode/pull/26178, and " + _THINKING,
    cure="send the prompt with it",
)
def _the_user_ends(request: Request) -> Iterator[Finding]:
    # Without thinking an answer may be the end: the model goes on in it.
    thinks = text_of(object_of(request.get("thinking")).get("type")) in {"enabled", "adaptive"}
    for last in _joined(request)[-1:]:
        if thinks and last.role == "assistant":
            yield last.start, "the history ends with an answer while thinking is on"


@rule(
    "Thinking comes back as it was, with its signature.",
    source=_THINKING,
    cure="leave the thinking out",
)
def _thinking_is_signed(request: Request) -> Iterator[Finding]:
    for start, block in _blocks(request, "thinking"):
        if not text_of(block.get("signature")):
            yield start, "thinking without its signature"


@rule(
    "Thinking stands before the tool uses of its answer.",
    source=_THINKING,
    cure="leave the thinking out",
)
def _thinking_comes_before_uses(request: Request) -> Iterator[Finding]:
    for index, message in enumerate(messages_of(request)):
        # Each message by itself: joined, the thinking of a later one would stand after the uses
        # before.
        kinds = [text_of(block.get("type")) for block in items_of(message.get("content"))]
        if "tool_use" in kinds and _THOUGHTS & set(kinds[kinds.index("tool_use") :]):
            yield index, "thinking stands after a tool use"


@rule(
    "A server tool use has its result in the same message.",
    source=_TOOLS,
    cure="leave the pair out",
)
def _server_uses_are_answered(request: Request) -> Iterator[Finding]:
    for message in _joined(request):
        # In the same message, since the provider runs these itself while it answers.
        answered = {text_of(block.get("tool_use_id")) for block in message.blocks}
        for use_id in message.ids("server_tool_use", "id"):
            if use_id not in answered:
                yield message.start, f"server tool use {use_id} has no result beside it"


@rule(
    "Images are JPEG, PNG, GIF or WebP.",
    source="https://platform.claude.com/docs/en/build-with-claude/vision",
    cure="name the file in place of its content",
)
def _images_are_of_known_type(request: Request) -> Iterator[Finding]:
    for start, block in _blocks(request, "image"):
        source = object_of(block.get("source"))
        if source.get("type") == "base64" and source.get("media_type") not in IMAGE_TYPES:
            yield start, f"image of type {source.get('media_type')!r}"


ANTHROPIC_MESSAGES_RULES: Final = (
    there_is_a_message(_REFERENCE),
    text_is_unicode(messages_of),
    _roles_are_known,
    _the_user_begins,
    _results_come_first,
    _uses_come_last,
    _uses_are_answered_next,
    _results_have_their_use,
    _one_result_for_a_use,
    _use_ids_differ,
    _use_ids_fit,
    _input_is_an_object,
    _tools_are_defined,
    _text_says_something,
    _content_is_there,
    _the_end_is_trimmed,
    _the_user_ends,
    _thinking_is_signed,
    _thinking_comes_before_uses,
    _server_uses_are_answered,
    _images_are_of_known_type,
)
"""What the Messages API demands of a history."""
