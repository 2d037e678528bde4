"""One prompt as OpenCode's server tells it: its parts as events, what belongs to it, how it ended.

Pure. A part comes whole each time it changes; text also comes in deltas. Shapes are those of the
server's own description (`GET /doc`, 1.18.33), read member by member: what is missing is left out
and what is new is kept raw, never an error.

Theory of operation. The server tells of everything it does in one stream. What belongs to a prompt
is what its session and the sessions below it say in messages that were not there before it:
OpenCode may add more than one (it compacts a full session and asks again), so that no message's
parent tells. The prompt has begun when its own message is there, and is over when the session is
idle again after something came of it; an earlier prompt's second `idle` (1.18.33 sends two after an
error) finds nothing and ends nothing. An error counts unless the agent went on after it. While a
sub-agent works on in the background the prompt is not over: its end is told to the session as if a
user spoke, and the session goes on from there.

A child is seen when its session is made, when a `task` call names it, or both; a child of an
earlier prompt that is given more work is only named. It is told as started before anything it says,
with the call it came from where that is known by then. One that goes on in the background ends when
OpenCode says so to the session that it works for.
"""

import re
from collections.abc import Callable, Mapping, Set
from typing import TypeAlias

from upthread.agents._children import Children
from upthread.agents._json_lines import of_session, tries_again, unknown
from upthread.agents._outcomes import ended_with, outcome_of_refusal, says_no_credit_of_limit
from upthread.agents.base import PromptResult
from upthread.core import events
from upthread.core.codec import (
    AnyJson,
    member,
    number_at,
    object_at,
    objects_at,
    session_at,
    text_at,
)
from upthread.core.events import AgentEvent, ContextCompacted, Events, TitleChanged, UsageReported
from upthread.core.names import rows_by_name
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.runs.stops import REFUSAL
from upthread.core.text import one_line
from upthread.core.types import Outcome, UpstreamSessionId

SILENT_PARTS = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent"})
"""Parts about OpenCode's own bookkeeping, not about the conversation: no event."""

_READ = (("input",), ("cache", "read"), ("cache", "write"))
"""The tokens that a message's request read; `input` has none that a cache held."""

TOOL_KINDS = rows_by_name(
    ("read", "read"),
    ("edit write multiedit patch apply_patch", "edit"),
    ("bash", "execute"),
    ("grep glob list ls codesearch", "search"),
    ("webfetch websearch", "fetch"),
    ("question skill task todoread todowrite", "think"),
)
"""ACP's kind of each built-in tool and permission; what is not here is `other`."""

STATUSES = {
    "pending": "pending",
    "running": "in_progress",
    "completed": "completed",
    "error": "failed",
}
# The second form is an older OpenCode's.
_TASK_TEXT = re.compile(
    r'\A<task id="(?P<id>ses_\w+)"(?:[^>]*state="(?P<state>\w+)")?|task_id: (?P<older>ses_\w+)'
)


def tool_kind(tool: str) -> str:
    """Return ACP's kind of a tool or a permission by OpenCode's name."""
    return TOOL_KINDS.get(tool, "other")


def announced(part: AnyJson) -> events.ToolCallAnnounced:
    """Return the call a tool part is about, with what is known of it by now."""
    tool = text_at(part, "tool")
    return events.ToolCallAnnounced(
        call_id=text_at(part, "callID"),
        title=_title(part) or tool,
        tool_kind=tool_kind(tool),
        # Empty while it is pending (1.18.33): that says nothing yet.
        arguments=member(part, "state", "input") or None,  # type: ignore[arg-type]  # JSON, as read
        locations=_locations(part),
    )


def updated(part: AnyJson) -> events.ToolCallUpdated:
    """Return how a tool part's call stands."""
    return events.ToolCallUpdated(
        call_id=text_at(part, "callID"),
        status=STATUSES.get(text_at(part, "state", "status")),
        title=_title(part) or None,
        arguments=member(part, "state", "input") or None,  # type: ignore[arg-type]  # JSON, as read
        locations=_locations(part) or None,
        text=_printed(part),
        child_upstream_session_id=child_named(part),
    )


