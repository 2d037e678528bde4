"""How a delegation goes that a hook has let begin: its child is there, has ended, was left.

Under the project's lock, as the decision is taken. What is spooled stands before what is freed:
killed between the two, the end is still taken in.
"""

from __future__ import annotations

import time

from upthread.core.decision.examined_paths import kept_path
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.examined_files import FILES_MAX, examined
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.begun import CHILD_SLOT, begun, lock_of_what_goes_on
from upthread.surfaces.hook.call import SubAgentCall, role_of, where_of
from upthread.surfaces.hook.hook_decision import surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOWS = frozenset({"read", "wrote"})
RELAYED = "nearly_full"
"""As `core.decision.rules.RELAYED`."""


def started(place: Place, call: SubAgentCall, child: str, *, transcript: str = "") -> None:
    """Keep that a call's child session exists: its id is worth most when the call then fails."""
    with lock_of_what_goes_on(place):
        found = begun(place, call, child)
        if found is None:
            return
        path, binding = found
        # Before the binding: killed between the two, the event still leads to the session.
        spool.put(place, "started", _event(call, binding, child))
        now = _now_in(place, call, binding, child, transcript)
        files.replace(path, {**now, "claim": {**object_in(binding, "claim"), "child": child}})


def launched(place: Place, call: SubAgentCall, child: str, *, transcript: str) -> None:
    """Keep that a call's child works on in the background, and what it was asked.

    Who sees it end is no longer told that.
    """
    with lock_of_what_goes_on(place):
        found = begun(place, call, child)
        if found is None:
            return
        path, binding = found
        event = _event(call, binding, child)
        words = _words(call, binding, {**event, "prompt": call.text})
        spool.hand_over(place, "launched", event, words)
        now = _now_in(place, call, binding, child, transcript)
        held = {**object_in(binding, "claim"), "child": child, "is_background": True}
        files.replace(path, {**now, "claim": held})


def _words(call: SubAgentCall, binding: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Return the words of a call, among them the role of one that is recorded only."""
    is_child = number_in(binding, "slot") == CHILD_SLOT
    return {**words, "role": call.role} if is_child else words


def ended(
    place: Place,
    call: SubAgentCall,
    child: str,
    *,
    outcome: str,
    reply: str,
    examinations: list[Any],
    transcript: str = "",
    tokens_window: int = 0,
) -> None:
    """Keep how a call went, free its conversation and start a drain, which gets the words.

    Each of `examinations` has path and how. `tokens_window` is 0 where it is not known.
    """
    with lock_of_what_goes_on(place):
        found = begun(place, call, child)
        if found is None:
            return
        path, binding = found
        former = binding if child == text_in(binding, "session") else {}
        role = text_in(binding, "role")
        seen = _examined(place, role, list_in(former, "files"), examinations)
        event = _event(call, binding, child)
        said = {**event, "prompt": call.text, "outcome": outcome, "reply": reply}
        words = _words(call, binding, said)
        here = surroundings(place, role_of(place, role))
        facts: dict[str, Any] = {"outcome": outcome, "files": seen, "surroundings": here}
        facts["tokens_window"] = tokens_window
        # Before the binding is freed: killed between the two, the end is still taken in.
        spool.hand_over(place, "ended", {**event, **facts}, words)
        if number_in(binding, "slot") == CHILD_SLOT:
            files.remove(path)
            return
        after = _now_in(place, call, binding, child, transcript) if child else binding
        turns = number_in(binding, "turns") + 1
        files.replace(
            path,
            {
                **after,
                "files": seen,
                "turns": turns if child else turns - 1,
                "was_interrupted": outcome == "process_died",
                "condition_before": binding.get("condition_now"),
                "decided": None,
                "claim": None,
            },
        )


def release(place: Place, agent: str, session: str) -> None:
    """Free what calls of a main session have left claimed: its person has gone on."""

    def is_theirs(binding: dict[str, Any]) -> bool:
        held = object_in(binding, "claim")
        return text_in(held, "agent") == agent and text_in(held, "session") == session

    with lock_of_what_goes_on(place):
        for path, binding in bindings(place, is_theirs):
            held = object_in(binding, "claim")
            # In the background a sub-agent works on while its person writes.
            if held.get("is_background") is not True:
                spool.put(place, "released", {**where_of(binding), **held})
                if number_in(binding, "slot") == CHILD_SLOT:
                    files.remove(path)
                else:
                    # No agent tells of a call that a person broke off; this prompt is its end.
                    left = {**binding, "was_interrupted": True, "claim": None}
                    files.replace(path, {**left, "decided": None})


def _event(call: SubAgentCall, binding: dict[str, Any], child: str) -> dict[str, Any]:
    held = object_in(binding, "claim")
    return {**where_of(binding), **held, "agent": call.agent, "upstream_session_id": child}


def _now_in(
    place: Place, call: SubAgentCall, binding: dict[str, Any], child: str, transcript: str
) -> dict[str, Any]:
    """Return a binding whose session is `child` now: what was decided beforehand is over."""
    role = role_of(place, text_in(binding, "role"))
    held = object_in(binding, "claim")
    here = {**surroundings(place, role), "agent": call.agent, "at_ms": time.time_ns() // 1_000_000}
    is_new = child != text_in(binding, "session")
    relays = number_in(binding, "relays") + 1 if text_in(held, "because") == RELAYED else 0
    return {
        **binding,
        "agent": call.agent,
        "session": child,
        "main_session": call.session or text_in(held, "session"),
        "transcript": transcript or text_in(binding, "transcript"),
        "was": here,
        "decided": None,
        "relays": relays if is_new else number_in(binding, "relays"),
    }


def _examined(place: Place, role: str, former: list[Any], examinations: list[Any]) -> list[Any]:
    """Return all files the session has examined, those of this call as they are now.

    None where no text is recorded: a path is a tool's argument.
    """
    if text_in(role_of(place, role), "record") == "index":
        return []
    known = {text_in(each, "path"): each for each in former}
    for each in examinations[:FILES_MAX]:
        how = text_in(each, "how")
        path = kept_path(text_in(each, "path"), root=place.root)
        if path is not None and how in HOWS:
            known.pop(path, None)  # the newest stand last
            known[path] = examined(place.root, path, how)
    return list(known.values())[-FILES_MAX:]
