"""A store that an address names: what is said of one that cannot be opened shows no password."""

import pytest

from upthread.client.stores import shown_address
from upthread.errors import StoreError
from upthread.store.postgres import PostgresStore

PASSWORD = "hunter2"

MISREAD = [
    f"postgres://ada:{PASSWORD}",
    f"postgres://ada:hun/{PASSWORD}@db/work",
    f"postgres://ada:p@{PASSWORD}@db/work",
    f"postgres://ada:{PASSWORD}%zz@db/work",
    f"postgres://db/work?port={PASSWORD}",
]
UNREACHABLE = [
    f"postgres://ada:{PASSWORD}@127.0.0.1:1/work",
    f"postgres:///work?host=/nowhere&password={PASSWORD}",
    f"postgres://ada:{PASSWORD}@127.0.0.1:1/work?sslmode={PASSWORD}",
    f"postgres://ada@127.0.0.1:1/work?sslpassword={PASSWORD}&sslmode={PASSWORD}",
]


@pytest.mark.parametrize("address", MISREAD)
def test_an_address_whose_password_would_be_read_as_something_else_is_refused(address):
    with pytest.raises(StoreError) as caught:
        shown_address(address)
    assert PASSWORD not in str(caught.value)
    assert "%40" in caught.value.hint


@pytest.mark.parametrize("address", UNREACHABLE)
def test_no_error_of_the_server_shows_the_password(address):
    with pytest.raises(StoreError) as caught:
        PostgresStore(address)
    assert PASSWORD not in str(caught.value)
