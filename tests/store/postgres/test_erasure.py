"""Erasing in PostgreSQL: what the conformance suite cannot see from outside."""

import psycopg

from upthread.core.commands import EraseConversation
from upthread.core.types import TextPart
from upthread.testing.store_conformance import samples

ERASE = EraseConversation(conversation_id=samples.CONVERSATION)


def test_the_digest_stays_and_the_log_is_written_anew(store, address):
    store.commit([*samples.home(), samples.said(1, TextPart(text="Quixotic " * 50_000))])
    store.commit([ERASE])
    with psycopg.connect(address, autocommit=True) as connection:
        size = "SELECT pg_total_relation_size('upthread.entry')"
        ((before,),) = connection.execute(size).fetchall()
        store.scrub()
        ((after,),) = connection.execute(size).fetchall()
        rows = connection.execute(
            "SELECT said, length(digest) FROM upthread.entry WHERE kind = 'said'"
        ).fetchall()
    assert rows == [(None, 32)]
    assert after < before
    assert store.verify(samples.CONVERSATION) is None