def _title(part: AnyJson) -> str:
    """Return what a call is named by, the same while it runs and at its end.

    OpenCode's own title comes at the end.
    """
    path = text_at(part, "state", "input", "filePath")
    named = f"{text_at(part, 'tool')} {path}" if path else text_at(part, "state", "title")
    return one_line(text_at(part, "state", "input", "command") or named)[:TITLE_CHARACTERS_MAX]


def _locations(part: AnyJson) -> tuple[str, ...]:
    path = text_at(part, "state", "input", "filePath")
    return (path,) if path else ()


def _printed(part: AnyJson) -> str | None:
    """Return what a call printed: its output, else its error, else its output so far."""
    for path in (("output",), ("error",), ("metadata", "output")):
        found = member(part, "state", *path)
        if isinstance(found, str):
            return found
    return None


def child_named(part: AnyJson) -> UpstreamSessionId | None:
    """Return the session a `task` call gave its work to, None for another call or none yet."""
    if text_at(part, "tool") != "task":
        return None
    if named := session_at(part, "state", "metadata", "sessionId"):
        return named
    found = _TASK_TEXT.search(text_at(part, "state", "output"))
    return UpstreamSessionId(found["id"] or found["older"]) if found else None


def said(part: AnyJson, text: str, *, message_id: str) -> AgentEvent:
    """Return a piece of the agent's text or reasoning."""
    if part.get("type") == "reasoning":
        return events.ReasoningReceived(text=text)
    return events.TextReceived(text=text, message_id=message_id or None)


def user_text(part: AnyJson) -> Events:
    """Return what the user said; what OpenCode wrote in the user's place is not said by one."""
    if part.get("type") != "text" or part.get("synthetic") is True:
        return ()
    message_id = text_at(part, "messageID") or None
    text = text_at(part, "text")
    return (events.UserTextReplayed(text=text, message_id=message_id),)


def usage(message: AnyJson, *, window: int | None) -> events.UsageReported | None:
    """Return what a message's request took and the session then holds, None while not known.

    A message is one request to the model (1.18.33).
    """
    total = number_at(message, "tokens", "total")
    if not total:
        return None
    fresh, cached, cache_written = (number_at(message, "tokens", *name) for name in _READ)
    read = sum(filter(None, (fresh, cached, cache_written)))
    return events.UsageReported(
        tokens_used=total,
        tokens_window=window,
        tokens_read=read,
        tokens_written=max(0, total - read),
        tokens_cached=cached,
        tokens_cache_written=cache_written,
    )


def plan(todos: object) -> events.PlanChanged:
    """Return the to-do list of a `todo.updated`."""
    entries = objects_at(todos, "todos")
    return events.PlanChanged(
        entries=tuple((text_at(one, "content"), text_at(one, "status")) for one in entries),
    )


def history(messages: object, session: UpstreamSessionId) -> Events:
    """Return a session's stored messages as events, in order (A5)."""
    told = (event for each in objects_at(messages) for event in _events_of(each))
    return of_session(session, told)


def _events_of(message: AnyJson) -> list[AgentEvent]:
    is_summary = member(message, "info", "summary") is True
    reply_part = summary if is_summary else _reply_part
    reader = user_text if text_at(message, "info", "role") == "user" else reply_part
    found = [event for part in objects_at(message, "parts") for event in reader(part)]
    if found and is_summary:
        # OpenCode streams this event after the summary, and stores none.
        found.append(events.ContextCompacted())
    return found


def summary(part: AnyJson) -> Events:
    """Return the summary of a compaction once it is whole: it is no reply of the agent."""
    is_whole = member(part, "time", "end") is not None
    if part.get("type") != "text" or not is_whole:
        return ()
    return (unknown("compaction_summary", dict(part)),)


def _reply_part(part: AnyJson) -> Events:
    kind = text_at(part, "type")
    if kind in {"text", "reasoning"}:
        text = text_at(part, "text")
        return (said(part, text, message_id=text_at(part, "messageID")),) if text else ()
    if kind == "tool":
        return announced(part), updated(part)
    return () if kind in SILENT_PARTS else (unknown(kind, dict(part)),)


def window_of(providers: object, message: AnyJson) -> int | None:
    """Return the size of the window of a message's model, from `GET /config/providers`."""
    for provider in objects_at(providers, "providers"):
        if provider.get("id") == message.get("providerID"):
            model = object_at(provider, "models", text_at(message, "modelID"))
            return number_at(model, "limit", "context") or None
    return None


