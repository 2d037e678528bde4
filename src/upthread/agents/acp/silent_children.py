"""What silent children said: some agents send nothing of a sub-agent and keep it in its session.

The session is loaded on the same connection once the prompt has ended, and what belongs to this
prompt is handed on as the child's own words. The session itself is not prompted and not changed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from upthread.agents.acp.children import Translator
from upthread.agents.base import OnEvent
from upthread.core.events import AgentEvent, ToolCallUpdated, UnknownReceived, UserTextReplayed
from upthread.core.turns.stream import CALL_ENDED
from upthread.core.types import UpstreamSessionId
from upthread.errors import UpstreamError

CHILDREN_READ_MAX: Final = 64
UNREAD: Final = "child_unread"
"""The kind of the note that stands for words that could not be read."""

Load = Callable[[UpstreamSessionId], Awaitable[tuple[AgentEvent, ...]]]


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
