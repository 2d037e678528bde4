"""What a connection remembers of its last commit, and forgets when anybody else has written."""

from __future__ import annotations

import pytest
from tests.support.sqlite_faults import statements_of

from upthread.core.types import Fence, Holder, TextPart
from upthread.errors import ConflictError, FencedError
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

HOLDER = Holder(host="build-3", boot_id="b", pid=1, started_at_ticks=1)


@pytest.fixture
def pair(tmp_path):
    """Two connections to one file, as two processes have them."""
    one, other = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    one.commit(samples.home())
    yield one, other
    one.close()
    other.close()


def leased(store):
    lease = store.acquire_lease("conversation", HOLDER)
    return Fence(name=lease.name, token=lease.token)


def test_a_commit_after_one_of_its_own_asks_for_nothing(pair):
    one, _ = pair
    fence = leased(one)
    one.commit([samples.said(1)], fences=[fence])
    with statements_of(one) as statements:
        one.commit([samples.said(2)], fences=[fence])
    assert not [each for each in statements if each.startswith("SELECT")]


@pytest.mark.parametrize("giving", [0, 1], ids=["itself", "another"])
def test_a_lease_that_a_connection_gave_back_is_seen(pair, giving):
    one, _ = pair
    fence = leased(one)
    one.commit([samples.said(1)], fences=[fence])
    pair[giving].release_lease(fence)
    assert not giving or leased(pair[giving])
    with pytest.raises(FencedError):
        one.commit([samples.said(2)], fences=[fence])
    assert one.message_count(CONVERSATION) == 1


def test_what_another_connection_has_said_is_followed(pair):
    one, other = pair
    one.commit([samples.said(1)])
    other.commit([samples.said(2)])
    with pytest.raises(ConflictError):
        one.commit([samples.said(2, TextPart(text="another"))])
    one.commit([samples.said(3)])
    assert one.message_count(CONVERSATION) == 3
    assert one.verify(CONVERSATION) is None


def test_what_a_commit_that_failed_has_said_is_forgotten(pair):
    one, _ = pair
    one.commit([samples.said(1)])
    with pytest.raises(ConflictError):
        one.commit([samples.said(2), samples.said(9)])
    one.commit([samples.said(2)])
    assert one.verify(CONVERSATION) is None
    assert one.message_count(CONVERSATION) == 2
