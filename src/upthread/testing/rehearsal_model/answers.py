"""What the model answers, before a protocol gives it a form."""

from __future__ import annotations

from typing import Final, TypeAlias, cast

from msgspec import Struct, to_builtins

from upthread.testing.rehearsal_model._json import JsonObject


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


class Failure(Struct, frozen=True, kw_only=True):
    """An HTTP error. `is_context_full` gives it the provider's words for a prompt too long."""

    status: int
    message: str = ""
    retry_after_s: float | None = None
    is_context_full: bool = False
    delay_s: float = 0.0


class Silence(Struct, frozen=True, kw_only=True):
    """No byte is sent until the client goes or the server stops."""

    delay_s: float = 0.0


CONTEXT_WORDS: Final = "context length"


def failure_of(status: int, message: str, *, retry_after_s: float | None = None) -> Failure:
    """Return a failure; a message that begins with `context length` means a prompt too long."""
    is_context_full = message.lower().startswith(CONTEXT_WORDS)
    return Failure(
        status=status,
        message=message,
        retry_after_s=retry_after_s,
        is_context_full=is_context_full,
    )


Answer: TypeAlias = Reply | Failure | Silence


def as_json(answer: Answer) -> JsonObject:
    """Return the answer as it is logged."""
    return {"kind": type(answer).__name__.lower(), **cast("JsonObject", to_builtins(answer))}
