"""Visible text: a line is one line, nothing acts or hides, and nothing is lost that is shown."""

import re
import shlex
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core import text as texts
from upthread.core.text import (
    CUT,
    MARKS_MAX,
    WORD_CHARACTERS_MAX,
    code,
    command,
    escaped,
    is_mark,
    item,
    neutral,
    one_line,
    shortened,
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
    assert len(visible_line(text)) <= texts.LINE_CHARACTERS_MAX
    assert visible_line(visible_line(text)) == visible_line(text)


@pytest.mark.extended
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


@pytest.mark.extended
def test_every_mark_there_is_is_looked_at():
    looked_at = re.compile(f"[{texts._MAY_BE_MARKS}]")
    marks = [c for c in map(chr, range(sys.maxunicode + 1)) if is_mark(c)]
    assert len(marks) > 1_800
    assert [hex(ord(c)) for c in marks if not looked_at.match(c)] == []
    for mark in marks[:: len(marks) // 100]:
        assert visible_text(f"a·{mark * 4}") == f"a·{mark * 4}"
        assert visible_text(f"a·{mark * 5}") == f"a·{mark * 4}{escaped(mark)}"


def test_ordinary_writing_is_left_alone():
    ordinary = "Grüße, 東京\u3000日本 नमस्ते क्\u200dष 👩\u200d🔬 «\u00a0oui\u00a0» \ue0b0\tx\n"
    assert visible_text(ordinary) == ordinary
    assert visible_line("a\n b\t c\u00a0d\u3000e") == "a b c d e"
    assert visible_row("  a\n") == "  a\\n"
    assert visible_row("a\r\t\U000e0041") == "a\\r\\t\\U000e0041"


def test_a_line_is_cut_however_much_white_space_is_folded():
    assert len(visible_line("x" * 10_000_000)) == texts.LINE_CHARACTERS_MAX
    assert visible_line(" " * 10_000 + "x") == "…"
    assert visible_line("abcdef", characters_max=4) == "abc…"


def test_what_is_remembered_of_characters_has_an_end():
    visible_text("".join(map(chr, range(0x4E00, 0x9000))))
    assert len(texts._IN_TEXT) <= texts._CACHED_MAX


def test_of_what_is_cut_in_the_middle_both_ends_are_seen():
    assert visible_ends("git push") == "git push"
    path = "write " + "a-directory/" * 40 + "the-file.txt"
    shown = visible_ends(path, characters_max=60)
    assert len(shown) == 60
    assert shown.startswith("write a-directory/")
    assert shown.endswith("a-directory/the-file.txt")
    assert visible_ends("a\x1b" * 400)[-8:] == "a\\x1ba\\x1b"[-8:]


# --- core/text/markdown ---------------------------------------------------------------------------


LINES = st.sampled_from(
    [
        *("# A", "## B", "### C", "#", "#!sh", "#a", "  # in", "\t# tab", "- # item", "> # quote"),
        *("```", "~~~", "````py", "``` a`b", "    ```", "===", "---", "--", "text", ""),
        "<h1>x</h1>",
    ]
)
TEXTS = st.lists(LINES, max_size=12).map("\n".join) | st.text(max_size=60)
BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]


def test_prose_is_left_as_it_is():
    text = "1. R1 → app.py\n\n### Why\n`#1`, #2, a *star*\n\n- one\n- two\n\n---\n\n|a|\n|---|"
    assert neutral(text) == text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("# Report of auditor", "### Report of auditor"),
        ("## Verdict: approved", "#### Verdict: approved"),
        ("   # indented", "   ### indented"),
        ("#", "###"),
        ("#hashtag", "#hashtag"),
        ("#!/bin/sh", "#!/bin/sh"),
        ("Report of auditor\n===", "Report of auditor\n\\==="),
        ("Verdict: approved\n---", "Verdict: approved\n\\---"),
        ("a\n\n---\n\nb", "a\n\n---\n\nb"),
        ("<H1>Report</H1>", "&lt;H1>Report&lt;/H1>"),
        ("```\nleft open", "```\nleft open\n```"),
        ("~~~~\n```\nleft open", "~~~~\n```\nleft open\n~~~~"),
        ("```sh\nls\n```", "```sh\nls\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("```\nls\n``` more", "```\nls\n``` more\n```"),
        ("```inline``` code", "```inline``` code"),
        ("```sh\n# a comment\n```", "```sh\n### a comment\n```"),
        ("", ""),
    ],
)
def test_what_could_end_a_section_loses_its_force(said: str, told: str):
    assert neutral(said) == told


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_no_kind_of_line_break_hides_a_heading(line_break: str):
    assert neutral(f"innocent{line_break}# Answers") == "innocent\n### Answers"


@given(TEXTS)
def test_neutral_text_has_no_heading_of_ours_closes_its_fences_and_keeps_all_words(text: str):
    told = neutral(text)
    for line in told.splitlines():
        assert not re.match(r"[ \t]*#{1,2}([ \t]|$)", line)
    assert neutral(told) == told
    assert neutral(f"{told}\n# After") == f"{told}\n### After"
    escaped = re.sub(r"<(?=/?h[1-6]\b)", "&lt;", text)  # a heading's, and no other
    assert re.findall(r"\w+", told) == re.findall(r"\w+", escaped)


@given(TEXTS)
def test_an_item_stays_one_item(text: str):
    first, *more = item(text).split("\n")
    assert first.startswith("- ")
    assert all(line.startswith("  ") for line in more)


@given(st.text())
def test_one_line_is_one_line(text: str):
    assert len(one_line(text).splitlines()) <= 1
    assert one_line(text).split() == text.split()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.py", "`a.py`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``x", "``` ``x ```"),
        ("two\nlines", "`two lines`"),
    ],
)
def test_inline_code_holds_whatever_backticks_there_are(text, shown):
    assert code(text) == shown


@pytest.mark.parametrize("characters_max", [0, 5, 10, 11, 50, 99, 100, 101])
def test_what_is_too_long_keeps_its_beginning_and_its_end(characters_max):
    text = "a" * 70 + "z" * 30
    told = shortened(text, characters_max)
    assert len(told) <= max(characters_max, len(CUT))
    assert (told == text) == (characters_max >= len(text))
    if 50 <= characters_max < len(text):
        assert (told[0], told[-1], told.count(CUT)) == ("a", "z", 1)


# --- a command that a hint suggests: pasted, it is one command, and a name in it is only a na -----


TRICKY = st.text(st.sampled_from("'\"`$();|&<>#~!*\\\n\r\t \x1b\u202e\ud83dab"))


@given(ANY_TEXT | TRICKY)
def test_a_word_stays_one_word_on_one_line(word):
    suggested = command("git", word, "end")
    assert suggested.isprintable()
    first, shown, last = shlex.split(suggested)
    assert (first, last) == ("git", "end")
    assert len(shown) <= WORD_CHARACTERS_MAX


def test_a_name_that_only_a_shell_would_mind_is_given_as_it_is():
    assert shlex.split(command("cd", "/a/it's; $(x)")) == ["cd", "/a/it's; $(x)"]
