"""What an agent shows of a sub-agent: looked at from outside, by the events of one prompt."""

from collections.abc import Sequence

from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    TextReceived,
    TitleChanged,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.types import UpstreamSessionId

CHILD_SAYS = "the sub-agent has looked"


def shown_of_sub_agent(events: Sequence[AgentEvent], session: UpstreamSessionId) -> str:
    """Return in words what was shown of the one sub-agent of a prompt in `session`.

    AssertionError: its words came under its parent's session.
    """
    own = [e.text for e in events if isinstance(e, TextReceived) and _is_of(e, session)]
    assert CHILD_SAYS not in "".join(own), "a sub-agent's words were its parent's"
    started = next((e for e in events if isinstance(e, ChildStarted)), None)
    if started is None:
        return "nothing"
    child = started.child_upstream_session_id
    its = [event for event in events if event.upstream_session_id == child]
    pieces = {
        "the prompt": _has(its, UserTextReplayed),
        "calls": _has(its, ToolCallUpdated),
        "words": CHILD_SAYS in "".join(e.text for e in its if isinstance(e, TextReceived)),
        "tokens": _has(its, UsageReported),
        "title": _has(its, TitleChanged),
    }
    shown = ", ".join(what for what, is_shown in pieces.items() if is_shown) or "nothing"
    return f"known {_when_known(events, started)}; {shown}; its end is {_end(events)}"


def _when_known(events: Sequence[AgentEvent], started: ChildStarted) -> str:
    """Before its call has its result: so that a kill in between leaves its session known."""
    ends = [
        index
        for index, event in enumerate(events)
        if isinstance(event, ToolCallUpdated)
        and event.call_id == started.call_id
        and event.status in {"completed", "failed"}
    ]
    at = events.index(started)
    # The start that a result tells of stands directly before it.
    return "with its result" if ends and ends[0] - at <= 1 else "while it works"


def _end(events: Sequence[AgentEvent]) -> str:
    ended = next((e for e in events if isinstance(e, ChildEnded)), None)
    return str(ended.outcome) if ended else "not told"


def _has(events: Sequence[AgentEvent], kind: type[AgentEvent]) -> bool:
    return any(isinstance(event, kind) for event in events)


def _is_of(event: AgentEvent, session: UpstreamSessionId) -> bool:
    return event.upstream_session_id == session
