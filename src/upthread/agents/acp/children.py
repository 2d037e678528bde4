"""Which events belong to a sub-agent, and when it began and ended.

Four forms are known, and a form that is not known is left alone: ACP's own, `subagent_update` in
the parent's session, which announces the child's session and tells its state
(https://agentclientprotocol.com/announcements/subagents-stabilized, 2026-11); a session id
`PARENT:subagent:CHILD` (codex-acp 2.6.0, the rehearsal agent); a call of a delegating tool that
names the child's session (opencode 1.18.33 in its output, and it sends nothing else of a child;
the rehearsal agent in its arguments); and
`_meta.claudeCode.parentToolUseId` on what a child says under its parent's id (claude-agent-acp),
which is given an id of the second form here so that it never reaches the parent's history. A child
that was announced says it under its own id, with the same `_meta` (claude-agent-acp 0.100.0).
A hand-off, such as `current_mode_update`, has none of these forms: it is no delegation.

A child's id is read from a tool's output only where the call itself names a role: a file that is
read may hold the same words. It remembers the open calls of one connection, and nothing else.

Some agents send nothing of a sub-agent and keep it in its session. That is loaded on the same
connection once the prompt has ended, and what belongs to this prompt is handed on as the child's
own words. The session itself is not prompted and not changed.
"""

