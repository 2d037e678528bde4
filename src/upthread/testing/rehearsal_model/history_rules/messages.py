"""Anthropic Messages: what makes a history invalid.

Sources: https://docs.anthropic.com/en/api/messages, its pages on tool use, extended thinking and
errors; error texts as quoted in anthropics/claude-code and anthropics/anthropic-sdk-python issues.
The rules about `system` messages are those of "Mid-conversation system messages" in its guide, read
2026-11; their error texts are answers of claude-opus-5-5 that users published in 2026-10.
Neighbouring messages of one role are joined first, as the API does; a position is that of the
first of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from msgspec import Struct

from upthread.testing.rehearsal_model import _json
from upthread.testing.rehearsal_model.history_rules._rule import (
    IMAGE_TYPES,
    Found,
    Rule,
    holds_lone_surrogate,
)

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING: Final = ("thinking", "redacted_thinking")
_TAKES_SYSTEM_MESSAGES: Final = re.compile(
    r"claude-(opus-(4-8|5|5-5)|sonnet-5-5|(fable|mythos)-(5|5-1))(-\d{8})?(\[1m\])?"
)
"""The models that the guide names. A newer model is refused until it is added here."""
_SYSTEM_BLOCKS: Final = ("text", "tool_addition", "tool_removal")
_DIRECTIVE_HINT: Final = (
    "; the directive-only form (content: [] with output_config) is accepted at any position"
)


class _Turn(Struct, frozen=True):
    index: int
    role: str
    blocks: list[_json.JsonObject]


def sign_thinking(thinking: str) -> str:
    """Return the signature the rehearsal model gives a thinking block: any edit breaks it."""
    digest = hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).hexdigest()
    return f"rehearsal-{digest}"


def there_is_a_message(body: _json.JsonObject) -> Iterator[Found]:
    """`messages` has at least one item (API reference)."""
    if not _json.as_list(body.get("messages")):
        yield Found(None, "messages: at least one message is required")


def roles_are_known(body: _json.JsonObject) -> Iterator[Found]:
    """Roles are `user` and `assistant`; current models take `system` too (API reference, guide)."""
    takes_system = _TAKES_SYSTEM_MESSAGES.fullmatch(_json.as_text(body.get("model")))
    for index, message in enumerate(_json.objects_in(body.get("messages"))):
        role = _json.as_text(message.get("role"))
        if role == "system" and not takes_system:
            yield Found(index, "role 'system' is not supported on this model")
        elif role not in {"user", "assistant", "system"}:
            yield Found(index, f"messages.{index}.role: Input should be 'user' or 'assistant'")


def system_messages_have_content(body: _json.JsonObject) -> Iterator[Found]:
    """A `system` message holds text or changes of tools, or nothing beside a directive (guide)."""
    for index, message in enumerate(_json.objects_in(body.get("messages"))):
        if message.get("role") != "system" or _is_directive(message):
            continue
        if not message.get("content"):
            yield Found(index, f"messages.{index}: system content must contain at least one block")
        elif any(
            _json.as_text(block.get("type")) not in _SYSTEM_BLOCKS for block in _blocks(message)
        ):
            yield Found(
                index,
                f"messages.{index}: role 'system' supports text, tool_addition, and tool_removal "
                "blocks only",
            )


def system_messages_follow_the_user(body: _json.JsonObject) -> Iterator[Found]:
    """A group of `system` messages stands between the user and the answer, or last (guide).

    A server tool's result at the end of an answer is as good as the user.
    """
    messages = _json.objects_in(body.get("messages"))
    by_role = groupby(enumerate(messages), key=lambda item: item[1].get("role"))
    for group in [list(items) for role, items in by_role if role == "system"]:
        first, last = group[0][0], group[-1][0]
        if all(_is_directive(message) for _index, message in group):
            continue
        if first == 0:
            what = "use the top-level 'system' parameter for the initial system prompt"
            yield Found(0, f"messages.0: {what}{_DIRECTIVE_HINT}")
        elif not _may_precede_system(messages[first - 1]):
            yield Found(
                first,
                f"messages.{first}: role 'system' must follow a 'user' message or an 'assistant' "
                f"message ending in a server tool result{_DIRECTIVE_HINT}",
            )
        elif any(each.get("role") != "assistant" for each in messages[last + 1 : last + 2]):
            yield Found(
                last,
                f"messages.{last}: role 'system' must precede an 'assistant' message or end the "
                f"array{_DIRECTIVE_HINT}",
            )


def first_message_is_the_users(body: _json.JsonObject) -> Iterator[Found]:
    """A history begins with the user (API reference)."""
    turns = _turns(body)
    if turns and turns[0].role == "assistant":
        yield Found(0, 'messages: first message must use the "user" role')


def each_tool_use_is_answered_next(body: _json.JsonObject) -> Iterator[Found]:
    """Every `tool_use` has its `tool_result` in the very next message (tool use guide)."""
    turns = _turns(body)
    for turn, following in zip(turns, [*turns, None][1:], strict=True):
        answered = _result_ids(following) if following else []
        missing = [id_ for id_ in _use_ids(turn) if id_ not in answered]
        if missing:
            yield Found(turn.index, _unanswered(turn.index, missing))


def tool_results_come_first(body: _json.JsonObject) -> Iterator[Found]:
    """In a message with `tool_result` blocks nothing stands before them (tool use guide)."""
    for turn in _turns(body):
        kinds = [block.get("type") == "tool_result" for block in turn.blocks]
        if turn.role == "user" and kinds != sorted(kinds, reverse=True):
            yield Found(turn.index, _unanswered(max(0, turn.index - 1), _result_ids(turn)))


def each_tool_result_has_its_use(body: _json.JsonObject) -> Iterator[Found]:
    """A `tool_result` answers a `tool_use` of the message before it (tool use guide)."""
    turns = _turns(body)
    for before, turn in zip([None, *turns], turns, strict=False):
        asked = _use_ids(before) if before else []
        for place, block in _of_type(turn, "tool_result"):
            id_ = _json.as_text(block.get("tool_use_id"))
            if id_ not in asked:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {id_}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message.",
                )


def each_tool_use_is_answered_once(body: _json.JsonObject) -> Iterator[Found]:
    """One `tool_result` per `tool_use` (error text in anthropics/claude-code issues)."""
    for turn in _turns(body):
        ids = _result_ids(turn)
        for id_ in sorted({each for each in ids if ids.count(each) > 1}):
            yield Found(
                turn.index,
                f"messages.{turn.index}.content: each tool_use must have a single result. Found "
                f"multiple `tool_result` blocks with id: {id_}",
            )


def tool_use_ids_are_unique(body: _json.JsonObject) -> Iterator[Found]:
    """A `tool_use` id occurs once in the whole history (error text in public issues)."""
    seen: set[str] = set()
    for turn in _turns(body):
        for place, block in _of_type(turn, "tool_use"):
            id_ = _json.as_text(block.get("id"))
            if id_ in seen:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}: `tool_use` ids must be unique",
                )
            seen.add(id_)


def tool_use_ids_match_the_pattern(body: _json.JsonObject) -> Iterator[Found]:
    """A `tool_use` id is a-z A-Z 0-9 _ - (error text in public issues)."""
    for turn in _turns(body):
        for place, block in _of_type(turn, "tool_use"):
            if not _ID.fullmatch(_json.as_text(block.get("id"))):
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}.tool_use.id: String should match "
                    "pattern '^[a-zA-Z0-9_-]+$'",
                )


def tool_input_is_an_object(body: _json.JsonObject) -> Iterator[Found]:
    """`tool_use.input` is an object, never text (API reference)."""
    for turn in _turns(body):
        for place, block in _of_type(turn, "tool_use"):
            if not isinstance(block.get("input"), dict):
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}.tool_use.input: Input should be a "
                    "valid dictionary",
                )


def tools_are_offered_where_used(body: _json.JsonObject) -> Iterator[Found]:
    """A history with tool blocks needs `tools` (tool use guide)."""
    used = any(_use_ids(turn) or _result_ids(turn) for turn in _turns(body))
    if used and not _json.as_list(body.get("tools")):
        yield Found(
            None,
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        )


def text_is_not_empty(body: _json.JsonObject) -> Iterator[Found]:
    """A text block says something (error texts in public issues)."""
    for turn in _turns(body):
        for _place, block in _of_type(turn, "text"):
            text = _json.as_text(block.get("text"))
            if not text:
                yield Found(turn.index, "messages: text content blocks must be non-empty")
            elif not text.strip():
                yield Found(
                    turn.index, "messages: text content blocks must contain non-whitespace text"
                )


def content_is_not_empty(body: _json.JsonObject) -> Iterator[Found]:
    """Only the last message may have no content, and only the assistant's (error text)."""
    messages = _json.objects_in(body.get("messages"))
    for index, message in enumerate(messages):
        is_last_answer = index == len(messages) - 1 and message.get("role") == "assistant"
        may_be_empty = is_last_answer or message.get("role") == "system"
        if message.get("content") in (None, []) and not may_be_empty:
            yield Found(
                index,
                f"messages.{index}: all messages must have non-empty content except for the "
                "optional final assistant message",
            )