# --- what OpenCode's failures mean ----------------------------------------------------------------

# The server names its errors and passes the provider's status on; both come before any words. While
# it retries by itself it says neither, only the provider's message and when it will try again.


RETRIES_MAX = 3
"""How many retries OpenCode is left to; it would go on for ever."""
RETRY_WAIT_MAX_S = 15.0
"""A longer pause before its next try is told as what it is, and not waited for."""

_DECLINED = "ContentFilterError"
"""The model declined to go on; the session is well."""

_OF_NAME = {
    "ProviderAuthError": Outcome.AUTH,
    "ContextOverflowError": Outcome.CONTEXT_FULL,
    "MessageAbortedError": Outcome.CANCELLED,
    # Cut off by the model's own limit on one answer: there is a reply, and it is told why it ends.
    # An agent's limit on its turns is none of these: there the work was left in the middle.
    "MessageOutputLengthError": Outcome.OK,
    _DECLINED: Outcome.OK,
    "NotFoundError": Outcome.MISSING,
}
PASSING_WORDS = re.compile(
    r"overload|unavailable|gateway|server.?error|time.?out|connect|socket|fetch failed",
    re.IGNORECASE,
)
_WORDS_OF_LIMIT = re.compile(
    r"\blimit|quota|exceeded|exhausted|throttl|slow.?down|too (many|fast)|usage", re.IGNORECASE
)


def detail_of_finish(reason: str) -> str:
    """Return what is to be said of how the model stopped; empty for the ordinary way."""
    if reason == "content-filter":
        return f"{REFUSAL}finish: {reason}"
    return "" if reason in {"", "stop"} else f"finish: {reason}"


def failure_of_message(error: object, *, now_ms: int) -> PromptResult:
    """Say what the `error` of a message or of `session.error` means."""
    name, said = text_at(error, "name"), text_at(error, "data", "message")
    detail = f"{said or 'no reason given'} ({name or 'an error without a name'})"
    if name == _DECLINED:
        detail = REFUSAL + detail
    outcome = _OF_NAME.get(name) or _of_status(member(error, "data", "statusCode"), said)
    return ended_with(outcome, detail, reset_at_ms=_reset_at_ms(error, now_ms))


def failure_of_retry(status: object, *, now_ms: int) -> PromptResult | None:
    """Return what a retry amounts to that is not worth waiting for, None while it is.

    A long pause before the next try is a limit; short ones are one only with words that say so,
    because OpenCode also tries again after a conflict (409).
    """
    attempt, next_ms = number_at(status, "attempt"), number_at(status, "next")
    if next_ms is None or attempt is None:
        return None
    is_long = next_ms - now_ms > RETRY_WAIT_MAX_S * 1000
    if attempt < RETRIES_MAX and not is_long:
        return None
    said = text_at(status, "message")
    outcome = Outcome.RATE_LIMITED
    if says_no_credit_of_limit(said):
        outcome = Outcome.CREDIT_EXHAUSTED
    elif PASSING_WORDS.search(said) or not (is_long or _WORDS_OF_LIMIT.search(said)):
        outcome = Outcome.TRANSIENT
    return ended_with(outcome, f"{said} (retry {attempt})", reset_at_ms=next_ms)


def _of_status(status: object, said: str) -> Outcome:
    """Words refine what the provider's status says, and alone suggest a passing fault at most."""
    if not isinstance(status, int):
        return Outcome.TRANSIENT if PASSING_WORDS.search(said) else Outcome.UNKNOWN
    return outcome_of_refusal(status, said)


def _reset_at_ms(error: object, now_ms: int) -> int | None:
    after = text_at(error, "data", "responseHeaders", "retry-after")
    # Seconds alone: HTTP also allows a date, which is left unknown.
    return now_ms + int(after) * 1000 if after.isascii() and after.isdigit() else None


# --- the turn -------------------------------------------------------------------------------------


