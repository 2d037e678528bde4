"""A delegation seen by a hook: which conversation it belongs to, and what is decided.

Under the project's lock a slot is claimed, the decision taken from the binding alone, and the event
spooled; so three calls at the same moment get three sessions, and no two decide on the same state.
How it went is `progress.py`.
"""

from __future__ import annotations

from upthread.core.decision.words import (
    FOREIGN_SESSION,
    NAMED,
    NO_ROLES,
    NO_WORKSTREAM,
    NOT_A_ROLE,
    OTHER_REASONS,
    OTHER_ROLE,
    RECORDED_BESIDE,
    REFUSE,
    RESUME_WITH_REPLAY,
    START_FRESH,
    UNDECIDED,
    UNKNOWN_SESSION,
    address_in_words,
)
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import holder, is_claimed_by_another
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.begun import (
    SLOTS_MAX,
    keep,
    keep_recorded_only,
)
from upthread.surfaces.hook.call import (
    ELSEWHERE,
    SubAgentCall,
    claim_of,
    role_of,
    where_of,
    workstream_of,
)
from upthread.surfaces.hook.decision import RESUMING, take_decision
from upthread.surfaces.hook.decision_line import decision_line, line_of, misnamed_in_words, one_line
from upthread.surfaces.hook.drain_wait import (
    NotTakenInError,
    is_left,
    is_ours,
    is_taken_in,
    wait_until_read,
    wait_until_taken_in,
)
from upthread.surfaces.hook.hook_decision import HookDecision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Decided:
    """What the hook does: `session` is resumed, empty for a new one; `line` is for the person.

    `decision` is empty for a call that is left alone. `refusal` says why a call must not be made,
    and what to do instead; empty for one that may.
    """

    def __init__(
        self, *, line: str, prompt: str, decision: str = "", session: str = "", context: str = ""
    ) -> None:
        self.line = line
        self.prompt = prompt
        self.decision = decision
        self.session = session
        self.context = context
        self.refusal = ""


def before(place: Place, call: SubAgentCall) -> Decided:
    """Decide how a call attaches, claim its conversation, and keep what was decided.

    Raises UnreadableError for a damaged file; it is being written again, from the record.
    """
    try:
        return _begin(place, call)
    except files.UnreadableError:
        # The call goes on undecided: to write the file anew takes longer than an agent waits.
        spool.start_repair(place)
        raise


def _begin(place: Place, call: SubAgentCall) -> Decided:
    # Before the roles are looked at: a role file written a moment ago may have made this one.
    wait_until_read(place)
    workstream, because = workstream_of(place, call.agent, call.session)
    role = role_of(place, call.role)
    if not role:
        return _recorded_only(place, call, workstream, because, NOT_A_ROLE, *_misnamed(call))
    if workstream is None:
        return _recorded_only(place, call, None, because, NO_WORKSTREAM, *_misnamed(call))
    try:
        return _decide(place, call, role, workstream, because, is_first=True)
    # Waited for without the lock: what takes it in publishes under the same one.
    except NotTakenInError as behind:
        wait_until_taken_in(place, behind.path, call.call_id)
    return _decide(place, call, role, workstream, because, is_first=False)


def _decide(
    place: Place,
    call: SubAgentCall,
    role: dict[str, Any],
    workstream: str,
    because: str,
    *,
    is_first: bool,
) -> Decided:
    """Decide on the role's first conversation that nobody uses. Raises NotTakenInError."""
    with place.lock():
        path, binding, busy, was_cut_off = _slot(place, call, workstream)
        _look_whose(call, binding)
        taken = take_decision(place, call, role, binding, is_left=was_cut_off)
        if taken.decision in RESUMING:
            _check_heard(path, binding, call, is_first=is_first)
        else:
            _check_told(path, binding, call, taken, was_cut_off=was_cut_off)
        decided = _decided(call, binding, taken)
        held = {**claim_of(call), "because": taken.reasons[0]}
        event = {
            **where_of(binding),
            **held,
            "because": because,
            "decision": taken.decision,
            "reasons": [*taken.reasons, *_misnamed(call)],
            "inputs": taken.inputs,
            "condition": binding.get("condition_now"),
            "upstream_session_id": decided.session,
            "context": decided.context,
        }
        # No claim: a call that is not made has no end, and would keep its conversation in use.
        if decided.refusal:
            keep(place, call, "refused", event, None)
        else:
            claimed = _claimed(binding, held, was_cut_off=was_cut_off)
            keep(place, call, "decided", event, (path, claimed))
        decided.line += misnamed_in_words(call.named) + busy + _undecided_before(place)
    return decided


