"""What every provider's protocol has: a request and its answer, rules for a history, and one value.

Protocols read their bodies into a `Conversation`; scripts read only this, and give an `Answer`,
which the protocol writes. A tool's result is no user message, although Anthropic Messages
sends it under that role.

The rules are an independent check: they share no code with the rest of upthread, so that a fault in
what upthread sends cannot hide behind the same fault here. The words are the providers' own, from
their documentation and from errors that users quote in public threads (seen up to 2026-11).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal, TypeAlias, cast

from msgspec import Struct, to_builtins

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

Speaker: TypeAlias = Literal["user", "assistant", "tool"]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


class Said(Struct, frozen=True, kw_only=True):
    """One thing said. Clients merge user messages; each text block counts as one of its own."""

    speaker: Speaker
    text: str


class Conversation(Struct, frozen=True, kw_only=True):
    """What the model is shown in one request."""

    system: str
    said: tuple[Said, ...]

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What the user said, oldest first."""
        return tuple(item.text for item in self.said if item.speaker == "user")

    @property
    def since_last_user(self) -> tuple[Said, ...]:
        """What was said after the last user message: the present turn so far."""
        positions = [index for index, item in enumerate(self.said) if item.speaker == "user"]
        return self.said[positions[-1] + 1 :] if positions else self.said

    @property
    def model_calls_of_turn(self) -> int:
        """How often the model has answered in the present turn."""
        return sum(1 for item in self.since_last_user if item.speaker == "assistant")


def without_reminders(text: str) -> str:
    """Return the text without the blocks that Claude Code puts into user messages by itself."""
    return _REMINDER.sub("", text).strip()


class ToolCall(Struct, frozen=True, kw_only=True):
    """The model wants a tool. The id is minted when the answer is written."""

    name: str
    arguments: JsonObject


class Reply(Struct, frozen=True, kw_only=True):
    """Text, reasoning before it, tool calls after it.

    `delay_s` passes before the first byte, `pace_s` before each streamed frame. `tokens_in` is what
    the provider says it has read, None for a rough count of the prompt; `tokens_cached` is how much
    of that it says came from its cache.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    delay_s: float = 0.0
    pace_s: float = 0.0
    tokens_in: int | None = None
    tokens_cached: int = 0
    status: ClassVar = 200


class Failure(Struct, frozen=True, kw_only=True):
    """An HTTP error. `is_context_full` gives it the provider's words for a prompt too long."""

    status: int
    message: str
    retry_after_s: float | None = None
    is_context_full: bool = False
    delay_s: float = 0.0


class Silence(Struct, frozen=True, kw_only=True):
    """No byte is sent until the client goes or the server stops."""

    status: ClassVar = None


Answer: TypeAlias = Reply | Failure | Silence


def as_json(answer: Answer) -> JsonObject:
    """Return the answer as it is logged."""
    return {"kind": type(answer).__name__.lower(), **cast("JsonObject", to_builtins(answer))}


# --- what a provider refuses about a history ------------------------------------------------------


class Found(Struct, frozen=True):
    """What a rule found: the message's position, None for the request as a whole, and the words."""

    message_index: int | None
    what: str


Findings: TypeAlias = Iterator[Found]


class Violation(Struct, frozen=True, kw_only=True):
    """A rule that a request breaks. `what` is worded as the provider words it."""

    rule: str
    message_index: int | None
    what: str


IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

Rule: TypeAlias = Callable[[JsonObject], Findings]


def apply_rules(rules: Sequence[Rule], body: JsonObject) -> tuple[Violation, ...]:
    """Return every violation in the rules' order; a rule is called by its function's name."""
    return tuple(
        Violation(rule=rule.__name__, message_index=found.message_index, what=found.what)
        for rule in rules
        for found in rule(body)
    )


def holds_json_object(text: str) -> bool:
    """Return whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def holds_lone_surrogate(value: JsonValue) -> bool:
    """Return whether any text in the value, keys included, is not valid Unicode."""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value)
    if isinstance(value, dict):
        return any(holds_lone_surrogate(key) or holds_lone_surrogate(value[key]) for key in value)
    return isinstance(value, list) and any(holds_lone_surrogate(item) for item in value)


def in_unicode(field: str, what: str) -> Rule:
    """Return the rule that no text of a request's items is without a UTF-8 form.

    A body with a lone surrogate is refused as no JSON.
    """

    def text_is_unicode(body: JsonObject) -> Findings:
        for index, item in enumerate(objects_in(body.get(field))):
            if holds_lone_surrogate(item):
                yield Found(index, what)

    return text_is_unicode


# --- the seam between the server and a protocol ---------------------------------------------------


TEXT_CHUNK_CHARACTERS = 64
"""How much text one streamed frame carries."""


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and the number it was given. `salt` tells this request's ids from all others."""

    n: int
    body: JsonObject

    @property
    def salt(self) -> str:
        """A digest of the body: ids stay unique in a history that outlives the server."""
        written = json.dumps(self.body, sort_keys=True).encode()
        return f"{hashlib.sha256(written).hexdigest()[:10]}{self.n}"

    @property
    def tokens_in(self) -> int:
        """A rough count of the prompt's tokens, four characters each."""
        return max(1, len(json.dumps(self.body)) // 4)

    def tokens_read(self, reply: Reply) -> int:
        """What the provider says it has read for an answer: as it was told to say, or the count."""
        return self.tokens_in if reply.tokens_in is None else reply.tokens_in


class ModelProtocol(Struct, frozen=True, kw_only=True):
    """A provider's protocol.

    `read` never raises, whatever the body; the provider refuses what breaks one of its `rules`.
    `write` gives a whole answer, `stream` the frames of a streamed one, `write_failure` an error's
    body.
    """

    name: str
    path: str
    read: Callable[[JsonObject], Conversation]
    rules: Sequence[Rule]
    write: Callable[[Reply, Exchange], JsonObject]
    stream: Callable[[Reply, Exchange], Iterator[bytes]]
    write_failure: Callable[[Failure], JsonObject]


def in_chunks(text: str) -> Iterator[str]:
    """Return the text as a provider streams it."""
    for start in range(0, len(text), TEXT_CHUNK_CHARACTERS):
        yield text[start : start + TEXT_CHUNK_CHARACTERS]


def tokens_out(reply: Reply) -> int:
    """Return a rough count of the answer's tokens, four characters each."""
    return max(1, len(reply.text + reply.thinking) // 4)


# --- JSON as it arrives: any shape, narrowed where it is read -------------------------------------


def as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str:
    """Return the value if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def objects_in(value: JsonValue) -> list[JsonObject]:
    """Return the array's items, those that are no object as empty ones: positions are kept."""
    return [as_object(item) for item in as_list(value)]


def json_object(**fields: object) -> JsonObject:
    """Return the fields as an object; for literals whose nesting a type checker cannot follow."""
    return cast("JsonObject", fields)
