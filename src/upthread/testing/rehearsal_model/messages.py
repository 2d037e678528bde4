"""Anthropic Messages: bodies in, objects and server-sent events out.

After https://docs.anthropic.com/en/api/messages and its streaming page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from upthread.testing.rehearsal_model.protocol import (
    Conversation,
    Exchange,
    Failure,
    Found,
    JsonObject,
    JsonValue,
    ModelProtocol,
    Reply,
    Rule,
    Said,
    as_list,
    as_text,
    holds_lone_surrogate,
    in_chunks,
    json_object,
    objects_in,
    tokens_out,
    without_reminders,
)

# --- what makes a history invalid -----------------------------------------------------------------

# Sources: https://docs.anthropic.com/en/api/messages, its pages on tool use, extended thinking and
# errors; error texts as quoted in anthropics/claude-code and anthropics/anthropic-sdk-python
# issues. Neighbouring messages of one role are joined first, as the API does; a position is that of
# the first of them. What an agent puts into its requests by itself, such as images, the form of a
# call and where a `system` message stands, is the agent's affair, and is not judged.


class _Turn(Struct, frozen=True):
    index: int
    role: str
    blocks: list[JsonObject]


def sign_thinking(thinking: str) -> str:
    """Return the signature the rehearsal model gives a thinking block: any edit breaks it."""
    digest = hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).hexdigest()
    return f"rehearsal-{digest}"


def there_is_a_message(body: JsonObject) -> Iterator[Found]:
    """`messages` has at least one item (API reference)."""
    if not as_list(body.get("messages")):
        yield Found(None, "messages: at least one message is required")


def roles_are_known(body: JsonObject) -> Iterator[Found]:
    """Roles are `user` and `assistant`; current models take `system` too (API reference, guide)."""
    for index, message in enumerate(objects_in(body.get("messages"))):
        if as_text(message.get("role")) not in {"user", "assistant", "system"}:
            yield Found(index, f"messages.{index}.role: Input should be 'user' or 'assistant'")


def first_message_is_the_users(body: JsonObject) -> Iterator[Found]:
    """A history begins with the user (API reference)."""
    turns = _turns(body)
    if turns and turns[0].role == "assistant":
        yield Found(0, 'messages: first message must use the "user" role')


def each_tool_use_is_answered_next(body: JsonObject) -> Iterator[Found]:
    """Every `tool_use` has its `tool_result` in the very next message (tool use guide)."""
    turns = _turns(body)
    for turn, following in zip(turns, [*turns, None][1:], strict=True):
        answered = _result_ids(following) if following else []
        missing = [id_ for id_ in _use_ids(turn) if id_ not in answered]
        if missing:
            yield Found(turn.index, _unanswered(turn.index, missing))


def tool_results_come_first(body: JsonObject) -> Iterator[Found]:
    """In a message with `tool_result` blocks nothing stands before them (tool use guide)."""
    for turn in _turns(body):
        kinds = [block.get("type") == "tool_result" for block in turn.blocks]
        if turn.role == "user" and kinds != sorted(kinds, reverse=True):
            yield Found(turn.index, _unanswered(max(0, turn.index - 1), _result_ids(turn)))


def each_tool_result_has_its_use(body: JsonObject) -> Iterator[Found]:
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


def each_tool_use_is_answered_once(body: JsonObject) -> Iterator[Found]:
    """One `tool_result` per `tool_use` (error text in anthropics/claude-code issues)."""
    for turn in _turns(body):
        ids = _result_ids(turn)
        for id_ in sorted({each for each in ids if ids.count(each) > 1}):
            yield Found(
                turn.index,
                f"messages.{turn.index}.content: each tool_use must have a single result. Found "
                f"multiple `tool_result` blocks with id: {id_}",
            )


def tool_use_ids_are_unique(body: JsonObject) -> Iterator[Found]:
    """A `tool_use` id occurs once in the whole history (error text in public issues)."""
    seen: set[str] = set()
    for turn in _turns(body):
        for place, block in _of_type(turn, "tool_use"):
            id_ = as_text(block.get("id"))
            if id_ in seen:
                yield Found(
                    turn.index,
                    f"messages.{turn.index}.content.{place}: `tool_use` ids must be unique",
                )
            seen.add(id_)


def text_is_not_empty(body: JsonObject) -> Iterator[Found]:
    """A text block says something (error texts in public issues)."""
    for turn in _turns(body):
        for _place, block in _of_type(turn, "text"):
            text = as_text(block.get("text"))
            if not text:
                yield Found(turn.index, "messages: text content blocks must be non-empty")
            elif not text.strip():
                yield Found(
                    turn.index, "messages: text content blocks must contain non-whitespace text"
                )


def content_is_not_empty(body: JsonObject) -> Iterator[Found]:
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


def thinking_is_signed_and_unchanged(body: JsonObject) -> Iterator[Found]:
    """A thinking block comes back with its signature and not one letter changed (guide)."""
    for turn in _turns(body):
        for place, block in _of_type(turn, "thinking"):
            signature = block.get("signature")
            where = f"messages.{turn.index}.content.{place}"
            if not isinstance(signature, str) or not signature:
                yield Found(turn.index, f"{where}.thinking.signature: Field required")
            elif signature != sign_thinking(as_text(block.get("thinking"))):
                yield Found(turn.index, f"{where}: Invalid `signature` in `thinking` block")


def text_is_unicode(body: JsonObject) -> Iterator[Found]:
    """No lone surrogate: it has no UTF-8 form (error text in anthropics/claude-code issues)."""
    for index, message in enumerate(objects_in(body.get("messages"))):
        if holds_lone_surrogate(message):
            yield Found(
                index, "The request body is not valid JSON: no low surrogate in string: line 1"
            )


MESSAGES_RULES: Final[tuple[Rule, ...]] = (
    there_is_a_message,
    text_is_unicode,
    roles_are_known,
    first_message_is_the_users,
    tool_results_come_first,
    each_tool_use_is_answered_next,
    each_tool_result_has_its_use,
    each_tool_use_is_answered_once,
    tool_use_ids_are_unique,
    text_is_not_empty,
    content_is_not_empty,
    thinking_is_signed_and_unchanged,
)


def _turns(body: JsonObject) -> list[_Turn]:
    turns: list[_Turn] = []
    for index, message in enumerate(objects_in(body.get("messages"))):
        role = as_text(message.get("role"))
        if _is_directive(message):
            continue  # The model sees nothing of it, so that its neighbours are joined.
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(_blocks_of(message))
        else:
            turns.append(_Turn(index, role, _blocks_of(message)))
    return turns


def _is_directive(message: JsonObject) -> bool:
    """Return whether a `system` message has no content and only sets how the model works."""
    is_empty = message.get("role") == "system" and message.get("content") == []
    return is_empty and "output_config" in message


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


COUNT_TOKENS_PATH: Final = "/v1/messages/count_tokens"
FAILURE_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CONTEXT_FULL: Final = "prompt is too long: 210000 tokens > 200000 maximum"


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
    error: JsonObject = {
        "type": FAILURE_TYPES.get(failure.status, kind),
        "message": message,
    }
    return {"type": "error", "error": error, "request_id": None}


MESSAGES: Final = ModelProtocol(
    name="messages",
    path="/v1/messages",
    read=read_conversation,
    rules=MESSAGES_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
