"""OpenAI Responses: what it demands of the items of `input`.

Sources: the API reference (https://platform.openai.com/docs/api-reference/responses/create), the
guides to function calling and reasoning, and error texts quoted in public threads, named at their
rule. All seen in November 2026. With `previous_response_id` the calls before it are not in sight,
so outputs are then not asked for their call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from upthread.core.history.openai_chat import is_json_object
from upthread.core.history.rules import (
    Finding,
    JsonObject,
    Request,
    items_of,
    names_fit,
    repeated,
    rule,
    text_is_unicode,
    text_of,
)

_REFERENCE: Final = "https://platform.openai.com/docs/api-reference/responses/create"
_GUIDE: Final = "https://platform.openai.com/docs/guides/function-calling"
_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_ID_CHARACTERS_MAX: Final = 64
OUTPUT_OF: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The calls we have to answer, and what answers them; other tools run at the provider."""
_OUTPUTS: Final = frozenset(OUTPUT_OF.values())
_NOTHING: Final[JsonObject] = {}


def _items(request: Request) -> Sequence[JsonObject]:
    return items_of(request.get("input"))


def _kind(item: JsonObject) -> str:
    # The one item whose type may be left out.
    return text_of(item.get("type")) or "message"


def _call_id(item: JsonObject) -> str:
    return text_of(item.get("call_id"))


@rule(
    "`input` is a text or holds at least one item.",
    source=_REFERENCE,
    cure="send the prompt with it",
)
def _there_is_an_item(request: Request) -> Iterator[Finding]:
    # A bare text is a request as well.
    if not _items(request) and not text_of(request.get("input")):
        yield None, "`input` is empty"


@rule(
    "Every call has an output with its `call_id`.",
    source="error text in https://github.com/router-for-me/CLIProxyAPI/issues/2368",
    cure="close the call with an unknown outcome",
)
def _calls_have_their_output(request: Request) -> Iterator[Finding]:
    items = _items(request)
    # By kind and id: an output of another kind does not answer a call.
    answered = {(_kind(item), _call_id(item)) for item in items if _kind(item) in _OUTPUTS}
    for index, item in enumerate(items):
        wanted = OUTPUT_OF.get(_kind(item))
        if wanted and (wanted, _call_id(item)) not in answered:
            yield index, f"no {wanted} for call {_call_id(item)}"


@rule(
    "An output comes after the call with its `call_id`.",
    source="error text in https://github.com/microsoft/vscode/issues/320060",
    cure="take the output out",
)
def _outputs_have_their_call(request: Request) -> Iterator[Finding]:
    if request.get("previous_response_id"):
        return
    made: set[tuple[str, str]] = set()
    for index, item in enumerate(_items(request)):
        kind = _kind(item)
        if kind in OUTPUT_OF:
            made.add((OUTPUT_OF[kind], _call_id(item)))
        elif kind in _OUTPUTS and (kind, _call_id(item)) not in made:
            yield index, f"no call {_call_id(item)} before this output"


@rule("A call has one output.", source=_GUIDE, cure="take all but the first out")
def _one_output_for_a_call(request: Request) -> Iterator[Finding]:
    outputs = [_call_id(item) for item in _items(request) if _kind(item) in _OUTPUTS]
    for call_id in repeated(outputs):
        yield None, f"call {call_id} has {Counter(outputs)[call_id]} outputs"


@rule("Calls have ids of their own.", source=_GUIDE, cure="give the later call another id")
def _call_ids_differ(request: Request) -> Iterator[Finding]:
    for call_id in repeated(_call_id(item) for item in _items(request) if _kind(item) in OUTPUT_OF):
        yield None, f"two calls have the id {call_id}"


@rule(
    "A `call_id` is 1 to 64 characters long.",
    source=_REFERENCE,
    cure="use a shorter id that follows from it",
)
def _call_ids_fit(request: Request) -> Iterator[Finding]:
    for index, item in enumerate(_items(request)):
        is_call = _kind(item) in OUTPUT_OF or _kind(item) in _OUTPUTS
        if is_call and not 0 < len(_call_id(item)) <= _ID_CHARACTERS_MAX:
            yield index, f"call id of {len(_call_id(item))} characters"


@rule("No item is there twice.", source=_REFERENCE, cure="take the second one out")
def _item_ids_differ(request: Request) -> Iterator[Finding]:
    ids = [text_of(item.get("id")) for item in _items(request)]
    for item_id in repeated(item_id for item_id in ids if item_id):
        yield None, f"two items have the id {item_id}"


@rule(
    "Reasoning stands directly before the answer or call it led to.",
    source=(
        "error text in https://github.com/openai/openai-node/issues/1567; several in a row: "
        "https://github.com/UKGovernmentBEIS/inspect_ai/pull/1990"
    ),
    cure="leave the reasoning out",
)
def _reasoning_is_followed(request: Request) -> Iterator[Finding]:
    items = _items(request)
    for index, (item, following) in enumerate(pairwise([*items, _NOTHING])):
        if _kind(item) == "reasoning" and not _is_the_models(following):
            yield index, f"reasoning {text_of(item.get('id'))} without the item it led to"


def _is_the_models(item: JsonObject) -> bool:
    """Whether the model made it: an answer or a call, and not reasoning once more."""
    kind = text_of(item.get("type"))
    # Reasoning is left out: one may follow another, and neither is what the first led to.
    return item.get("role") == "assistant" or kind.endswith("_call")


@rule(
    "`arguments` is a text that holds a JSON object.",
    source=_REFERENCE,
    cure="write the arguments as JSON",
)
def _arguments_are_json_text(request: Request) -> Iterator[Finding]:
    for index, item in enumerate(_items(request)):
        if _kind(item) == "function_call" and not is_json_object(text_of(item.get("arguments"))):
            yield index, f"arguments of call {_call_id(item)} are no JSON object"


def _names(request: Request) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(_items(request)):
        if _kind(item) == "function_call":
            yield index, text_of(item.get("name"))


@rule("A message has a known role and content.", source=_REFERENCE, cure="leave the message out")
def _messages_say_something(request: Request) -> Iterator[Finding]:
    for index, item in enumerate(_items(request)):
        if _kind(item) != "message":
            continue
        if item.get("role") not in _ROLES:
            yield index, f"role {item.get('role')!r}"
        if not item.get("content"):
            yield index, "it has no content"


@rule(
    "`previous_response_id` stands for what came before; it is not sent again.",
    source="https://platform.openai.com/docs/guides/conversation-state",
    cure="send either the id or the history",
)
def _history_comes_once(request: Request) -> Iterator[Finding]:
    if request.get("previous_response_id"):
        for index, item in enumerate(_items(request)):
            if _is_the_models(item):
                yield index, "it is in the response named by `previous_response_id` already"


OPENAI_RESPONSES_RULES: Final = (
    _there_is_an_item,
    text_is_unicode(_items),
    _calls_have_their_output,
    _outputs_have_their_call,
    _one_output_for_a_call,
    _call_ids_differ,
    _call_ids_fit,
    _item_ids_differ,
    _reasoning_is_followed,
    _arguments_are_json_text,
    names_fit(_REFERENCE, _names),
    _messages_say_something,
    _history_comes_once,
)
"""What the Responses API demands of a history."""
