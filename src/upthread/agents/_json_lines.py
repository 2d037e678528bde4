"""JSON with an agent, a message a line, of a shape that nobody promised.

Lines are decoded with the standard library, because models emit lone surrogates that stricter
decoders refuse. What cannot be read is kept as it came; what goes past a limit of core/quotas.py is
not decoded at all, and ends the agent.
"""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from upthread.core import events
from upthread.core.codec import AnyJson, object_at
from upthread.core.events import AgentEvent, Events
from upthread.core.quotas import require_sound_frame, whole_number
from upthread.core.types import RETRY, JsonValue, UpstreamSessionId


class Unreadable(Struct, frozen=True, kw_only=True):
    """A line that is no message; bytes that are no UTF-8 are surrogate escapes."""

    raw: JsonValue


def read_json(line: bytes) -> Any:
    """Return what a line holds, Unreadable for one that is no JSON. Raises QuotaExceededError.

    An answer may have bytes that are no UTF-8, which become U+FFFD: somebody waits for it.
    """
    require_sound_frame(line)
    try:
        text = line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        found = object_at(_decoded(line.decode("utf-8", "replace")))
        if "id" in found and "method" not in found:
            return found
        return Unreadable(raw=line.decode("utf-8", "surrogateescape"))
    return _decoded(text)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except ValueError:
        return Unreadable(raw=text)


# strict=False: a raw control character in a string is the agent's slip, not a lost frame.
_DECODER = json.JSONDecoder(strict=False, parse_int=whole_number)


def write_frame(message: object) -> bytes:
    """Encode a message as one line, in ASCII: lone surrogates and NUL go as escapes."""
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def unknown(
    kind: str, raw: Any, session: UpstreamSessionId | None = None
) -> events.UnknownReceived:
    """Return what this version has no words for, as it came."""
    return events.UnknownReceived(upstream_session_id=session, kind=kind, raw=raw)


def tries_again(raw: AnyJson, words: str) -> events.UnknownReceived:
    """Return that an agent waits for its provider and tries again by itself, in its own words."""
    return replace(unknown(RETRY, {**raw, "progress": words}), progress=words)


def of_session(session: UpstreamSessionId | None, told: Iterable[AgentEvent]) -> Events:
    """Return events as those of a session, but for events that name a session themselves."""
    return tuple(
        event if event.upstream_session_id else replace(event, upstream_session_id=session)
        for event in told
    )
