"""A look at stores: bounded, and what it passes over is counted."""

from __future__ import annotations

from upthread.agent_stores.outline import (
    TITLE_CHARACTERS_MAX,
    Look,
    epoch_ms,
    look,
    text_in,
    title_of,
)


def test_a_look_ends_at_its_number_of_sessions_and_says_so():
    seen = Look(until_s=float("inf"), sessions_max=2)
    assert [seen.goes_on() for _ in range(4)] == [True, True, False, False]
    assert (seen.sessions, seen.is_cut_short) == (2, True)


def test_a_look_ends_when_its_time_is_over():
    seen = look(seconds_max=-1)
    assert not seen.goes_on()
    assert seen.is_cut_short


def test_what_is_passed_over_is_counted_by_its_reason():
    seen = look()
    for why in ("empty", "binary", "empty"):
        seen.pass_over("codex", why)
    seen.pass_over("codex", "nothing", 0)
    assert seen.passed_over == {("codex", "empty"): 2, ("codex", "binary"): 1}


def test_a_title_is_one_short_line():
    assert title_of(" Plan\n the\texport ") == "Plan the export"
    assert len(title_of("x" * 10_000)) == TITLE_CHARACTERS_MAX


def test_a_moment_is_read_and_what_is_none_is_none():
    assert epoch_ms("1970-01-01T00:00:01.500Z") == 1_500
    for text in ("", "yesterday", "9" * 99):
        assert epoch_ms(text) is None


def test_the_first_text_of_a_message_is_found_in_every_form():
    assert text_in("hi") == "hi"
    assert text_in([{"type": "image"}, {"type": "text", "text": "hi"}, "x"]) == "hi"
    for content in (None, 3, [], [[]], {"text": "x"}):
        assert text_in(content) == ""
