"""Erasing in PostgreSQL: what the conformance suite cannot see from outside."""

import psycopg
from upthread.store.postgres.queries import to_columns
from upthread.store.sql.erasure import erase_conversation

from upthread.core.commands import EraseConversation
from upthread.core.types import ErasedPart, TextPart
from upthread.testing.store_conformance import samples

ERASE = EraseConversation(conversation_id=samples.CONVERSATION)


def test_size_and_digest_stay_and_the_table_is_written_anew(store, address):
    store.commit([*samples.home(), samples.said(1, TextPart(text="Quixotic " * 50_000))])
    store.commit([ERASE])
    store.commit([samples.said(2, ErasedPart(kind="text", digest=b"d" * 32, size_bytes=7))])
    with psycopg.connect(address, autocommit=True) as connection:
        size = "SELECT pg_total_relation_size('upthread.part')"
        ((before,),) = connection.execute(size).fetchall()
        store.scrub()
        ((after,),) = connection.execute(size).fetchall()
        rows = connection.execute(
            "SELECT content, erased_bytes, length(digest) FROM upthread.part ORDER BY message_seq"
        ).fetchall()
    assert rows == [(None, 450_000, 32), (None, 7, 32)]
    assert after < before / 5
    assert store.verify(samples.CONVERSATION).damaged_seq is None


def test_nothing_is_retold_that_has_no_text(store):
    store.commit([*samples.home(), samples.happened(1)])
    step = erase_conversation(ERASE, to_columns)
    assert step.conversation == samples.CONVERSATION
    store.commit([ERASE])
    assert len(store.turn_events(samples.CONVERSATION, samples.TURN)) == 1
