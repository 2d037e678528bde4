"""Anthropic Messages: bodies in, objects and server-sent events out.

After https://docs.anthropic.com/en/api/messages and its streaming page.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from upthread.testing.rehearsal_model.protocol import (
    IMAGE_TYPES,
    Conversation,
    Exchange,
    Failure,
    Findings,
    Found,
    JsonObject,
    JsonValue,
    ModelProtocol,
    Reply,
    Said,
    as_list,
    as_object,
    as_text,
    in_chunks,
    in_unicode,
    json_object,
    objects_in,
    tokens_out,
    without_reminders,
)

# --- what makes a history invalid -----------------------------------------------------------------

# Sources: https://docs.anthropic.com/en/api/messages, its pages on tool use, extended thinking and
# errors; error texts as quoted in anthropics/claude-code and anthropics/anthropic-sdk-python
# issues. The rules about `system` messages are those of "Mid-conversation system messages" in its
# guide, read 2026-11; their error texts are answers of claude-opus-5-5 that users published in
# 2026-10. Neighbouring messages of one role are joined first, as the API does; a position is that
# of the first of them.


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")
_TAKES_SYSTEM_MESSAGES = re.compile(
    r"claude-(opus-(4-8|5|5-5)|sonnet-5-5|(fable|mythos)-(5|5-1))(-\d{8})?(\[1m\])?"
)
"""The models that the guide names. A newer model is refused until it is added here."""
_SYSTEM_BLOCKS = ("text", "tool_addition", "tool_removal")
_DIRECTIVE_HINT = (
    "; the directive-only form (content: [] with output_config) is accepted at any position"
)


class _Turn(Struct, frozen=True):
    index: int
    role: str
    blocks: list[JsonObject]


def sign_thinking(thinking: str) -> str:
    """Return the signature the rehearsal model gives a thinking block: any edit breaks it."""
    digest = hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).hexdigest()
    return f"rehearsal-{digest}"


def there_is_a_message(body: JsonObject) -> Findings:
    """`messages` has at least one item (API reference)."""
    if not as_list(body.get("messages")):
        yield Found(None, "messages: at least one message is required")


def roles_are_known(body: JsonObject) -> Findings:
    """Roles are `user` and `assistant`; current models take `system` too (API reference, guide)."""
    takes_system = _TAKES_SYSTEM_MESSAGES.fullmatch(as_text(body.get("model")))
    for index, message in _messages(body):
        role = as_text(message.get("role"))
        if role == "system" and not takes_system:
            yield Found(index, "role 'system' is not supported on this model")
        elif role not in {"user", "assistant", "system"}:
            yield Found(index, f"messages.{index}.role: Input should be 'user' or 'assistant'")


def system_messages_have_content(body: JsonObject) -> Findings:
    """A `system` message holds text or changes of tools, or nothing beside a directive (guide)."""
    for index, message in _messages(body):
        if message.get("role") != "system" or _is_directive(message):
            continue
        if not message.get("content"):
            yield Found(index, f"messages.{index}: system content must contain at least one block")
        elif any(as_text(block.get("type")) not in _SYSTEM_BLOCKS for block in _blocks_of(message)):
            yield Found(
                index,
                f"messages.{index}: role 'system' supports text, tool_addition, and tool_removal "
                "blocks only",
            )


def system_messages_follow_the_user(body: JsonObject) -> Findings:
    """A group of `system` messages stands between the user and the answer, or last (guide).

    A server tool's result at the end of an answer is as good as the user.
    """
    messages = objects_in(body.get("messages"))
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


def first_message_is_the_users(body: JsonObject) -> Findings:
    """A history begins with the user (API reference)."""
    turns = _turns(body)
    if turns and turns[0].role == "assistant":
        yield Found(0, 'messages: first message must use the "user" role')


def each_tool_use_is_answered_next(body: JsonObject) -> Findings:
    """Every `tool_use` has its `tool_result` in the very next message (tool use guide)."""
    turns = _turns(body)
    for turn, following in zip(turns, [*turns, None][1:], strict=True):
        answered = _result_ids(following) if following else []
        missing = [id_ for id_ in _use_ids(turn) if id_ not in answered]
        if missing:
            yield Found(turn.index, _unanswered(turn.index, missing))


def tool_results_come_first(body: JsonObject) -> Findings:
    """In a message with `tool_result` blocks nothing stands before them (tool use guide)."""
    for turn in _turns(body):
        kinds = [block.get("type") == "tool_result" for block in turn.blocks]
        if turn.role == "user" and kinds != sorted(kinds, reverse=True):
            yield Found(turn.index, _unanswered(max(0, turn.index - 1), _result_ids(turn)))


def each_tool_result_has_its_use(body: JsonObject) -> Findings:
    """A `tool_result` answers a `tool_use` of the message before it (tool use guide)."""
    turns = _turns(body)
    for before, turn in zip([None, *turns], turns, strict=False):
        asked = _use_ids(before) if before else []
        for place, block in _of_type(turn, "tool_result"):
            id_ = as_text(block.get("tool_use_id"))
            if id_ not in asked:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {id_}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message.",
                )


def each_tool_use_is_answered_once(body: JsonObject) -> Findings:
    """One `tool_result` per `tool_use` (error text in anthropics/claude-code issues)."""
    for turn in _turns(body):
        ids = _result_ids(turn)
        for id_ in sorted({each for each in ids if ids.count(each) > 1}):
            yield Found(
                turn.index,
                f"messages.{turn.index}.content: each tool_use must have a single result. Found "
                f"multiple `tool_result` blocks with id: {id_}",
            )


def tool_use_ids_are_unique(body: JsonObject) -> Findings:
    """A `tool_use` id occurs once in the whole history (error text in public issues)."""
    seen: set[str] = set()
    for index, where, block in _blocks_with(body, "tool_use"):
        id_ = as_text(block.get("id"))
        if id_ in seen:
            yield Found(index, f"{where}: `tool_use` ids must be unique")
        seen.add(id_)


def tool_use_ids_match_the_pattern(body: JsonObject) -> Findings:
    """A `tool_use` id is a-z A-Z 0-9 _ - (error text in public issues)."""
    for index, where, block in _blocks_with(body, "tool_use"):
        if not _ID.fullmatch(as_text(block.get("id"))):
            yield Found(
                index, f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            )


def tool_input_is_an_object(body: JsonObject) -> Findings:
    """`tool_use.input` is an object, never text (API reference)."""
    for index, where, block in _blocks_with(body, "tool_use"):
        if not isinstance(block.get("input"), dict):
            yield Found(index, f"{where}.tool_use.input: Input should be a valid dictionary")


def tools_are_offered_where_used(body: JsonObject) -> Findings:
    """A history with tool blocks needs `tools` (tool use guide)."""
    used = any(_use_ids(turn) or _result_ids(turn) for turn in _turns(body))
    if used and not as_list(body.get("tools")):
        yield Found(
            None, "Requests which include `tool_use` or `tool_result` blocks must define tools"
        )


def text_is_not_empty(body: JsonObject) -> Findings:
    """A text block says something (error texts in public issues)."""
    for index, _where, block in _blocks_with(body, "text"):
        text = as_text(block.get("text"))
        if not text:
            yield Found(index, "messages: text content blocks must be non-empty")
        elif not text.strip():
            yield Found(index, "messages: text content blocks must contain non-whitespace text")


def content_is_not_empty(body: JsonObject) -> Findings:
    """Only the last message may have no content, and only the assistant's (error text)."""
    messages = objects_in(body.get("messages"))
    for index, message in enumerate(messages):
        is_last_answer = index == len(messages) - 1 and message.get("role") == "assistant"
        may_be_empty = is_last_answer or message.get("role") == "system"
        if message.get("content") in (None, []) and not may_be_empty:
            yield Found(
                index,
                f"messages.{index}: all messages must have non-empty content except for the "
                "optional final assistant message",
            )


