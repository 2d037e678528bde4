"""A database of any encoding, and a session with settings of another program, are served alike."""

import anyio
import psycopg
import pytest
from tests.runtime.conftest import fork_server
from tests.support.laboratory.sharing import Passage, Workers
from tests.support.postgres_server import server_address, with_database
from tests.support.sets import EXTENDED

from upthread.core.types import TextPart
from upthread.store.postgres import PostgresStore, WorkerTable, migrate
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

__all__ = ["fork_server"]

TEXT = "Grüße, Привет, 日本語 \0 \ud83d \\'"


@pytest.fixture(params=["SQL_ASCII", "LATIN1", "EUC_JP", "UTF8"])
def database(request):
    """An empty database of an encoding, whose sessions begin with settings that are not ours."""
    name = f"of_{request.param.lower()}_{request.node.name.partition('[')[0][-20:]}"
    with psycopg.connect(server_address(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0"
        )
        # Newer servers know no other value.
        if connection.info.server_version < 190_000:
            connection.execute(f"ALTER DATABASE {name} SET standard_conforming_strings = off")
        yield with_database(server_address(), name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("client", [None, "SQL_ASCII", "LATIN1"])
def test_text_is_kept_in_a_database_of_any_encoding(database, client, monkeypatch):
    if client is not None:
        monkeypatch.setenv("PGCLIENTENCODING", client)
    assert migrate(database).schema_before == 0
    assert migrate(database).schema_before > 0
    store = PostgresStore(database)
    store.commit([*samples.home(), samples.said(1, TextPart(text=TEXT))])
    (message,) = store.messages(CONVERSATION)
    assert message.parts == (TextPart(text=TEXT),)
    assert store.verify(CONVERSATION) is None
    assert [each for each in store.proofs() if each.damage] == []
    store.close()


def test_a_backslash_in_a_statement_is_one(database):
    migrate(database)
    table = WorkerTable(database)
    row = table._server.run(
        "read", lambda found: found.execute(rb"SELECT 'a.b' ~ 'a\.b', 'a-b' ~ 'a\.b'").fetchone()
    )
    assert row == (True, False)
    table.close()


@EXTENDED
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_workers_carry_a_run_out_in_a_database_of_any_encoding(
    database, tmp_path, monkeypatch
):
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    migrate(database)
    passage = Passage(tmp_path / "passage", database)
    with Workers(tmp_path, passage.world.environment, [passage.world.project]) as workers:
        workers.start(PGCLIENTENCODING="SQL_ASCII", PGDATESTYLE="German")
        with anyio.fail_after(120):
            await passage.play()
        workers.check_no_traceback()
    assert passage.judged()["faults"] == []
    passage.close()
