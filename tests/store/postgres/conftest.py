"""A database of its own for each test, gone afterwards."""

from hashlib import sha256

import psycopg
import pytest
from tests.support.postgres_server import PostgresServer, with_database

from upthread.store.postgres import PostgresStore


@pytest.fixture
def store(address):
    store = PostgresStore(address)
    yield store
    store.close()


@pytest.fixture(scope="session")
def server_to_stop():
    """A server that tests may stop, if they start it again."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def own_server(server_to_stop, request):
    """A server that a test may stop, and a database on it; brought back afterwards."""
    name = f"of_{sha256(request.node.name.encode()).hexdigest()[:16]}"
    with psycopg.connect(server_to_stop.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server_to_stop, with_database(server_to_stop.address, name)
    server_to_stop.crash()
    server_to_stop.start()
