"""Expressions that cannot backtrack."""

import pytest

from upthread.core.redaction.linear import Expression, ExpressionSet
from upthread.errors import ConfigError


def test_spans_are_of_the_first_group_or_of_the_whole():
    assert list(Expression("a(b)c").spans(b"abc abc")) == [(1, 2), (5, 6)]
    assert list(Expression("ab").spans(b"abab")) == [(0, 2), (2, 4)]
    assert list(Expression("x(a)?y(b)?").spans(b"xy xay")) == [(0, 2), (4, 5)]


def test_a_whole_match_is_of_all_the_text():
    assert Expression("a+").is_whole(b"aaa")
    assert not Expression("a+").is_whole(b"aab")


def test_a_set_tells_which_of_its_expressions_match_somewhere():
    known = ExpressionSet(["a+", "b", "(?i)C"])
    assert known.found_in(b"xx") == []
    assert sorted(known.found_in(b"xc aa")) == [0, 2]


def test_what_would_take_for_ever_elsewhere_takes_no_time():
    assert not Expression(r"(a+)+b").is_whole(b"a" * 100_000)


def test_look_around_is_refused_with_the_reason():
    with pytest.raises(ConfigError) as refused:
        Expression("(?<=x)y")
    assert "invalid perl operator" in refused.value.message
    assert "Syntax" in refused.value.hint
