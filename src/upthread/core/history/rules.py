"""What a rule is: a name, the sentence it stands for, where that is written, and the cure.

A provider's rules are checks of the request as it is sent, so they hold for whatever wrote it. They
are data: a table of rules is applied by `violations`, listed in the docs, and each one is tested by
a history that breaks it. One demand is everybody's and is met here as well: valid Unicode, finite
numbers, nesting with an end. The store keeps what an agent sent byte for byte; a request has to be
UTF-8 and JSON (RFC 8259).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, structs

from upthread.core import types
from upthread.core.lazy_regex import regex
from upthread.core.text import SURROGATES, unicode_text

JsonObject: TypeAlias = Mapping[str, types.JsonValue]
Request: TypeAlias = JsonObject
"""The body of a request, as far as the history goes."""

Finding: TypeAlias = tuple[int | None, str]
"""The message's or item's position from 0, None for the whole; and what is wrong with it."""

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_FUNCTION_NAME = regex("[a-zA-Z0-9_-]{1,64}")

Find: TypeAlias = Callable[[Request], Iterator[Finding]]


class Rule(Struct, frozen=True, kw_only=True):
    """One demand of a provider. `source` is where it is written, or where its error is quoted."""

    name: str
    demand: str
    source: str
    cure: str
    find: Find


def rule(demand: str, *, source: str, cure: str) -> Callable[[Find], Rule]:
    """Make the check that follows a rule; the check's own name is the rule's."""

    def ruled(find: Find) -> Rule:
        return Rule(
            name=find.__name__.removeprefix("_"), demand=demand, source=source, cure=cure, find=find
        )

    return ruled


class Violation(Struct, frozen=True, kw_only=True):
    """A rule broken at one place. `message` is a position from 0, None for the request itself."""

    message: int | None
    rule: str
    what: str
    cure: str

    def in_words(self) -> str:
        """`message 3: call_ids_differ: …; cure: …`."""
        where = "request" if self.message is None else f"message {self.message}"
        return f"{where}: {self.rule}: {self.what}; cure: {self.cure}"


def text_is_unicode(pieces_of: Callable[[Request], Iterable[JsonObject]]) -> Rule:
    """Return the rule of every provider that the text it gets has a UTF-8 form."""

    def find(request: Request) -> Iterator[Finding]:
        for index, piece in enumerate(pieces_of(request)):
            if has_lone_surrogate(piece):
                yield index, "half of a surrogate pair, which has no UTF-8 form"

    return Rule(
        name="text_is_unicode",
        demand="The request is valid UTF-8.",
        source="https://www.rfc-editor.org/rfc/rfc8259#section-8.1",
        cure="show the half of a character as U+FFFD",
        find=find,
    )


def there_is_a_message(source: str) -> Rule:
    """Return the rule of providers that take `messages` that there is one."""

    def find(request: Request) -> Iterator[Finding]:
        if not messages_of(request):
            yield None, "there is no message"

    return Rule(
        name="there_is_a_message",
        demand="`messages` holds at least one message.",
        source=source,
        cure="send the prompt with it",
        find=find,
    )


def names_fit(source: str, names_of: Callable[[Request], Iterator[tuple[int, str]]]) -> Rule:
    """Return OpenAI's rule of what functions are called; `names_of` gives each with its place."""

    def find(request: Request) -> Iterator[Finding]:
        for index, name in names_of(request):
            if not _FUNCTION_NAME.fullmatch(name):
                yield index, f"function name {name!r}"

    return Rule(
        name="names_fit",
        demand="A function's name is 1 to 64 of a-z, A-Z, 0-9, _ and -.",
        source=source,
        cure="put _ for other characters",
        find=find,
    )


def violations(rules: Iterable[Rule], request: Request) -> tuple[Violation, ...]:
    """Return every violation, in the order of the rules."""
    return tuple(
        Violation(message=position, rule=rule.name, what=what, cure=rule.cure)
        for rule in rules
        for position, what in rule.find(request)
    )


# --- reading JSON of unknown form --------------------------------------------------------------


def messages_of(request: Request) -> Sequence[JsonObject]:
    """Return what stands in `messages`."""
    return items_of(request.get("messages"))


def items_of(value: types.JsonValue) -> Sequence[JsonObject]:
    """Return the objects of an array, an empty one in place of what is none."""
    # A text is a sequence as well, of its letters.
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    return [object_of(item) for item in value]


def object_of(value: types.JsonValue) -> JsonObject:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def text_of(value: types.JsonValue) -> str:
    """Return a text, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def has_lone_surrogate(value: types.JsonValue) -> bool:
    """Return whether a text anywhere in it, keys included, has no UTF-8 form."""
    waiting: list[types.JsonValue] = [value]
    while waiting:  # no recursion: what agents send may be nested deeper than our stack
        held = waiting.pop()
        if isinstance(held, str):
            if not held.isascii() and SURROGATES.search(held):
                return True
        elif isinstance(held, Mapping):
            waiting += [*held, *held.values()]
        elif isinstance(held, Sequence):
            waiting += held
    return False


def repeated(values: Iterable[str]) -> list[str]:
    """Return each value that comes again, once, in the order of its second coming."""
    seen: set[str] = set()
    again: dict[str, None] = {}
    for value in values:
        if value in seen:
            again[value] = None
        seen.add(value)
    return list(again)


# --- text and values as they can be sent ----------------------------------------------------------


DEPTH_MAX: Final = 100
TOO_DEEP: Final = "[nested too deeply to be sent]"


def made_unicode(part: types.Part) -> types.Part:
    """Return the part with valid text; the same object when it was valid already."""
    match part:
        case (
            types.TextPart(text=text)
            | types.ContextPart(text=text)
            | types.ReasoningPart(text=text)
            | types.ToolResultPart(text=text)
        ) if SURROGATES.search(text):
            return structs.replace(part, text=unicode_text(text))
        case types.ToolCallPart(title=title, arguments=arguments) if has_lone_surrogate(
            (title, arguments)
        ):
            return structs.replace(part, title=unicode_text(title), arguments=sendable(arguments))
        case _:
            return part


def sendable(value: types.JsonValue, *, depth: int = 0) -> types.JsonValue:
    """Return a value as JSON that a provider takes: a dict, list or scalar of its own."""
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        # NaN and the infinities have no form in JSON.
        return str(value)
    if not isinstance(value, Mapping | Sequence):
        return value
    if depth == DEPTH_MAX:
        # What an agent sent may nest without end: one value is lost, and not the history.
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {unicode_text(key): sendable(held, depth=depth + 1) for key, held in value.items()}
    return [sendable(held, depth=depth + 1) for held in value]
