"""OpenAI Chat Completions: bodies in, objects and server-sent events out.

After https://platform.openai.com/docs/api-reference/chat. `reasoning_content` is
the field that OpenAI-compatible servers use for reasoning; the AI SDK reads it.
"""

import json
import re
from collections.abc import Iterator
from itertools import takewhile

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
    Speaker,
    as_list,
    as_object,
    as_text,
    holds_json_object,
    in_chunks,
    in_unicode,
    json_object,
    objects_in,
    tokens_out,
    without_reminders,
)
from upthread.testing.rehearsal_model.responses import CREATED_AT_S, SYSTEM_ROLES, openai_error

# --- what makes a history invalid -----------------------------------------------------------------

# Sources: https://platform.openai.com/docs/api-reference/chat/create and its function calling
# guide; error texts as quoted in issues of openai/openai-python, langchain-ai/langchain and
# openai/openai-agents-python. That system messages stand first is good custom, no rule of OpenAI's,
# and not checked.


ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)")


def there_is_a_message(body: JsonObject) -> Findings:
    """`messages` is an array with at least one item (API reference, `messages`)."""
    if not as_list(body.get("messages")):
        yield Found(
            None,
            "Invalid 'messages': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
        )


def roles_are_known(body: JsonObject) -> Findings:
    """A role is one of six (API reference, `messages`)."""
    for index, message in _messages(body):
        if as_text(message.get("role")) not in ROLES:
            yield Found(
                index,
                f"Invalid value: {message.get('role')!r}. Supported values are: "
                f"{', '.join(repr(role) for role in ROLES)}.",
            )


def each_call_is_answered_next(body: JsonObject) -> Findings:
    """After `tool_calls` come their `tool` messages, before any other role (function calling)."""
    messages = objects_in(body.get("messages"))
    for index, message in enumerate(messages):
        answers = takewhile(lambda later: later.get("role") == "tool", messages[index + 1 :])
        answered = {as_text(answer.get("tool_call_id")) for answer in answers}
        missing = [id_ for id_ in _call_ids(message) if id_ not in answered]
        if missing:
            yield Found(
                index,
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(missing)}",
            )


def each_answer_has_its_call(body: JsonObject) -> Findings:
    """A `tool` message answers a call of the assistant message before it (function calling)."""
    asked: list[str] = []
    for index, message in _messages(body):
        if message.get("role") != "tool":
            asked = _call_ids(message)
        elif as_text(message.get("tool_call_id")) not in asked:
            yield Found(
                index,
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                "message with 'tool_calls'.",
            )


def each_call_is_answered_once(body: JsonObject) -> Findings:
    """One `tool` message per `tool_call_id` (function calling guide)."""
    answered: list[str] = []
    for index, message in _messages(body):
        if message.get("role") != "tool":
            answered = []
            continue
        id_ = as_text(message.get("tool_call_id"))
        if id_ in answered:
            yield Found(index, f"Duplicate tool message for tool_call_id '{id_}'.")
        answered.append(id_)


def call_ids_differ(body: JsonObject) -> Findings:
    """The calls of one message have ids, each its own; else their answers cannot be told apart."""
    for index, message in _messages(body):
        ids = _call_ids(message)
        if len(set(ids)) < len(ids) or "" in ids:
            yield Found(index, f"Duplicate or missing value for 'tool_call_id' in {ids}.")


def arguments_are_json_text(body: JsonObject) -> Findings:
    """`function.arguments` is text that holds a JSON object.

    OpenAI requires text; compatible servers (vLLM, llama.cpp, Mistral) also refuse text that cannot
    be parsed, as an interrupted stream leaves it.
    """
    for index, place, function in _functions(body):
        arguments = function.get("arguments")
        where = f"messages[{index}].tool_calls[{place}].function.arguments"
        if not isinstance(arguments, str):
            yield Found(
                index,
                f"Invalid type for '{where}': expected a string, but got "
                f"{type(arguments).__name__} instead.",
            )
        elif not holds_json_object(arguments):
            yield Found(index, f"Invalid '{where}': not a JSON object.")


def names_match_the_pattern(body: JsonObject) -> Findings:
    """A function's name is 1 to 64 of a-z A-Z 0-9 _ - (API reference, `tools`)."""
    named = [(index, function.get("name")) for index, _place, function in _functions(body)]
    offered = [
        as_object(tool.get("function")).get("name") for tool in objects_in(body.get("tools"))
    ]
    for index, name in [*named, *((None, name) for name in offered)]:
        if not _NAME.fullmatch(as_text(name)):
            yield Found(
                index,
                f"Invalid function name {name!r}: string does not match pattern. Expected a string "
                "that matches the pattern '^[a-zA-Z0-9_-]+$' of at most 64 characters.",
            )


def content_is_null_only_with_calls(body: JsonObject) -> Findings:
    """Only an assistant message with `tool_calls` may go without content (API reference)."""
    for index, message in _messages(body):
        if message.get("content") is None and not _call_ids(message):
            yield Found(index, "Invalid value for 'content': expected a string, got null.")


def images_have_a_known_type(body: JsonObject) -> Findings:
    """Images inside the request are PNG, JPEG, GIF or WebP (vision guide)."""
    for index, message in _messages(body):
        for part in objects_in(message.get("content")):
            url = as_text(as_object(part.get("image_url")).get("url"))
            match = _DATA_URL.match(url)
            if match and match["type"] not in IMAGE_TYPES:
                yield Found(
                    index,
                    "You uploaded an unsupported image. Please make sure your image has of one "
                    "the following formats: ['png', 'jpeg', 'gif', 'webp'].",
                )


