"""Repair: what comes out is valid for every provider, twice is as good as once, no word is lost."""

import os
import sys
from collections.abc import Iterable

import pytest
from tests.core.history.histories import Histories, call, history, message, result, text
from tests.core.history.requests import refusals
from tests.support.sets import SOAK

from upthread.core.events import INTERRUPTED
from upthread.core.history.model import History, faults
from upthread.core.history.repair import (
    CHANGES_TOLD_MAX,
    MISSING_BEGINNING,
    RULES,
    damage_told,
    repair,
    told_to_model,
)
from upthread.core.text import unicode_text
from upthread.core.types import Speaker, TextPart, ToolCallPart, ToolResultPart

SEEDS_TRIED = 150
SEEDS_IN_CI = 1_500
SEEDS_IN_SOAK = int(os.environ.get("UPTHREAD_SOAK_HISTORIES", "1000000"))
SOAK_SHARES = 8
"""So that several processes have a share each."""
SEEDS_BETWEEN_WORDS = 25_000


def said(given: History, speakers: Iterable[Speaker]) -> str:
    """All words of some speakers in order, white space aside."""
    words = [
        unicode_text(part.text)
        for each in given
        for part in each.parts
        if each.speaker in speakers and isinstance(part, TextPart)
    ]
    return "".join("".join(words).replace(MISSING_BEGINNING, "").split())


USER = {Speaker.USER}
OTHERS = {Speaker.ASSISTANT, Speaker.TOOL}  # text among results counts as the assistant's


def failures(given: History) -> list[object]:
    """Everything that repair promises and does not keep for one history."""
    repaired = repair(given)
    again = repair(repaired.history)
    broken: list[object] = [*refusals(repaired.history)]
    broken += faults(repaired.history)
    broken += [] if again.history == repaired.history else ["changed again"]
    broken += again.changes
    for speakers in (USER, OTHERS):
        broken += [] if said(given, speakers) == said(repaired.history, speakers) else ["lost"]
    texts = [part.text for m in repaired.history for part in m.parts if isinstance(part, TextPart)]
    broken += ["half of a character"] if texts != [*map(unicode_text, texts)] else []
    return broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seeds",
    [range(SEEDS_TRIED), pytest.param(range(SEEDS_TRIED, SEEDS_IN_CI), marks=SOAK)],
    ids=str,
)
def test_any_damaged_history_is_valid_for_every_provider_after_repair(seeds):
    for seed in seeds:
        assert failures(Histories(seed).damaged()) == [], seed


@SOAK
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SOAK_SHARES))
def test_a_million_damaged_histories_are_valid_after_repair(share, capsys):
    seeds = range(SEEDS_IN_CI + share, SEEDS_IN_CI + SEEDS_IN_SOAK, SOAK_SHARES)
    for done, seed in enumerate(seeds, start=1):
        assert failures(Histories(seed).damaged()) == [], seed
        if done % SEEDS_BETWEEN_WORDS == 0 or done == len(seeds):
            words = f"damaged histories, share {share}: {done:,} of {len(seeds):,} valid"
            with capsys.disabled():
                sys.stderr.write(f"{words}\n")


def test_valid_histories_are_left_as_they_are():
    for seed in range(SEEDS_TRIED):
        valid = tuple(Histories(seed).valid())
        repaired = repair(valid)
        assert {change.rule for change in repaired.changes} <= {
            "text_is_unicode",
            "call_ids_differ",  # calls whose agents gave them no id
        }, seed


