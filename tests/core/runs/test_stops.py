"""Why something does not go on by itself: each reason has words and a cure, and no time in them."""

import re
from pathlib import Path

import msgspec
import pytest

from upthread.client.runs import CANNOT_RUN
from upthread.core.decision.rollover import ROLLOVER, Recovery
from upthread.core.decision.words import TOKENS_MAX
from upthread.core.events import (
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.roles.reports import Report, ReportedQuestion, Verdict
from upthread.core.runs import pipeline
from upthread.core.runs.pipeline import REJECTED_TOO_OFTEN
from upthread.core.runs.stops import (
    ASKED_NOBODY,
    CUT_OFF,
    LIMITS,
    NO_ANSWER_WITHIN,
    NO_TURN,
    NO_WORDS,
    NOT_ANSWERED,
    NOT_OFFERED,
    NOTHING_SAID,
    REFUSAL,
    UNDER_WAY,
    Ending,
    Source,
    Stop,
    ending_of,
    shortfall,
    stop_in_words,
)
from upthread.core.turns.turn import HELD_BACK, UNDECIDABLE, Recognition, TurnView, fold
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.runtime.permissions import NEEDS_PERMISSION

PARKED_FOR = (
    *("blocked", "no_report", "asked_in_vain", "too_many_steps", REJECTED_TOO_OFTEN),
    *(CANNOT_RUN, NEEDS_PERMISSION, HELD_BACK, TOKENS_MAX, UNDECIDABLE),
)


@pytest.mark.parametrize("reason", [*sorted(set(Outcome) - {Outcome.OK}), *PARKED_FOR])
def test_each_stop_has_words_and_a_cure(reason: str):
    found = stop_in_words(reason, "its own words")
    assert found.said
    assert found.said != str(reason).replace("_", " ")
    assert found.cure
    assert found.detail == "its own words"
    assert not re.search(r"[a-z]_[a-z]", found.said)


def test_every_reason_that_the_sources_park_for_is_in_the_table():
    source = Path(pipeline.__file__).read_text(encoding="utf-8")
    named = re.findall(r'RunParked\(reason="(\w+)"', source)
    assert len(named) >= 4
    assert set(named) <= set(PARKED_FOR)


def test_what_nobody_has_words_for_stands_for_itself():
    assert stop_in_words("of_a_later_version") == Stop(said="of a later version")
    assert stop_in_words("ok") == Stop(said="it ended well")


def test_the_cure_names_an_agents_last_words_only_where_there_are_some():
    died = Outcome.PROCESS_DIED
    cure = "tell it again; if it goes on so, try --fresh or another --agent"
    assert stop_in_words(died).cure == cure
    ours = stop_in_words(died, source=Source(last_words="/home/ada/x.log"))
    assert ours.cure == "its last words are in /home/ada/x.log; " + cure
    theirs = stop_in_words(died, source=Source(is_persons_own=True))
    assert theirs.cure == "delegate it again in the agent, or tell it from here"
    limited = stop_in_words(Outcome.RATE_LIMITED, source=Source(last_words="/home/ada/x.log"))
    assert limited.cure == "wait, or go on with another --agent"


def test_the_cure_of_a_refusal_names_what_the_agent_spoke_of():
    assert "close it there" in stop_in_words(Outcome.UNKNOWN, "the session is locked").cure
    assert "upthread reset" in stop_in_words(Outcome.UNKNOWN, "content filter").cure
    found = stop_in_words("permission", "`Edit a.py` (edit): nobody was there to allow it")
    assert 'edit = "allow"' in found.cure
    for offered, cure in (("allow_always", ", or at the terminal"), ("allow_session, no", "")):
        found = stop_in_words("permission", f"`Edit a.py` (edit): {NOT_OFFERED}{offered}")
        assert found.cure.startswith(f"allow it in the agent's own settings{cure}")
        assert ("terminal" in found.cure) == bool(cure)


def test_the_cure_of_a_wait_at_the_start_names_its_own_setting():
    waited = f"codex {NOT_ANSWERED} thread/resume{{}} within 90 s"
    cures = [
        stop_in_words(Outcome.TIMED_OUT, waited.format(about)).cure
        for about in ("", " for session ses_1")
    ]
    assert ["--fresh" in cure for cure in cures] == [False, True]
    assert all("raise start_timeout_s" in cure for cure in cures)
    forced = f"{NO_ANSWER_WITHIN} 60 s; it {NOT_ANSWERED} the cancel within 5 s and was ended"
    assert "raise prompt_timeout_s" in stop_in_words(Outcome.TIMED_OUT, forced).cure


@pytest.mark.parametrize("recognition", Recognition)
def test_the_cure_of_a_turn_that_was_cut_off_each_time_is_more_time_for_an_attempt(recognition):
    found = stop_in_words(UNDECIDABLE, f"{recognition} after 10 sends")
    is_known = recognition in {Recognition.INCOMPLETE, Recognition.ABSENT}
    assert ("start_to_close_timeout" in found.cure) is is_known
    assert ("each of its prompts was cut off" in found.said) is is_known
    assert "start_to_close_timeout" in stop_in_words(Outcome.TIMED_OUT, CUT_OFF).cure


def test_a_limit_is_what_a_turn_waits_for_by_itself():
    waiting = {each for each, row in ROLLOVER.items() if row.recovery is Recovery.WAIT}
    assert waiting == LIMITS


def test_a_turn_that_went_well_without_an_answer_says_so():
    assert shortfall(Outcome.OK, "") is None
    assert shortfall(Outcome.OK, NO_WORDS) is None
    assert shortfall(Outcome.OK, "max_tokens: cut off") is None
    assert shortfall(Outcome.CANCELLED, NOTHING_SAID) is None
    silent = shortfall(Outcome.OK, NOTHING_SAID)
    assert silent == stop_in_words(Outcome.OK, NOTHING_SAID)
    assert silent is not None
    assert (silent.said, silent.detail) == ("the agent answered nothing", "")
    assert silent.cure
    declined = stop_in_words(Outcome.OK, f"{REFUSAL}not that")
    assert (declined.said, declined.detail) == ("the agent declined to go on", "not that")
    asked = stop_in_words(Outcome.OK, f"{ASKED_NOBODY}Blue?")
    assert (asked.detail, asked.cure) == ("Blue?", "answer it with the next prompt")


# --- whether a role's last turn has finished, and how: a few words, whatever came after it --------


SENT: tuple[TurnEvent, ...] = (
    TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1),
    SessionAttached(upstream_session_id=UpstreamSessionId("ses_1"), how="new", agent="codex"),
    PromptSent(prompt_seq=1),
)
APPROVES = Report(status="done", verdict=Verdict(result="approved"))
ASKS = Report(status="needs_input", questions=(ReportedQuestion(id="q1", text="Which?"),))


