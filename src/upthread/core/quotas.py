"""Quotas: how much an agent may send, each limit by its name. Pure.

An agent's words are data, and there may be too many of them. What goes past one of these limits
ends the turn: the agent is ended, what it said before is kept, and the turn is parked with the name
of the limit (outcome `unknown`: nothing is sent again by itself to an agent that did this). The
limits are far beyond what agents were seen to send; docs/architecture.md says who enforces which.

They are chosen so that upthread stays below 200 MiB of memory whatever an agent sends. A text of
one frame is held about six times over on its way into the store: as bytes, as text, as JSON, as an
event, as a part, and as what the part is written as.

Frames are lines of JSON of a shape that nobody promised. They are decoded with the standard
library, because models emit lone surrogates that stricter decoders refuse. What cannot be read is
kept as it came; what goes past a limit is not decoded at all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from upthread.core import events
from upthread.core.names import shown
from upthread.core.types import UpstreamSessionId
from upthread.errors import QuotaExceededError


class Limit(Struct, frozen=True):
    """One limit. `what` and `unit` are for a person; `most` still is within it."""

    what: str
    most: int
    unit: str

    def require(self, amount: int) -> None:
        """Raise QuotaExceededError for an amount beyond it."""
        if amount > self.most:
            raise self.passed()

    def passed(self) -> QuotaExceededError:
        """Return the error for something that was seen to go beyond it."""
        return QuotaExceededError(
            f"the agent went past a limit: {self.what}, at most {self.most:,} {self.unit}",
            limit=self.what,
            hint="the agent was ended; what it had said before is kept",
        )


# --- one frame, and one answer over HTTP ---------------------------------------------------------

FRAME = Limit("the length of one frame", 16 * 2**20, "bytes")
ANSWER = Limit("the length of one answer", 32 * 2**20, "bytes")
NESTING = Limit("the nesting of one frame", 128, "levels")
VALUES = Limit("the number of values in one frame", 200_000, "values")
WHOLE_NUMBER = Limit("the length of a whole number", 20, "digits")

# --- one turn, or one answer from a session's history --------------------------------------------

FRAMES_OF_TURN = Limit("the number of frames in one turn", 1_000_000, "frames")
BYTES_OF_TURN = Limit("the length of all frames of one turn", 256 * 2**20, "bytes")
REQUESTS_OF_TURN = Limit("the number of requests in one turn", 5_000, "requests")
FRAMES_OF_HISTORY = Limit("the number of frames in one history", 100_000, "frames")
BYTES_OF_HISTORY = Limit("the length of one history", 32 * 2**20, "bytes")

TEXT_OF_TURN = Limit("the text of one turn", 8 * 2**20, "characters")
PARTS_OF_TURN = Limit("the number of parts in one turn", 100_000, "parts")
CALLS_AT_ONCE = Limit("the number of calls that are open at once", 1_000, "calls")
CALLS_OF_TURN = Limit("what the calls of one turn hold", 32 * 2**20, "bytes")
OPEN_CALLS = Limit("what calls hold that are open", 32 * 2**20, "bytes")
PLAN = Limit("the number of entries in a plan", 1_000, "entries")
LOCATIONS = Limit("the number of locations of one call", 1_000, "locations")
OPTIONS = Limit("the number of options of one permission request", 64, "options")
TOKENS = Limit("a number of tokens", 10**12, "tokens")

# --- names ---------------------------------------------------------------------------------------

IDENTITY = Limit("the length of an id", 512, "characters")
TITLE_CHARACTERS_MAX = 200
VERSION_CHARACTERS_MAX = 80

# --- what does not end a turn: more is left out, and that is said --------------------------------

STDERR_BYTES_MAX = 8 * 2**20
"""How much of one process's stderr is kept. Agents that are told to debug write much of it."""

SECONDS_MAX = 10**11
"""No time that an agent gives in seconds is larger, since 1970 or from now on."""

RESET_S_MAX = 366 * 86_400
"""How far ahead an agent may say that a rate limit ends."""

LIMITS = tuple(value for value in tuple(globals().values()) if isinstance(value, Limit))
"""All of them."""

TURN = (FRAMES_OF_TURN, BYTES_OF_TURN)
HISTORY = (FRAMES_OF_HISTORY, BYTES_OF_HISTORY)

_VALUE_BYTES = 100
"""About what one small value takes in memory."""

_STRING = rb'(?s)"(?:[^"\\]+|\\.)*"?'


class Allowance:
    """Counts the frames of one turn, or of one history, as they come."""

    def __init__(self) -> None:
        self.renew(HISTORY)

    def renew(self, limits: tuple[Limit, Limit]) -> None:
        """Begin again, with the limits of what is asked next."""
        self._frames_limit, self._bytes_limit = limits
        self._frames = self._bytes = self._requests = 0

    def take(self, size_bytes: int) -> None:
        """Count one frame. Raises QuotaExceededError."""
        FRAME.require(size_bytes)
        self._frames += 1
        self._bytes += size_bytes
        self._frames_limit.require(self._frames)
        self._bytes_limit.require(self._bytes)

    def take_request(self) -> None:
        """Count a frame that asks something: each is answered in a task of its own."""
        self._requests += 1
        REQUESTS_OF_TURN.require(self._requests)