def final_answer_has_no_trailing_space(body: _json.JsonObject) -> Iterator[Found]:
    """A begun answer does not end in whitespace (error text in public issues)."""
    turns = _turns(body)
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        text = _json.as_text(turns[-1].blocks[-1].get("text"))
        if text != text.rstrip():
            yield Found(
                turns[-1].index,
                "messages: final assistant content cannot end with trailing whitespace",
            )


def no_begun_answer_with_thinking(body: _json.JsonObject) -> Iterator[Found]:
    """With thinking on, the conversation ends with the user (extended thinking guide)."""
    turns = _turns(body)
    is_on = _json.as_text(_json.as_object(body.get("thinking")).get("type")) in {
        "enabled",
        "adaptive",
    }
    if is_on and turns and turns[-1].role == "assistant":
        yield Found(
            turns[-1].index,
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message.",
        )


def thinking_is_signed_and_unchanged(body: _json.JsonObject) -> Iterator[Found]:
    """A thinking block comes back with its signature and not one letter changed (guide)."""
    for turn in _turns(body):
        for place, block in _of_type(turn, "thinking"):
            signature = block.get("signature")
            where = f"messages.{turn.index}.content.{place}"
            if not isinstance(signature, str) or not signature:
                yield Found(turn.index, f"{where}.thinking.signature: Field required")
            elif signature != sign_thinking(_json.as_text(block.get("thinking"))):
                yield Found(turn.index, f"{where}: Invalid `signature` in `thinking` block")


