"""One table of words: what is said of a decision, wherever it is said."""

import pytest

from upthread.core.decision.freshness import ChangedFile, Freshness
from upthread.core.decision.handshake import because, in_words, reasons_in_words
from upthread.core.decision.model import DECISIONS
from upthread.core.decision.rules import RULES
from upthread.core.decision.words import (
    NOTHING_PRICED,
    RESUME,
    Price,
    Tokens,
    became_in_words,
    because_in_words,
    conversation_name,
    cost_in_words,
    decision_line,
    done_in_words,
    intention_in_words,
    lacking_in_words,
    ordinal,
    price_in_words,
)

KIWI = "spec-42/planner (Kael-planner)"


def test_the_line_says_who_what_which_turn_why_and_what_it_costs():
    line = decision_line(
        KIWI, "resume", "ses_1", turn_number=2, because="the reason", cost="41k tokens to resume"
    )
    assert line == f"{KIWI}: RESUMED ses_1 · 2nd turn: the reason (41k tokens to resume)"
    plain = decision_line(KIWI, "first", "", turn_number=1, because="", cost="")
    assert plain == f"{KIWI}: STARTED"


@pytest.mark.parametrize("decision", DECISIONS)
def test_each_decision_has_words_with_a_session_and_without(decision):
    for session in ("ses_1", "", None):
        assert "_" not in done_in_words(decision, session).replace("ses_1", "")
        assert "  " not in done_in_words(decision, session)
        assert "_" not in intention_in_words(decision, session).replace("ses_1", "")


def test_a_session_nobody_knows_yet_is_called_new():
    assert done_in_words("resume_with_replay", "") == "ROLLED OVER to a new session with replay"
    assert done_in_words("resume_with_replay", "ses_2") == "ROLLED OVER to ses_2 with replay"
    assert done_in_words("another_day", None) == "another day"
    assert intention_in_words("another_day", None) == "another_day"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.reason)
def test_no_reason_is_contradicted_by_what_follows_it(rule):
    said = reasons_in_words((rule.reason, "unchanged"))
    assert said == in_words(rule.reason)


def test_plain_reasons_say_nothing_and_changed_files_are_named():
    assert because(("none_yet",), Freshness()) == ""
    assert because(("unchanged",), Freshness()) == ""
    changed = tuple(ChangedFile(path=f"{n}\x1b.py", how="changed") for n in range(5))
    found = Freshness(changed=changed, changed_count=5)
    said = because(("files_changed",), found)
    assert said.endswith("(0\\x1b.py, 1\\x1b.py, 2\\x1b.py and 2 more)")
    assert because(("policy",), found) == in_words("policy")
    assert because_in_words(["a"], str, changed=["b"], changed_count=1) == "a (b)"


def test_a_price_is_told_where_it_is_worth_a_place_in_the_line():
    def tokens(count: int) -> Tokens:
        return Tokens(count=count, is_estimate=True)

    unknown = Price(resume=tokens(41_000), briefing=tokens(10), cache="cold")
    own = Tokens(count=20_000, is_estimate=False)
    large = Price(resume=tokens(41_000), briefing=tokens(22_000), fixed=own)
    small = Price(resume=tokens(100), briefing=tokens(110), fixed=tokens(90), cache="cold")
    assert price_in_words(small) == (
        "~100 tokens to resume, cache cold; ~110 to brief, ~90 of either the agent's own prompt"
    )
    assert cost_in_words(small) == cost_in_words(unknown) == price_in_words(unknown) == ""
    assert (large.shown, unknown.shown) == (large, NOTHING_PRICED)
    assert cost_in_words(large) == (
        "~41k tokens to resume; ~22k to brief, 20k of either the agent's own prompt"
    )
    assert price_in_words(NOTHING_PRICED) == cost_in_words(NOTHING_PRICED) == ""


def test_names_and_numbers():
    assert conversation_name("spec-42/planner", "Kael-planner") == KIWI
    assert conversation_name("spec-42/planner", "") == "spec-42/planner"
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "112th")
    ]


def test_what_a_record_lacks_is_told_in_numbers_and_why_nobody_knows():
    assert lacking_in_words(0, "", "") == ""
    assert lacking_in_words(1, "", "") == (
        "the agent's session has 1 turn that this record lacks; it is read back"
    )
    assert lacking_in_words(2, "", "").endswith(
        "2 turns that this record lacks; they are read back"
    )
    assert lacking_in_words(0, "it is gone", "turn 2").endswith(
        "record: it is gone; the agent's session lacks turn 2, which this record has; "
        "it is told of that"
    )


def test_a_decision_whose_prompt_no_session_took_is_not_called_done():
    assert became_in_words(RESUME, "unchanged", was_refused=False) == ("RESUMED", "unchanged")
    assert became_in_words(RESUME, "unchanged", was_refused=True) == (
        "NOT RESUMED",
        "no session took the prompt; decided: unchanged",
    )
