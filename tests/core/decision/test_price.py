import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.agents import AGENTS
from upthread.core.decision.words import (
    ANY_CACHE,
    Price,
    Tokens,
    cache_of,
    cache_state,
    estimated,
    fixed_part,
    with_fixed,
)

NOTHING_OWN = Tokens(count=0, is_estimate=False)


def test_what_an_agent_reported_is_exact_and_all_else_is_marked():
    assert Tokens(count=41_234, is_estimate=False).in_words == "41k"
    assert estimated(8_001).in_words == "~2k"
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
    for cache in (*(row.cache for row in AGENTS.values() if row.cache), ANY_CACHE):
        assert "https://" in cache.source
        assert 0 <= cache.warm_s < cache.cold_s
    assert cache_of("nobody knows it") is ANY_CACHE
    assert cache_of("opencode") is ANY_CACHE, "it depends on the provider"


def test_shares_and_ratios_need_both_figures():
    big, small = Tokens(count=41_000, is_estimate=False), estimated(8_000)
    price = Price(resume=big, briefing=small, fixed=NOTHING_OWN, window_tokens=100_000)
    assert price.window_share == pytest.approx(0.41)
    assert price.times_cheaper == pytest.approx(20.5)
    for less in (
        Price(resume=big, fixed=NOTHING_OWN),
        Price(briefing=small, fixed=NOTHING_OWN),
        Price(window_tokens=1),
    ):
        assert less.window_share is None
        assert less.times_cheaper is None
    assert Price(resume=big, window_tokens=0).window_share is None


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_ratio_never_divides_by_nothing(resume, briefing):
    price = Price(
        resume=Tokens(count=resume, is_estimate=True),
        briefing=Tokens(count=briefing, is_estimate=True),
        fixed=NOTHING_OWN,
    )
    times = price.times_cheaper
    assert times is not None
    assert 0 <= times <= resume


def test_no_ratio_is_believed_while_nobody_knows_what_the_agent_reads_by_itself():
    price = Price(resume=estimated(80_000), briefing=estimated(400))
    assert price.times_cheaper is None


def test_what_an_agent_reads_by_itself_is_in_both_figures():
    own = Tokens(count=20_000, is_estimate=False)
    assert with_fixed(estimated(400), own) == Tokens(count=20_100, is_estimate=True)
    assert with_fixed(estimated(400), None) == estimated(400)


def test_an_agents_own_part_is_what_its_first_request_read_beyond_our_words():
    own = Tokens(count=20_000, is_estimate=False)
    assert fixed_part(20_100, characters=400) == own
    held = fixed_part(20_100, characters=400, is_estimate=True)
    assert held == Tokens(count=20_000, is_estimate=True)
    assert fixed_part(5, characters=400) is None
