"""OpenAI Responses: bodies in, objects and server-sent events out.

After https://platform.openai.com/docs/api-reference/responses and its streaming page. Tools come as
functions, as free-form (`custom`) tools, and in namespaces, which a call then names; a call of a
free-form tool carries its argument `input` as plain text.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from upthread.testing.rehearsal_model.protocol import (
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
    ToolCall,
    as_text,
    holds_json_object,
    in_chunks,
    in_unicode,
    json_object,
    objects_in,
    tokens_out,
    without_reminders,
)

# --- what makes a history invalid -----------------------------------------------------------------

# Sources: https://platform.openai.com/docs/api-reference/responses/create, its guides to function
# calling, reasoning and conversation state; error texts as quoted in issues of openai/openai-node,
# microsoft/vscode and router-for-me/CLIProxyAPI. With `previous_response_id` the history before is
# the provider's own, so an output may answer a call that is not in sight.


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID_LENGTHS = range(1, 65)
_CALL = re.compile(r"(function|custom_tool|computer|local_shell|shell|apply_patch)_call")
_OUTPUT = re.compile(_CALL.pattern + "_output")
_PAIRED = re.compile(_CALL.pattern + "(_output)?")


def there_is_an_item(body: JsonObject) -> Findings:
    """`input` is text or an array with at least one item (API reference, `input`)."""
    if not body.get("input"):
        yield Found(None, "Missing required parameter: 'input'.")


def each_call_has_its_output(body: JsonObject) -> Findings:
    """Every call in the input is answered there (function calling guide)."""
    items = objects_in(body.get("input"))
    outputs = [_as_call(item) for item in items if _OUTPUT.fullmatch(_type(item))]
    for index, item in enumerate(items):
        if _CALL.fullmatch(_type(item)) and (_type(item), item.get("call_id")) not in outputs:
            call_id = as_text(item.get("call_id"))
            yield Found(index, f"No tool output found for function call {call_id}.")


def each_output_has_its_call(body: JsonObject) -> Findings:
    """An output comes after the call it names (function calling guide)."""
    if body.get("previous_response_id"):
        return
    made: list[tuple[str, JsonValue]] = []
    for index, item in _numbered(body):
        if _CALL.fullmatch(_type(item)):
            made.append((_type(item), item.get("call_id")))
        elif _OUTPUT.fullmatch(_type(item)) and _as_call(item) not in made:
            call_id = as_text(item.get("call_id"))
            yield Found(
                index, f"No tool call found for function call output with call_id {call_id}."
            )


def ids_are_used_once(body: JsonObject) -> Findings:
    """No call, no output and no item comes twice (API reference, `input`)."""
    seen: set[tuple[str, str]] = set()
    for index, item in _numbered(body):
        kind = _type(item)
        role = "output" if _OUTPUT.fullmatch(kind) else "call"
        named = [(role, as_text(item.get("call_id")))] if _PAIRED.fullmatch(kind) else []
        named += [("item", as_text(item.get("id")))] if item.get("id") else []
        for what, id_ in named:
            if (what, id_) in seen:
                yield Found(index, f"Duplicate item found with id {id_}.")
            seen.add((what, id_))


def call_ids_have_a_length(body: JsonObject) -> Findings:
    """A `call_id` is 1 to 64 characters long (API reference, function tool call)."""
    for index, item in _numbered(body):
        length = len(as_text(item.get("call_id")))
        if _PAIRED.fullmatch(_type(item)) and length not in _ID_LENGTHS:
            yield Found(
                index,
                f"Invalid 'input[{index}].call_id': expected a string with length 1 to 64, "
                f"but got a string with length {length} instead.",
            )


def reasoning_has_its_item(body: JsonObject) -> Findings:
    """After reasoning comes what it led to: an answer, or a call (reasoning guide)."""
    items = objects_in(body.get("input"))
    for index, item in enumerate(items):
        if _type(item) != "reasoning":
            continue
        following = items[index + 1] if index + 1 < len(items) else {}
        if following.get("role") != "assistant" and not _CALL.fullmatch(_type(following)):
            id_ = as_text(item.get("id"))
            yield Found(
                index,
                f"Item '{id_}' of type 'reasoning' was provided without its required "
                "following item.",
            )


def arguments_are_json_text(body: JsonObject) -> Findings:
    """`arguments` is text that holds a JSON object (API reference, function tool call)."""
    for index, item in _numbered(body):
        if _type(item) == "function_call" and not holds_json_object(as_text(item.get("arguments"))):
            yield Found(index, f"Invalid 'input[{index}].arguments': not a JSON object.")


def names_match_the_pattern(body: JsonObject) -> Findings:
    """A function's name is 1 to 64 of a-z A-Z 0-9 _ - (API reference, `tools`)."""
    for index, item in _numbered(body):
        name = as_text(item.get("name"))
        if _type(item) == "function_call" and not _NAME.fullmatch(name):
            yield Found(
                index,
                f"Invalid 'input[{index}].name': string does not match pattern. Expected a string "
                "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            )


def messages_say_something(body: JsonObject) -> Findings:
    """A message has one of four roles, and content (API reference, input message)."""
    for index, item in _numbered(body):
        if _type(item) != "message":
            continue
        if as_text(item.get("role")) not in {"user", "assistant", "system", "developer"}:
            yield Found(index, f"Invalid value: '{item.get('role')}'.")
        if not item.get("content"):
            yield Found(index, f"Missing required parameter: 'input[{index}].content'.")


RESPONSES_RULES = (
    there_is_an_item,
    in_unicode("input", "We could not parse the JSON body of your request."),
    each_call_has_its_output,
    each_output_has_its_call,
    ids_are_used_once,
    call_ids_have_a_length,
    reasoning_has_its_item,
    arguments_are_json_text,
    names_match_the_pattern,
    messages_say_something,
)


def _numbered(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    return enumerate(objects_in(body.get("input")))


def _type(item: JsonObject) -> str:
    """A message may go without a type; what has a role is one."""
    return as_text(item.get("type")) or "message"


def _as_call(output: JsonObject) -> tuple[str, JsonValue]:
    return _type(output).removesuffix("_output"), output.get("call_id")


# --- bodies in, objects and events out ------------------------------------------------------------


CREATED_AT_S = 1_700_000_000
"""A fixed time: the model's answers do not depend on a clock."""

SYSTEM_ROLES = ("system", "developer")
FAILURE_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
CONTEXT_FULL = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)
_CLIENTS_OWN = re.compile(
    r"\s*<(environment_context|user_instructions|turn_aborted|subagent_notification)\b.*", re.DOTALL
)
"""What Codex says in the user's place; no user message of a script's."""


# --- reading -----------------------------------------------------------------------------------


def read_conversation(body: JsonObject) -> Conversation:
    """Return what the request shows the model."""
    items = _items(body)
    told = [_text(item.get("content")) for item in items if item.get("role") in SYSTEM_ROLES]
    return Conversation(
        system="\n".join([as_text(body.get("instructions")), *told]), said=tuple(_said(items))
    )


def _items(body: JsonObject) -> list[JsonObject]:
    told = body.get("input")
    if isinstance(told, str):
        return [{"role": "user", "content": told}]
    return objects_in(told)


def _said(items: list[JsonObject]) -> Iterator[Said]:
    """One answer of the model is several items: reasoning, text and calls count as one."""
    answered: list[str] = []
    is_answering = False
    for item in items:
        kind, role = as_text(item.get("type")), item.get("role")
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


def _said_by_user(item: JsonObject) -> Iterator[Said]:
    text = without_reminders(_text(item.get("content")))
    if not _CLIENTS_OWN.fullmatch(text):
        yield Said(speaker="user", text=text)


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    return "".join(as_text(part.get("text")) for part in objects_in(content))


class _Tool(NamedTuple):
    """A tool that is offered. `is_free_form`: its input is plain text."""

    name: str
    namespace: str
    is_free_form: bool


def _tools(body: JsonObject) -> Iterator[_Tool]:
    for offered in objects_in(body.get("tools")):
        if offered.get("type") == "namespace":
            namespace = as_text(offered.get("name"))
            yield from (_tool(one, namespace) for one in objects_in(offered.get("tools")))
        else:
            yield _tool(offered, "")


def _tool(offered: JsonObject, namespace: str) -> _Tool:
    return _Tool(as_text(offered.get("name")), namespace, offered.get("type") == "custom")


# --- writing -----------------------------------------------------------------------------------


def write(reply: Reply, exchange: Exchange) -> JsonObject:
    """Return the answer as one `response`."""
    output: list[JsonValue] = list(_output(reply, exchange))
    return {**_response(exchange, "completed", output), "usage": _usage(reply, exchange)}


def stream(reply: Reply, exchange: Exchange) -> Iterator[bytes]:
    """Return the answer as named events, `response.created` to `response.completed`."""
    for number, event in enumerate(_events(reply, exchange)):
        frame = json.dumps({**event, "sequence_number": number})
        yield f"event: {as_text(event['type'])}\ndata: {frame}\n\n".encode()


def _events(reply: Reply, exchange: Exchange) -> Iterator[JsonObject]:
    begun = _response(exchange, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_output(reply, exchange)):
        opened, deltas = _opened_and_deltas(item)
        at: JsonObject = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield from ({**delta, **at} for delta in deltas)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": write(reply, exchange)}


def _output(reply: Reply, exchange: Exchange) -> Iterator[JsonObject]:
    salt = exchange.salt
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        yield json_object(id=f"rs_{salt}", type="reasoning", summary=summary)
    if reply.text or not reply.calls:
        said: JsonObject = {"type": "output_text", "text": reply.text, "annotations": []}
        yield json_object(
            id=f"msg_{salt}", type="message", role="assistant", status="completed", content=[said]
        )
    tools = {tool.name: tool for tool in _tools(exchange.body)}
    for index, call in enumerate(reply.calls):
        yield _call(call, tools.get(call.name), f"{salt}_{index}")


def _call(call: ToolCall, tool: _Tool | None, salt: str) -> JsonObject:
    made: JsonObject = {"status": "completed", "call_id": f"call_{salt}", "name": call.name}
    if tool is not None and tool.namespace:
        made["namespace"] = tool.namespace
    if tool is not None and tool.is_free_form:
        text = as_text(call.arguments.get("input"))
        return {"id": f"ctc_{salt}", "type": "custom_tool_call", **made, "input": text}
    arguments = json.dumps(call.arguments)
    return {"id": f"fc_{salt}", "type": "function_call", **made, "arguments": arguments}


def _opened_and_deltas(item: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return an item as it begins, and the events that fill it."""
    match item["type"]:
        case "message":
            kind, place = "response.output_text.delta", "content"
        case "reasoning":
            kind, place = "response.reasoning_summary_text.delta", "summary"
        case "custom_tool_call":
            delta: JsonObject = {"type": "response.custom_tool_call_input.delta"}
            return {**item, "input": ""}, [{**delta, "delta": item["input"]}]
        case _:
            delta = {"type": "response.function_call_arguments.delta"}
            return {**item, "arguments": ""}, [{**delta, "delta": item["arguments"]}]
    text = "".join(as_text(part.get("text")) for part in objects_in(item[place]))
    deltas: list[JsonObject] = [
        {"type": kind, f"{place}_index": 0, "delta": piece} for piece in in_chunks(text)
    ]
    if place == "summary":
        part = {"type": "summary_text", "text": ""}
        added = json_object(
            type="response.reasoning_summary_part.added", summary_index=0, part=part
        )
        deltas.insert(0, added)
    return {**item, place: []}, deltas


def _response(exchange: Exchange, status: str, output: list[JsonValue]) -> JsonObject:
    return {
        "id": f"resp_{exchange.salt}",
        "object": "response",
        "created_at": CREATED_AT_S,
        "status": status,
        "model": exchange.body.get("model"),
        "output": output,
        "usage": None,
    }


def _usage(reply: Reply, exchange: Exchange) -> JsonObject:
    tokens_in, out = exchange.tokens_read(reply), tokens_out(reply)
    return json_object(
        input_tokens=tokens_in,
        input_tokens_details={"cached_tokens": reply.tokens_cached},
        output_tokens=out,
        output_tokens_details={"reasoning_tokens": 0},
        total_tokens=tokens_in + out,
    )


def write_failure(failure: Failure) -> JsonObject:
    """Return an error as Responses words it."""
    return openai_error(failure, CONTEXT_FULL, param="input")


def openai_error(failure: Failure, context_full: str, *, param: str | None) -> JsonObject:
    """Return an error of OpenAI's; `context_full` and `param` are for a prompt that is too long."""
    kind = "server_error" if failure.status >= 500 else "invalid_request_error"
    error: JsonObject = {
        "message": context_full if failure.is_context_full else failure.message,
        "type": FAILURE_TYPES.get(failure.status, kind),
        "param": param if failure.is_context_full else None,
        "code": "context_length_exceeded" if failure.is_context_full else None,
    }
    return {"error": error}


RESPONSES = ModelProtocol(
    name="responses",
    path="/v1/responses",
    read=read_conversation,
    rules=RESPONSES_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
