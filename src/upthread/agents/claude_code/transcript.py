"""Reading a session back from its transcript, as events in order.

The children's own words are left to their transcripts; here a child is named where it began. What
Claude Code itself wrote between the messages, such as the note of a cancelled turn, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from upthread.agents._exits import did_run, exit_code_in
from upthread.agents.claude_code.children import child_session, role_of
from upthread.agents.claude_code.histories import Entry, read_branch, subagents_by_call
from upthread.agents.claude_code.outcomes import read_of, tokens_of
from upthread.agents.claude_code.tools import kind_of, locations_of, title_of
from upthread.core.events import (
    AgentEvent,
    ChildStarted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.turns.stream import CALL_FAILED
from upthread.core.types import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UpstreamSessionId,
)


def read_history(
    path: Path, session: UpstreamSessionId, *, with_usage: bool = False
) -> tuple[AgentEvent, ...]:
    """Return what a transcript holds of its session. StoreError when it cannot be opened.

    `with_usage` adds what the session held after each of the model's messages.
    """
    children = {
        call_id: child_session(session, agent_id)
        for call_id, agent_id in subagents_by_call(path).items()
    }
    events: list[AgentEvent] = []
    for entry in read_branch(path):
        for part in entry.parts:
            events += _events(entry, part, session, children)
        if with_usage and (held := tokens_of(entry.usage)):
            read = read_of(entry.usage)
            events.append(
                UsageReported(upstream_session_id=session, tokens_used=held, tokens_read=read)
            )
    return tuple(events)


def _events(
    entry: Entry,
    part: Part,
    session: UpstreamSessionId,
    children: Mapping[str, UpstreamSessionId],
) -> Iterator[AgentEvent]:
    match part:
        case ToolResultPart(call_id=call_id, status=status, text=text):
            yield ToolCallUpdated(
                upstream_session_id=session,
                call_id=call_id,
                status=status,
                text=text,
                did_run=status == CALL_FAILED and did_run(exit_code_in(text)),
                child_upstream_session_id=children.get(call_id),
            )
        # Only after results, which count whoever wrote the entry: they close a call.
        case _ if entry.is_synthetic:
            return
        case TextPart(text=text) if entry.kind == "user":
            yield UserTextReplayed(upstream_session_id=session, text=text, message_id=entry.uuid)
        case TextPart(text=text):
            yield TextReceived(upstream_session_id=session, text=text, message_id=entry.message_id)
        case ReasoningPart(text=text):
            yield ReasoningReceived(upstream_session_id=session, text=text)
        case ToolCallPart():
            yield from _call(part, session, children.get(part.call_id))
        case _:
            return


def _call(
    part: ToolCallPart, session: UpstreamSessionId, child: UpstreamSessionId | None
) -> Iterator[AgentEvent]:
    yield ToolCallAnnounced(
        upstream_session_id=session,
        call_id=part.call_id,
        title=title_of(part.title, part.arguments),
        tool_kind=kind_of(part.title),
        arguments=part.arguments,
        locations=locations_of(part.arguments),
    )
    if child is not None:
        yield ChildStarted(
            upstream_session_id=session,
            child_upstream_session_id=child,
            role=role_of(part.arguments),
            call_id=part.call_id,
        )
