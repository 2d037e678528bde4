"""The stream of events in lines, and what a server's refusal says."""

from __future__ import annotations

import pytest

from upthread.agents.opencode.server import ApiError, content_of, lines_of
from upthread.core.quotas import ANSWER, FRAME
from upthread.errors import QuotaExceededError

pytestmark = pytest.mark.anyio


async def chunked(chunks):
    for chunk in chunks:
        yield chunk


async def test_lines_are_whole_however_they_were_cut():
    stream = chunked([b"data: a\n", b"\ndata", b": b\r", b"\n", b"\n", b"rest"])
    assert [line async for line in lines_of(stream)] == [b"data: a", b"", b"data: b", b""]


async def test_a_line_without_an_end_is_not_kept_for_ever():
    stream = chunked([b"x" * 2**24] * (FRAME.most // 2**24 + 1))
    with pytest.raises(QuotaExceededError):
        async for _ in lines_of(stream):
            pass


async def test_an_answer_is_read_to_its_limit_and_no_further():
    piece, given = b"x" * 2**24, []

    async def answering():
        for _ in range(16):
            given.append(1)
            yield piece

    with pytest.raises(QuotaExceededError) as caught:
        await content_of(answering())
    assert caught.value.limit == ANSWER.what
    assert len(given) == 3, "32 MiB, and what shows that it is more"


def test_a_refusal_says_its_name_its_status_and_its_reason():
    assert str(ApiError(404, "NotFoundError", "gone")) == "gone (NotFoundError 404)"
    assert str(ApiError(500, "", "")) == "no reason given (HTTP 500)"