SILENT_EVENTS = frozenset({"session.idle", "session.diff", "message.removed"})
"""Events of a session that say nothing of the conversation, or say it again."""
SILENT_PREFIXES = ("session.next.", "permission.", "question.", "file.", "pty.")
"""Families of such events; questions and permissions are answered where they are asked."""
SPOKEN = frozenset({"message.part.updated", "message.part.delta"})
"""Events that carry what somebody said or did."""
SUMMARY = "summary"
_Reader: TypeAlias = Callable[[AnyJson, UpstreamSessionId], Events]


class Family(Children):
    """A session and all below it, those that were made and have not been heard of included.

    `in_background` are the children that work on though their calls have been answered, `silent`
    the sessions that stand still.
    """

    def __init__(self, session: UpstreamSessionId) -> None:
        super().__init__(session)
        self.in_background: set[UpstreamSessionId] = set()
        self.silent: set[UpstreamSessionId] = set()
        self._made: dict[UpstreamSessionId, tuple[UpstreamSessionId, str]] = {}

    def has(self, session: UpstreamSessionId) -> bool:
        return super().has(session) or session in self._made

    def born(self, made: AnyJson) -> None:
        """Take note of a session that was made; one of another family is let be."""
        parent = session_at(made, "parentID")
        if self.has(parent):
            self._made[session_at(made, "id")] = parent, text_at(made, "agent")

    def speaks(self, session: UpstreamSessionId) -> Events:
        """Return the start of a child that is heard before any call named it."""
        if session not in self._made:
            return ()
        parent, role = self._made[session]
        return self.start(session, parent=parent, role=role)

    def called(self, part: AnyJson, session: UpstreamSessionId) -> Events:
        """Return the start of the child that a call names, nothing for any other call."""
        child = child_named(part)
        if child is None:
            return ()
        # One that another session gives work to keeps the parent it was made by (1.18.33).
        parent, role = self._made.get(child, (session, ""))
        asked = text_at(part, "state", "input", "subagent_type")
        return self.start(child, parent=parent, role=asked or role, call_id=text_at(part, "callID"))

    def returned(self, part: AnyJson) -> Events:
        """Return the end of the child whose call has its result, unless it goes on by itself."""
        child, status = child_named(part), text_at(part, "state", "status")
        if child is None or child not in self.working or status not in {"completed", "error"}:
            return ()
        # Its call is answered at once, and it works on (1.18.33, where that is switched on).
        found = _TASK_TEXT.search(text_at(part, "state", "output"))
        if found is not None and found["state"] == "running":
            self.in_background.add(child)
            return ()
        return self.end(child, Outcome.OK if status == "completed" else Outcome.UNKNOWN)

    def told_of_end(self, part: AnyJson, *, otherwise: Outcome) -> Events:
        """Return the end of a child in the background that a session has been told of.

        OpenCode tells it where a user would speak. `otherwise` is what the child came to where it
        did not end well.
        """
        # At the very beginning alone: further on the same words may be quoted.
        found = _TASK_TEXT.match(text_at(part, "text"))
        if part.get("synthetic") is not True or found is None:
            return ()
        child = UpstreamSessionId(found["id"] or "")
        if child not in self.in_background or found["state"] not in {"completed", "error"}:
            return ()
        return self.end(child, Outcome.OK if found["state"] == "completed" else otherwise)

    def end_background(self, outcome: Outcome, *, only_silent: bool) -> Events:
        """Return the ends of children in the background whose end nobody is told of any more."""
        over = self.in_background & self.silent if only_silent else set(self.in_background)
        return tuple(event for child in sorted(over) for event in self.end(child, outcome))

    def end(self, child: UpstreamSessionId, outcome: Outcome) -> Events:
        self.in_background.discard(child)
        return super().end(child, outcome)


