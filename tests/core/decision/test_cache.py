from typing import get_args

import pytest

from upthread.core.decision.cache import state_of_cache
from upthread.core.decision.price import CacheState


@pytest.mark.parametrize(
    ("idle_s", "state"),
    [(0, "warm"), (300, "warm"), (301, "unknown"), (3_600, "unknown"), (3_601, "cold")],
)
def test_a_prefix_is_there_for_a_while_then_nobody_knows_then_it_is_gone(idle_s, state):
    assert state_of_cache(idle_s, warm_s=300, cold_s=3_600) == state
    assert state in get_args(CacheState)


@pytest.mark.parametrize("idle_s", [None, -1])
def test_without_a_time_or_after_a_clock_was_set_back_nobody_knows(idle_s):
    assert state_of_cache(idle_s, warm_s=300, cold_s=3_600) == "unknown"
