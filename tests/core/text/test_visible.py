"""Visible text: a line is one line, nothing acts or hides, and nothing is lost that is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.text import visible
from upthread.core.text.visible import (
    MARKS_MAX,
    visible_ends,
    visible_line,
    visible_row,
    visible_text,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
HOSTILE = {
    "ansi": "\x1b[2J\x1b[31mred",
    "osc": "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "c1": "\x9b31m\x9d0;title\x9c",
    "bidi": "\u202egnp.exe\u2066x\u2069\u200f",
    "zero width": "a\u200bb\ufeffc\u2060d",
    "tags": "\U000e0041\U000e0042",
    "surrogates": "\ud83d \udfff",
    "blanks": "a\u3164b\u2800c\u115fd",
}


@given(ANY_TEXT | st.text(st.sampled_from(SEPARATORS + "ab \t\u0301")))
def test_a_line_is_one_line_for_everybody_and_has_nothing_that_acts(text):
    for shown in (visible_line(text), visible_row(text)):
        assert len(shown.splitlines()) <= 1
        assert shown.isprintable()
        shown.encode()
    assert len(visible_line(text)) <= visible.LINE_CHARACTERS_MAX
    assert visible_line(visible_line(text)) == visible_line(text)


@given(ANY_TEXT)
def test_only_line_feeds_end_lines_of_a_text(text):
    shown = visible_text(text)
    assert shown.count("\n") == text.count("\n")
    assert len(shown.splitlines()) <= shown.count("\n") + 1
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t" for c in shown)
    assert visible_text(shown) == shown


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_acts_or_hides_is_shown_as_its_escape(text):
    for shown in (visible_text(text), visible_line(text)):
        assert "\\" in shown
        assert "\x1b" not in shown


def test_marks_that_would_cover_other_lines_are_shown_as_escapes():
    assert visible_line("e\u0301") == "e\u0301"
    shown = visible_line("e" + "\u0301" * 100)
    assert shown.count("\u0301") == MARKS_MAX
    assert "\\u0301" in shown
    assert visible_text("e" + "\u0301" * 100).count("\u0301") == MARKS_MAX


def test_ordinary_writing_is_left_alone():
    ordinary = "Grüße, 東京\u3000日本 नमस्ते क्\u200dष 👩\u200d🔬 «\u00a0oui\u00a0» \ue0b0\tx\n"
    assert visible_text(ordinary) == ordinary
    assert visible_line("a\n b\t c\u00a0d\u3000e") == "a b c d e"
    assert visible_row("  a\n") == "  a\\n"
    assert visible_row("a\r\t\U000e0041") == "a\\r\\t\\U000e0041"


def test_a_line_is_cut_however_much_white_space_is_folded():
    assert len(visible_line("x" * 10_000_000)) == visible.LINE_CHARACTERS_MAX
    assert visible_line(" " * 10_000 + "x") == "…"
    assert visible_line("abcdef", characters_max=4) == "abc…"


def test_what_is_remembered_of_characters_has_an_end():
    visible_text("".join(map(chr, range(0x4E00, 0x9000))))
    assert len(visible._IN_TEXT) <= visible._CACHED_MAX


def test_of_what_is_cut_in_the_middle_both_ends_are_seen():
    assert visible_ends("git push") == "git push"
    path = "write " + "a-directory/" * 40 + "the-file.txt"
    shown = visible_ends(path, characters_max=60)
    assert len(shown) == 60
    assert shown.startswith("write a-directory/")
    assert shown.endswith("a-directory/the-file.txt")
    assert visible_ends("a\x1b" * 400)[-8:] == "a\\x1ba\\x1b"[-8:]
