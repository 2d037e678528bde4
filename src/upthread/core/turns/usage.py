"""Usage: what a turn's requests to a model took, figure by figure, as their agent counted them.

Nothing is estimated here. A sum is known only while every request in it was told: one that was not
makes it None, which is said as "not told". So a figure that is there can be held against a bill.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from upthread.core.events import Usage, UsageReported

NO_USAGE: Final = Usage()


def with_request(usage: Usage, told: UsageReported, *, is_own: bool) -> Usage:
    """Return the usage with one more request; `is_own` where no sub-agent made it."""
    one = Usage(
        requests=1,
        read=told.tokens_read,
        written=told.tokens_written,
        cached=told.tokens_cached,
        cache_written=told.tokens_cache_written,
        first_read=told.tokens_read if is_own else None,
        first_cached=told.tokens_cached if is_own else None,
    )
    return _added(usage, one) if usage.requests else one


def usage_of_prompt(counted: Usage, *, read: int | None, written: int | None) -> Usage | None:
    """Return what a prompt took; `read` and `written` are the sums that its agent told at its end.

    They count for an agent that does not tell of its requests. None where it tells nothing.
    """
    if counted.requests:
        return counted
    if read is None and written is None:
        return None
    return Usage(read=read, written=written)


def unfinished(counted: Usage) -> Usage:
    """Return the usage of a prompt that was cut off: of its last request nobody told."""
    return structs.replace(counted, read=None, written=None, cached=None, cache_written=None)


def together(usage: Usage | None, more: Usage | None) -> Usage | None:
    """Return both as one; the first requests stay those that came first, told or not."""
    if usage is None or more is None:
        return usage or more
    whole = _added(usage, more)
    return structs.replace(whole, first_read=usage.first_read, first_cached=usage.first_cached)


def _added(usage: Usage, more: Usage) -> Usage:
    return Usage(
        requests=usage.requests + more.requests,
        read=_sum(usage.read, more.read),
        written=_sum(usage.written, more.written),
        cached=_sum(usage.cached, more.cached),
        cache_written=_sum(usage.cache_written, more.cache_written),
        first_read=usage.first_read if usage.first_read is not None else more.first_read,
        first_cached=usage.first_cached if usage.first_read is not None else more.first_cached,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
