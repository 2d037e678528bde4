import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.text.markdown import CUT, code, item, neutral, one_line, shortened

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
def test_neutral_text_has_no_heading_of_ours(text: str):
    for line in neutral(text).splitlines():
        assert not re.match(r"[ \t]*#{1,2}([ \t]|$)", line)


@given(TEXTS)
def test_neutral_text_comes_back_as_it_is(text: str):
    assert neutral(neutral(text)) == neutral(text)


@given(TEXTS)
def test_every_fence_is_closed_so_that_what_follows_is_read(text: str):
    assert neutral(f"{neutral(text)}\n# After") == f"{neutral(text)}\n### After"


@given(TEXTS)
def test_all_words_are_kept(text: str):
    escaped = re.sub(r"<(?=/?h[1-6]\b)", "&lt;", text)  # a heading's, and no other
    assert re.findall(r"\w+", neutral(text)) == re.findall(r"\w+", escaped)


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
