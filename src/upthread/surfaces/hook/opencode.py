"""What the OpenCode plug-in asks: one object in, one out. The plug-in is `opencode.js`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.boundary.programs import living_parent
from upthread.client.agent_calls import AgentCalls, SubAgentCall
from upthread.core.decision.words import NOT_RESUMED
from upthread.core.types import Outcome
from upthread.errors import UsageError
from upthread.runtime.turns.external_turn import ended_with

AGENT = "opencode"
REPLACED = NOT_RESUMED.format(
    why="the session that was named is not the one OpenCode used: does another plug-in replace"
    " `args` of `task`?"
)


Told: TypeAlias = Mapping[str, Any]
"""An object that the plug-in hands over, or is answered."""


class Request(Struct, frozen=True):
    """What the plug-in asks of one call, or of a main session."""

    event: str = ""
    session: str = ""
    call_id: str = ""
    role: str = ""
    prompt: str = ""
    pid: int = 0
    is_background: bool = False
    unusable: dict[str, str] = {}
    named: str = ""
    only_own: bool = False
    child: str = ""
    outcome: str = ""
    reply: str = ""
    window: int = 0
    tool: str = ""
    arguments: dict[str, Any] = {}

    @property
    def call(self) -> SubAgentCall:
        """The call that the request is about."""
        return SubAgentCall(
            agent=AGENT,
            main_session=self.session,
            call_id=self.call_id,
            role=self.role.lower(),
            prompt=self.prompt,
            pid=self.pid or living_parent(),
            takes_session=True,
            unusable=self.unusable,
            named=self.named,
            only_own=self.only_own,
        )


EVENTS = frozenset({"before", "named", "started", "ended", "prompt", "guard", "replaced"})


def understand(request: Told) -> Callable[[AgentCalls], Told]:
    """Return what a request has done in the record."""
    asked = msgspec.convert(request, Request, strict=False)
    if asked.event not in EVENTS:
        raise UsageError("the plug-in is of another version", hint="upthread setup opencode")
    return partial(_step, asked=asked)


def _step(calls: AgentCalls, asked: Request) -> Told:
    told: Told = {}
    match asked.event:
        case "before":
            answer = calls.before(asked.call)
            told = {
                "line": answer.line,
                "prompt": answer.prompt,
                "task_id": answer.session,
                "is_traced": answer.is_role or bool(asked.named),
            }
            told = {**told, "refused": answer.refusal} if answer.refusal else told
        case "named":  # the model has filled in `task_id` itself, as OpenCode's results offer it
            told = {"line": calls.named(asked.call, asked.child).line, "is_traced": True}
        case "started":
            calls.started(asked.call, asked.child, is_background=asked.is_background)
        case "ended":
            outcome = Outcome(asked.outcome) if asked.outcome in set(Outcome) else Outcome.UNKNOWN
            # What OpenCode writes of a task that was cancelled is not the sub-agent's.
            said = "" if outcome is Outcome.CANCELLED else asked.reply
            ended = ended_with(asked.child, outcome, said)
            calls.ended(asked.call, replace(ended, tokens_window=asked.window or None))
        case "prompt":
            calls.taken_back(asked.session, asked.call.pid)
            calls.hear_prompt(AGENT, asked.session, asked.prompt)
        case "guard":
            told = _guarded(calls, asked)
        case _:  # "replaced": the child has begun in another session by now, so nothing mends it
            told = {"line": f"upthread: {REPLACED}"}
    return told


def _guarded(calls: AgentCalls, asked: Request) -> Told:
    """Hold a call that may do again what may have been done, until a person has settled it."""
    # Late: it loads the adapter with its HTTP client, and only a call in doubt comes here.
    from upthread.agents.opencode.server import call_request

    told = {"session": asked.session, "call": asked.call_id}
    request = call_request({**told, "tool": asked.tool, "arguments": asked.arguments})
    held = calls.held(AGENT, asked.session, request)
    return {"held": f"upthread: {held}", "line": f"upthread: {held}"} if held else {}
