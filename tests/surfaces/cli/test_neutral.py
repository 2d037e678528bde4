"""Text in a place of its own: nothing in the text closes the place."""

from hypothesis import given
from hypothesis import strategies as st

from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.cli.terminal.phrases import code, counted, fenced, moment

ANY_TEXT = st.text(st.characters(exclude_categories=()))
TRICKY = st.text(st.sampled_from("`~\n\t\r#|ab \x1b\x07\u202e\ud83d\u2028"))


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


def test_numbers_have_words():
    assert (counted(1, "turn"), counted(0, "turn")) == ("1 turn", "0 turns")
    assert moment(1_795_200_000_999) == "2026-11-20 18:40:00 UTC"


def test_json_can_say_every_value():
    assert plain({"a": (1, float("nan"), {"b": (float("inf"),)})}) == {
        "a": [1, "nan", {"b": ["inf"]}]
    }