def thinking_comes_before_tool_use(body: _json.JsonObject) -> Iterator[Found]:
    """Thinking stands before the tool use of its answer (extended thinking guide).

    Only answers that stand alone are judged: joined ones may think again after a tool use.
    """
    for index, message in enumerate(_json.objects_in(body.get("messages"))):
        kinds = [
            _json.as_text(block.get("type")) for block in _json.objects_in(message.get("content"))
        ]
        uses = [place for place, kind in enumerate(kinds) if kind == "tool_use"]
        if uses and any(kind in _THINKING for kind in kinds[uses[0] :]):
            yield Found(
                index,
                f"messages.{index}.content.{uses[0]}.type: Expected `thinking` or "
                "`redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
                "`assistant` message must start with a thinking block.",
            )


def server_tool_pairs_stay_together(body: _json.JsonObject) -> Iterator[Found]:
    """A `server_tool_use` has its result block in the same message (server tools guide)."""
    for turn in _turns(body):
        answered = {_json.as_text(block.get("tool_use_id")) for block in turn.blocks}
        for _place, block in _of_type(turn, "server_tool_use"):
            id_, name = _json.as_text(block.get("id")), _json.as_text(block.get("name"))
            if id_ not in answered:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}: `{name}` tool use with id `{id_}` was found without "
                    f"a corresponding `{name}_tool_result` block",
                )


