"""One prompt as the server tells of it: what belongs to it, and how it ended. Pure.

Theory of operation. The server tells of every thread it has loaded, each message with its thread.
What belongs to a prompt is what its own thread says in the turn that was started for it, and what
the threads below it say. The prompt is over when that turn has ended and nobody below is still at
work: a sub-agent of Codex's goes on by itself, and would be cut off with the server. After a
failure or an interrupt nobody is waited for.

A sub-agent is a thread of its own, named by the call that spawned it or gave it more work. It is
told as started before anything it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import structs

from upthread.agents._json_lines import as_object, member, text_at, unknown
from upthread.agents.base import PromptResult
from upthread.agents.codex import items
from upthread.agents.codex.items import CALL, children_named
from upthread.agents.codex.outcomes import end_of_limit_ms, failure_of_turn
from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    TitleChanged,
    ToolCallAnnounced,
)
from upthread.core.types import RETRY, Outcome, UpstreamSessionId
from upthread.core.workstreams import ROLE_UNKNOWN

_ENDS: Final[Mapping[str, Outcome]] = {
    "completed": Outcome.OK,
    "interrupted": Outcome.CANCELLED,
}

FIRST_NAME: Final = "upthread"
"""The name of a new thread that was given none: Codex writes one down with its first turn or its
name, and one that is not written down cannot be resumed."""

SPOKEN: Final = frozenset({"item/started", "item/completed", "item/agentMessage/delta"})
"""Messages that carry what somebody said or did."""

SILENT: Final = frozenset(
    {
        *("warning", "guardianWarning", "configWarning", "deprecationNotice"),
        *("thread/started", "thread/status/changed", "thread/compacted", "thread/settings/updated"),
        *("thread/readState/changed", "turn/diff/updated", "serverRequest/resolved"),
        *("item/mcpToolCall/progress", "item/reasoning/textDelta"),
        *("item/commandExecution/outputDelta", "item/commandExecution/terminalInteraction"),
        *("item/fileChange/outputDelta", "item/fileChange/patchUpdated"),
    }
)
"""Messages about the interface or about work in progress, or that say again what an item says."""
SILENT_PREFIXES: Final = (
    *("account/", "app/", "fs/", "hook/", "mcpServer/", "model/", "project/", "rawResponse"),
    *("remoteControl/", "skills/", "thread/environment/", "thread/goal/", "thread/project/"),
    *("thread/queue/", "thread/section/", "thread/attachment/", "thread/prediction/"),
)

_Told: TypeAlias = Mapping[str, Any]
_Events: TypeAlias = tuple[AgentEvent, ...]
_Reader: TypeAlias = Callable[[_Told, UpstreamSessionId], _Events]


class Family:
    """A thread and all below it. `working` are the children that have not ended."""

    def __init__(self, session: UpstreamSessionId) -> None:
        self.working: set[UpstreamSessionId] = set()
        self._session = session
        self._parents: dict[UpstreamSessionId, UpstreamSessionId] = {}

    def has_child(self, session: UpstreamSessionId) -> bool:
        """Whether a thread is known to be below the prompt's own."""
        return session in self._parents

    def start(
        self,
        child: UpstreamSessionId,
        *,
        parent: UpstreamSessionId,
        role: str = "",
        call_id: str | None = None,
    ) -> tuple[ChildStarted, ...]:
        """Return the start of a child, nothing for one that has started already."""
        if child in self._parents or child == self._session:
            return ()
        self._parents[child] = parent
        self.working.add(child)
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=role or ROLE_UNKNOWN,
            call_id=call_id,
        )
        return (started,)

    def goes_on(self, child: UpstreamSessionId) -> None:
        """Note that a child has begun to work, perhaps again."""
        # It may be given more work once it has ended, and is waited for again.
        if child in self._parents:
            self.working.add(child)

    def end(self, child: UpstreamSessionId, status: str) -> tuple[ChildEnded, ...]:
        """Return the end of a child's work, nothing for one that was not at work."""
        if child not in self.working:
            return ()
        self.working.discard(child)
        ended = ChildEnded(
            upstream_session_id=self._parents[child],
            child_upstream_session_id=child,
            outcome=_ENDS.get(status, Outcome.UNKNOWN),
        )
        return (ended,)