def final_answer_has_no_trailing_space(body: JsonObject) -> Findings:
    """A begun answer does not end in whitespace (error text in public issues)."""
    turns = _turns(body)
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        text = as_text(turns[-1].blocks[-1].get("text"))
        if text != text.rstrip():
            yield Found(
                turns[-1].index,
                "messages: final assistant content cannot end with trailing whitespace",
            )


def no_begun_answer_with_thinking(body: JsonObject) -> Findings:
    """With thinking on, the conversation ends with the user (extended thinking guide)."""
    turns = _turns(body)
    is_on = as_text(as_object(body.get("thinking")).get("type")) in {"enabled", "adaptive"}
    if is_on and turns and turns[-1].role == "assistant":
        yield Found(
            turns[-1].index,
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message.",
        )


def thinking_is_signed_and_unchanged(body: JsonObject) -> Findings:
    """A thinking block comes back with its signature and not one letter changed (guide)."""
    for index, where, block in _blocks_with(body, "thinking"):
        signature = as_text(block.get("signature"))
        if not signature:
            yield Found(index, f"{where}.thinking.signature: Field required")
        elif signature != sign_thinking(as_text(block.get("thinking"))):
            yield Found(index, f"{where}: Invalid `signature` in `thinking` block")


def thinking_comes_before_tool_use(body: JsonObject) -> Findings:
    """Thinking stands before the tool use of its answer (extended thinking guide).

    Only answers that stand alone are judged: joined ones may think again after a tool use.
    """
    for index, message in _messages(body):
        kinds = [as_text(block.get("type")) for block in objects_in(message.get("content"))]
        uses = [place for place, kind in enumerate(kinds) if kind == "tool_use"]
        if uses and any(kind in _THINKING for kind in kinds[uses[0] :]):
            yield Found(
                index,
                f"messages.{index}.content.{uses[0]}.type: Expected `thinking` or "
                "`redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
                "`assistant` message must start with a thinking block.",
            )