import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.acp.wire import ToolCall, events_of, result_text, shaped
from upthread.agents.base import OnEvent
from upthread.core.codec import AnyJson, session_at, text_at
from upthread.core.events import (
    CALL_ENDED,
    AgentEvent,
    ChildEnded,
    ChildStarted,
    Events,
    TitleChanged,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.names import ROLE_UNKNOWN
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

CALLS_REMEMBERED_MAX = 10_000
"""Far above what one turn may hold open (`core.quotas`): a delegation that is forgotten is a call
like any other, and its child is told as one that nobody called."""


_ROLE_ARGUMENTS = ("subagent_type", "agent_type", "role")
# The longest parent there is: a child's child has a child for its own.
_CHILD_ID = re.compile(r"(?s)(?P<parent>.+):subagent:[^:]+")
_TASK_TEXT = re.compile(
    r'<task id="(?P<id>ses_\w+)"(?:[^>]*state="(?P<state>\w+)")?|task_id: (?P<older>ses_\w+)'
)
CHILDREN_READ_MAX = 64
"""Each is a load of a whole session after the turn, while its caller waits; what is left unread is
noted, and stays in the agent's own store."""

UNREAD = "child_unread"
"""The kind of the note that stands for words that could not be read."""
Load = Callable[[UpstreamSessionId], Awaitable[Events]]


class _Notification(msgspec.Struct, rename="camel"):
    update: AnyJson
    session_id: UpstreamSessionId | None = None


class _WorkState(msgspec.Struct, rename="camel"):
    state: str
    stop_reason: str | None = None


class _Announcement(msgspec.Struct, rename="camel"):
    """`subagent_update`; None where nothing changed."""

    session_id: UpstreamSessionId
    title: str | None = None
    state: _WorkState | None = None


class _Between(msgspec.Struct, rename="camel"):
    """`session_message`: what one session said to another, told in the streams of both."""

    recipient_session_id: UpstreamSessionId
    content: list[AnyJson]
    message_id: str | None = None


_STOPPED = {"end_turn": Outcome.OK, "cancelled": Outcome.CANCELLED}


class _Delegation(Struct, kw_only=True):
    """An open call of a tool that delegates."""

    parent: UpstreamSessionId | None
    role: str
    child: UpstreamSessionId | None = None


class Translator:
    """Turns the `session/update` notifications of one connection into events, in order."""

    def __init__(self) -> None:
        self._delegations: dict[str, _Delegation] = {}
        self._children: dict[UpstreamSessionId, bool] = {}  # whether it runs
        self._said_to_children: dict[str, bool] = {}
        self._silent: dict[UpstreamSessionId, int] = {}

    def translate(self, params: object) -> Events:
        """Return the events of one notification; what cannot be read comes back as it came."""
        notification = shaped(params, _Notification)
        kind = notification.update.get("sessionUpdate") if notification else None
        if notification is None or not isinstance(kind, str):
            raw: Any = params
            return (UnknownReceived(upstream_session_id=None, kind="session/update", raw=raw),)
        session = notification.session_id
        if kind in {"subagent_update", "session_message"}:
            return self._told_of_child(kind, notification.update, session)
        started, session = self._child_speaking(notification.update, session)
        if session is not None:
            # Who speaks for itself is not read from its session.
            self._silent.pop(session, None)
        events = events_of(kind, notification.update, session=session)
        if kind in {"tool_call", "tool_call_update"}:
            events = self._with_child_of_call(events, notification.update, session)
        return (*started, *events)

    def take_silent(self) -> dict[UpstreamSessionId, int]:
        """Return the children whose calls ended without a word of theirs since, and forget them.

        The number is how often each was called.
        """
        silent, self._silent = self._silent, {}
        return silent

    def _child_speaking(
        self, update: AnyJson, session: UpstreamSessionId | None
    ) -> tuple[tuple[ChildStarted, ...], UpstreamSessionId | None]:
        """Return whose words these are, after the child's start when they are its first."""
        if session is None:
            return (), None
        call_id = text_at(update, "_meta", "claudeCode", "parentToolUseId")
        if call_id and session not in self._children:
            child = UpstreamSessionId(f"{session}:subagent:{call_id}")
            return self._start(child, parent=session, call_id=call_id), child
        found = _CHILD_ID.fullmatch(session)
        if found is None:
            return (), session
        parent = UpstreamSessionId(found["parent"])
        return self._start(session, parent=parent, call_id=self._only_open_call(parent)), session

    def _start(
        self, child: UpstreamSessionId, *, parent: UpstreamSessionId | None, call_id: str | None
    ) -> tuple[ChildStarted, ...]:
        if child in self._children or parent is None:
            return ()
        _remember(self._children, child, True)
        delegation = self._delegations.get(call_id or "")
        if delegation is not None:
            delegation.child = child
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=delegation.role if delegation else ROLE_UNKNOWN,
            call_id=call_id,
        )
        return (started,)

    # --- what is told of a child in so many words ----------------------------------------------

    def _told_of_child(
        self, kind: str, update: AnyJson, session: UpstreamSessionId | None
    ) -> Events:
        if kind == "session_message":
            between = shaped(update, _Between)
            if between is not None and between.recipient_session_id in self._children:
                return () if self._is_told_again(between) else (_said_to_child(between),)
        announced = shaped(update, _Announcement) if kind == "subagent_update" else None
        if announced is None or session is None:
            return events_of(kind, update, session=session)
        return tuple(self._announced(announced, session))

    def _is_told_again(self, between: _Between) -> bool:
        if between.message_id is None or between.message_id in self._said_to_children:
            return between.message_id is not None
        _remember(self._said_to_children, between.message_id, True)
        return False

    def _announced(
        self, announced: _Announcement, parent: UpstreamSessionId
    ) -> Iterator[AgentEvent]:
        """Yield its start, its title and its end; what has ended may begin again."""
        child = announced.session_id
        state = announced.state.state if announced.state else ""
        if state == "running":
            self._let_begin_again(child)
        yield from self._start(child, parent=parent, call_id=self._only_open_call(parent))
        if announced.title:
            yield TitleChanged(upstream_session_id=child, title=announced.title)
        if announced.state is not None and state == "idle":
            stopped = announced.state.stop_reason or ""
            yield from self._end(child, parent, _STOPPED.get(stopped, Outcome.UNKNOWN))

    def _let_begin_again(self, child: UpstreamSessionId | None) -> None:
        """Forget a child that has ended: it is called once more, or runs once more."""
        if child is not None and self._children.get(child) is False:
            del self._children[child]

    def _end(
        self, child: UpstreamSessionId, parent: UpstreamSessionId | None, outcome: Outcome
    ) -> tuple[ChildEnded, ...]:
        """Return the end of a child, once: its call may say so, and an announcement too."""
        if not self._children.get(child, True):
            return ()
        self._children[child] = False
        ended = ChildEnded(
            upstream_session_id=parent, child_upstream_session_id=child, outcome=outcome
        )
        return (ended,)

    # --- calls ---------------------------------------------------------------------------------

    def _only_open_call(self, parent: UpstreamSessionId) -> str | None:
        """Return the call a child came from, None when two could be."""
        waiting = [
            call_id
            for call_id, delegation in self._delegations.items()
            if delegation.parent == parent and delegation.child is None
        ]
        return waiting[0] if len(waiting) == 1 else None

    def _with_child_of_call(
        self, events: Events, update: AnyJson, session: UpstreamSessionId | None
    ) -> Events:
        call = shaped(update, ToolCall)
        if call is None:
            return events
        call_id, role = call.tool_call_id, _role_of(call.raw_input)
        if role is not None and call_id not in self._delegations:
            _remember(self._delegations, call_id, _Delegation(parent=session, role=role))
        delegation = self._delegations.get(call_id)
        if delegation is None:
            return events
        child, is_running = _child_named(call)
        # Not for a child that this very call has named already: it goes on with it.
        if delegation.child is None:
            self._let_begin_again(child)
        started = self._start(child, parent=session, call_id=call_id) if child else ()
        if call.status not in {"completed", "failed"}:
            return (*events, *started)
        del self._delegations[call_id]
        stamped = tuple(
            replace(event, child_upstream_session_id=delegation.child)
            if isinstance(event, ToolCallUpdated)
            else event
            for event in events
        )
        if delegation.child is None or is_running:
            return (*started, *stamped)
        self._silent[delegation.child] = self._silent.get(delegation.child, 0) + 1
        outcome = Outcome.OK if call.status == "completed" else Outcome.UNKNOWN
        return (*started, *stamped, *self._end(delegation.child, session, outcome))


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) >= CALLS_REMEMBERED_MAX:
        del memory[next(iter(memory))]
    memory[key] = value