class Turn:
    """Fed with the server's messages while one prompt runs.

    `running` are the turns at work by their thread, the prompt's own among them; `calls` the calls
    announced so far, by thread and id; `late` counts what was said too late for an earlier prompt.
    `retrying` is set while Codex waits out a failure that is one of the provider's limits. That the
    thread is called `title` is no news.
    """

    def __init__(self, session: UpstreamSessionId, *, title: str = "") -> None:
        self.session = session
        self._title = title
        self.turn_id = ""
        self.running: dict[UpstreamSessionId, str] = {}
        self.calls: dict[tuple[str, str], ToolCallAnnounced] = {}
        self.failure: PromptResult | None = None
        self.retrying: PromptResult | None = None
        self.given_up: PromptResult | None = None
        self.is_stopping = False
        self.late = 0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self._totals: dict[UpstreamSessionId, object] = {}
        self._family = Family(session)
        self._has_ended = False
        self._reset_at_ms: int | None = None
        self._spawning: dict[str, UpstreamSessionId] = {}
        self._characters: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether nothing of this prompt is still to come."""
        is_cut_short = self.is_stopping or self.failure is not None
        return self._has_ended and (is_cut_short or not self._family.working)

    def has(self, session: UpstreamSessionId) -> bool:
        """Whether a thread belongs to this prompt."""
        return session == self.session or self._family.has_child(session)

    def newcomers(self, method: str, told: _Told) -> tuple[UpstreamSessionId, ...]:
        """Return the threads that a message is the first to name: their roles are to be learnt."""
        named = children_named(as_object(told.get("item"))) if method == "item/completed" else ()
        speaking = UpstreamSessionId(text_at(told, "threadId"))
        if method in SPOKEN or method == "turn/started":
            named = (speaking, *named)
        return tuple(each for each in dict.fromkeys(named) if each and not self.has(each))

    def take(self, method: str, told: _Told, *, roles: Mapping[UpstreamSessionId, str]) -> _Events:
        """Return what one message says. `roles` has the role of each newcomer."""
        session = UpstreamSessionId(text_at(told, "threadId"))
        if not session:
            return self._of_the_server(method, told)
        started: _Events = ()
        if session in self.newcomers(method, told):
            started = self._unannounced(session, roles.get(session, ""))
        reader = self._readers.get(method)
        if reader is None:
            is_silent = method in SILENT or method.startswith(SILENT_PREFIXES)
            return () if is_silent else (unknown(method, dict(told), session),)
        if self._is_stale(told, session):
            self.late += method in SPOKEN
            return ()
        # Whatever else it says ends the silence in which a limit is waited out.
        if method != "error":
            self.retrying = None
        return (*started, *reader(told, session), *self._named(method, told, session, roles))

    def _of_the_server(self, method: str, told: _Told) -> _Events:
        if method == "account/rateLimits/updated":
            self._reset_at_ms = end_of_limit_ms(told.get("rateLimits"))
        is_silent = method in SILENT or method.startswith(SILENT_PREFIXES)
        return () if is_silent else (unknown(method, dict(told), None),)

    def _is_stale(self, told: _Told, session: UpstreamSessionId) -> bool:
        """Whether a message is about an earlier turn of the prompt's own thread."""
        about = text_at(told, "turnId") or text_at(told, "turn", "id")
        return bool(session == self.session and self.turn_id and about) and about != self.turn_id

    @property
    def _readers(self) -> Mapping[str, _Reader]:
        return {
            "turn/started": self._begun,
            "turn/completed": self._completed,
            # A child's: one that has ended says so before, with its turn.
            "thread/closed": lambda _told, session: self._family.end(session, "interrupted"),
            "error": self._error,
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "item/agentMessage/delta": self._delta("agentMessage"),
            "item/plan/delta": self._delta("plan"),
            "item/reasoning/summaryTextDelta": self._delta("reasoning"),
            "item/reasoning/summaryPartAdded": self._next_part,
            "turn/plan/updated": lambda told, session: (items.plan(told, session),),
            "thread/tokenUsage/updated": self._usage,
            "thread/name/updated": self._named_anew,
        }

    # --- turns ---------------------------------------------------------------------------------

    def _begun(self, told: _Told, session: UpstreamSessionId) -> _Events:
        self.running[session] = text_at(told, "turn", "id")
        if session == self.session:
            self.turn_id = self.running[session]
        self._family.goes_on(session)
        return ()

    def _completed(self, told: _Told, session: UpstreamSessionId) -> _Events:
        self.running.pop(session, None)
        status = text_at(told, "turn", "status")
        if session != self.session:
            return self._family.end(session, status)
        self._has_ended = True
        if status == "failed":
            error = member(told, "turn", "error")
            self.failure = failure_of_turn(error, reset_at_ms=self._reset_at_ms)
        elif status != "completed":
            # Interrupted, and perhaps not by us: nobody below it is waited for either.
            self.is_stopping = True
        return ()

    def _error(self, told: _Told, session: UpstreamSessionId) -> _Events:
        """A last error is told again with the turn's end; before that Codex tries again itself."""
        if told.get("willRetry") is not True:
            return ()
        failure = failure_of_turn(told.get("error"), reset_at_ms=self._reset_at_ms)
        if session == self.session:
            self.retrying = failure
        event = unknown(RETRY, dict(told), session)
        return (structs.replace(event, progress=failure.detail),)

    def _usage(self, told: _Told, session: UpstreamSessionId) -> _Events:
        """Return what a request took; told again without another one, it is no news."""
        last, total = (member(told, "tokenUsage", name) for name in ("last", "total"))
        if total is not None and self._totals.get(session) == total:
            return ()
        self._totals[session] = total
        if session == self.session and not self.turn_id:
            # Of its last turn: told on a resume, by a busy Codex only once a prompt was sent.
            return ()
        if session == self.session:
            # What its sub-agents took is reported under their own threads.
            self.tokens_in = _sum(self.tokens_in, member(last, "inputTokens"))
            self.tokens_out = _sum(self.tokens_out, member(last, "outputTokens"))
        event = items.usage(told, session)
        return (event,) if event else ()

    def _named_anew(self, told: _Told, session: UpstreamSessionId) -> _Events:
        title = text_at(told, "threadName")
        if title in {"", FIRST_NAME, self._title}:
            return ()
        return (TitleChanged(upstream_session_id=session, title=title),)

    # --- items ---------------------------------------------------------------------------------

    def _item_started(self, told: _Told, session: UpstreamSessionId) -> _Events:
        item = as_object(told.get("item"))
        if not items.is_call(item):
            return ()
        if item.get("type") == CALL and item.get("tool") == "spawnAgent":
            self._spawning[text_at(item, "id")] = session
        return self._announced(item, session)

    def _announced(self, item: _Told, session: UpstreamSessionId) -> _Events:
        key = (session, text_at(item, "id"))
        # Codex tells of a call when it starts and when it ends; it is announced once (A15).
        if key in self.calls:
            return ()
        self.calls[key] = announced = items.announced(item, session)
        return (announced,)

    def _item_completed(self, told: _Told, session: UpstreamSessionId) -> _Events:
        item = as_object(told.get("item"))
        kind = text_at(item, "type")
        if kind == "userMessage":
            # Its own thread's is our prompt, said again; a sub-agent's is what it was asked.
            return () if session == self.session else items.user_text(item, session)
        if items.is_call(item):
            return self._announced(item, session)  # its end comes after the children it names
        if kind == "contextCompaction":
            return items.compacted(item, session)
        whole = items.spoken(item)
        if whole or kind in {"agentMessage", "reasoning", "plan"}:
            return self._rest_of_text(item, session, whole)
        if kind in items.SILENT_ITEMS:
            return ()
        return (unknown(f"item/{kind}", dict(item), session),)

    def _named(
        self,
        method: str,
        told: _Told,
        session: UpstreamSessionId,
        roles: Mapping[UpstreamSessionId, str],
    ) -> _Events:
        """Return the starts of the children a completed call names, and then how it ended."""
        item = as_object(told.get("item"))
        if method != "item/completed":
            return ()
        call_id = text_at(item, "id")
        self._spawning.pop(call_id, None)
        started = tuple(
            event
            for child in children_named(item)
            for event in self._family.start(
                child, parent=session, role=roles.get(child, ""), call_id=call_id
            )
        )
        if not items.is_call(item):
            return started
        closed: _Events = ()
        if item.get("tool") == "closeAgent":
            closed = tuple(
                event
                for child in item.get("receiverThreadIds") or ()
                for event in self._family.end(child, "interrupted")
            )
        return (*started, items.updated(item, session), *closed)

    def _unannounced(self, child: UpstreamSessionId, role: str) -> _Events:
        """Return the start of a child that is heard before the call that spawns it has ended."""
        # With two open calls nothing tells which of them it came from.
        spawning = list(self._spawning.items())
        call_id, parent = spawning[0] if len(spawning) == 1 else (None, self.session)
        return self._family.start(child, parent=parent, role=role, call_id=call_id)

    # --- text ----------------------------------------------------------------------------------

    def _delta(self, kind: str) -> _Reader:
        def read(told: _Told, session: UpstreamSessionId) -> _Events:
            return self._piece(kind, told, session, text_at(told, "delta"))

        return read

    def _next_part(self, told: _Told, session: UpstreamSessionId) -> _Events:
        """The parts of a summary are apart in the whole; they are in the pieces, too."""
        gap = "\n\n" if told.get("summaryIndex") else ""
        return self._piece("reasoning", told, session, gap)

    def _piece(self, kind: str, told: _Told, session: UpstreamSessionId, text: str) -> _Events:
        item_id = text_at(told, "itemId")
        self._characters[item_id] = self._characters.get(item_id, 0) + len(text)
        return items.said({"type": kind, "id": item_id}, session, text)

    def _rest_of_text(self, item: _Told, session: UpstreamSessionId, whole: str) -> _Events:
        """Return what no delta has brought; a completed item has its text whole."""
        return items.said(item, session, whole[self._characters.pop(text_at(item, "id"), 0) :])


def _sum(total: int | None, more: object) -> int | None:
    return (total or 0) + more if isinstance(more, int) else total