class Turn:
    """Fed with the server's events while one prompt runs. `stale` are the messages before its.

    `messages` are those of the prompt, by id; `late` counts what was said too late for an earlier
    prompt. `window_of` returns the window of a message's model in tokens.
    """

    def __init__(
        self,
        session: UpstreamSessionId,
        *,
        stale: Set[str],
        window_of: Callable[[AnyJson], int | None],
        now_ms: Callable[[], int],
    ) -> None:
        self.session = session
        self.messages: dict[str, str] = {}
        self.failure: PromptResult | None = None
        self.given_up: PromptResult | None = None
        self.finish = ""
        self.is_stopping = False
        self.is_over = False
        self.late = 0
        self._stale = stale
        self._window_of = window_of
        self._now_ms = now_ms
        self.family = Family(session)
        self.failure_before: PromptResult | None = None
        self._has_begun = False
        self._has_reply = False
        self._is_idle = False
        self._newest = ""
        self._title = ""
        self._usage: dict[str, UsageReported] = {}
        self._part_types: dict[str, str] = {}
        self._characters: dict[str, int] = {}
        self._announced: set[str] = set()

    def take(self, kind: str, properties: AnyJson) -> Events:
        """Return what one event of the server says that belongs to this prompt."""
        if kind == "session.created":
            self.family.born(object_at(properties, "info"))
            return ()
        session = UpstreamSessionId(text_at(properties, "sessionID") or self.session)
        if not self.family.has(session):
            self.late += kind in SPOKEN
            return ()
        reader = self._readers.get(kind)
        if reader is not None:
            return of_session(session, reader(properties, session))
        is_silent = kind in SILENT_EVENTS or kind.startswith(SILENT_PREFIXES)
        if is_silent or "sessionID" not in properties:
            return ()
        return of_session(session, (unknown(kind, dict(properties)),))

    @property
    def is_answered(self) -> bool:
        """Whether the agent has begun a message."""
        return any(role != "user" for role in self.messages.values())

    @property
    def has_silent_child(self) -> bool:
        """Whether one of them stands still, and its end has not been told."""
        return not self.family.in_background.isdisjoint(self.family.silent)

    def end_silent(self) -> Events:
        """End the sub-agents that stand still and of whose end nothing was told."""
        return self._settle(self.family.end_background(Outcome.UNKNOWN, only_silent=True))

    def end_background(self) -> Events:
        """End all of them: the prompt was stopped, and they with it."""
        return self._settle(self.family.end_background(Outcome.CANCELLED, only_silent=False))

    def end_unbegun(self) -> None:
        """End a prompt that has not become a message: what went wrong before was its own.

        Whether it was cannot be told at once: the words may be an earlier prompt's last.
        """
        if self.failure_before is not None:
            self.failure, self.is_over = self.failure_before, True

    @property
    def _readers(self) -> Mapping[str, _Reader]:
        return {
            "message.updated": self._message,
            "message.part.updated": self._part,
            "message.part.delta": self._delta,
            "session.status": self._status,
            "session.error": self._error,
            "session.updated": self._session,
            "session.compacted": lambda _told, _session: (ContextCompacted(),),
            "todo.updated": lambda properties, _session: (plan(properties),),
        }

    # --- messages ------------------------------------------------------------------------------

    def _message(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        message = object_at(properties, "info")
        message_id, role = text_at(message, "id"), text_at(message, "role")
        if message_id in self._stale:
            return ()
        is_new = message_id not in self.messages
        # By its value: a user's message has a `summary` too, which is an object (1.18.33).
        self.messages[message_id] = SUMMARY if message.get("summary") is True else role
        if session != self.session:
            return self._told_usage(message)
        if role == "user":
            self._has_begun, self.failure_before = True, None
            return ()
        if is_new:
            # The agent went on after an error, so that it was not the end.
            self._newest, self.failure = message_id, None
        # An earlier one is told of again, too, and how it ended is not how the prompt did.
        if message_id == self._newest:
            self.finish = text_at(message, "finish")
            if member(message, "time", "completed") is not None:
                self._has_reply = True
            if message.get("error") is not None:
                self.failure = failure_of_message(message["error"], now_ms=self._now_ms())
        return self._told_usage(message)

    def _told_usage(self, message: AnyJson) -> Events:
        """Return what a message's request took, once: a message is told of several times."""
        message_id = text_at(message, "id")
        told = usage(message, window=self._window_of(message))
        if told is None or told == self._usage.get(message_id):
            return ()
        self._usage[message_id] = told
        return (told,)

    # --- parts ---------------------------------------------------------------------------------

    def _part(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        part = object_at(properties, "part")
        message_id = text_at(part, "messageID")
        if message_id in self._stale:
            self.late += 1
            return ()
        # The deltas of a part do not say of what type it is.
        self._part_types[text_at(part, "id")] = text_at(part, "type")
        started = self.family.speaks(session)
        return (*started, *self._of_part(part, session, self.messages.get(message_id, "")))

    def _of_part(self, part: AnyJson, session: UpstreamSessionId, spoken_by: str) -> Events:
        kind = text_at(part, "type")
        if spoken_by == "user":
            return self._of_user(part, session)
        if spoken_by == SUMMARY:
            return summary(part)
        if kind in {"text", "reasoning"}:
            return self._rest_of_text(part)
        if kind == "tool":
            return self._call(part, session)
        return () if kind in SILENT_PARTS else (unknown(kind, dict(part)),)

    def _of_user(self, part: AnyJson, session: UpstreamSessionId) -> Events:
        otherwise = Outcome.CANCELLED if self.is_stopping else Outcome.UNKNOWN
        ended = self.family.told_of_end(part, otherwise=otherwise)
        if session != self.session:
            return (*ended, *user_text(part))
        if not ended:
            return ()
        # It goes on from what it is told: what it said before is no end.
        self._has_reply, self._is_idle = False, False
        return (*ended, unknown("background_ended", dict(part)))

    def _delta(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        part_id, message_id = text_at(properties, "partID"), text_at(properties, "messageID")
        if message_id in self._stale:
            self.late += 1
            return ()
        kind, spoken_by = self._part_types.get(part_id), self.messages.get(message_id)
        is_text = kind in {"text", "reasoning"} and properties.get("field") == "text"
        if not is_text or spoken_by in {"user", SUMMARY}:
            return ()
        text = text_at(properties, "delta")
        self._characters[part_id] = self._characters.get(part_id, 0) + len(text)
        part = {"type": kind}
        return (said(part, text, message_id=message_id),) if text else ()

    def _rest_of_text(self, part: AnyJson) -> Events:
        """Return what no delta has brought; at its end a part is told whole."""
        part_id, text = text_at(part, "id"), text_at(part, "text")
        rest = text[self._characters.get(part_id, 0) :]
        if not rest:
            return ()
        self._characters[part_id] = len(text)
        return (said(part, rest, message_id=text_at(part, "messageID")),)

    def _call(self, part: AnyJson, session: UpstreamSessionId) -> Events:
        announcement: Events = ()
        if text_at(part, "id") not in self._announced:
            self._announced.add(text_at(part, "id"))
            announcement = (announced(part),)
            if text_at(part, "state", "status") == "pending":
                return announcement
        started = self.family.called(part, session)
        return (*announcement, *started, updated(part), *self.family.returned(part))

    # --- the session ---------------------------------------------------------------------------

    def _status(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        status = object_at(properties, "status")
        # A sub-agent's as well: the prompt waits for it.
        if status.get("type") == "retry":
            # The first one counts: OpenCode retries on until it is aborted.
            self.given_up = self.given_up or failure_of_retry(status, now_ms=self._now_ms())
            return (tries_again(status, text_at(status, "message")),)
        is_idle = status.get("type") == "idle"
        if session == self.session:
            self._is_idle = is_idle
            return self.end_background() if is_idle and self.is_stopping else self._settle()
        if is_idle:
            self.family.silent.add(session)
        else:
            self.family.silent.discard(session)
        return ()

    def _settle(self, events: Events = ()) -> Events:
        """Return the events, and be over where nothing more is to come of them."""
        has_come_to_something = self._has_reply or self.failure or self.is_stopping
        is_waiting = self.family.in_background and not self.is_stopping
        if self._is_idle and self._has_begun and has_come_to_something and not is_waiting:
            self.is_over = True
        return events

    def _error(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        if session == self.session:
            failure = failure_of_message(properties.get("error"), now_ms=self._now_ms())
            if self._has_begun:
                self.failure = failure
            else:
                self.failure_before = failure
        # Of a session that it cannot read it says so after it has said that it is idle (1.18.33).
        return self._settle()

    def _session(self, properties: AnyJson, session: UpstreamSessionId) -> Events:
        title = text_at(properties, "info", "title")
        if session != self.session or not title:
            return ()
        # Of the first that is told it is not known to be a change.
        before, self._title = self._title, title
        if before in {"", title}:
            return ()
        return (TitleChanged(title=title),)