def _look_whose(call: SubAgentCall, binding: dict[str, Any]) -> None:
    """Note a session that the agent would refuse this main session, before it has to say so."""
    session, main = text_in(binding, "session"), text_in(binding, "main_session")
    if call.only_own and session and main not in {"", call.session}:
        call.unusable = {session: ELSEWHERE, **call.unusable}


def _misnamed(call: SubAgentCall) -> list[str]:
    """Return the further reason of a call that named a session its agent does not have."""
    return [UNKNOWN_SESSION] if call.named else []


def _claimed(binding: dict[str, Any], held: dict[str, Any], *, was_cut_off: bool) -> dict[str, Any]:
    """Return a binding as a call claims it; what a call that was cut off did is not in it."""
    now = {**binding, "was_interrupted": was_cut_off, "claim": held}
    return {**now, "decided": None} if is_left(binding, text_in(held, "call_id")) else now


def _check_heard(path: str, binding: dict[str, Any], call: SubAgentCall, *, is_first: bool) -> None:
    """Raise NotTakenInError where a session is resumed that may never have got its last prompt.

    Only at the first try: a session has what it did itself, so after the wait the call goes on.
    """
    if is_first and is_left(binding, call.call_id):
        raise NotTakenInError(path, f"{_where(binding)}: its last call was cut off")


def _check_told(
    path: str,
    binding: dict[str, Any],
    call: SubAgentCall,
    taken: HookDecision,
    *,
    was_cut_off: bool,
) -> None:
    """Raise NotTakenInError where a new session would not be told what it is to go on from."""
    must_be_told = taken.decision == RESUME_WITH_REPLAY or (
        was_cut_off and taken.decision != REFUSE
    )
    if not must_be_told or is_taken_in(binding, call.call_id):
        return
    is_dead = is_left(binding, call.call_id)
    how = "was cut off; it is being looked up" if is_dead else "is not taken in yet; it is being so"
    raise NotTakenInError(path, f"{_where(binding)}: its last call {how}")


def _where(binding: dict[str, Any]) -> str:
    slot = number_in(binding, "slot")
    return address_in_words(text_in(binding, "workstream"), text_in(binding, "role"), slot)


def _recorded_only(
    place: Place, call: SubAgentCall, workstream: str | None, because: str, says: str, *further: str
) -> Decided:
    """Keep that a call was made which is not continued; `further` are reasons beside that."""
    with place.lock():
        keep_recorded_only(place, call, workstream, because, *further)
        missed = _undecided_before(place)
    who = call.role or "a sub-agent"
    line = f"upthread: {who}: {says}{misnamed_in_words(call.named)}{missed}"
    return Decided(line=line, prompt=call.prompt)


def before_message(place: Place, call: SubAgentCall, child: str) -> Decided:
    """Keep that a main session goes on with a sub-agent it named itself; nothing is decided.

    Where the handshake would not have gone on with it, the person is told why. One that is no
    role's at present, an earlier session of a role or a stranger's, is recorded beside the roles.
    """
    for path in _with_session(place, child):
        if is_left(files.read(path) or {}, call.call_id):
            wait_until_taken_in(place, path, call.call_id)
    what = NO_ROLES
    with place.lock():
        for path, binding in bindings(place, lambda b: text_in(b, "session") == child):
            if is_claimed_by_another(binding, call.call_id):
                what = f"in use by {holder(object_in(binding, 'claim'))}"
                continue
            reasons, because = _named(place, call, binding)
            held = claim_of(call)
            event = {
                **where_of(binding),
                **held,
                "because": "session",
                "decision": "resume",
                "reasons": reasons,
                "condition": binding.get("condition_now"),
                "upstream_session_id": child,
                "context": "",
            }
            keep(place, call, "decided", event, (path, {**binding, "claim": held}))
            line = line_of(binding, "resume", child, because=because)
            return Decided(line=line, prompt=call.prompt, decision="resume", session=child)
    workstream, because = workstream_of(place, call.agent, call.session)
    says = RECORDED_BESIDE.format(what=what)
    return _recorded_only(place, call, workstream, because, says, FOREIGN_SESSION)


def _with_session(place: Place, child: str) -> Iterator[str]:
    """Yield where the conversation is kept that a session is the current one of, if any."""
    return (path for path, _ in bindings(place, lambda b: text_in(b, "session") == child))