SILENT = TurnEnded(outcome=Outcome.OK, detail=NOTHING_SAID)


def turn(*events: TurnEvent) -> TurnView:
    return fold((*SENT, *events))


def ended(report: Report | None = None) -> TurnEnded:
    return TurnEnded(outcome=Outcome.OK, report=msgspec.to_builtins(report) if report else None)


@pytest.mark.parametrize(
    ("report", "how"),
    [
        (None, "finished"),
        (Report(status="done"), "finished: done"),
        (APPROVES, "finished: approved"),
        (ASKS, "finished: it asks"),
        (Report(status="blocked"), "finished: it is blocked"),
    ],
)
def test_a_turn_that_ended_well_has_finished_as_its_report_says(report: Report | None, how: str):
    assert ending_of(turn(ended(report)), is_held=False) == Ending(is_finished=True, how=how)


@pytest.mark.parametrize(
    ("events", "how"),
    [
        ((), "cut off"),
        ((TurnParked(reason="permission", detail="x"),), "stopped: it needs a permission"),
        ((TurnEnded(outcome=Outcome.PROCESS_DIED),), "ended: the agent died"),
        ((SILENT,), "ended: the agent answered nothing"),
    ],
)
def test_any_other_has_not(events: tuple[TurnEvent, ...], how: str):
    assert ending_of(turn(*events), is_held=False) == Ending(is_finished=False, how=how)


def test_what_is_under_way_or_was_never_asked_is_neither():
    assert ending_of(turn(ended()), is_held=True) == UNDER_WAY
    assert ending_of(None, is_held=True) == UNDER_WAY
    assert ending_of(None, is_held=False) == NO_TURN
