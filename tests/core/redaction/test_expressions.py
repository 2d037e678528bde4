"""Expressions that cannot backtrack."""

import json
import re
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.secret_corpus.channels import settled
from tests.support.sets import spread

from upthread.core.redaction.expressions import Expression, ExpressionSet, as_read
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import HELD_CHARACTERS_MAX, settled_length
from upthread.errors import ConfigError


def test_spans_are_of_the_first_group_or_of_the_whole():
    assert list(Expression("a(b)c").spans(b"abc abc")) == [(1, 2), (5, 6)]
    assert list(Expression("ab").spans(b"abab")) == [(0, 2), (2, 4)]
    assert list(Expression("x(a)?y(b)?").spans(b"xy xay xyb")) == [(0, 2), (4, 5), (9, 10)]


def test_a_whole_match_is_of_all_the_text():
    assert Expression("a+").is_whole(b"aaa")
    assert not Expression("a+").is_whole(b"aab")


def test_a_set_tells_which_of_its_expressions_match_somewhere():
    known = ExpressionSet(["a+", "b", "(?i)C"])
    assert known.found_in(b"xx") == []
    assert known.found_in(b"xc aa") == [0, 2]
    assert ExpressionSet([]).found_in(b"a") == []
    assert ExpressionSet(["a", "b"], ["x", ""]).found_in(b"ab") == [1]
    assert ExpressionSet(["a", "b"], ["x", ""]).found_in(b"abx") == [0, 1]


def test_what_would_take_for_ever_elsewhere_takes_no_time():
    assert not Expression(r"(a+)+b").is_whole(b"a" * 100_000)


def test_look_around_is_refused_with_the_reason():
    with pytest.raises(ConfigError) as refused:
        Expression("(?<=x)y")
    assert "invalid perl operator" in refused.value.message
    assert "Syntax" in refused.value.hint


# --- colours: what is painted is looked at as a person sees it, and all else stays as it was ------


REDACTOR = Redactor(b"k" * 32)
ESCAPES = ("\x1b", "\\u001b", "\\u001B", "\\x1b", "\\033", "\\e", "\\\\u001b")
PAINTED = {
    "DB_PASS=Aq1!zorkB7x\x1b[0m": "Aq1!zorkB7x",
    "\x1b[1m\x1b[31mDB_PASS\x1b[m\x1b[K=Aq1!zorkD7x": "Aq1!zorkD7x",
    "DB_PASS=\x1b[01;31mAq1!zorkE7x\x1b[m": "Aq1!zorkE7x",
    "\x1b[1m  password: Aq1!zorkF7x\x1b[0m": "Aq1!zorkF7x",
    "pass\x1b[01;31m\x1b[Kword\x1b[m\x1b[K: Aq1!zorkG7x\x1b(B\x1b[m": "Aq1!zorkG7x",
    "f.env\x1b[36m:\x1b[0m\x1b[32m3\x1b[0m:\x1b[1mCOHERE_API_KEY=zorkQ8w2Lm5Tn9Xc4Vb7\x1b[0m": (
        "zorkQ8w2Lm5Tn9Xc4Vb7"
    ),
}


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("text", PAINTED)
def test_a_painted_password_is_found_however_its_escape_is_written(text, escape):
    written = text.replace("\x1b", escape)
    for each in (written, f"a line\n{written}\nanother", json.dumps({"output": written})):
        redacted = REDACTOR.redact(each)
        assert PAINTED[text] not in redacted
        assert REDACTOR.redact(redacted) is redacted
        assert not REDACTOR.finds_nothing_in([each])


@pytest.mark.parametrize("text", PAINTED)
def test_a_painted_password_that_comes_in_pieces_is_found(text):
    assert PAINTED[text] not in settled(REDACTOR, f"first\n{text} and more\n", size=1)


def test_a_secret_painted_in_the_middle_goes_whole():
    redacted = REDACTOR.redact("DB_PASS=Aq1!\x1b[01;31mzork\x1b[mB7x rest")
    assert redacted.startswith("DB_PASS=[redacted:")
    assert redacted.endswith("] rest")


