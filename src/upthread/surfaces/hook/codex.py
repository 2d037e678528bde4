"""What Codex's hooks ask: its own event in, one step of a turn, its own answer out.

`spawn_agent` takes no session to go on in, and returns while the sub-agent works. A sub-agent that
was there before is opened by `resume_agent`, in any main session, and then written to. So a main
session is told whom it can continue; one that spawns anew all the same has the briefing put before
its message. The turn ends where the sub-agent stops. Fields and answers as seen in 0.171.0:
https://developers.openai.com/codex/hooks
"""

import json
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.boundary.programs import living_parent
from upthread.client.agent_calls import AgentCalls, SubAgentCall
from upthread.core.codec import text_at
from upthread.core.types import Outcome
from upthread.runtime.turns.external_turn import CallEnded
from upthread.surfaces.hook import main_session
from upthread.surfaces.hook.main_session import Told

AGENT = "codex"
SPAWNING = "spawn_agent"
OPENING = "resume_agent"
WRITING = "send_input"
NAMESPACE = "multi_agent"
"""How the names of Codex's own tools for sub-agents may begin; `_v1` and the tool's name follow."""

SOME_AGENT = "default"
"""The type of a sub-agent that was asked for without one."""

_OPENING = (OPENING + " with id {!r}, then " + WRITING + " to it").format
CONTINUING = main_session.Continuing(agent=AGENT, how=_OPENING, only_own=False)


class Given(Struct, frozen=True):
    """What the model gave to the tool."""

    agent_type: str = ""
    message: str = ""
    target: str = ""
    id: str = ""


class Event(main_session.Event, frozen=True):
    """One event of a session of Codex."""

    @property
    def tool(self) -> str:
        """The tool's own name; `a__spawn_agent` of a server of the user's is not Codex's."""
        for known in (SPAWNING, WRITING):
            # Codex's own begin so; a tool of a person's server has that server's name.
            is_own = self.tool_name.startswith(NAMESPACE) and self.tool_name.endswith(known)
            if self.tool_name == known or is_own:
                return known
        return self.tool_name

    @property
    def given(self) -> Given:
        """What the model gave to the tool."""
        return msgspec.convert(self.tool_input, Given)


def understand(request: Told) -> main_session.Step | None:
    """Return what an event has done in the record, None for an event that is none of ours."""
    event = msgspec.convert(request, Event)
    session = event.session_id
    step: main_session.Step | None = None
    match (event.hook_event_name, event.tool):
        case ("SessionStart", _) if not event.agent_id:
            step = partial(main_session.session_started, session=session, continuing=CONTINUING)
        # A sub-agent's prompt fires this too. As a person's it would free its main session's calls.
        case ("UserPromptSubmit", _) if not event.agent_id:
            prompted = partial(main_session.prompted, prompt=event.prompt)
            step = partial(prompted, session=session, continuing=CONTINUING)
        case ("SessionEnd", _) if not event.agent_id:
            step = partial(main_session.session_ended, session=session)
        case ("SubagentStop", _):
            step = partial(_stopped, event=event)
        case ("PreToolUse", "spawn_agent"):
            delegating = partial(main_session.delegating, field="message", decision="allow")
            step = partial(delegating, call=_call(event), given=event.tool_input)
        case ("PreToolUse", "send_input"):
            child = event.given.target or event.given.id
            step = partial(main_session.writing, call=_call(event), session=child)
        case ("PostToolUse", "spawn_agent"):
            step = partial(_spawned, event=event)
        case ("PreToolUse", _):
            step = partial(_guarded, event=event)
        case _:
            pass
    return step


def _call(event: Event) -> SubAgentCall:
    unnamed = SOME_AGENT if event.tool == SPAWNING else ""  # a message keeps the role it finds
    return SubAgentCall(
        agent=AGENT,
        main_session=event.session_id,
        call_id=event.tool_use_id,
        # What Codex calls it when it stops: by another name it would not be known again.
        role=(event.given.agent_type or unnamed).lower(),
        prompt=event.given.message,
        pid=living_parent(),
        reach=_OPENING,
        by_sub_agent=bool(event.agent_id),
    )


def _spawned(calls: AgentCalls, event: Event) -> Told:
    child = _child_in(event.tool_response)
    if child:
        # The call is over at once, the sub-agent's work is not.
        calls.started(_call(event), child, is_background=True)
        return {}
    # It was refused: nobody will be seen to stop.
    detail = event.tool_response if isinstance(event.tool_response, str) else ""
    calls.ended(_call(event), CallEnded(outcome=Outcome.UNKNOWN, detail=detail))
    return {}


def _guarded(calls: AgentCalls, event: Event) -> Told:
    """Hold a call that may do again what may have been done, until a person has settled it."""
    told = {
        "session": event.agent_id or event.session_id,
        "call": event.tool_use_id,
        "tool": event.tool_name,
        "arguments": event.tool_input,
    }
    from upthread.agents.codex.adapter import call_request  # other events need none

    return main_session.guarded(calls, AGENT, event.session_id, call_request(told), "deny")


def _child_in(response: object) -> str:
    """Return the sub-agent that a tool has begun; Codex hands over the text the model gets."""
    try:
        found: object = json.loads(response) if isinstance(response, str) else response
    except ValueError:
        return ""
    return text_at(found, "agent_id")


def _stopped(calls: AgentCalls, event: Event) -> Told:
    """Keep how a sub-agent's work went: that it stops is its call's end.

    Codex's own work, such as a review, belongs to no call.
    """
    known = calls.open_call(AGENT, event.session_id, event.agent_id, event.agent_type.lower())
    if known is not None:
        call = replace(_call(event), call_id=known.call_id, main_session=known.main_session)
        reply = event.last_assistant_message or ""
        calls.ended(call, CallEnded(session=event.agent_id, reply=reply))
    return {}
