"""A look at stores: bounded, and what it passes over is counted."""

import pytest
from tests.support.secret_corpus import FORMS, sample_of
from tests.support.thoroughness import EXAMPLES

from upthread.agent_stores.base import (
    TITLE_CHARACTERS_MAX,
    Look,
    SessionOutline,
    epoch_ms,
    look,
    text_in,
    title_of,
)
from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)


def test_a_look_ends_at_its_number_of_sessions_or_its_time_and_says_so():
    seen = Look(until_s=float("inf"), sessions_max=2)
    assert [seen.goes_on() for _ in range(4)] == [True, True, False, False]
    assert (seen.sessions, seen.is_cut_short) == (2, True)
    late = look(seconds_max=-1)
    assert (late.goes_on(), late.is_cut_short) == (False, True)


def test_what_is_passed_over_is_counted_by_its_reason():
    seen = look()
    for why in ("empty", "binary", "empty"):
        seen.pass_over("codex", why)
    seen.pass_over("codex", "nothing", 0)
    assert seen.passed_over == {("codex", "empty"): 2, ("codex", "binary"): 1}


def called(text):
    return SessionOutline(agent="a", session_id="s", path="p", unredacted_title=title_of(text))


def test_a_title_is_one_short_line():
    assert called(" Plan\n the\texport ").title(str) == "Plan the export"
    assert len(called("x" * 10_000).title(str)) == TITLE_CHARACTERS_MAX
    for blanks in (" " * 5_000, "x" + " " * 5_000):
        assert called(blanks).title(str) == blanks.strip()


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_no_secret_is_cut_before_it_is_known(form):
    secret = sample_of(form).text
    places = range(TITLE_CHARACTERS_MAX - len(secret) - 2, TITLE_CHARACTERS_MAX + 1, 3)
    for at in places[:: 1 + 3 * len(places) // EXAMPLES]:
        text = f"{'word ' * (max(0, at) // 5)}{secret} and on"
        whole = " ".join(REDACTOR.redact(text).split())
        assert whole.startswith(called(text).title(REDACTOR.redact))


def test_what_is_kept_of_a_long_prompt_ends_with_a_whole_word():
    kept = called("word " * 5_000).unredacted_title
    assert TITLE_CHARACTERS_MAX * 10 < len(kept) < 4_001
    assert kept.endswith("word")
    assert len(called("x" * 10_000).unredacted_title) == 4_000


def test_a_moment_is_read_and_what_is_none_is_none():
    assert epoch_ms("1970-01-01T00:00:01.500Z") == 1_500
    for text in ("", "yesterday", "9" * 99):
        assert epoch_ms(text) is None


def test_the_first_text_of_a_message_is_found_in_every_form():
    assert text_in("hi") == "hi"
    assert text_in([{"type": "image"}, {"type": "text", "text": "hi"}, "x"]) == "hi"
    for content in (None, 3, [], [[]], {"text": "x"}):
        assert text_in(content) == ""
