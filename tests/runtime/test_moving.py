"""Moving: it goes on where it was cut off, overwrites nothing, and is done only when proved."""

from typing import Any

import pytest
from tests.support.sets import spread
from tests.support.shipped_stores import POSTGRES, SHIPPED_STORES

from upthread.core.types import TextPart
from upthread.errors import ConflictError, StoreError
from upthread.runtime.record import store_copy
from upthread.runtime.record.store_copy import Move, leases_held
from upthread.store.log import LogStore
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.copies import everything, recorded_in
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT

NOW_MS = 15


class CutOffError(Exception):
    """The process ended here."""


class EndingStore:
    """A store whose process ends after so many commits; it is a proxy around the real one."""

    def __init__(self, store: LogStore, commits: int) -> None:
        self._store = store
        self._left = commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, writes):
        self._count()
        self._store.commit(writes)

    def append(self, changes):
        self._count()
        return self._store.append(changes)

    def _count(self):
        if not self._left:
            raise CutOffError
        self._left -= 1


@pytest.fixture
def source(tmp_path):
    store = SqliteStore(tmp_path / "source.db")
    store.commit(everything())
    yield store
    store.close()


@pytest.fixture
def target(tmp_path):
    store = SqliteStore(tmp_path / "target.db")
    yield store
    store.close()


def moved(source, target):
    move = Move(source, target, now_ms=lambda: NOW_MS)
    plan = move.plan(PROJECT)
    move.make(plan)
    return plan


def same(source, target):
    return [repr(write) for write in recorded_in(source, PROJECT)] == [
        repr(write) for write in recorded_in(target, PROJECT)
    ]


@pytest.mark.parametrize("backend", spread(SHIPPED_STORES, name=lambda backend: backend.name))
def test_cut_off_after_any_commit_it_goes_on_and_ends_the_same(
    backend, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(store_copy, "PAGE_ENTRIES", 3)
    target = backend.make(tmp_path / "ending.db")
    there = []
    while True:
        plan = Move(source, target, now_ms=lambda: NOW_MS).plan(PROJECT)
        there.append(plan.there)
        try:
            Move(source, EndingStore(target, 1), now_ms=lambda: NOW_MS).make(plan)
        except CutOffError:
            continue
        break
    assert len(there) > 20
    assert there == sorted(set(there)), "each attempt began where the one before had ended"
    assert same(source, target)
    assert moved(source, target).left == 0
    target.close()


def test_a_plan_writes_nothing(source, target):
    plan = Move(source, target, now_ms=lambda: NOW_MS).plan(PROJECT)
    assert (plan.there, plan.left) == (0, plan.entries.total())
    assert target.known_projects() == ()


def test_a_target_that_was_worked_on_is_refused_and_not_touched(source, target):
    moved(source, target)
    target.commit([samples.said(3, TextPart(text="said in the other place"))])
    before = recorded_in(target, PROJECT)
    with pytest.raises(ConflictError, match="holds what the source does not: conversation con_one"):
        moved(source, target)
    assert list(map(repr, recorded_in(target, PROJECT))) == list(map(repr, before))


def test_what_went_on_in_the_new_place_can_be_moved_back(source, target):
    moved(source, target)
    target.commit(
        [
            samples.said(3, TextPart(text="said in the other place")),
            samples.moved(4),
            samples.happened(3),
        ]
    )
    assert moved(target, source).left == 3
    assert same(source, target)


def test_a_source_that_was_changed_by_something_else_is_not_moved(source, target):
    row = "(SELECT id FROM entry WHERE kind = 'said' AND said IS NOT NULL LIMIT 1)"
    source.database.connection.execute(f"UPDATE entry SET said = '[]' WHERE id = {row}")
    with pytest.raises(StoreError, match="message 1 of conversation con_one is damaged"):
        moved(source, target)
    assert target.known_projects() == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE entry SET digest = randomblob(32) WHERE digest IS NOT NULL", "con_forgotten"),
        ("UPDATE entry SET hash = randomblob(32) WHERE kind = 'said'", "of conversation con_one"),
        ("UPDATE entry SET at_ms = 1 WHERE kind = 'turn_event'", "conversation con_one"),
        ("UPDATE entry SET kept = '{}' WHERE kind = 'run'", "entry 1 of run run_one"),
        ("DELETE FROM entry WHERE kind = 'edit'", "conversation con_one"),
        ("UPDATE head SET last = last - 1 WHERE kind = 'conversation'", "the head of conversation"),
    ],
)
def test_what_did_not_arrive_as_it_was_is_not_called_done(source, target, change, says):
    class Unfaithful(EndingStore):
        """Changes what it holds when the last of it has come, but for runs that are due."""

        def append(self, changes):
            rows = super().append(changes)
            if not self._left:
                self._store.database.connection.execute(change)
                self._left = -1
            return rows

    plan = Move(source, target, now_ms=lambda: NOW_MS).plan(PROJECT)
    at_rest = [head for head in plan.streams if getattr(head.state, "due", None) is None]
    with pytest.raises(StoreError, match=says):
        Move(source, Unfaithful(target, len(at_rest)), now_ms=lambda: NOW_MS).make(plan)


@pytest.mark.extended
def test_what_is_due_becomes_a_job_and_only_when_all_else_is_there(source, tmp_path):
    target = POSTGRES.make(tmp_path / "shared.db")
    moved(source, target)
    jobs = target.server.run(
        "read",
        lambda connection: connection.execute(
            b"SELECT h.name, j.status::text FROM upthread.procrastinate_jobs AS j"
            b" JOIN upthread.head AS h ON h.id = (j.args ->> 'run')::bigint ORDER BY 1"
        ).fetchall(),
    )
    # What was begun goes on, what waits for a limit goes on after it; what was answered is settled.
    assert jobs == [(b"run_started", "todo"), (b"run_waiting", "todo")]
    target.close()


def test_a_lease_that_is_held_is_seen_and_none_is_moved(source, target):
    name = f"conversation {PROJECT} {samples.KEY.address}"
    assert source.acquire_lease(name, samples.HOLDER)
    assert [lease.name for lease in leases_held(source, PROJECT)] == [name]
    moved(source, target)
    assert target.lease(name) is None
    assert target.message_count(CONVERSATION) == 2


@pytest.mark.parametrize("backend", spread(SHIPPED_STORES, name=lambda backend: backend.name))
def test_a_move_takes_along_that_a_record_was_restored_for_its_project_alone(
    backend, source, tmp_path
):
    told = {"conversation_id": CONVERSATION, "reply": "done"}
    steps = ("intent", "done")  # each is found by its conversation
    source.commit([samples.step(each, key="told", receipt=told) for each in steps])
    source.mark_restored(42)
    target = backend.make(tmp_path / "target.db")
    assert target.restored_at_ms(PROJECT) is None
    moved(source, target)
    assert same(source, target)
    assert [target.restored_at_ms(each) for each in (PROJECT, "prj_other")] == [42, None]
    moved(source, target)
    target.close()
