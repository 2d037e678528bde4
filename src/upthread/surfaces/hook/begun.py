"""That a call has begun, as it is kept: decided, recorded only, or unseen.

A call is unseen where its hook was killed or gave up before it could decide: the agent has gone on
alone. What it does is on record all the same, in a conversation where no session stands yet, so
that the session the role had before stays the one that is gone on with.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` as well

from upthread.core.decision.words import FIRST, RESUME, START_FRESH, UNSEEN
from upthread.core.workstreams import ROLE_UNKNOWN, UNASSIGNED
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.call import SubAgentCall, claim_of, of_call, role_of, workstream_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_alarm: Any = _signal

GOES_ON_WAIT_S = 2.0
"""With all else below the 3 s that Codex gives to the end of a session (0.169.0)."""

SLOTS_MAX = 64
CHILD_SLOT = 0
"""As `core.types.CHILD_SLOT`: what is recorded only, and found by no key."""

NOT_CONTINUED = "recorded_only"


def lock_of_what_goes_on(place: Place) -> files.Lock:
    """Return the project's lock, for what an agent tells once: how a call goes, and that it ended.

    Waited for longer than for a decision, after which an agent goes on without one: an end that is
    not kept leaves its conversation in use, and its reply on no record.
    """
    put_off(GOES_ON_WAIT_S)
    return place.lock(wait_s=GOES_ON_WAIT_S)


def put_off(wait_s: float) -> None:
    """Give the hook so much more time. Not endless: what comes after must still end in its own."""
    left_s, _ = _alarm.getitimer(_alarm.ITIMER_REAL)
    _alarm.setitimer(_alarm.ITIMER_REAL, left_s + wait_s if left_s else 0)


def keep(
    place: Place,
    call: SubAgentCall,
    kind: str,
    event: dict[str, Any],
    claimed: tuple[str, dict[str, Any]] | None,
) -> None:
    """Keep that a call has begun, the binding it claims by its path, and that this was seen.

    The alarm is switched off: what is stored from here on must be what the agent is told. The mark
    that it was seen is written after the claim: a call with the mark and without a claim is over.
    """
    _alarm.setitimer(_alarm.ITIMER_REAL, 0)
    spool.put(place, kind, event)
    if claimed is not None:
        files.replace(*claimed)
    _keep_seen(place, call)


def _keep_seen(place: Place, call: SubAgentCall) -> None:
    files.replace(place.call_path(call.agent, call.session, call.call_id), {})


def keep_recorded_only(
    place: Place, call: SubAgentCall, workstream: str | None, because: str, *further: str
) -> tuple[str, dict[str, Any]]:
    """Keep a call that is not continued; returns its binding, which lasts until its end.

    `further` are reasons beside that it is only recorded.
    """
    where = {"workstream": workstream or UNASSIGNED, "role": ROLE_UNKNOWN, "slot": CHILD_SLOT}
    held = claim_of(call)
    reasons = [NOT_CONTINUED, *further]
    event = {**where, **held, "because": because, "decision": START_FRESH, "reasons": reasons}
    # By its call, since nothing else tells two of them apart: they have no role and no slot.
    path = place.binding_path(UNASSIGNED, f"{call.session}\0{call.call_id}", CHILD_SLOT)
    binding = {**where, "claim": held}
    keep(place, call, "decided", event, (path, binding))
    return path, binding


def begun(place: Place, call: SubAgentCall, child: str) -> tuple[str, dict[str, Any]] | None:
    """Return the path and the binding of a call that goes on; None for one that is over.

    A call that no hook saw begin is begun here; one without a role wrote to `child`.
    """
    found = of_call(place, call)
    was_seen = files.read(place.call_path(call.agent, call.session, call.call_id)) is not None
    if found is not None and not was_seen:
        _keep_seen(place, call)  # the hook that claimed it was killed before it could
    if found is not None or not call.call_id or was_seen:
        return found
    workstream, because = workstream_of(place, call.agent, call.session)
    # Nothing is decided after the fact: the agent has begun in a session of its own choice.
    free = _goes_on_in(place, call, child, workstream)
    if free is None:
        return keep_recorded_only(place, call, workstream, because)
    path, binding = free
    is_same = bool(child) and text_in(binding, "session") == child
    where = {name: binding[name] for name in ("workstream", "role", "slot")}
    held = claim_of(call)
    event = {
        **where,
        **held,
        "because": because if call.role else "session",
        "decision": RESUME if is_same else FIRST,
        "reasons": [UNSEEN],
        "upstream_session_id": child if is_same else "",
    }
    begins = {**binding, "claim": held}
    keep(place, call, "decided", event, (path, begins))
    return path, begins


def _goes_on_in(
    place: Place, call: SubAgentCall, child: str, workstream: str | None
) -> tuple[str, dict[str, Any]] | None:
    if not call.role:
        return _written_to(place, call, child)
    if workstream is None or not role_of(place, call.role):
        return None
    return _free(place, call, child, workstream)


def _written_to(place: Place, call: SubAgentCall, child: str) -> tuple[str, dict[str, Any]] | None:
    """Return the conversation whose current session a message went to, unless a call uses it."""
    for path, binding in bindings(place, lambda each: bool(child) and _is_in(each, child)):
        if not is_claimed_by_another(binding, call.call_id):
            return path, binding
    return None


def _is_in(binding: dict[str, Any], child: str) -> bool:
    return text_in(binding, "session") == child


def _free(
    place: Place, call: SubAgentCall, child: str, workstream: str
) -> tuple[str, dict[str, Any]] | None:
    """Return the role's conversation that has this session, or else the first that has none."""
    free: tuple[str, dict[str, Any]] | None = None
    for slot in range(1, SLOTS_MAX + 1):
        path = place.binding_path(workstream, call.role, slot)
        found = files.read(path)
        binding = {**(found or {}), "workstream": workstream, "role": call.role, "slot": slot}
        session = text_in(binding, "session")
        if is_claimed_by_another(binding, call.call_id):
            continue
        if child and _is_in(binding, child):
            return path, binding
        if free is None and not session and not object_in(binding, "claim"):
            free = path, binding
        if found is None:
            break
    return free
