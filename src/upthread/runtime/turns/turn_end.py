"""How a turn is left: its last event, and what its caller gets. Reads the live turn only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from upthread.agents.base import PromptResult
from upthread.core.commands import Write
from upthread.core.decision.model import price_in
from upthread.core.events import TurnEnded, TurnParked
from upthread.core.roles.reports import MalformedReportError, Report, read_report
from upthread.core.runs.stops import NO_WORDS, NOTHING_SAID
from upthread.core.turns.spent_tokens import NOTHING_SPENT
from upthread.core.turns.stream import calls_open
from upthread.core.types import JsonValue, Outcome
from upthread.errors import StoreError
from upthread.runtime.record.turn_views import wrote
from upthread.runtime.turns.delegation import TurnResult
from upthread.runtime.turns.handshake_inputs import Fixed, surroundings
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.older_record import stamp_at_end


def ended_event(
    live: LiveTurn,
    result: PromptResult,
    *,
    writes: Sequence[Write],
    late_events: int = 0,
) -> TurnEnded:
    """Return the end of the turn as its prompt ended, with what its session works in now.

    `writes` are those that close what was open. Blocking: asks git.
    """
    recorder, report = live.recorder, _report(live)
    return TurnEnded(
        outcome=result.outcome,
        report=msgspec.to_builtins(report) if report else None,
        adopted=bool(live.adopted_reply),
        detail=result.detail or _silence(live, result.outcome),
        tokens_used=recorder.own.tokens_used if recorder else None,
        tokens_window=recorder.own.tokens_window if recorder else None,
        was_compacted=recorder is not None and recorder.own.was_compacted,
        late_events=late_events,
        surroundings=_surroundings(live),
        tree_digest=_tree_digest(live),
        calls_open=calls_open(writes),
        **live.account.told(),
        **_fixed(live),
    )


def end_here(live: LiveTurn, ended: TurnEnded, writes: Sequence[Write] = ()) -> None:
    """Commit the end of the turn, with what follows from it. Blocking."""
    follow_up = live.request.at_end(live.turn_id, ended, live.reply)
    # While the session is still known by this, the next prompt need not read it (ADR 88).
    stamped = structs.replace(ended, session_stamp=_stamp(live))
    live.commit_here(stamped, writes=(*writes, *follow_up))


def _stamp(live: LiveTurn) -> str:
    """Return what the session is known by at the turn's end, empty where that is not known.

    Empty too for one that is to be looked at again: it could not be compared, it lacked turns, or
    nothing was added to it. Its agent may not be able to write its store, and says nothing.
    """
    if live.link is None or live.view.attached is None:
        return ""
    # With a stamp the next prompt would take what was never compared for the same.
    if live.inputs is not None and (live.inputs.not_compared or live.inputs.turns_gone):
        return ""
    try:
        session = live.link.upstream_session_id
        stamp = live.request.own_sessions.stamp(live.link.agent, session)
    except StoreError:
        return ""  # then it is read before the next prompt, which says what is wrong
    before = live.claim.last[1] if live.claim.last else None
    return "" if stamp == stamp_at_end(before, session) else stamp


def parked_event(live: LiveTurn, because: TurnParked) -> TurnParked:
    """Return why the turn is parked, with what it took and what its session holds."""
    held = live.recorder.own.tokens_used if live.recorder else None
    return structs.replace(because, tokens_held=held, **live.account.told())


def result_of(live: LiveTurn) -> TurnResult:
    """Return what became of the turn, for its caller."""
    intended, view = live.intended, live.view
    ended, parked = view.ended, view.parked
    outcome, detail = live.interrupted_by or (live.outcome_of_park, parked.detail if parked else "")
    if ended:
        outcome, detail = ended.outcome, ended.detail
    # As it is on record: an agent's words about its failure may quote a secret (ADR 61).
    if live.request.redactor is not None:
        detail = live.request.redactor.redact(detail)
    return TurnResult(
        conversation=live.conversation,
        turn_id=live.turn_id,
        decision=intended.decision,
        reasons=intended.reasons,
        upstream_session_id=live.current_session,
        outcome=outcome,
        reply=live.reply,
        report=_report(live),
        parked=parked if ended is None else None,
        detail=detail,
        is_interrupted=live.interrupted_by is not None,
        reset_at_ms=live.reset_at_ms,
        turn_number=live.turn_number,
        spent=live.account.spent or NOTHING_SPENT,
        source=wrote(live.request.open.stderr_path, live.taken_at_ms),
    )


def _report(live: LiveTurn) -> Report | None:
    """Return the reply's report, None when there is none that can be read."""
    try:
        return read_report(live.reply)
    except MalformedReportError:
        return None


def _silence(live: LiveTurn, outcome: Outcome) -> str:
    """Return what is to be said of a turn that went well and has no word for a reply."""
    if outcome is not Outcome.OK or live.reply.strip():
        return ""
    return NO_WORDS if live.has_worked else NOTHING_SAID


def _fixed(live: LiveTurn) -> Fixed:
    view = live.view
    return live.account.fixed(
        known=price_in(live.intended.inputs).fixed,
        is_new=view.attached is not None and view.attached.how == "new" and view.sends == 1,
        reply_characters=len(live.reply),
    )


def _surroundings(live: LiveTurn) -> JsonValue:
    """Return what the session works in, as plain data. Blocking."""
    claim = live.request.claim
    here = surroundings(
        working_directory=live.request.open.working_directory,
        agent=claim.agent,
        agent_version=live.agent_version,
        role=claim.role,
        at_ms=live.now_ms(),
    )
    data: JsonValue = msgspec.to_builtins(here)
    return data


def _tree_digest(live: LiveTurn) -> str:
    """Return the digest of what was judged, empty for a turn that judges no tree. Blocking."""
    if not live.request.is_tree_judged:
        return ""
    # Starts git, so that only a role that judges a tree loads it.
    from upthread.runtime.working_tree.digest import tree_digest  # noqa: PLC0415

    return tree_digest(Path(live.request.open.working_directory))
