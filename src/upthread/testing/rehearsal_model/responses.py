"""OpenAI Responses: bodies in, objects and server-sent events out.

After https://platform.openai.com/docs/api-reference/responses and its streaming page. Tools come as
functions, as free-form (`custom`) tools, and in namespaces, which a call then names; a call of a
free-form tool carries its argument `input` as plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from upthread.testing.rehearsal_model import _json
from upthread.testing.rehearsal_model.chat_completions import (
    CREATED_AT_S,
    SYSTEM_ROLES,
    openai_error,
)
from upthread.testing.rehearsal_model.conversation import (
    Conversation,
    Failure,
    OfferedTool,
    Reply,
    Said,
    ToolCall,
    without_reminders,
)
from upthread.testing.rehearsal_model.history_rules import RESPONSES_RULES
from upthread.testing.rehearsal_model.protocol import Exchange, ModelProtocol, in_chunks, tokens_out

CONTEXT_FULL: Final = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)
_CLIENTS_OWN: Final = re.compile(
    r"\s*<(environment_context|user_instructions|turn_aborted|subagent_notification)\b.*",
    re.DOTALL,
)
"""What Codex says in the user's place; no user message of a script's."""


# --- reading -----------------------------------------------------------------------------------


def read_conversation(body: _json.JsonObject) -> Conversation:
    """Return what the request shows the model."""
    items = _items(body)
    told = [_text(item.get("content")) for item in items if item.get("role") in SYSTEM_ROLES]
    return Conversation(
        system="\n".join([_json.as_text(body.get("instructions")), *told]),
        said=tuple(_said(items)),
        tools=tuple(_tools(body)),
    )


def _items(body: _json.JsonObject) -> list[_json.JsonObject]:
    told = body.get("input")
    if isinstance(told, str):
        return [{"role": "user", "content": told}]
    return _json.objects_in(told)


def _said(items: list[_json.JsonObject]) -> Iterator[Said]:
    """One answer of the model is several items: reasoning, text and calls count as one."""
    answered: list[str] = []
    is_answering = False
    for item in items:
        kind, role = _json.as_text(item.get("type")), item.get("role")
        if role == "assistant" or kind == "reasoning" or kind.endswith("_call"):
            answered += [_text(item.get("content"))] if role == "assistant" else []
            is_answering = True
            continue
        if is_answering:
            yield Said(speaker="assistant", text="".join(answered))
            answered, is_answering = [], False
        if kind.endswith("_output"):
            yield Said(speaker="tool", text=_text(item.get("output")))
        elif role == "user":
            yield from _said_by_user(item)
    if is_answering:
        yield Said(speaker="assistant", text="".join(answered))


def _said_by_user(item: _json.JsonObject) -> Iterator[Said]:
    text = without_reminders(_text(item.get("content")))
    if not _CLIENTS_OWN.fullmatch(text):
        yield Said(speaker="user", text=text)


def _text(content: _json.JsonValue) -> str:
    if isinstance(content, str):
        return content
    return "".join(_json.as_text(part.get("text")) for part in _json.objects_in(content))


def _tools(body: _json.JsonObject) -> Iterator[OfferedTool]:
    for offered in _json.objects_in(body.get("tools")):
        if offered.get("type") == "namespace":
            namespace = _json.as_text(offered.get("name"))
            yield from (_tool(one, namespace) for one in _json.objects_in(offered.get("tools")))
        else:
            yield _tool(offered, "")


def _tool(offered: _json.JsonObject, namespace: str) -> OfferedTool:
    is_free_form = offered.get("type") == "custom"
    properties = _json.as_object(_json.as_object(offered.get("parameters")).get("properties"))
    return OfferedTool(
        name=_json.as_text(offered.get("name")) or _json.as_text(offered.get("type")),
        namespace=namespace,
        is_free_form=is_free_form,
        argument_names=("input",) if is_free_form else tuple(properties),
    )


# --- writing -----------------------------------------------------------------------------------


def write(reply: Reply, exchange: Exchange) -> _json.JsonObject:
    """Return the answer as one `response`."""
    output: list[_json.JsonValue] = list(_output(reply, exchange))
    return {**_response(exchange, "completed", output), "usage": _usage(reply, exchange)}


def stream(reply: Reply, exchange: Exchange) -> Iterator[bytes]:
    """Return the answer as named events, `response.created` to `response.completed`."""
    for number, event in enumerate(_events(reply, exchange)):
        frame = json.dumps({**event, "sequence_number": number})
        yield f"event: {_json.as_text(event['type'])}\ndata: {frame}\n\n".encode()


def _events(reply: Reply, exchange: Exchange) -> Iterator[_json.JsonObject]:
    begun = _response(exchange, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_output(reply, exchange)):
        opened, deltas = _opened_and_deltas(item)
        at: _json.JsonObject = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield from ({**delta, **at} for delta in deltas)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": write(reply, exchange)}


def _output(reply: Reply, exchange: Exchange) -> Iterator[_json.JsonObject]:
    salt = exchange.salt
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        yield _json.json_object(id=f"rs_{salt}", type="reasoning", summary=summary)
    if reply.text or not reply.calls:
        said: _json.JsonObject = {"type": "output_text", "text": reply.text, "annotations": []}
        yield _json.json_object(
            id=f"msg_{salt}", type="message", role="assistant", status="completed", content=[said]
        )
    tools = {tool.name: tool for tool in _tools(exchange.body)}
    for index, call in enumerate(reply.calls):
        yield _call(call, tools.get(call.name), f"{salt}_{index}")


def _call(call: ToolCall, tool: OfferedTool | None, salt: str) -> _json.JsonObject:
    made: _json.JsonObject = {"status": "completed", "call_id": f"call_{salt}", "name": call.name}
    if tool is not None and tool.namespace:
        made["namespace"] = tool.namespace
    if tool is not None and tool.is_free_form:
        text = _json.as_text(call.arguments.get("input"))
        return {"id": f"ctc_{salt}", "type": "custom_tool_call", **made, "input": text}
    arguments = json.dumps(call.arguments)
    return {"id": f"fc_{salt}", "type": "function_call", **made, "arguments": arguments}


def _opened_and_deltas(item: _json.JsonObject) -> tuple[_json.JsonObject, list[_json.JsonObject]]:
    """Return an item as it begins, and the events that fill it."""
    match item["type"]:
        case "message":
            kind, place = "response.output_text.delta", "content"
        case "reasoning":
            kind, place = "response.reasoning_summary_text.delta", "summary"
        case "custom_tool_call":
            delta: _json.JsonObject = {"type": "response.custom_tool_call_input.delta"}
            return {**item, "input": ""}, [{**delta, "delta": item["input"]}]
        case _:
            delta = {"type": "response.function_call_arguments.delta"}
            return {**item, "arguments": ""}, [{**delta, "delta": item["arguments"]}]
    text = "".join(_json.as_text(part.get("text")) for part in _json.objects_in(item[place]))
    deltas: list[_json.JsonObject] = [
        {"type": kind, f"{place}_index": 0, "delta": piece} for piece in in_chunks(text)
    ]
    if place == "summary":
        part = {"type": "summary_text", "text": ""}
        added = _json.json_object(
            type="response.reasoning_summary_part.added", summary_index=0, part=part
        )
        deltas.insert(0, added)
    return {**item, place: []}, deltas


def _response(exchange: Exchange, status: str, output: list[_json.JsonValue]) -> _json.JsonObject:
    return {
        "id": f"resp_{exchange.salt}",
        "object": "response",
        "created_at": CREATED_AT_S,
        "status": status,
        "model": exchange.body.get("model"),
        "output": output,
        "usage": None,
    }


def _usage(reply: Reply, exchange: Exchange) -> _json.JsonObject:
    tokens_in, out = exchange.tokens_read(reply), tokens_out(reply)
    return _json.json_object(
        input_tokens=tokens_in,
        input_tokens_details={"cached_tokens": reply.tokens_cached},
        output_tokens=out,
        output_tokens_details={"reasoning_tokens": 0},
        total_tokens=tokens_in + out,
    )


def write_failure(failure: Failure) -> _json.JsonObject:
    """Return an error as Responses words it."""
    return openai_error(failure, CONTEXT_FULL, param="input")


RESPONSES: Final = ModelProtocol(
    name="responses",
    path="/v1/responses",
    read=read_conversation,
    rules=RESPONSES_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
