"""A store can write whatever it has read, also after another process has: no read stays open.

Before, the third of the turns of one process failed with `database is locked` beside others.
"""

from __future__ import annotations

import pytest
from tests.support.default_turn import open_place, prepare_turn, record_turn

from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import first_of

pytestmark = pytest.mark.extended

TURNS = 30
DAMAGE = "UPDATE part SET content = x'00' WHERE id = (SELECT min(id) FROM part)"


def read_prior(store, place, newest):
    assert store.prior_messages(
        place.conversation.conversation_id,
        upstream_session_ids=(place.link.upstream_session_id,),
        newest=newest,
    )


def find_the_first_damage(store, place):
    with store.database.transaction(is_synced=True) as connection:
        connection.execute(DAMAGE)
    assert store.verify(place.conversation.conversation_id) == 1


def read_a_row_of_two(store, _place):
    connection = store.database.connection
    rows = connection.execute("SELECT id FROM part")
    connection.execute("SELECT 1").fetchall()
    assert first_of(rows) is not None


def write_under_several_leases(store, place):
    second = open_place(store, "spec-43")
    store.commit((), fences=(place.fence, second.fence, place.fence))


@pytest.mark.soak
@pytest.mark.parametrize(
    "work",
    [
        *(
            pytest.param(lambda *both, newest=newest: read_prior(*both, newest), id=f"{newest}")
            for newest in (1, 20, 1_000)
        ),
        find_the_first_damage,
        read_a_row_of_two,
        write_under_several_leases,
    ],
)
def test_another_process_and_then_this_one_write_after_it(tmp_path, work):
    path = tmp_path / "store.db"
    first = SqliteStore(path)
    place = open_place(first, "spec-42")
    for number in range(TURNS):
        record_turn(first, place, prepare_turn(place, number))
    first.close()
    store, other = SqliteStore(path), SqliteStore(path)
    work(store, place)
    record_turn(other, theirs := open_place(other, "their"), prepare_turn(theirs, 1))
    record_turn(store, place, prepare_turn(place, TURNS + 1))
    store.close()
    other.close()