EXAMPLES: dict[str, History] = {
    "text_is_unicode": history(message("user", text("a\ud83dz"))),
    "call_ids_differ": history(
        message("user", text("a")),
        message("assistant", call("c", "write"), call("c", "read")),
        message("tool", result("c"), result("c")),
    ),
    "results_have_their_call": history(message("user", text("a")), message("tool", result("c"))),
    "calls_have_their_result": history(message("user", text("a")), message("assistant", call("c"))),
    "results_stand_after_their_calls": history(
        message("user", text("a")),
        message("assistant", call("c"), text("meanwhile")),
        message("tool", result("c")),
    ),
    "the_user_begins": history(message("assistant", text("a"))),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_of_repair_is_needed_and_says_what_it_changed(name, monkeypatch):
    """The mutation table: without the rule its example is no longer made valid."""
    assert failures(EXAMPLES[name]) == []
    repaired = repair(EXAMPLES[name])
    assert name in {change.rule for change in repaired.changes}
    assert all(change.place and change.what for change in repaired.changes)
    without = {other: rule for other, rule in RULES.items() if other != name}
    monkeypatch.setattr("upthread.core.history.repair.RULES", without)
    assert failures(EXAMPLES[name]) != []


def test_an_open_call_is_closed_with_an_unknown_outcome_and_the_model_is_told():
    repaired = repair(
        history(message("user", text("push it")), message("assistant", call("c1", "git push")))
    )
    assert repaired.history[-1].parts == (
        ToolResultPart(call_id="c1", status="unknown", text=INTERRUPTED),
    )
    told = told_to_model(repaired.changes)
    assert "call c1 (git push) has no result" in told
    assert "look before you do it again" in told


def test_the_model_is_not_told_of_a_change_of_form():
    assert told_to_model(repair(EXAMPLES["results_stand_after_their_calls"]).changes) == ""


def test_the_model_is_told_of_many_changes_in_few_lines():
    open_calls = [call(f"c{number}") for number in range(CHANGES_TOLD_MAX + 5)]
    repaired = repair(history(message("user", text("a")), message("assistant", *open_calls)))
    assert told_to_model(repaired.changes).endswith("- and 5 more")


def test_a_call_stored_twice_is_kept_once_and_a_second_call_under_its_id_gets_its_own():
    twice = history(
        message("user", text("a")),
        message("assistant", call("c", "write", {"x": 1})),
        message("assistant", call("c", "write", {"x": 1}), call("c", "read"), call("c~3", "ls")),
        message("tool", result("c", "wrote")),
        message("tool", result("c", "was read")),
    )
    repaired = repair(twice)
    parts = [part for each in repaired.history for part in each.parts]
    call_ids = [part.call_id for part in parts if isinstance(part, ToolCallPart)]
    assert call_ids == ["c", "c~2", "c~4", "c~3"]


def test_the_first_of_two_results_stays():
    twice = history(
        message("user", text("a")),
        message("assistant", call("c")),
        message("tool", result("c", "first"), result("c", "second")),
    )
    assert repair(twice).history[-1].parts == (result("c", "first"),)


def test_a_late_result_is_put_after_its_call_and_the_text_between_stays():
    repaired = repair(EXAMPLES["results_stand_after_their_calls"])
    speakers = [str(each.speaker) for each in repaired.history]
    assert speakers == ["user", "assistant", "tool", "assistant"]
    assert repaired.history[-1].parts == (text("meanwhile"),)


def test_equal_histories_are_repaired_equally():
    for seed in range(SEEDS_TRIED):
        assert repair(Histories(seed).damaged()) == repair(Histories(seed).damaged())


def test_an_empty_history_stays_empty():
    assert repair(history()).history == history()
    assert repair(history()).changes == ()


def answered(given: History) -> list[str]:
    parts = [part for each in given for part in each.parts]
    return [part.call_id for part in parts if isinstance(part, ToolResultPart)]


# --- what is told of damage, and that a cut at the beginning is none ------------------------------


SOUND = (
    message("user", text("go")),
    message("assistant", call("c1", "git push")),
    message("tool", result("c1")),
    message("assistant", text("done")),
)


def test_of_a_sound_history_and_of_a_cut_before_the_first_user_nothing_is_told():
    assert damage_told(SOUND) == damage_told(()) == ""
    assert damage_told((SOUND[2], SOUND[3], *SOUND)) == ""
    assert damage_told((SOUND[2],)) == ""


def test_a_call_without_a_result_is_told():
    told = damage_told((SOUND[0], SOUND[1]))
    assert "call c1 (git push) has no result" in told
    assert "look before you do it again" in told
