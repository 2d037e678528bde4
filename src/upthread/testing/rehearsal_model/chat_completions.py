"""OpenAI Chat Completions: bodies in, objects and server-sent events out.

After https://platform.openai.com/docs/api-reference/chat. `reasoning_content` is
the field that OpenAI-compatible servers use for reasoning; the AI SDK reads it.
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
    Speaker,
    without_reminders,
)
from upthread.testing.rehearsal_model.history_rules import CHAT_COMPLETIONS_RULES
from upthread.testing.rehearsal_model.protocol import Exchange, ModelProtocol, in_chunks, tokens_out

CREATED_AT_S: Final = 1_700_000_000
"""A fixed time: the model's answers do not depend on a clock."""

SYSTEM_ROLES: Final = ("system", "developer")
SPEAKERS: Final[dict[str, Speaker]] = {"user": "user", "assistant": "assistant", "tool": "tool"}
FAILURE_TYPES: Final = {401: "authentication_error", 429: "rate_limit_error"}
CONTEXT_FULL: Final = (
    "This model's maximum context length is 100000 tokens. However, your messages resulted in "
    "123456 tokens. Please reduce the length of the messages."
)


def read_conversation(body: _json.JsonObject) -> Conversation:
    """Return what the request shows the model."""
    messages = _json.objects_in(body.get("messages"))
    system = [text for m in messages if m.get("role") in SYSTEM_ROLES for text in _texts(m)]
    said = tuple(item for message in messages for item in _said(message))
    functions = [
        _json.as_object(tool.get("function")) for tool in _json.objects_in(body.get("tools"))
    ]
    return Conversation(
        system="\n".join(system), said=said, tools=tuple(_tool(item) for item in functions)
    )


def _said(message: _json.JsonObject) -> Iterator[Said]:
    speaker = SPEAKERS.get(_json.as_text(message.get("role")))
    if speaker is None:
        return
    texts = _texts(message)
    if speaker == "user":
        texts = [shown for text in texts if (shown := without_reminders(text))] or texts[:1] or [""]
        yield Said(speaker=speaker, text="\n\n".join(texts))
    else:
        yield Said(speaker=speaker, text="".join(texts))


def _texts(message: _json.JsonObject) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [_json.as_text(part.get("text")) for part in _json.objects_in(content)]


def _tool(function: _json.JsonObject) -> OfferedTool:
    properties = _json.as_object(_json.as_object(function.get("parameters")).get("properties"))
    return OfferedTool(name=_json.as_text(function.get("name")), argument_names=tuple(properties))


def write(reply: Reply, exchange: Exchange) -> _json.JsonObject:
    """Return the answer as one `chat.completion`."""
    message: _json.JsonObject = {"role": "assistant", "content": reply.text or None}
    if not reply.calls:
        message["content"] = reply.text
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = _calls(reply, exchange)
    choice: _json.JsonObject = {
        "index": 0,
        "message": message,
        "finish_reason": _finish_reason(reply),
    }
    return {**_frame(exchange, "chat.completion", [choice]), "usage": _usage(reply, exchange)}


def stream(reply: Reply, exchange: Exchange) -> Iterator[bytes]:
    """Return the answer as `chat.completion.chunk` events, ended by `[DONE]`."""
    for delta in _deltas(reply, exchange):
        yield _event(_chunk(exchange, delta, None))
    yield _event(_chunk(exchange, {}, _finish_reason(reply)))
    if _json.as_object(exchange.body.get("stream_options")).get("include_usage") is True:
        last = _frame(exchange, "chat.completion.chunk", [])
        yield _event({**last, "usage": _usage(reply, exchange)})
    yield b"data: [DONE]\n\n"


def _deltas(reply: Reply, exchange: Exchange) -> Iterator[_json.JsonObject]:
    yield {"role": "assistant", "content": ""}
    for text in in_chunks(reply.thinking):
        yield {"reasoning_content": text}
    for text in in_chunks(reply.text):
        yield {"content": text}
    for index, call in enumerate(_json.objects_in(_calls(reply, exchange))):
        function = _json.as_object(call["function"])
        opened: _json.JsonObject = {**function, "arguments": ""}
        yield {"tool_calls": [{**call, "index": index, "function": opened}]}
        arguments: _json.JsonObject = {"arguments": function["arguments"]}
        yield {"tool_calls": [{"index": index, "function": arguments}]}


def _calls(reply: Reply, exchange: Exchange) -> list[_json.JsonValue]:
    return [
        _json.json_object(
            id=f"call_{exchange.salt}_{index}",
            type="function",
            function={"name": call.name, "arguments": json.dumps(call.arguments)},
        )
        for index, call in enumerate(reply.calls)
    ]


def _chunk(
    exchange: Exchange, delta: _json.JsonObject, finish_reason: str | None
) -> _json.JsonObject:
    choice: _json.JsonObject = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _frame(exchange, "chat.completion.chunk", [choice])


def _frame(exchange: Exchange, kind: str, choices: list[_json.JsonValue]) -> _json.JsonObject:
    return {
        "id": f"chatcmpl-{exchange.salt}",
        "object": kind,
        "created": CREATED_AT_S,
        "model": exchange.body.get("model"),
        "choices": choices,
    }


def _usage(reply: Reply, exchange: Exchange) -> _json.JsonObject:
    tokens_in, out = exchange.tokens_read(reply), tokens_out(reply)
    return {
        "prompt_tokens": tokens_in,
        "prompt_tokens_details": {"cached_tokens": reply.tokens_cached},
        "completion_tokens": out,
        "total_tokens": tokens_in + out,
    }


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _event(frame: _json.JsonObject) -> bytes:
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


def write_failure(failure: Failure) -> _json.JsonObject:
    """Return an error as Chat Completions words it."""
    return openai_error(failure, CONTEXT_FULL, param=None)


def openai_error(failure: Failure, context_full: str, *, param: str | None) -> _json.JsonObject:
    """Return an error of OpenAI's; `context_full` and `param` are for a prompt that is too long."""
    kind = "server_error" if failure.status >= 500 else "invalid_request_error"
    error: _json.JsonObject = {
        "message": context_full if failure.is_context_full else failure.message,
        "type": FAILURE_TYPES.get(failure.status, kind),
        "param": param if failure.is_context_full else None,
        "code": "context_length_exceeded" if failure.is_context_full else None,
    }
    return {"error": error}


CHAT_COMPLETIONS: Final = ModelProtocol(
    name="chat_completions",
    path="/v1/chat/completions",
    read=read_conversation,
    rules=CHAT_COMPLETIONS_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
