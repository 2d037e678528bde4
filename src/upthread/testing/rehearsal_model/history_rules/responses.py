"""OpenAI Responses: what makes a history invalid.

Sources: https://platform.openai.com/docs/api-reference/responses/create, its guides to function
calling, reasoning and conversation state; error texts as quoted in issues of openai/openai-node,
microsoft/vscode and router-for-me/CLIProxyAPI. With `previous_response_id` the history before is
the provider's own, so an output may answer a call that is not in sight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from upthread.testing.rehearsal_model import _json
from upthread.testing.rehearsal_model.history_rules._rule import (
    Found,
    Rule,
    holds_json_object,
    holds_lone_surrogate,
)

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID_LENGTHS: Final = range(1, 65)
_CALL: Final = re.compile(r"(function|custom_tool|computer|local_shell|shell|apply_patch)_call")
_OUTPUT: Final = re.compile(_CALL.pattern + "_output")


def there_is_an_item(body: _json.JsonObject) -> Iterator[Found]:
    """`input` is text or an array with at least one item (API reference, `input`)."""
    if not body.get("input"):
        yield Found(None, "Missing required parameter: 'input'.")


def each_call_has_its_output(body: _json.JsonObject) -> Iterator[Found]:
    """Every call in the input is answered there (function calling guide)."""
    items = _json.objects_in(body.get("input"))
    outputs = [_as_call(item) for item in items if _OUTPUT.fullmatch(_type(item))]
    for index, item in enumerate(items):
        if _CALL.fullmatch(_type(item)) and (_type(item), item.get("call_id")) not in outputs:
            call_id = _json.as_text(item.get("call_id"))
            yield Found(index, f"No tool output found for function call {call_id}.")


def each_output_has_its_call(body: _json.JsonObject) -> Iterator[Found]:
    """An output comes after the call it names (function calling guide)."""
    if body.get("previous_response_id"):
        return
    made: list[tuple[str, _json.JsonValue]] = []
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        if _CALL.fullmatch(_type(item)):
            made.append((_type(item), item.get("call_id")))
        elif _OUTPUT.fullmatch(_type(item)) and _as_call(item) not in made:
            call_id = _json.as_text(item.get("call_id"))
            yield Found(
                index, f"No tool call found for function call output with call_id {call_id}."
            )


def ids_are_used_once(body: _json.JsonObject) -> Iterator[Found]:
    """No call, no output and no item comes twice (API reference, `input`)."""
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        kind = _type(item)
        is_paired = _CALL.fullmatch(kind) or _OUTPUT.fullmatch(kind)
        role = "output" if _OUTPUT.fullmatch(kind) else "call"
        named = [(role, _json.as_text(item.get("call_id")))] if is_paired else []
        named += [("item", _json.as_text(item.get("id")))] if item.get("id") else []
        for what, id_ in named:
            if (what, id_) in seen:
                yield Found(index, f"Duplicate item found with id {id_}.")
            seen.add((what, id_))


def call_ids_have_a_length(body: _json.JsonObject) -> Iterator[Found]:
    """A `call_id` is 1 to 64 characters long (API reference, function tool call)."""
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        is_paired = _CALL.fullmatch(_type(item)) or _OUTPUT.fullmatch(_type(item))
        length = len(_json.as_text(item.get("call_id")))
        if is_paired and length not in _ID_LENGTHS:
            yield Found(
                index,
                f"Invalid 'input[{index}].call_id': expected a string with length 1 to 64, "
                f"but got a string with length {length} instead.",
            )


def reasoning_has_its_item(body: _json.JsonObject) -> Iterator[Found]:
    """After reasoning comes what it led to: an answer, or a call (reasoning guide)."""
    items = _json.objects_in(body.get("input"))
    for index, item in enumerate(items):
        if _type(item) != "reasoning":
            continue
        following = items[index + 1] if index + 1 < len(items) else {}
        if following.get("role") != "assistant" and not _CALL.fullmatch(_type(following)):
            id_ = _json.as_text(item.get("id"))
            yield Found(
                index,
                f"Item '{id_}' of type 'reasoning' was provided without its required "
                "following item.",
            )


def arguments_are_json_text(body: _json.JsonObject) -> Iterator[Found]:
    """`arguments` is text that holds a JSON object (API reference, function tool call)."""
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        if _type(item) == "function_call" and not holds_json_object(
            _json.as_text(item.get("arguments"))
        ):
            yield Found(index, f"Invalid 'input[{index}].arguments': not a JSON object.")


def names_match_the_pattern(body: _json.JsonObject) -> Iterator[Found]:
    """A function's name is 1 to 64 of a-z A-Z 0-9 _ - (API reference, `tools`)."""
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        name = _json.as_text(item.get("name"))
        if _type(item) == "function_call" and not _NAME.fullmatch(name):
            yield Found(
                index,
                f"Invalid 'input[{index}].name': string does not match pattern. Expected a string "
                "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            )


def messages_say_something(body: _json.JsonObject) -> Iterator[Found]:
    """A message has one of four roles, and content (API reference, input message)."""
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        if _type(item) != "message":
            continue
        if _json.as_text(item.get("role")) not in {"user", "assistant", "system", "developer"}:
            yield Found(index, f"Invalid value: '{item.get('role')}'.")
        if not item.get("content"):
            yield Found(index, f"Missing required parameter: 'input[{index}].content'.")


def text_is_unicode(body: _json.JsonObject) -> Iterator[Found]:
    """No lone surrogate: it has no UTF-8 form, and the body is refused as no JSON."""
    for index, item in enumerate(_json.objects_in(body.get("input"))):
        if holds_lone_surrogate(item):
            yield Found(index, "We could not parse the JSON body of your request.")


RESPONSES_RULES: Final[tuple[Rule, ...]] = (
    there_is_an_item,
    text_is_unicode,
    each_call_has_its_output,
    each_output_has_its_call,
    ids_are_used_once,
    call_ids_have_a_length,
    reasoning_has_its_item,
    arguments_are_json_text,
    names_match_the_pattern,
    messages_say_something,
)


def _type(item: _json.JsonObject) -> str:
    """A message may go without a type; what has a role is one."""
    return _json.as_text(item.get("type")) or "message"


def _as_call(output: _json.JsonObject) -> tuple[str, _json.JsonValue]:
    return _type(output).removesuffix("_output"), output.get("call_id")