def server_tool_pairs_stay_together(body: JsonObject) -> Findings:
    """A `server_tool_use` has its result block in the same message (server tools guide)."""
    for turn in _turns(body):
        answered = {as_text(block.get("tool_use_id")) for block in turn.blocks}
        for _place, block in _of_type(turn, "server_tool_use"):
            id_, name = as_text(block.get("id")), as_text(block.get("name"))
            if id_ not in answered:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}: `{name}` tool use with id `{id_}` was found without "
                    f"a corresponding `{name}_tool_result` block",
                )


def images_have_a_known_type(body: JsonObject) -> Findings:
    """Images are JPEG, PNG, GIF or WebP (vision guide)."""
    for index, where, block in _blocks_with(body, "image"):
        source = as_object(block.get("source"))
        is_known = as_text(source.get("media_type")) in IMAGE_TYPES
        if source.get("type") == "base64" and not is_known:
            yield Found(
                index,
                f"{where}.image.source.base64.media_type: Input should be 'image/jpeg', "
                "'image/png', 'image/gif' or 'image/webp'",
            )


MESSAGES_RULES = (
    there_is_a_message,
    # Error text in anthropics/claude-code issues.
    in_unicode(
        "messages", "The request body is not valid JSON: no low surrogate in string: line 1"
    ),
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


def _turns(body: JsonObject) -> list[_Turn]:
    turns: list[_Turn] = []
    for index, message in _messages(body):
        role = as_text(message.get("role"))
        if _is_directive(message):
            continue  # The model sees nothing of it, so that its neighbours are joined.
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(_blocks_of(message))
        else:
            turns.append(_Turn(index, role, _blocks_of(message)))
    return turns


def _messages(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    return enumerate(objects_in(body.get("messages")))


def _blocks_with(body: JsonObject, kind: str) -> Iterator[tuple[int, str, JsonObject]]:
    """Yield each block of a kind, with the position of its message and the words for its own."""
    for turn in _turns(body):
        for place, block in _of_type(turn, kind):
            yield turn.index, f"messages.{turn.index}.content.{place}", block


def _is_directive(message: JsonObject) -> bool:
    """Return whether a `system` message has no content and only sets how the model works."""
    is_empty = message.get("role") == "system" and message.get("content") == []
    return is_empty and "output_config" in message


def _may_precede_system(message: JsonObject) -> bool:
    if message.get("role") == "assistant":
        kinds = [as_text(block.get("type")) for block in _blocks_of(message)]
        return bool(kinds) and kinds[-1].endswith("_tool_result")
    return message.get("role") == "user"


def _blocks_of(message: JsonObject) -> list[JsonObject]:
    return _blocks(message.get("content"))


def _of_type(turn: _Turn, kind: str) -> Iterator[tuple[int, JsonObject]]:
    for place, block in enumerate(turn.blocks):
        if block.get("type") == kind:
            yield place, block


def _use_ids(turn: _Turn) -> list[str]:
    return [as_text(block.get("id")) for _place, block in _of_type(turn, "tool_use")]


def _result_ids(turn: _Turn) -> list[str]:
    return [as_text(block.get("tool_use_id")) for _place, block in _of_type(turn, "tool_result")]


def _unanswered(index: int, ids: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


# --- bodies in, objects and events out ------------------------------------------------------------


COUNT_TOKENS_PATH = "/v1/messages/count_tokens"
FAILURE_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CONTEXT_FULL = "prompt is too long: 210000 tokens > 200000 maximum"


def read_conversation(body: JsonObject) -> Conversation:
    """Return what the request shows the model."""
    messages = objects_in(body.get("messages"))
    said = tuple(item for message in messages for item in _said(message))
    later = [message.get("content") for message in messages if message.get("role") == "system"]
    instructions = [block for content in (body.get("system"), *later) for block in _blocks(content)]
    system = "\n".join(as_text(block.get("text")) for block in instructions)
    return Conversation(system=system, said=said)


def _said(message: JsonObject) -> Iterator[Said]:
    """A user message after an interrupted call comes joined to that call's result."""
    if message.get("role") == "system":
        return
    blocks = _blocks(message.get("content"))
    texts = [as_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    if message.get("role") == "assistant":
        yield Said(speaker="assistant", text="".join(texts))
        return
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        told = _blocks(block.get("content"))
        yield Said(speaker="tool", text="".join(as_text(part.get("text")) for part in told))
    shown = [text for block in texts if (text := without_reminders(block))]
    for text in shown or ([] if results else [""]):
        yield Said(speaker="user", text=text)


def _blocks(content: JsonValue) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects_in(content)


def write(reply: Reply, exchange: Exchange) -> JsonObject:
    """Return the answer as one message."""
    content: list[JsonValue] = list(_content(reply, exchange))
    return {
        **_message(reply, exchange),
        "content": content,
        "stop_reason": _stop_reason(reply),
        "usage": _usage(reply, exchange, tokens_out(reply)),
    }


def stream(reply: Reply, exchange: Exchange) -> Iterator[bytes]:
    """Return the answer as named events, `message_start` to `message_stop`."""
    yield _event("message_start", message=_message(reply, exchange))
    for index, block in enumerate(_content(reply, exchange)):
        yield from _block_events(index, block)
    delta: JsonObject = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": tokens_out(reply)})
    yield _event("message_stop")


def _content(reply: Reply, exchange: Exchange) -> Iterator[JsonObject]:
    if reply.thinking:
        signature = sign_thinking(reply.thinking)
        yield {"type": "thinking", "thinking": reply.thinking, "signature": signature}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for index, call in enumerate(reply.calls):
        id_ = f"toolu_{exchange.salt}_{index}"
        yield {"type": "tool_use", "id": id_, "name": call.name, "input": call.arguments}


def _block_events(index: int, block: JsonObject) -> Iterator[bytes]:
    opened, deltas = _opened_and_deltas(block)
    yield _event("content_block_start", index=index, content_block=opened)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _opened_and_deltas(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    match block["type"]:
        case "tool_use":
            written = json.dumps(block["input"])
            return {**block, "input": {}}, [
                json_object(type="input_json_delta", partial_json=written)
            ]
        case "thinking":
            parts = [
                json_object(type="thinking_delta", thinking=text)
                for text in in_chunks(as_text(block["thinking"]))
            ]
            signature = json_object(type="signature_delta", signature=block["signature"])
            return {**block, "thinking": "", "signature": ""}, [*parts, signature]
        case _:
            texts = in_chunks(as_text(block["text"]))
            return {**block, "text": ""}, [json_object(type="text_delta", text=t) for t in texts]


def _message(reply: Reply, exchange: Exchange) -> JsonObject:
    return {
        "id": f"msg_{exchange.salt}",
        "type": "message",
        "role": "assistant",
        "model": exchange.body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply, exchange, 1),
    }


def _usage(reply: Reply, exchange: Exchange, output_tokens: int) -> JsonObject:
    return {
        # This provider counts apart what its cache held.
        "input_tokens": max(0, exchange.tokens_read(reply) - reply.tokens_cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.tokens_cached,
        "output_tokens": output_tokens,
    }


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def write_failure(failure: Failure) -> JsonObject:
    """Return an error as Anthropic words it."""
    kind = "api_error" if failure.status >= 500 else "invalid_request_error"
    message = CONTEXT_FULL if failure.is_context_full else failure.message
    error: JsonObject = {"type": FAILURE_TYPES.get(failure.status, kind), "message": message}
    return {"type": "error", "error": error, "request_id": None}


MESSAGES = ModelProtocol(
    name="messages",
    path="/v1/messages",
    read=read_conversation,
    rules=MESSAGES_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
