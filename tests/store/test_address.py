"""What an address names. What is not clearly one is refused, and not repeated."""

from pathlib import Path

import pytest

from upthread.errors import UsageError
from upthread.store.address import file_path, is_postgres

PASSWORD = "hunter2"

NO_ADDRESSES = [
    f"host=db.example.org user=ada password={PASSWORD}",
    f"password = {PASSWORD}",
    f"/srv/x.db password={PASSWORD}",
    f"postgres:/ada:{PASSWORD}@db/work",
    f"postgresql+psycopg://ada:{PASSWORD}@db/work",
    f"POSTGRES://ada:{PASSWORD}@db/work",
    f" postgres://ada:{PASSWORD}@db/work",
    f"'postgres://ada:{PASSWORD}@db/work'",
    f"mysql://ada:{PASSWORD}@db/work",
    f"jdbc:postgresql://db/work?password={PASSWORD}",
    f"file:/srv/upthread.db?key={PASSWORD}",
    f"ada:{PASSWORD}@db/work",
    f"{PASSWORD}@db",
    f"//ada:{PASSWORD}@db/work",
    f"sqlite://{PASSWORD}",
    f"sqlite:{PASSWORD}",
    f"sqlite:///postgres://ada:{PASSWORD}@db/work",
    f"postgres//ada:{PASSWORD}@db/work",
    f"postgres;//ada:{PASSWORD}@db/work",
    f"postgres///work?password={PASSWORD}",
    f"postgres/ada:{PASSWORD}@db/work",
    f"postgres;/ada:hun/{PASSWORD}@db/work",
    f"postgres/work?user=ada&password={PASSWORD}",
    f"/ada:{PASSWORD}@db/work",
    f"sqlite:///ada:{PASSWORD}@db",
    f"sqlite:///postgres//ada:{PASSWORD}@db/work",
    f"sqlite:////ada:{PASSWORD}@db/work",
    f"upthread.db\npassword={PASSWORD}",
    "sqlite:///",
    ":memory:",
    " ",
]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_not_clearly_a_path_is_refused_without_a_word_of_it(address):
    assert not is_postgres(address)
    with pytest.raises(UsageError) as caught:
        file_path(address)
    assert PASSWORD not in str(caught.value)
    assert "postgres://USER@HOST/DATABASE" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/srv/upthread.db", "/srv/upthread.db"),
        ("upthread.db", "upthread.db"),
        ("../my work/upthread.db", "../my work/upthread.db"),
        ("./a:b@c=d.db", "a:b@c=d.db"),
        ("/home/ada@work/x.db", "/home/ada@work/x.db"),
        ("sqlite:////srv/a:b.db", "/srv/a:b.db"),
        ("sqlite:///a:b.db", "a:b.db"),
        ("sqlite:///./a:b@c.db", "a:b@c.db"),
        ("sqlite:////srv/a:b@c.db", "/srv/a:b@c.db"),
        ("/srv/a:b@c.db", "/srv/a:b@c.db"),
        ("/srv//upthread.db", "/srv/upthread.db"),
        ("../work//upthread.db", "../work/upthread.db"),
        ("data/upthread.db", "data/upthread.db"),
        ("work/today?/upthread.db", "work/today?/upthread.db"),
    ],
)
def test_a_path_is_a_path(address, path):
    assert file_path(address) == Path(path)
