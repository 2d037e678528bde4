"""What is told of a turn that was cut off, and of a turn that an agent stored."""

from __future__ import annotations

from upthread.core.events import UsageReported
from upthread.core.turns.stored_session import CutOffTurn, StoredTurn
from upthread.core.types import TurnId

TURN = TurnId("trn_1")


def test_a_cut_off_turn_is_told_with_its_reason_and_its_prompt_on_one_line_each():
    cut_off = CutOffTurn(turn_id=TURN, prompt="Plan\nit.", actions=(), detail="killed")
    assert cut_off.lines == ("the last turn was cut off: killed", "it was asked: Plan it.")
    unknown = CutOffTurn(turn_id=TURN, prompt="", actions=(), detail="")
    assert unknown.lines_of_earlier == ("an earlier turn was cut off", "it was asked: not kept")


def test_a_stored_turn_holds_what_its_last_report_says():
    told = tuple(UsageReported(upstream_session_id=None, tokens_used=used) for used in (10, 20))
    turn = StoredTurn(upstream_session_id=None, prompt="Plan it.", events=told)
    assert turn.usage == told[1]
    assert StoredTurn(upstream_session_id=None, prompt="Plan it.", events=()).usage is None
