import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.price import (
    ANY_CACHE,
    CACHES,
    Price,
    Tokens,
    cache_row,
    cache_state,
    estimated,
    held,
)


def test_what_an_agent_reported_is_exact_and_all_else_is_marked():
    assert held(reported=41_234, characters=9).in_words == "41k"
    assert held(reported=None, characters=8_001).in_words == "~2k"
    assert held(reported=0, characters=9) == Tokens(count=0, is_estimate=False)
    assert estimated(0) == Tokens(count=0, is_estimate=True)
    assert estimated(9).count == 3
    assert estimated(3_320).in_words == "~830"


@pytest.mark.parametrize(
    ("agent", "idle_s", "state"),
    [
        ("claude-code", 0, "warm"),
        ("claude-code", 300, "warm"),
        ("claude-code", 301, "unknown"),
        ("claude-code", 3_600, "unknown"),
        ("claude-code", 3_601, "cold"),
        ("codex", 299, "warm"),
        ("gemini", 1, "unknown"),
        ("opencode", 1, "unknown"),
        ("opencode", 90_000, "cold"),
        ("codex", None, "unknown"),
        ("codex", -5, "unknown"),
    ],
)
def test_a_cache_is_warm_cold_or_nobody_can_tell(agent, idle_s, state):
    assert cache_state(agent, idle_s=idle_s) == state


def test_another_prefix_is_in_no_cache():
    assert cache_state("claude-code", idle_s=1, is_same_prefix=False) == "cold"


def test_each_row_has_its_source_and_every_agent_a_row():
    for row in (*CACHES, ANY_CACHE):
        assert "https://" in row.source
        assert 0 <= row.warm_s < row.cold_s
    assert cache_row("nobody knows it") is ANY_CACHE


def test_shares_and_ratios_need_both_figures():
    big, small = Tokens(count=41_000, is_estimate=False), estimated(8_000)
    price = Price(resume=big, briefing=small, window_tokens=100_000)
    assert price.window_share == pytest.approx(0.41)
    assert price.times_cheaper == pytest.approx(20.5)
    for less in (Price(resume=big), Price(briefing=small), Price(window_tokens=1)):
        assert less.window_share is None
        assert less.times_cheaper is None
    assert Price(resume=big, window_tokens=0).window_share is None


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_ratio_never_divides_by_nothing(resume, briefing):
    price = Price(
        resume=Tokens(count=resume, is_estimate=True),
        briefing=Tokens(count=briefing, is_estimate=True),
    )
    times = price.times_cheaper
    assert times is not None
    assert 0 <= times <= resume