def require_sound_frame(frame: bytes) -> None:
    """Raise QuotaExceededError for JSON that is nested too deeply or holds too many values.

    Looked for before it is decoded: a frame of empty lists takes thirty times its length. What is
    within strings does not count; it is only looked at where there could be too many.
    """
    openings = frame.count(b"{") + frame.count(b"[")
    if openings <= NESTING.most and frame.count(b",") + openings <= VALUES.most:
        return
    outside = re.sub(_STRING, b"", frame)
    openings = outside.count(b"{") + outside.count(b"[")
    VALUES.require(outside.count(b",") + openings)
    if openings > NESTING.most:
        NESTING.require(_depth(outside))


def _depth(outside: bytes) -> int:
    depth = deepest = 0
    for byte in outside:
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def whole_number(digits: str) -> int:
    """Return the number behind digits of JSON. Raises QuotaExceededError beyond 64 bits."""
    if len(digits) > WHOLE_NUMBER.most:
        raise WHOLE_NUMBER.passed()
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise WHOLE_NUMBER.passed()
    return number


class TurnQuota:
    """Counts what one turn's events hold. Feed it with each before it is recorded."""

    def __init__(self) -> None:
        self._said = 0
        self._parts = 0
        self._held: dict[str, tuple[int, int]] = {}
        self._held_bytes = 0
        self._ended_bytes = 0

    def take(self, event: events.AgentEvent) -> None:
        """Raise QuotaExceededError for an event that goes past a limit."""
        require_identity(event.upstream_session_id)
        match event:
            case events.TextReceived() | events.ReasoningReceived() | events.UserTextReplayed():
                self._said += len(event.text)
                TEXT_OF_TURN.require(self._said)
            case events.ToolCallAnnounced() | events.ToolCallUpdated():
                self._take_call(event)
            case events.ChildStarted() | events.ChildEnded():
                require_session(event.child_upstream_session_id)
            case events.PlanChanged():
                PLAN.require(len(event.entries))
            case events.UsageReported():
                require_tokens(event.tokens_used, event.tokens_window)
                require_tokens(event.tokens_read, event.tokens_written)
                require_tokens(event.tokens_cached, event.tokens_cache_written)
            case _:
                pass

    def take_parts(self, count: int) -> None:
        """Count what is to be written."""
        self._parts += count
        PARTS_OF_TURN.require(self._parts)

    def _take_call(self, event: events.ToolCallAnnounced | events.ToolCallUpdated) -> None:
        require_identity(event.call_id)
        LOCATIONS.require(len(event.locations or ()))
        if (
            isinstance(event, events.ToolCallUpdated)
            and event.child_upstream_session_id is not None
        ):
            require_session(event.child_upstream_session_id)
        said, printed = self._held.pop(event.call_id, (0, 0))
        self._held_bytes -= said + printed
        if event.arguments is not None or not said:
            said = weight(event.arguments) + len(event.title or "")
        if isinstance(event, events.ToolCallUpdated) and event.text is not None:
            printed = _bytes_of(event.text)
        CALLS_OF_TURN.require(self._ended_bytes + self._held_bytes + said + printed)
        if isinstance(event, events.ToolCallUpdated) and event.status in {"completed", "failed"}:
            self._ended_bytes += said + printed
            return
        self._held[event.call_id] = (said, printed)
        self._held_bytes += said + printed
        CALLS_AT_ONCE.require(len(self._held))
        OPEN_CALLS.require(self._held_bytes)


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def weight(value: object) -> int:
    """Return about how many bytes a value of JSON takes in memory; as deep as it may be."""
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        total += _VALUE_BYTES
        if isinstance(each, str):
            total += len(each)
        elif isinstance(each, Mapping):
            inner = cast("Mapping[str, object]", each)
            total += sum(map(len, inner))
            waiting.extend(inner.values())
        elif isinstance(each, list | tuple):
            waiting.extend(cast("list[object]", each))
    return total


def require_tokens(*counts: int | None) -> None:
    """Raise QuotaExceededError for a number of tokens that cannot be one."""
    for count in counts:
        if count is not None and not 0 <= count <= TOKENS.most:
            raise TOKENS.passed()


def require_identity(identity: str | None) -> None:
    """Raise QuotaExceededError for an id that is too long to be one."""
    IDENTITY.require(len(identity or ""))


def require_session(identity: str) -> UpstreamSessionId:
    """Return a session id that may be kept. QuotaExceededError for one that is no name.

    A name is one line of what can be printed, and no longer than an id may be: it stands in
    messages, in commands that a person is shown, and in paths of the agents' own.
    """
    require_identity(identity)
    if not identity or not identity.isprintable() or identity != identity.strip():
        raise QuotaExceededError(
            f"the agent named a session {shown(identity)}: an id is one line that can be printed",
            limit=IDENTITY.what,
            hint="it was not used",
        )
    return UpstreamSessionId(identity)


def one_line_name(name: str, *, most: int = TITLE_CHARACTERS_MAX) -> str:
    """Return a title or another name of an agent's as one line that can be shown, and not long.

    White space is folded, what cannot be printed goes; a longer one is cut and says so.
    """
    start = name[: most * 4]
    line = "".join(each for each in " ".join(start.split()) if each.isprintable())
    return line if len(line) <= most and start == name else line[: most - 1] + "…"


def milliseconds_of(seconds: Any) -> int | None:
    """Return a time in seconds as an agent gave it in milliseconds, None where it is no time."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return round(seconds * 1000) if abs(seconds) < SECONDS_MAX else None  # NaN is not


def within_quota(told: Iterable[events.AgentEvent]) -> Iterator[events.AgentEvent]:
    """Yield what an agent's own store has of a turn, up to the event that passes a limit."""
    quota = TurnQuota()
    for event in told:
        try:
            quota.take(event)
        except QuotaExceededError:
            return  # the turn is over, and what it said until then is worth having
        yield event