def test_what_is_painted_and_no_secret_stays():
    painted = ("\x1b[1mpassword\x1b[0m: str", "\x1b[1m\x1b[0m")
    for text in (*painted, "\x1b", "\\x1b no colour", "x1b[0m"):
        assert REDACTOR.redact(text * 4) == text * 4


@pytest.mark.extended
def test_no_more_than_so_much_of_a_painted_text_waits():
    text = "password\x1b[1m\x1b[0m" * HELD_CHARACTERS_MAX
    assert len(text) - settled_length(text) <= HELD_CHARACTERS_MAX
    assert settled_length("\x1b[1mpassword") == 0


PLAIN = ("a", "ü", " ", "word", "\\", "\x1b")
COLOURS = ("\x1b[0m", "\\u001b[1;31m", "\\x1b[0m")
ESCAPES = {
    "\\u003d": "=",
    "\\x2f": "/",
    "\\/": "/",
    "\\_": "_",
    "\\:": ":",
    "&amp;": "&",
    "&#61;": "=",
    "&#x3D;": "=",
    "&lt;": "<",
    "%3D": "=",
    "%2f": "/",
}


@given(st.lists(st.sampled_from([*PLAIN, *COLOURS, *ESCAPES])))
def test_a_span_leads_back_to_where_it_stood(pieces):
    content = "".join(pieces).encode()
    bare = as_read(content)
    if bare is None:
        return
    for place in range(len(bare.text)):
        start, end = bare.span(place, place + 1)
        stood, read = content[start:end], bare.text[place : place + 1]
        written = re.sub(r"^\\+", r"\\", stood.decode("latin-1"))
        meant = ESCAPES.get(written, written.removeprefix("\\"))
        assert stood == read or meant == read.decode()
    assert len(bare.text) < len(content)


SECRET = "Tq7wZk31vRnYbP0d"
ACCOUNT = "q3Xv9LmT0aZr8KcW5dYb2NfGh7PsJe4U1oRi6HtMy0BnQx3VwZk9CzLpEuAg5TdS8fKjR2bN7vM4hW1cXyPq0A=="
WRITTEN = {
    "JSON of PHP": lambda text: text.replace("/", "\\/"),
    "JSON of Gson": lambda text: text.replace("=", "\\u003d").replace("&", "\\u0026"),
    "the same within JSON": lambda text: text.replace("=", "\\\\u003D").replace("/", "\\\\/"),
    "HTML": lambda text: text.replace("&", "&amp;").replace("=", "&#61;"),
    "Markdown": lambda text: text.replace("_", "\\_").replace("=", "\\="),
    ".properties": lambda text: text.replace(":", "\\:").replace("=", "\\="),
    "a URL": lambda text: urllib.parse.quote(text, safe=""),
    "a string of JavaScript": lambda text: text.replace("=", "\\x3d").replace(":", "\\x3A"),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_secret_is_found_however_a_program_escapes_the_text_around_it(way):
    texts = (
        f"postgres://app:{SECRET}@db.example.org/shop",
        f"AccountName=shop;AccountKey={ACCOUNT};EndpointSuffix=core.windows.net",
        f"DB_PASSWORD={SECRET}",
        f"https://x.blob.core.windows.net/c?sv=2022-11-02&sig={ACCOUNT[:43]}%3D",
    )
    for text in texts:
        redacted = REDACTOR.redact(f'"{WRITTEN[way](text)}"')
        assert SECRET not in redacted, text
        assert ACCOUNT[:20] not in redacted, text


PIECES = ("\x1b", "\x1b[", "\x1b[0m", "\\", "\\u001b[", "\x1b[1", "password=\x1b[1m")


@pytest.mark.parametrize("piece", spread(PIECES, first=2, name=ascii))
def test_a_long_painted_text_is_read_in_one_go(piece):
    """A reader that went back for each escape would run into the time limit."""
    assert isinstance(REDACTOR.redact("\x1b[1m" + piece * 30_000), str)