def _role_of(arguments: object) -> str | None:
    return next(filter(None, (text_at(arguments, name) for name in _ROLE_ARGUMENTS)), None)


def _child_named(call: ToolCall) -> tuple[UpstreamSessionId | None, bool]:
    """Return the child session a call's output names and whether it goes on in the background."""
    found = _TASK_TEXT.search(result_text(call) or "")
    named = (
        session_at(call.raw_output, "metadata", "sessionId")
        or session_at(call.raw_output, "childSessionId")
        or session_at(call.raw_input, "childSessionId")
    )
    if found is None:
        return named or None, False
    told = UpstreamSessionId(found["id"] or found["older"])
    return named or told, found["state"] == "running"


def _said_to_child(between: _Between) -> UserTextReplayed:
    """Return what a child was told, as its user's words."""
    return UserTextReplayed(
        upstream_session_id=between.recipient_session_id,
        text="".join(text_at(block, "text") for block in between.content),
    )


async def read_silent_children(translator: Translator, load: Load, on_event: OnEvent) -> None:
    """Load each child that a call of this prompt made, and those that they made."""
    waiting = deque(translator.take_silent().items())
    read = 0
    while waiting:
        child, calls = waiting.popleft()
        if read == CHILDREN_READ_MAX:
            await on_event(_unread(child, f"more than {CHILDREN_READ_MAX} children"))
            continue
        read += 1
        try:
            replayed = await load(child)
        except UpstreamError as error:
            await on_event(_unread(child, str(error)))
            continue
        kept = of_newest_calls(replayed, child, calls)
        for event in kept:
            await on_event(event)
        waiting.extend(children_called(kept).items())


def children_called(events: Iterable[AgentEvent]) -> Mapping[UpstreamSessionId, int]:
    """Return the children whose calls ended in these events, with how often each was called."""
    return Counter(
        event.child_upstream_session_id
        for event in events
        if isinstance(event, ToolCallUpdated)
        and event.child_upstream_session_id is not None
        and event.status in CALL_ENDED
    )


def of_newest_calls(
    replayed: Sequence[AgentEvent], child: UpstreamSessionId, calls: int
) -> Sequence[AgentEvent]:
    """Return what a child's history holds of its newest calls; each call began with a prompt."""
    prompts = [
        index
        for index, event in enumerate(replayed)
        if isinstance(event, UserTextReplayed)
        and event.upstream_session_id == child
        and not _goes_on(replayed[index - 1] if index else None, event)
    ]
    return replayed[prompts[-calls] :] if len(prompts) > calls else replayed


def _goes_on(before: AgentEvent | None, event: UserTextReplayed) -> bool:
    """Whether a piece of a prompt follows an earlier piece of the same one."""
    return (
        isinstance(before, UserTextReplayed)
        and before.upstream_session_id == event.upstream_session_id
        and before.message_id == event.message_id
    )


def _unread(child: UpstreamSessionId, why: str) -> UnknownReceived:
    return UnknownReceived(upstream_session_id=child, kind=UNREAD, raw=why)
