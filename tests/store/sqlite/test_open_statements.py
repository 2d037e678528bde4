"""Whatever a store has read, it can write, also after another process has: no read stays open.

Before, the third of the turns of one process failed with `database is locked` beside others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.default_turn import Place, open_place, prepare_turn, record_turn

from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import first_of

TURNS = 30


class Both:
    """A store in which much was said, opened anew, and another one that writes meanwhile."""

    def __init__(self, path: Path) -> None:
        first = SqliteStore(path)
        self.place = open_place(first, "spec-42")
        for number in range(TURNS):
            record_turn(first, self.place, prepare_turn(self.place, number))
        first.close()
        self.store, self.other = SqliteStore(path), SqliteStore(path)
        self._turns = 0

    def other_writes_then_we(self) -> None:
        self._turns += 1
        theirs = open_place(self.other, f"their-{self._turns}")
        record_turn(self.other, theirs, prepare_turn(theirs, self._turns))
        record_turn(self.store, self.place, prepare_turn(self.place, TURNS + self._turns))

    def close(self) -> None:
        self.store.close()
        self.other.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    both = Both(tmp_path / "store.db")
    yield both
    both.close()


@pytest.mark.parametrize("newest", [1, 20, 1_000])
def test_after_the_newest_that_was_said(both, newest):
    place = both.place
    said = both.store.prior_messages(
        place.conversation.conversation_id,
        upstream_session_ids=(place.link.upstream_session_id,),
        newest=newest,
    )
    assert said
    both.other_writes_then_we()


def test_after_a_check_that_ends_at_the_first_that_is_damaged(both):
    conversation_id = both.place.conversation.conversation_id
    with both.other.database.transaction(is_synced=True) as connection:
        connection.execute("UPDATE part SET content = x'00' WHERE id = (SELECT min(id) FROM part)")
    assert both.store.verify(conversation_id) == 1
    both.other_writes_then_we()


def test_after_a_row_that_was_read_while_something_else_was(both):
    connection = both.store.database.connection
    rows = connection.execute("SELECT id FROM part")
    connection.execute("SELECT 1").fetchall()
    assert first_of(rows) is not None
    both.other_writes_then_we()


def test_after_a_write_under_several_leases(both: Both):
    second: Place = open_place(both.store, "spec-43")
    both.store.commit((), fences=(both.place.fence, second.fence, both.place.fence))
    both.other_writes_then_we()
