"""Neutral text: nothing in it acts, and nothing in it closes the place it stands in."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.decision.words import ordinal
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.cli.terminal.phrases import code, counted, fenced, moment, neutral, one_line

ANY_TEXT = st.text(st.characters(exclude_categories=()))
TRICKY = st.text(st.sampled_from("`~\n\t\r#|ab \x1b\x07\u202e\ud83d\u2028"))


@pytest.mark.extended
@given(ANY_TEXT | TRICKY)
def test_neutral_text_has_no_character_that_acts(text):
    shown = neutral(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t" for c in shown)
    assert not any(unicodedata.bidirectional(c) in {"RLO", "LRO", "RLI", "PDI"} for c in shown)
    shown.encode()
    assert neutral(shown) == shown


@given(ANY_TEXT | TRICKY)
def test_fence_is_longer_than_any_line_of_ticks_inside(text):
    first, *body, last = fenced(text).split("\n")
    fence = first.removesuffix("text")
    assert set(fence) == {"`"}
    assert last == fence
    assert not any(line.lstrip().startswith(fence) for line in body)


@given(TRICKY)
def test_code_span_is_on_one_line_and_cannot_be_closed(text):
    span = code(text)
    assert "\n" not in span
    if span != "—":
        ticks = span[: len(span) - len(span.lstrip("`"))]
        assert span.endswith(ticks)
        assert ticks not in span[len(ticks) : -len(ticks)]


def test_lines_are_cut_and_numbers_have_words():
    assert one_line("a\n b\t c") == "a b c"
    assert len(one_line("x" * 1000)) == 300
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"),
    ]
    assert (counted(1, "turn"), counted(0, "turn")) == ("1 turn", "0 turns")
    assert moment(1_795_200_000_999) == "2026-11-20 18:40:00 UTC"


def test_json_can_say_every_value():
    assert plain({"a": (1, float("nan"), {"b": (float("inf"),)})}) == {
        "a": [1, "nan", {"b": ["inf"]}]
    }
