"""What requests took is added figure by figure; what one did not tell, no sum pretends to know."""

from __future__ import annotations

from msgspec import structs

from upthread.core.events import Usage, UsageReported
from upthread.core.turns.usage import (
    NO_USAGE,
    together,
    unfinished,
    usage_of_prompt,
    with_request,
)
from upthread.core.types import UpstreamSessionId

OWN = UpstreamSessionId("ses_1")


def request(read: int, *, cached: int | None = None, written: int | None = 5) -> UsageReported:
    return UsageReported(
        upstream_session_id=OWN,
        tokens_used=None,
        tokens_read=read,
        tokens_written=written,
        tokens_cached=cached,
        tokens_cache_written=None if cached is None else read - cached,
    )


def test_requests_are_added_and_the_first_one_of_the_session_itself_is_kept():
    usage = with_request(NO_USAGE, request(40, cached=10), is_own=False)
    usage = with_request(usage, request(100, cached=90), is_own=True)
    usage = with_request(usage, request(110, cached=100), is_own=True)
    sums = Usage(requests=3, read=250, written=15, cached=200, cache_written=50)
    assert usage == structs.replace(sums, first_read=100, first_cached=90)


FIRST = with_request(NO_USAGE, request(100, cached=90), is_own=True)


def test_a_sum_is_not_told_once_one_request_was_not():
    usage = with_request(FIRST, request(10, written=None), is_own=False)
    assert usage == Usage(requests=2, read=110, first_read=100, first_cached=90)


def test_an_agent_that_tells_only_a_sum_has_no_requests():
    assert usage_of_prompt(NO_USAGE, read=900, written=100) == Usage(read=900, written=100)
    assert usage_of_prompt(NO_USAGE, read=None, written=None) is None
    counted = with_request(NO_USAGE, request(100), is_own=True)
    assert usage_of_prompt(counted, read=900, written=100) == counted


def test_of_a_prompt_that_was_cut_off_only_its_first_request_is_known():
    assert unfinished(FIRST) == Usage(requests=1, first_read=100, first_cached=90)


def test_prompts_of_one_turn_are_added_and_nothing_adds_nothing():
    two = with_request(NO_USAGE, request(200, cached=0), is_own=True)
    both = together(FIRST, two)
    assert both is not None
    assert (both.read, both.first_read, both.first_cached) == (300, 100, 90)
    assert together(None, FIRST) == together(FIRST, None) == FIRST
    assert together(None, None) is None