CHAT_COMPLETIONS_RULES = (
    there_is_a_message,
    in_unicode(
        "messages",
        "We could not parse the JSON body of your request. (HINT: This likely means you "
        "aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, "
        "but what was sent was not valid JSON.)",
    ),
    roles_are_known,
    each_call_is_answered_next,
    each_answer_has_its_call,
    each_call_is_answered_once,
    call_ids_differ,
    arguments_are_json_text,
    names_match_the_pattern,
    content_is_null_only_with_calls,
    images_have_a_known_type,
)


def _messages(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    return enumerate(objects_in(body.get("messages")))


def _functions(body: JsonObject) -> Iterator[tuple[int, int, JsonObject]]:
    for index, message in _messages(body):
        for place, call in enumerate(objects_in(message.get("tool_calls"))):
            yield index, place, as_object(call.get("function"))


def _call_ids(message: JsonObject) -> list[str]:
    return [as_text(call.get("id")) for call in objects_in(message.get("tool_calls"))]


# --- bodies in, objects and events out ------------------------------------------------------------


SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", "tool": "tool"}
CONTEXT_FULL = (
    "This model's maximum context length is 100000 tokens. However, your messages resulted in "
    "123456 tokens. Please reduce the length of the messages."
)


def read_conversation(body: JsonObject) -> Conversation:
    """Return what the request shows the model."""
    messages = objects_in(body.get("messages"))
    system = [text for m in messages if m.get("role") in SYSTEM_ROLES for text in _texts(m)]
    said = tuple(item for message in messages for item in _said(message))
    return Conversation(system="\n".join(system), said=said)


def _said(message: JsonObject) -> Iterator[Said]:
    speaker = SPEAKERS.get(as_text(message.get("role")))
    if speaker is None:
        return
    texts = _texts(message)
    if speaker == "user":
        texts = [shown for text in texts if (shown := without_reminders(text))] or texts[:1] or [""]
        yield Said(speaker=speaker, text="\n\n".join(texts))
    else:
        yield Said(speaker=speaker, text="".join(texts))


def _texts(message: JsonObject) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [as_text(part.get("text")) for part in objects_in(content)]


def write(reply: Reply, exchange: Exchange) -> JsonObject:
    """Return the answer as one `chat.completion`."""
    message: JsonObject = {"role": "assistant", "content": reply.text or None}
    if not reply.calls:
        message["content"] = reply.text
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = _calls(reply, exchange)
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_frame(exchange, "chat.completion", [choice]), "usage": _usage(reply, exchange)}


def stream(reply: Reply, exchange: Exchange) -> Iterator[bytes]:
    """Return the answer as `chat.completion.chunk` events, ended by `[DONE]`."""
    for delta in _deltas(reply, exchange):
        yield _event(_chunk(exchange, delta, None))
    yield _event(_chunk(exchange, {}, _finish_reason(reply)))
    if as_object(exchange.body.get("stream_options")).get("include_usage") is True:
        last = _frame(exchange, "chat.completion.chunk", [])
        yield _event({**last, "usage": _usage(reply, exchange)})
    yield b"data: [DONE]\n\n"


def _deltas(reply: Reply, exchange: Exchange) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    for text in in_chunks(reply.thinking):
        yield {"reasoning_content": text}
    for text in in_chunks(reply.text):
        yield {"content": text}
    for index, call in enumerate(objects_in(_calls(reply, exchange))):
        function = as_object(call["function"])
        opened: JsonObject = {**function, "arguments": ""}
        yield {"tool_calls": [{**call, "index": index, "function": opened}]}
        arguments: JsonObject = {"arguments": function["arguments"]}
        yield {"tool_calls": [{"index": index, "function": arguments}]}


def _calls(reply: Reply, exchange: Exchange) -> list[JsonValue]:
    return [
        json_object(
            id=f"call_{exchange.salt}_{index}",
            type="function",
            function={"name": call.name, "arguments": json.dumps(call.arguments)},
        )
        for index, call in enumerate(reply.calls)
    ]


def _chunk(exchange: Exchange, delta: JsonObject, finish_reason: str | None) -> JsonObject:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _frame(exchange, "chat.completion.chunk", [choice])


def _frame(exchange: Exchange, kind: str, choices: list[JsonValue]) -> JsonObject:
    return {
        "id": f"chatcmpl-{exchange.salt}",
        "object": kind,
        "created": CREATED_AT_S,
        "model": exchange.body.get("model"),
        "choices": choices,
    }


def _usage(reply: Reply, exchange: Exchange) -> JsonObject:
    tokens_in, out = exchange.tokens_read(reply), tokens_out(reply)
    return {
        "prompt_tokens": tokens_in,
        "prompt_tokens_details": {"cached_tokens": reply.tokens_cached},
        "completion_tokens": out,
        "total_tokens": tokens_in + out,
    }


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _event(frame: JsonObject) -> bytes:
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


def write_failure(failure: Failure) -> JsonObject:
    """Return an error as Chat Completions words it."""
    return openai_error(failure, CONTEXT_FULL, param=None)


CHAT_COMPLETIONS = ModelProtocol(
    name="chat_completions",
    path="/v1/chat/completions",
    read=read_conversation,
    rules=CHAT_COMPLETIONS_RULES,
    write=write,
    stream=stream,
    write_failure=write_failure,
)
