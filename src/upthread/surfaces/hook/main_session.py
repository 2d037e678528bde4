"""What a main session is told, at its start and with a prompt, where hooks speak as Claude Code's.

Codex took over their names, fields and answers, so both agents' hooks answer through here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from upthread.agents.base import PermissionRequest
from upthread.boundary.programs import living_parent
from upthread.client.agent_calls import AgentCalls, SubAgentCall
from upthread.core.names import NONE
from upthread.core.text import visible_line

if TYPE_CHECKING:
    from upthread.runtime.record.workstream_views import RoleView, WorkstreamView

CONTEXT_CHARACTERS_MAX = 1_200
"""Of what a main session is told at its start: some 300 tokens."""

ACTIONS_TOLD_MAX = 3
DAY_S = 24 * 60 * 60


Told: TypeAlias = Mapping[str, Any]
"""An object that a hook is given, or answers."""

Step: TypeAlias = Callable[[AgentCalls], Told]


class Event(Struct, frozen=True):
    """One event of a session, with the fields that are read of each agent's."""

    hook_event_name: str = ""
    session_id: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    prompt: str = ""
    agent_id: str = ""
    agent_type: str = ""
    last_assistant_message: str | None = ""
    tool_input: dict[str, Any] = {}
    tool_response: Any = None


class Continuing(Struct, frozen=True, kw_only=True):
    """How an agent's main session continues a sub-agent that it had before.

    `how` returns the words for one sub-agent's session, `note` stands below them. With `only_own` a
    main session can continue nothing but what was started in it, and what `reached` returns: of the
    sub-agents of other main sessions those that this one can write to as well.
    """

    agent: str
    how: Callable[[str], str]
    only_own: bool
    note: str = ""
    reached: Callable[[Sequence[tuple[str, str]]], frozenset[str]] | None = None


def session_started(calls: AgentCalls, session: str, continuing: Continuing) -> Told:
    """Answer that a main session starts: how its workstream stands, and whom it can continue."""
    calls.read_back()
    workstream, because = calls.workstream_of(continuing.agent, session)
    view = calls.standing(workstream)
    interrupted = list(calls.interrupted(workstream if because != NONE else ""))
    told: dict[str, Any] = {}
    if because == NONE and not interrupted and (last := calls.in_use().last):
        told["systemMessage"] = f"upthread: no workstream; last: {last[0]}, {_ago(last[1])}"
    if lines := [line for role in interrupted if (line := _interrupted_line(role, workstream))]:
        told["systemMessage"] = "\n".join(lines)
    whom = _whom(calls, workstream, session, continuing)
    text = "\n".join(filter(None, (_state_of(view) if view else "", whom)))
    return told | _context("SessionStart", text[:CONTEXT_CHARACTERS_MAX])


def session_ended(calls: AgentCalls, session: str) -> Told:
    """Record that a main session has ended."""
    calls.taken_back(session, living_parent(), has_ended=True)
    return {}


def prompted(calls: AgentCalls, session: str, prompt: str, continuing: Continuing) -> Told:
    """Answer that a person has written to a main session: whom it can continue."""
    calls.taken_back(session, living_parent())
    calls.hear_prompt(continuing.agent, session, prompt)
    return whom_to_continue(calls, session, continuing)


def whom_to_continue(calls: AgentCalls, session: str, continuing: Continuing) -> Told:
    """Answer a prompt: whom the main session can continue."""
    workstream, _ = calls.workstream_of(continuing.agent, session)
    return _context("UserPromptSubmit", _whom(calls, workstream, session, continuing))


def delegating(
    calls: AgentCalls, call: SubAgentCall, given: Told, field: str, decision: str = ""
) -> Told:
    """Answer a call that starts a sub-agent. `given` has the prompt in `field`.

    `decision` is what the agent needs with other arguments.
    """
    answer = calls.before(call)
    told: dict[str, Any] = {"systemMessage": answer.line} if answer.line else {}
    if answer.refusal:
        return told | _about_to_use(decision="deny", why=answer.refusal)
    # Sent back whole: the other arguments stay as the model gave them.
    if answer.prompt != call.prompt:
        told |= _about_to_use(decision=decision, updated={**given, field: answer.prompt})
    return told


def writing(calls: AgentCalls, call: SubAgentCall, session: str) -> Told:
    """Answer a call that writes to a sub-agent."""
    line = calls.named(call, session).line
    return {"systemMessage": line} if line else {}


def guarded(
    calls: AgentCalls, agent: str, session: str, asked: PermissionRequest, decision: str
) -> Told:
    """Answer a call that may do again what may have been done, with `ask` or `deny`, and why."""
    held = calls.held(agent, session, asked)
    line = f"upthread: {held}"
    return {"systemMessage": line, **_about_to_use(decision=decision, why=line)} if held else {}


def _about_to_use(*, decision: str, why: str = "", updated: Told | None = None) -> dict[str, Any]:
    """Return what a hook says of a call before it is made: deny, with why, or other arguments."""
    said = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": why,
        "updatedInput": updated,
    }
    return {"hookSpecificOutput": {name: value for name, value in said.items() if value}}


def _ago(at_ms: int) -> str:
    """Return `today`, `yesterday` or `3 days ago` for epoch milliseconds, by local days."""
    days = _day(time.time_ns() / 1e9) - _day(at_ms / 1000)
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"


def _day(at_s: float) -> int:
    # By the moment's own offset: around a change of summer time a day has 23 or 25 hours.
    return int((at_s + time.localtime(at_s).tm_gmtoff) // DAY_S)


def _state_of(view: WorkstreamView) -> str:
    """Return how a workstream stands, in a few lines for a session that begins."""
    known = view.workstream
    lines = [f"Workstream {known.workstream} ({known.base_name}) is {view.state}."]
    for role in view.roles:
        verdict = f", {role.verdict.in_words}" if role.verdict else ""
        turns = f"{role.turns} turn" + ("" if role.turns == 1 else "s")
        lines.append(f"- {role.conversation.key.role}: {role.state}, {turns}{verdict}")
    lines += [f"- open question {each.question_id} of {each.role}" for each in view.open_questions]
    return "\n".join(lines)


def _interrupted_line(role: RoleView, workstream: str) -> str:
    """Return which role was interrupted, what it had done, and how to continue it from here."""
    if role.standing.state != "interrupted" or role.cut_off is None:
        return ""
    key = role.conversation.key
    done = [visible_line(each) for each in role.cut_off.actions[:ACTIONS_TOLD_MAX]]
    did = f"it did: {'; '.join(done)}" if done else "no action of it is known"
    first = "" if key.workstream == workstream else f"first type: upthread use {key.workstream}; "
    again = f"{first}ask for {key.role} again, and it continues with what it knows"
    return f"upthread: {key.address} was interrupted; {did}; {again}"


def _whom(calls: AgentCalls, workstream: str, session: str, continuing: Continuing) -> str:
    found = list(calls.to_continue(continuing.agent, session, workstream))
    reached = {child for _, child, main in found if main == session or not continuing.only_own}
    if continuing.reached is not None and calls.hands_over:
        others = [(main, child) for _, child, main in found if child not in reached]
        reached |= continuing.reached(others)
    lines = [f"- {whose}: {continuing.how(child)}" for whose, child, _ in found if child in reached]
    if not lines:
        return ""
    head = "These sub-agents have their history; continue them like this:"
    return "\n".join(filter(None, (head, *lines, continuing.note)))


def _context(event: str, text: str) -> dict[str, Any]:
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
