"""One `codex app-server`: what is asked of it, and one prompt as it tells of it.

What belongs to a prompt is what its own thread says in the turn that was started for it, and what
the threads below it say; the server tells of every thread it has loaded. The prompt is over when
that turn has ended and nobody below is still at work: a sub-agent of Codex's goes on by itself, and
would be cut off with the server. After a failure or an interrupt nobody is waited for. A sub-agent
is a thread of its own, named by the call that spawned it or gave it more work. It is told as
started before anything it says.

What we ask is answered under the number we gave it. What the server tells and asks goes into a
queue, in order, and whoever takes it may ask in between. The queue is short: a reader that is slow
fills it, then the pipe, and so stops the agent. Every way a request can fail is an UpstreamError.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from upthread.agents._children import Children
from upthread.agents._connection import JsonLines, ServerPrompt
from upthread.agents._json_lines import of_session, tries_again, unknown
from upthread.agents._outcomes import DETAIL_CHARACTERS_MAX, words_of_error
from upthread.agents._process import ChildProcess
from upthread.agents.base import PromptResult
from upthread.agents.codex import items
from upthread.agents.codex.items import (
    CALL,
    children_named,
    end_of_limit_ms,
    failure_of_turn,
    outcome_of_refusal,
)
from upthread.core.codec import AnyJson, member, number_at, object_at, session_at, text_at
from upthread.core.events import Events, TitleChanged, ToolCallAnnounced
from upthread.core.types import Outcome, UpstreamSessionId

_ENDS = {
    "completed": Outcome.OK,
    "interrupted": Outcome.CANCELLED,
}

FIRST_NAME = "upthread"
"""The name of a new thread that was given none: Codex writes one down with its first turn or its
name, and one that is not written down cannot be resumed."""

SPOKEN = frozenset({"item/started", "item/completed", "item/agentMessage/delta"})
"""Messages that carry what somebody said or did."""

SILENT = frozenset(
    """
    warning guardianWarning configWarning deprecationNotice thread/started thread/status/changed
    thread/compacted thread/settings/updated thread/readState/changed turn/diff/updated
    serverRequest/resolved item/mcpToolCall/progress item/reasoning/textDelta
    item/commandExecution/outputDelta item/commandExecution/terminalInteraction
    item/fileChange/outputDelta item/fileChange/patchUpdated
    """.split()
)
"""Messages about the interface or about work in progress, or that say again what an item says."""
SILENT_PREFIXES = (
    *("account/", "app/", "fs/", "hook/", "mcpServer/", "model/", "project/", "rawResponse"),
    *("remoteControl/", "skills/", "thread/environment/", "thread/goal/", "thread/project/"),
    *("thread/queue/", "thread/section/", "thread/attachment/", "thread/prediction/"),
)

_Reader: TypeAlias = Callable[[AnyJson, UpstreamSessionId], Events]


class Turn:
    """Fed with the server's messages while one prompt runs.

    `running` are the turns at work by their thread, the prompt's own among them; `calls` the calls
    announced so far, by thread and id; `late` counts what was said too late for an earlier prompt.
    `retrying` is set while Codex waits out a failure, such as a provider's limit. That the
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
        self._children = Children(session)
        self._has_ended = False
        self._reset_at_ms: int | None = None
        self._spawning: dict[str, UpstreamSessionId] = {}
        self._characters: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether nothing of this prompt is still to come."""
        is_cut_short = self.is_stopping or self.failure is not None
        return self._has_ended and (is_cut_short or not self._children.working)

    def newcomers(self, method: str, told: AnyJson) -> tuple[UpstreamSessionId, ...]:
        """Return the threads that a message is the first to name: their roles are to be learnt."""
        named = children_named(object_at(told, "item")) if method == "item/completed" else ()
        speaking = session_at(told, "threadId")
        if method in SPOKEN or method == "turn/started":
            named = (speaking, *named)
        return tuple(each for each in dict.fromkeys(named) if each and not self._children.has(each))

    def take(self, method: str, told: AnyJson, *, roles: Mapping[UpstreamSessionId, str]) -> Events:
        """Return what one message says. `roles` has the role of each newcomer."""
        session = session_at(told, "threadId")
        if not session:
            return self._of_the_server(method, told)
        started: Events = ()
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
        said = (*reader(told, session), *self._named(method, told, session, roles))
        return of_session(session, (*started, *said))

    def _of_the_server(self, method: str, told: AnyJson) -> Events:
        if method == "account/rateLimits/updated":
            self._reset_at_ms = end_of_limit_ms(told.get("rateLimits"))
        is_silent = method in SILENT or method.startswith(SILENT_PREFIXES)
        return () if is_silent else (unknown(method, dict(told), None),)

    def _is_stale(self, told: AnyJson, session: UpstreamSessionId) -> bool:
        """Whether a message is about an earlier turn of the prompt's own thread."""
        about = text_at(told, "turnId") or text_at(told, "turn", "id")
        return bool(session == self.session and self.turn_id and about) and about != self.turn_id

    @property
    def _readers(self) -> Mapping[str, _Reader]:
        return {
            "turn/started": self._begun,
            "turn/completed": self._completed,
            # A child's: one that has ended says so before, with its turn.
            "thread/closed": lambda _told, session: self._children.end(session, Outcome.CANCELLED),
            "error": self._error,
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "item/agentMessage/delta": self._delta("agentMessage"),
            "item/plan/delta": self._delta("plan"),
            "item/reasoning/summaryTextDelta": self._delta("reasoning"),
            "item/reasoning/summaryPartAdded": self._next_part,
            "turn/plan/updated": lambda told, _session: (items.plan(told),),
            "thread/tokenUsage/updated": self._usage,
            "thread/name/updated": self._named_anew,
        }

    # --- turns ---------------------------------------------------------------------------------

    def _begun(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        self.running[session] = text_at(told, "turn", "id")
        if session == self.session:
            self.turn_id = self.running[session]
        self._children.goes_on(session)
        return ()

    def _completed(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        self.running.pop(session, None)
        status = text_at(told, "turn", "status")
        if session != self.session:
            return self._children.end(session, _ENDS.get(status, Outcome.UNKNOWN))
        self._has_ended = True
        if status == "failed":
            error = member(told, "turn", "error")
            self.failure = failure_of_turn(error, reset_at_ms=self._reset_at_ms)
        elif status != "completed":
            # Interrupted, and perhaps not by us: nobody below it is waited for either.
            self.is_stopping = True
        return ()

    def _error(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        """A last error is told again with the turn's end; before that Codex tries again itself."""
        if told.get("willRetry") is not True:
            return ()
        failure = failure_of_turn(told.get("error"), reset_at_ms=self._reset_at_ms)
        # A network that is gone is one wait, however often Codex reports it.
        is_same_wait = (
            self.retrying and failure.outcome is Outcome.TRANSIENT is self.retrying.outcome
        )
        if session == self.session and not is_same_wait:
            self.retrying = failure
        return (tries_again(told, failure.detail),)

    def _usage(self, told: AnyJson, session: UpstreamSessionId) -> Events:
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
            self.tokens_in = _sum(self.tokens_in, number_at(last, "inputTokens"))
            self.tokens_out = _sum(self.tokens_out, number_at(last, "outputTokens"))
        event = items.usage(told)
        return (event,) if event else ()

    def _named_anew(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        title = text_at(told, "threadName")
        if title in {"", FIRST_NAME, self._title}:
            return ()
        return (TitleChanged(title=title),)

    # --- items ---------------------------------------------------------------------------------

    def _item_started(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        item = object_at(told, "item")
        if not items.is_call(item):
            return ()
        if item.get("type") == CALL and item.get("tool") == "spawnAgent":
            self._spawning[text_at(item, "id")] = session
        return self._announced(item, session)

    def _announced(self, item: AnyJson, session: UpstreamSessionId) -> Events:
        key = (session, text_at(item, "id"))
        # Codex tells of a call when it starts and when it ends; it is announced once (A15).
        if key in self.calls:
            return ()
        self.calls[key] = announced = items.announced(item)
        return (announced,)

    def _item_completed(self, told: AnyJson, session: UpstreamSessionId) -> Events:
        item = object_at(told, "item")
        kind = text_at(item, "type")
        if kind == "userMessage":
            # Its own thread's is our prompt, said again; a sub-agent's is what it was asked.
            return () if session == self.session else items.user_text(item)
        if items.is_call(item):
            return self._announced(item, session)  # its end comes after the children it names
        if kind == "contextCompaction":
            return items.compacted(item)
        whole = items.spoken(item)
        if whole or kind in {"agentMessage", "reasoning", "plan"}:
            return self._rest_of_text(item, whole)
        if kind in items.SILENT_ITEMS:
            return ()
        return (unknown(f"item/{kind}", dict(item)),)

    def _named(
        self,
        method: str,
        told: AnyJson,
        session: UpstreamSessionId,
        roles: Mapping[UpstreamSessionId, str],
    ) -> Events:
        """Return the starts of the children a completed call names, and then how it ended."""
        item = object_at(told, "item")
        if method != "item/completed":
            return ()
        call_id = text_at(item, "id")
        self._spawning.pop(call_id, None)
        started = tuple(
            event
            for child in children_named(item)
            for event in self._children.start(
                child, parent=session, role=roles.get(child, ""), call_id=call_id
            )
        )
        if not items.is_call(item):
            return started
        closed: Events = ()
        if item.get("tool") == "closeAgent":
            closed = tuple(
                event
                for child in item.get("receiverThreadIds") or ()
                for event in self._children.end(child, Outcome.CANCELLED)
            )
        return (*started, items.updated(item), *closed)

    def _unannounced(self, child: UpstreamSessionId, role: str) -> Events:
        """Return the start of a child that is heard before the call that spawns it has ended."""
        # With two open calls nothing tells which of them it came from.
        spawning = list(self._spawning.items())
        call_id, parent = spawning[0] if len(spawning) == 1 else (None, self.session)
        return self._children.start(child, parent=parent, role=role, call_id=call_id)

    # --- text ----------------------------------------------------------------------------------

    def _delta(self, kind: str) -> _Reader:
        return lambda told, _session: self._piece(kind, told, text_at(told, "delta"))

    def _next_part(self, told: AnyJson, _session: UpstreamSessionId) -> Events:
        """The parts of a summary are apart in the whole; they are in the pieces, too."""
        gap = "\n\n" if told.get("summaryIndex") else ""
        return self._piece("reasoning", told, gap)

    def _piece(self, kind: str, told: AnyJson, text: str) -> Events:
        item_id = text_at(told, "itemId")
        self._characters[item_id] = self._characters.get(item_id, 0) + len(text)
        return items.said({"type": kind, "id": item_id}, text)

    def _rest_of_text(self, item: AnyJson, whole: str) -> Events:
        """Return what no delta has brought; a completed item has its text whole."""
        return items.said(item, whole[self._characters.pop(text_at(item, "id"), 0) :])


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


# --- the server ---------------------------------------------------------------------------------


QUEUED_MAX = 64
"""Events that wait for whoever takes them. Then reading stops, the pipe fills, and Codex waits: a
slow reader holds its agent up, and neither memory nor an event is lost."""

BUSY_HINT = (
    "leave it where it is open; Codex's own command leaves a server behind that keeps it: "
    "codex app-server daemon stop"
)
"""Seen in 0.169.0; `codex resume --no-daemon` leaves none."""

CODE_METHOD_NOT_FOUND = -32601


class CodexServer(JsonLines):
    """A running server. `told` is what it says by itself, and ends with its output."""

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self.told: MemoryObjectReceiveStream[Any]
        self._queue, self.told = anyio.create_memory_object_stream[Any](QUEUED_MAX)

    async def read_all(self) -> None:
        """As every agent's; its end tells whoever takes what is told that nothing more comes."""
        with self._queue:
            await super().read_all()

    async def _take(self, message: object) -> None:
        answer = object_at(message)
        number = answer.get("id")
        if "method" in answer and "id" in answer:
            self.child.allowance.take_request()
        if "method" in answer or not isinstance(number, int):
            await self._queue.send(message)
        else:  # of a question that was waited for too long, it is nobody's
            self._questions.answer(number, answer)

    async def ask(
        self,
        method: str,
        params: AnyJson,
        *,
        session: UpstreamSessionId | None = None,
    ) -> AnyJson:
        """Ask, within the start-up deadline, and return the result."""
        answer = await self._answer_to(
            method,
            lambda number: self.send({"id": number, "method": method, "params": params}),
            session=session or "",
        )
        if "error" in answer:
            error = object_at(answer, "error")
            said = words_of_error(text_at(error, "message"), error.get("data"))
            outcome = outcome_of_refusal(said)
            hint = BUSY_HINT if outcome is Outcome.BUSY else ""
            said = said[:DETAIL_CHARACTERS_MAX]
            raise self.refused(method, said, outcome=outcome, session=session or "", hint=hint)
        return object_at(answer, "result")

    async def answer(self, request_id: object, result: AnyJson) -> None:
        """Answer what the server asked."""
        await self.send({"id": request_id, "result": result})

    async def refuse(self, request_id: object, why: str) -> None:
        """Say that what the server asked cannot be answered."""
        error = {"code": CODE_METHOD_NOT_FOUND, "message": why}
        await self.send({"id": request_id, "error": error})


Prompt: TypeAlias = ServerPrompt[Turn]
