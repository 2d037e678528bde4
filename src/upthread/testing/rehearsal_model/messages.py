"""Anthropic Messages: bodies in, objects and server-sent events out.

After https://docs.anthropic.com/en/api/messages and its streaming page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from upthread.testing.rehearsal_model import _json
from upthread.testing.rehearsal_model.conversation import (
    Conversation,
    Failure,
    OfferedTool,
    Reply,
    Said,
    without_reminders,
)
from upthread.testing.rehearsal_model.history_rules import MESSAGES_RULES, sign_thinking
from upthread.testing.rehearsal_model.protocol import Exchange, ModelProtocol, in_chunks, tokens_out

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


def read_conversation(body: _json.JsonObject) -> Conversation:
    """Return what the request shows the model."""
    messages = _json.objects_in(body.get("messages"))
    said = tuple(item for message in messages for item in _said(message))
    tools = tuple(
        OfferedTool(
            name=_json.as_text(tool.get("name")),
            argument_names=tuple(
                _json.as_object(_json.as_object(tool.get("input_schema")).get("properties"))
            ),
        )
        for tool in _json.objects_in(body.get("tools"))
    )
    later = [message.get("content") for message in messages if message.get("role") == "system"]
    instructions = [block for content in (body.get("system"), *later) for block in _blocks(content)]
    system = "\n".join(_json.as_text(block.get("text")) for block in instructions)
    return Conversation(system=system, said=said, tools=tools)


def _said(message: _json.JsonObject) -> Iterator[Said]:
    """A user message after an interrupted call comes joined to that call's result."""
    if message.get("role") == "system":
        return
    blocks = _blocks(message.get("content"))
    texts = [_json.as_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    if message.get("role") == "assistant":
        yield Said(speaker="assistant", text="".join(texts))
        return
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        told = _blocks(block.get("content"))
        yield Said(speaker="tool", text="".join(_json.as_text(part.get("text")) for part in told))
    shown = [text for block in texts if (text := without_reminders(block))]
    for text in shown or ([] if results else [""]):
        yield Said(speaker="user", text=text)


def _blocks(content: _json.JsonValue) -> list[_json.JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _json.objects_in(content)


def write(reply: Reply, exchange: Exchange) -> _json.JsonObject:
    """Return the answer as one message."""
    content: list[_json.JsonValue] = list(_content(reply, exchange))
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
    delta: _json.JsonObject = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": tokens_out(reply)})
    yield _event("message_stop")


def _content(reply: Reply, exchange: Exchange) -> Iterator[_json.JsonObject]:
    if reply.thinking:
        signature = sign_thinking(reply.thinking)
        yield {"type": "thinking", "thinking": reply.thinking, "signature": signature}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for index, call in enumerate(reply.calls):
        id_ = f"toolu_{exchange.salt}_{index}"
        yield {"type": "tool_use", "id": id_, "name": call.name, "input": call.arguments}


def _block_events(index: int, block: _json.JsonObject) -> Iterator[bytes]:
    opened, deltas = _opened_and_deltas(block)
    yield _event("content_block_start", index=index, content_block=opened)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _opened_and_deltas(block: _json.JsonObject) -> tuple[_json.JsonObject, list[_json.JsonObject]]:
    match block["type"]:
        case "tool_use":
            written = json.dumps(block["input"])
            return {**block, "input": {}}, [
                _json.json_object(type="input_json_delta", partial_json=written)
            ]
        case "thinking":
            parts = [
                _json.json_object(type="thinking_delta", thinking=text)
                for text in in_chunks(_json.as_text(block["thinking"]))
            ]
            signature = _json.json_object(type="signature_delta", signature=block["signature"])
            return {**block, "thinking": "", "signature": ""}, [*parts, signature]
        case _:
            texts = in_chunks(_json.as_text(block["text"]))
            return {**block, "text": ""}, [
                _json.json_object(type="text_delta", text=t) for t in texts
            ]


def _message(reply: Reply, exchange: Exchange) -> _json.JsonObject:
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


def _usage(reply: Reply, exchange: Exchange, output_tokens: int) -> _json.JsonObject:
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


def write_failure(failure: Failure) -> _json.JsonObject:
    """Return an error as Anthropic words it."""
    kind = "api_error" if failure.status >= 500 else "invalid_request_error"
    message = CONTEXT_FULL if failure.is_context_full else failure.message
    error: _json.JsonObject = {
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
