"""A write in a thread comes to its end, and its caller knows how, also one that was cancelled."""

import asyncio
import threading

import pytest

from upthread.integrations.on_record import settled


def test_it_returns_what_the_write_returns_and_raises_what_it_raises():
    assert asyncio.run(settled(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(settled(divmod, 7, 0))


@pytest.mark.parametrize("cancels", [1, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_cancelled_it_ends_with_its_write_and_says_why_that_failed(cancels: int, fails: bool):
    may_go_on, written = threading.Event(), []

    def write() -> None:
        assert may_go_on.wait(10)
        if fails:
            raise OSError("no room")
        written.append("once")

    async def cancelled() -> None:
        work = asyncio.ensure_future(settled(write))
        for _ in range(cancels):
            await asyncio.sleep(0.05)
            work.cancel()
        await asyncio.sleep(0.05)
        assert not work.done()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError) as told:
            await work
        assert isinstance(told.value.__cause__, OSError) is fails

    asyncio.run(cancelled())
    assert written == ([] if fails else ["once"])
