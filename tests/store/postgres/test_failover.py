"""The primary becomes read-only or is lost, and the address leads to the standby that took over."""

import threading
import time

import psycopg
import pytest
from tests.support.laboratory.proxy import Proxy
from tests.support.postgres_server import PostgresServer, with_database
from tests.support.sets import EXTENDED

from upthread.core.types import Fence
from upthread.errors import StoreError
from upthread.store.postgres import PostgresStore, migrate, server
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, HOLDER

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def pair():
    """A primary with our schema in a database `work`, its standby, and the address of both."""
    primary = PostgresServer()
    standby = None
    try:
        primary.ask("CREATE DATABASE work")
        migrate(with_database(primary.address, "work"))
        standby = PostgresServer(standby_of=primary)
        with Proxy(with_database(primary.address, "work")) as proxy:
            yield primary, standby, proxy
    finally:
        for each in (standby, primary):
            if each is not None:
                each.remove()


def fail_over(primary, standby, proxy):
    primary.demote()
    standby.follow(primary)
    standby.promote()
    proxy.lead_to(standby.address)


def test_open_stores_move_to_the_new_primary_while_the_old_one_stays_up(pair):
    _, standby, proxy = pair
    writer, reader, taker = stores = [PostgresStore(proxy.address) for _ in range(3)]
    writer.commit([*samples.home(), samples.said(1)])
    held = taker.acquire_lease("spec-1", HOLDER)
    assert reader.message_count(CONVERSATION) == 1
    fail_over(*pair)
    writer.commit([samples.said(2)])
    # Neither may be done twice, and neither was done by the server that refused it.
    assert taker.acquire_lease("spec-2", HOLDER) is not None
    taker.heartbeat(Fence(name="spec-1", token=held.token))
    until_s = time.monotonic() + 3
    while reader.message_count(CONVERSATION) == 1:  # what the old one still has
        assert time.monotonic() < until_s
    with psycopg.connect(with_database(standby.address, "work")) as connection:
        ((used,),) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'upthread'"
        ).fetchall()
    assert used == 3
    for each in stores:
        each.close()


@EXTENDED
def test_a_call_waits_for_a_standby_that_takes_over_later(pair):
    primary, standby, proxy = pair
    store = PostgresStore(proxy.address)
    store.commit(samples.home())
    standby.follow(primary)
    primary.crash()
    proxy.lead_to(standby.address)
    promotion = threading.Timer(3, standby.promote)
    promotion.start()
    began_s = time.monotonic()
    store.commit([samples.said(1)])
    assert 2 < time.monotonic() - began_s < 10
    promotion.join()
    assert store.message_count(CONVERSATION) == 1
    store.close()


@EXTENDED
def test_a_server_that_stays_read_only_is_an_error_after_a_bounded_wait_and_can_be_read(
    pair, monkeypatch
):
    monkeypatch.setattr(server, "RECONNECT_S", 1)
    primary, _, proxy = pair
    store = PostgresStore(proxy.address)
    store.commit([*samples.home(), samples.said(1)])
    primary.demote()
    for _ in range(2):
        with pytest.raises(StoreError, match="read-only") as caught:
            store.commit([samples.said(2)])
        assert "name the primary" in caught.value.hint
        assert store.message_count(CONVERSATION) == 1
    store.close()
