"""What a main session is told, at its start and with a prompt, where hooks speak as Claude Code's.

Codex took over their names, fields and answers, so both agents' hooks answer through here.
"""

from __future__ import annotations

from upthread.core.decision.words import address_in_words
from upthread.runtime.bindings import spool
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.call import hear_prompt, role_of, workstream_of
from upthread.surfaces.hook.decision import would_resume
from upthread.surfaces.hook.decision_line import ago
from upthread.surfaces.hook.progress import release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTEXT_CHARACTERS_MAX = 1_200
"""Of what a main session is told at its start: some 300 tokens."""


class Continuing:
    """How an agent's main session goes on with a sub-agent that it had before.

    `how` returns the words for one sub-agent's session, `note` stands below them. Where `only_own`
    is true a main session can go on with nothing but what was started in it, and what `reached`
    returns: the sub-agents of others that a workstream's new main session can write to as well.
    """

    def __init__(
        self,
        agent: str,
        how: Callable[[str], str],
        *,
        only_own: bool,
        note: str = "",
        reached: Callable[[Place, str, dict[str, Any]], frozenset[str]] | None = None,
    ) -> None:
        self.agent = agent
        self.how = how
        self.only_own = only_own
        self.note = note
        self.reached = reached


def session_started(place: Place, fields: dict[str, Any], continuing: Continuing) -> dict[str, Any]:
    """Answer that a main session starts: how its workstream stands, and whom it can go on with."""
    session = text_in(fields, "session_id")
    workstream, _ = workstream_of(place, continuing.agent, session)
    known = list_in(place.known or {}, "workstreams")
    # A main session has no call yet, so there is time to take in what a killed one has left.
    spool.start_drain(place)
    if workstream is None:
        last = max(known, key=lambda each: number_in(each, "last_at_ms"), default=None)
        told = ""
        if last:
            told = f"; last: {text_in(last, 'name')}, {ago(number_in(last, 'last_at_ms'))}"
        return {"systemMessage": f"upthread: no workstream{told}"} if told else {}
    state = next((text_in(e, "state") for e in known if text_in(e, "name") == workstream), "")
    whom = _whom_to_go_on_with(place, workstream, fields, continuing)
    return _context("SessionStart", "\n".join(filter(None, (state, whom)))[:CONTEXT_CHARACTERS_MAX])


def prompted(place: Place, fields: dict[str, Any], continuing: Continuing) -> dict[str, Any]:
    """Answer that a person has written to a main session: whom it can go on with."""
    session = text_in(fields, "session_id")
    # A person who writes has taken the turn back: no call in the foreground goes on after that.
    release(place, continuing.agent, session)
    hear_prompt(place, continuing.agent, session, text_in(fields, "prompt"))
    return whom_to_go_on_with(place, fields, continuing)


def whom_to_go_on_with(
    place: Place, fields: dict[str, Any], continuing: Continuing
) -> dict[str, Any]:
    """Answer a prompt: whom the main session can go on with."""
    workstream, _ = workstream_of(place, continuing.agent, text_in(fields, "session_id"))
    if workstream is None:
        return {}
    whom = _whom_to_go_on_with(place, workstream, fields, continuing)
    return _context("UserPromptSubmit", whom)


def session_ended(place: Place, fields: dict[str, Any], agent: str) -> None:
    """Free what a main session has left, and take what it has done into the database."""
    release(place, agent, text_in(fields, "session_id"))
    spool.start_drain(place)


def about_to_use(
    *, decision: str = "", why: str = "", updated: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a hook says of a call before it is made: deny, with why, or other arguments."""
    said: dict[str, Any] = {"hookEventName": "PreToolUse"}
    if decision:
        said["permissionDecision"] = decision
    if why:
        said["permissionDecisionReason"] = why
    if updated is not None:
        said["updatedInput"] = updated
    return {"hookSpecificOutput": said}


def _whom_to_go_on_with(
    place: Place, workstream: str, fields: dict[str, Any], continuing: Continuing
) -> str:
    session = text_in(fields, "session_id")
    handed: frozenset[str] = frozenset()
    if continuing.reached:
        # Copied before any model acts: afterwards it would have to be denied a call first.
        handed = continuing.reached(place, workstream, fields)
    lines = [
        f"- {address_in_words(workstream, text_in(each, 'role'), number_in(each, 'slot'))}: "
        f"{continuing.how(text_in(each, 'session'))}"
        for _, each in bindings(place, lambda b: text_in(b, "workstream") == workstream)
        if text_in(each, "agent") == continuing.agent
        and text_in(each, "session")
        and (
            not continuing.only_own
            or text_in(each, "main_session") == session
            or text_in(each, "session") in handed
        )
        # One in use would be offered to two at once.
        and not object_in(each, "claim")
        # Naming one that the handshake would not resume would talk the model into it.
        and would_resume(each, role_of(place, text_in(each, "role")))
    ]
    if not lines:
        return ""
    head = "These sub-agents have their history; go on with them like this:"
    return "\n".join(filter(None, (head, *lines, continuing.note)))


def _context(event: str, text: str) -> dict[str, Any]:
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