def _named(place: Place, call: SubAgentCall, binding: dict[str, Any]) -> tuple[list[str], str]:
    """Return the reasons for going on with a session that was named, as codes and in words."""
    role = role_of(place, text_in(binding, "role"))
    is_another = bool(call.role) and call.role != text_in(binding, "role")
    if is_another:  # the agent goes on in it with the other role's instructions and tools
        asked = one_line(call.role)
        return [NAMED, OTHER_ROLE], f"{OTHER_REASONS[OTHER_ROLE]}: {asked}"
    if not role:
        return ["unchanged"], ""
    call.can_resume = True
    was_left = binding.get("was_interrupted") is True or is_left(binding, call.call_id)
    taken = take_decision(place, call, role, binding, is_left=was_left)
    if taken.decision in RESUMING:
        return taken.reasons, taken.because
    return [NAMED], f"{OTHER_REASONS[NAMED]}; {taken.because}"


def _undecided_before(place: Place) -> str:
    """Return what a person has not been told yet: calls that went on without a decision."""
    missed = spool.untold(place)
    if not missed:
        return ""
    why = text_in(files.read(missed[-1]) or {}, "why")
    spool.mark_told(missed)
    return f"; {UNDECIDED} before this: {len(missed)}, the last because {why}"


def _slot(
    place: Place, call: SubAgentCall, workstream: str
) -> tuple[str, dict[str, Any], str, bool]:
    """Return the first conversation of the role that nobody uses, and who uses the first.

    The last is whether its last call was cut off, or claims it still from a process that is dead.
    """
    busy = ""
    for slot in range(1, SLOTS_MAX + 1):
        path = place.binding_path(workstream, call.role, slot)
        found = files.read(path)
        binding = found or {}
        where = address_in_words(workstream, call.role, slot)
        # A lost file must not make a role that has worked start anew, as if it never had.
        if found is None and slot == 1 and _has_worked(place, workstream, call.role):
            raise NotTakenInError(path, f"{path} is gone; it is being written again")
        # OpenCode 1.18.33 queues a prompt for a busy child and tells nobody when it is done.
        is_busy = call.unusable.get(text_in(binding, "session")) == "busy"
        if is_busy or is_claimed_by_another(binding, call.call_id):
            who = call.agent if is_busy else holder(object_in(binding, "claim"))
            busy = busy or f"; {where} is in use by {who}"
            continue
        has_stopped = is_left(binding, call.call_id)
        # A turn writes to the record, not here: the record knows more than the binding does.
        if has_stopped and is_ours(binding):
            whose = "a turn of upthread's"
            raise NotTakenInError(path, f"{where}: {whose} was cut off; it is being looked up")
        was_interrupted = binding.get("was_interrupted") is True or has_stopped
        mine = {"workstream": workstream, "role": call.role, "slot": slot}
        return path, {**binding, **mine}, busy, was_interrupted
    where = address_in_words(workstream, call.role, SLOTS_MAX)
    raise files.BusyError(f"{where}: {SLOTS_MAX} calls of one role are under way")


def _has_worked(place: Place, workstream: str, role: str) -> bool:
    """Return whether a role is known to have worked: a binding that is not there is then lost."""
    known = list_in(place.known or {}, "workstreams")
    return any(
        role in list_in(each, "worked") for each in known if text_in(each, "name") == workstream
    )


def _decided(call: SubAgentCall, binding: dict[str, Any], taken: HookDecision) -> Decided:
    session = text_in(binding, "session") if taken.decision in RESUMING else ""
    context = taken.update if session else _past(taken, binding)
    decided = Decided(
        line=decision_line(binding, taken, session),
        prompt=f"{context}\n\n{call.text}" if context else call.text,
        decision=taken.decision,
        session=session,
        context=context,
    )
    if taken.decision == REFUSE:
        decided.refusal = f"{decided.line}. {taken.hint}" if taken.hint else decided.line
    return decided


def _past(taken: HookDecision, binding: dict[str, Any]) -> str:
    """Return what a session that knows nothing is told of the conversation it goes on with."""
    if taken.decision not in {RESUME_WITH_REPLAY, START_FRESH}:
        return ""
    replay = text_in(binding, "replay") if taken.decision == RESUME_WITH_REPLAY else ""
    if replay or not taken.changes:
        return replay or text_in(binding, "briefing")
    from upthread.core.decision.freshness import with_changes

    return with_changes(text_in(binding, "briefing"), taken.changes)
