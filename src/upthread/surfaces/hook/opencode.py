"""What the OpenCode plug-in asks: one object in, one out. The plug-in is `opencode.js`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from upthread.client.agent_calls import AgentCalls, SubAgentCall
from upthread.core.decision.words import NOT_RESUMED
from upthread.core.types import Outcome
from upthread.errors import UsageError
from upthread.runtime.turns.external_turn import CallEnded

AGENT: Final = "opencode"
REPLACED: Final = (
    "the session that was named is not the one OpenCode used: does another plug-in replace `args` "
    "of `task`?"
)

Step = Callable[[AgentCalls], Mapping[str, Any]]


class Request(Struct, frozen=True):
    """What the plug-in asks of one call, or of a main session.

    Its tool takes a session to go on in, unless the plug-in says that it does not.
    """

    event: str = ""
    session: str = ""
    call_id: str = ""
    role: str = ""
    prompt: str = ""
    pid: int = 0
    is_background: bool = False
    can_resume: bool = True
    unusable: dict[str, str] = field(default_factory=dict[str, str])
    named: str = ""
    only_own: bool = False
    child: str = ""
    outcome: str = ""
    reply: str = ""
    window: int = 0

    @property
    def call(self) -> SubAgentCall:
        """The call that the request is about."""
        return SubAgentCall(
            agent=AGENT,
            main_session=self.session,
            call_id=self.call_id,
            role=self.role.lower(),
            prompt=self.prompt,
            pid=self.pid or os.getppid(),
            takes_session=self.can_resume,
            unusable=self.unusable,
            named=self.named,
            only_own=self.only_own,
        )


def understand(request: Mapping[str, Any]) -> Step:
    """Return what a request has done in the record."""
    asked = msgspec.convert(request, Request, strict=False)
    match asked.event:
        case "before":
            return lambda calls: _before(calls, asked)
        case "named":  # the model has filled in `task_id` itself, as OpenCode's results offer it
            return lambda calls: _named(calls, asked)
        case "started":
            return lambda calls: _started(calls, asked)
        case "ended":
            return lambda calls: _ended(calls, asked)
        case "prompt":
            return lambda calls: _prompted(calls, asked)
        case "replaced":
            # The child has begun in another session by now: that can be told and not be mended.
            return lambda _: {"line": f"upthread: {NOT_RESUMED.format(why=REPLACED)}"}
        case _:
            raise UsageError("the plug-in is of another version", hint="upthread setup opencode")


def _before(calls: AgentCalls, asked: Request) -> Mapping[str, Any]:
    answer = calls.before(asked.call)
    told = {
        "line": answer.line,
        "prompt": answer.prompt,
        "task_id": answer.session,
        "is_traced": answer.is_role or bool(asked.named),
    }
    return {**told, "refused": answer.refusal} if answer.refusal else told


def _named(calls: AgentCalls, asked: Request) -> Mapping[str, Any]:
    return {"line": calls.named(asked.call, asked.child).line, "is_traced": True}


def _started(calls: AgentCalls, asked: Request) -> Mapping[str, Any]:
    calls.started(asked.call, asked.child, is_background=asked.is_background)
    return {}


def _ended(calls: AgentCalls, asked: Request) -> Mapping[str, Any]:
    outcome = Outcome(asked.outcome) if asked.outcome in set(Outcome) else Outcome.UNKNOWN
    is_ok = outcome is Outcome.OK
    told = CallEnded(
        session=asked.child,
        outcome=outcome,
        reply=asked.reply if is_ok else "",
        detail="" if is_ok else asked.reply,
        tokens_window=asked.window or None,
    )
    calls.ended(asked.call, told)
    return {}


def _prompted(calls: AgentCalls, asked: Request) -> Mapping[str, Any]:
    calls.taken_back(AGENT, asked.session, asked.call.pid)
    calls.hear_prompt(AGENT, asked.session, asked.prompt)
    return {}
