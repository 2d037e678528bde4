"""A moment as a person reads it: on their clock, and how far away."""

import time

import pytest

from upthread.surfaces.cli.terminal.phrases import NEVER, since, until

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00:00 UTC
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture(autouse=True)
def _in_a_place_of_its_own(monkeypatch):
    """Three and a half hours east: a clock that no machine of ours is on by itself."""
    monkeypatch.setenv("TZ", "Asia/Tehran")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("before_ms", "told"),
    [
        (0, "15:30 (just now)"),
        (-5 * MINUTE_MS, "15:35 (just now)"),  # a clock that was set back
        (7 * MINUTE_MS, "15:23 (7 min ago)"),
        (HOUR_MS, "14:30 (1 h ago)"),
        (3 * HOUR_MS + 5 * MINUTE_MS, "12:25 (3 h 5 min ago)"),
        (16 * HOUR_MS, "2026-11-19 23:30 (16 h ago)"),
        (24 * HOUR_MS, "2026-11-19 15:30 (1 day ago)"),
        (75 * HOUR_MS, "2026-11-17 12:30 (3 days ago)"),
    ],
)
def test_since_is_on_the_persons_clock_with_the_distance(before_ms, told):
    assert since(NOON_MS - before_ms, now_ms=NOON_MS) == told


@pytest.mark.parametrize(
    ("after_ms", "told"),
    [
        (30_000, "until 15:30 (in less than a minute)"),
        (2 * HOUR_MS + 8 * MINUTE_MS, "until 17:38 (in 2 h 8 min)"),
        (10 * HOUR_MS, "until 2026-11-21 01:30 (in 10 h)"),
        (-MINUTE_MS, "until 15:29 (that is past)"),
    ],
)
def test_until_says_when_and_how_long(after_ms, told):
    assert until(NOON_MS + after_ms, now_ms=NOON_MS) == told


def test_what_never_was_has_no_moment_and_now_is_the_clock():
    assert since(None) == NEVER
    assert since(time.time_ns() // 1_000_000).endswith("(just now)")