def images_have_a_known_type(body: _json.JsonObject) -> Iterator[Found]:
    """Images are JPEG, PNG, GIF or WebP (vision guide)."""
    for turn in _turns(body):
        for place, block in _of_type(turn, "image"):
            source = _json.as_object(block.get("source"))
            if (
                source.get("type") == "base64"
                and _json.as_text(source.get("media_type")) not in IMAGE_TYPES
            ):
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}.image.source.base64.media_type: Input "
                    "should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
                )


def text_is_unicode(body: _json.JsonObject) -> Iterator[Found]:
    """No lone surrogate: it has no UTF-8 form (error text in anthropics/claude-code issues)."""
    for index, message in enumerate(_json.objects_in(body.get("messages"))):
        if holds_lone_surrogate(message):
            yield Found(
                index, "The request body is not valid JSON: no low surrogate in string: line 1"
            )


MESSAGES_RULES: Final[tuple[Rule, ...]] = (
    there_is_a_message,
    text_is_unicode,
    roles_are_known,
    system_messages_have_content,
    system_messages_follow_the_user,
    first_message_is_the_users,
    tool_results_come_first,
    each_tool_use_is_answered_next,
    each_tool_result_has_its_use,
    each_tool_use_is_answered_once,
    tool_use_ids_are_unique,
    tool_use_ids_match_the_pattern,
    tool_input_is_an_object,
    tools_are_offered_where_used,
    text_is_not_empty,
    content_is_not_empty,
    final_answer_has_no_trailing_space,
    no_begun_answer_with_thinking,
    thinking_is_signed_and_unchanged,
    thinking_comes_before_tool_use,
    server_tool_pairs_stay_together,
    images_have_a_known_type,
)


def _turns(body: _json.JsonObject) -> list[_Turn]:
    turns: list[_Turn] = []
    for index, message in enumerate(_json.objects_in(body.get("messages"))):
        role = _json.as_text(message.get("role"))
        if _is_directive(message):
            continue  # The model sees nothing of it, so that its neighbours are joined.
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(_blocks(message))
        else:
            turns.append(_Turn(index, role, _blocks(message)))
    return turns


def _is_directive(message: _json.JsonObject) -> bool:
    """Return whether a `system` message has no content and only sets how the model works."""
    is_empty = message.get("role") == "system" and message.get("content") == []
    return is_empty and "output_config" in message


def _may_precede_system(message: _json.JsonObject) -> bool:
    if message.get("role") == "assistant":
        kinds = [_json.as_text(block.get("type")) for block in _blocks(message)]
        return bool(kinds) and kinds[-1].endswith("_tool_result")
    return message.get("role") == "user"


def _blocks(message: _json.JsonObject) -> list[_json.JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _json.objects_in(content)


def _of_type(turn: _Turn, kind: str) -> Iterator[tuple[int, _json.JsonObject]]:
    for place, block in enumerate(turn.blocks):
        if block.get("type") == kind:
            yield place, block


def _use_ids(turn: _Turn) -> list[str]:
    return [_json.as_text(block.get("id")) for _place, block in _of_type(turn, "tool_use")]


def _result_ids(turn: _Turn) -> list[str]:
    return [
        _json.as_text(block.get("tool_use_id")) for _place, block in _of_type(turn, "tool_result")
    ]


def _unanswered(index: int, ids: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )
