"""What a hook decides for a call: the decision that was taken beforehand, or the whole table's.

`core.decision.handshake.decide` is the only thing that decides. What it says while nothing has
moved is written beside each conversation when that is published; a hook uses it where nothing it
depends on has changed, and asks `decide` itself in every other case
(surfaces/hook/full_decision.py).
"""

from __future__ import annotations

import os
import time

from upthread.core.decision.cache import state_of_cache
from upthread.core.decision.words import RESUME, RESUME_WITH_UPDATE, START_FRESH
from upthread.core.workstreams import callers_in
from upthread.runtime.bindings.examined_files import has_moved
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.hook_decision import HookDecision, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from upthread.surfaces.hook.call import SubAgentCall

RESUMING = frozenset({RESUME, RESUME_WITH_UPDATE})


def take_decision(
    place: Place,
    call: SubAgentCall,
    role: dict[str, Any],
    binding: dict[str, Any],
    *,
    is_left: bool,
) -> HookDecision:
    """Return the decision on a call. `is_left` is whether an earlier one was seen to be cut off."""
    has_worked = bool(number_in(binding, "turns") or text_in(binding, "session"))
    # A conversation that never worked has no file: its role's says what a first call gets.
    beforehand = binding if "inputs" in binding or has_worked else role
    now_ms = time.time_ns() // 1_000_000
    # A call that was cut off is in none of the decisions that were taken beforehand.
    if not is_left and is_unmoved(place, call, role, binding) and _is_in_time(binding, now_ms):
        cache = cache_now(binding, now_ms)
        said = object_in(object_in(beforehand, "decided"), cache)
        inputs = object_in(beforehand, "inputs")
        # Taken as if the tool could resume. For one that cannot, it stands where nothing is
        # resumed; but a fresh start has one reason more there, which the table puts in its place.
        is_apart = text_in(said, "decision") not in {*RESUMING, START_FRESH} and not inputs.get(
            "was_interrupted"
        )
        if said and (call.can_resume or is_apart):
            return HookDecision(
                said, {**inputs, "price": {**object_in(inputs, "price"), "cache": cache}}
            )
    # The handshake and its types take longer to load than all else that the usual call does.
    from upthread.surfaces.hook.full_decision import decide_fully

    return decide_fully(place, call, role, binding, is_left=is_left)


def would_resume(binding: dict[str, Any], role: dict[str, Any]) -> bool:
    """Return whether a session would be gone on with, as far as was decided beforehand.

    Quick, for what every prompt is told: nothing around the session is looked at.
    """
    decided = object_in(binding, "decided")
    if not decided:
        return text_in(role, "continuity") != "fresh"
    said = object_in(decided, cache_now(binding, time.time_ns() // 1_000_000))
    return text_in(said, "decision") in RESUMING


def is_unmoved(
    place: Place, call: SubAgentCall, role: dict[str, Any], binding: dict[str, Any]
) -> bool:
    """Return whether all that a decision taken beforehand depends on is as it was then.

    What the call brings, where it comes from, what the session works in, and each file it examined.
    """
    session = text_in(binding, "session")
    is_plain = not call.is_fresh_asked and not callers_in(os.environ)
    is_same_agent = not session or text_in(binding, "agent") == call.agent
    if not is_plain or not is_same_agent or session in call.unusable:
        return False
    was = object_in(binding, "was")
    if was and not _is_same_place(place, role, was):
        return False
    return not any(has_moved(place.root, each) for each in list_in(binding, "files"))


def _is_same_place(place: Place, role: dict[str, Any], was: dict[str, Any]) -> bool:
    here = surroundings(place, role)
    names = ("working_directory", "branch", "commit", "configuration")
    # A repository that could not be asked may have moved without showing it.
    return not was.get("git_fault") and all(was.get(name) == here[name] for name in names)


def _is_in_time(binding: dict[str, Any], now_ms: int) -> bool:
    """Return whether a limit of the agent's that a decision rests on, if any, lasts still."""
    until_ms = number_in(object_in(object_in(binding, "inputs"), "agent_limit"), "until_ms")
    return not until_ms or now_ms < until_ms


def cache_now(binding: dict[str, Any], now_ms: int) -> str:
    """Return the state of the cache that a conversation's session was last used through."""
    known = object_in(binding, "cache")
    at_ms = number_in(known, "at_ms")
    return state_of_cache(
        # Asked again at each call: a cache grows cold while nothing at all happens.
        (now_ms - at_ms) / 1000 if at_ms else None,
        warm_s=number_in(known, "warm_s"),
        cold_s=number_in(known, "cold_s"),
    )
