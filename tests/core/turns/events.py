"""Events of an agent's session, for tests that care about who said what."""

from upthread.core.events import (
    ChildStarted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.types import UpstreamSessionId

OWN, CHILD = UpstreamSessionId("ses_own"), UpstreamSessionId("ses_child")
CHILD_STARTED = ChildStarted(
    upstream_session_id=OWN, child_upstream_session_id=CHILD, role="explore"
)


def asked(text: str, message_id: str | None = None, *, of: UpstreamSessionId = OWN):
    return UserTextReplayed(upstream_session_id=of, text=text, message_id=message_id)


def said(text: str, message_id: str | None = None, *, of: UpstreamSessionId = OWN):
    return TextReceived(upstream_session_id=of, text=text, message_id=message_id)


def thought(text: str = "hm"):
    return ReasoningReceived(upstream_session_id=OWN, text=text)


def call(call_id: str = "c1", title: str = "git push", **more: object):
    return ToolCallAnnounced(upstream_session_id=OWN, call_id=call_id, title=title, **more)  # type: ignore[arg-type]


def result(call_id: str = "c1", status: str | None = "completed", **more: object):
    return ToolCallUpdated(upstream_session_id=OWN, call_id=call_id, status=status, **more)  # type: ignore[arg-type]


def held(tokens: int):
    return UsageReported(upstream_session_id=OWN, tokens_used=tokens)
