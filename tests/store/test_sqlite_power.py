"""The power is cut at any moment: what was synced is there, and nothing is there by half."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.default_turn import link_of, open_place, prepare_turn, record_turn
from tests.support.sets import EXTENDED, SOAK
from tests.support.sqlite_power import Change, Disk, recording_file_system

from upthread.core.commands import EndLink, OpenLink, RecordOnce
from upthread.core.types import Durability
from upthread.store.sqlite import SqliteStore

TURNS = 24
CHECKPOINT_PAGES = 60
CUTS_UNTIL_FOUND = 1_000
"""After so many cuts the laboratory must have found a promise that is not kept."""

PLACES = ("spec-42", "spec-43")
KEYS = ("deploy", "publish")


@dataclass
class History:
    """What was written: the log, and how the store stood after each commit.

    `begun` is where in the log each commit began; `synced` says where a commit that promises to
    outlive a power cut had returned, and its number.
    """

    log: list[Change]
    begun: list[int] = field(default_factory=list)
    synced: list[tuple[int, int]] = field(default_factory=list)
    stands: list[object] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)


def standing(store):
    """Where every commit of this history leaves its mark."""
    conversations = [each for name in PLACES for each in store.conversations("prj_measured", name)]
    return tuple(
        (
            store.message_count(each.conversation_id),
            len(store.turns(each.conversation_id)),
            [len(message.parts) for message in store.messages(each.conversation_id, newest=1)],
            [
                len(store.turn_events(each.conversation_id, turn.turn_id))
                for turn in store.turns(each.conversation_id, newest=2)
            ],
            [link.ended_because for link in store.links(each.conversation_id)],
        )
        for each in conversations
    ) + tuple(store.once("prj_measured", key) for key in KEYS)


class NotingStore(SqliteStore):
    """The real store, and notes of what it has promised."""

    def __init__(self, path, history, *, vfs) -> None:
        self.history = history
        history.begun.append(len(history.log))
        super().__init__(path, vfs=vfs)
        self.database.connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchall()
        self.note(is_synced=True)  # the schema, or what was closed before

    def commit(self, writes, **leases):
        self.history.begun.append(len(self.history.log))
        super().commit(writes, **leases)
        self.note(is_synced=any(write.durability is Durability.SYNCED for write in writes))

    def note(self, *, is_synced):
        self.history.stands.append(standing(self))
        if is_synced:
            self.history.synced.append((len(self.history.log), len(self.history.stands) - 1))


def write_history(directory: Path) -> History:
    """Two conversations side by side, links, actions done once, checkpoints, a store reopened."""
    with recording_file_system() as file_system:
        history = History(log=file_system.log)
        path = directory / "written" / "store.db"
        store = NotingStore(path, history, vfs=file_system.name)
        places = [open_place(store, name) for name in PLACES]
        for number in range(TURNS):
            if number == TURNS // 2:
                store.close()
                store = NotingStore(path, history, vfs=file_system.name)
            place = places[number % 3 == 0]
            record_turn(store, place, prepare_turn(place, number))
            if number % 6 == 5:
                roll_over(store, place)
            if number % 12 == 7:
                do_once(store, KEYS[number // 12])
        owners = [place.conversation.conversation_id for place in places]
        for owner in owners:
            history.texts[owner] = [message.text for message in store.messages(owner)]
        store.close()
    return history


def roll_over(store, place):
    owner = place.conversation.conversation_id
    last = len(store.links(owner))
    end = EndLink(conversation_id=owner, seq=last, ended_because="expired", ended_at_ms=1)
    place.link = link_of(place.conversation, last + 1)
    store.commit([end, OpenLink(link=place.link)])


def do_once(store, key):
    for state in ("intent", "done"):
        step = RecordOnce(
            project_id="prj_measured",
            key=key,
            attempt_id=f"att_{key}",
            state=state,
            receipt={"done": key} if state == "done" else None,
            recorded_at_ms=1,
        )
        store.commit([step])


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return write_history(tmp_path_factory.mktemp("power"))


class Laboratory:
    """Cuts the power at many places, and looks at what is left."""

    def __init__(self, directory: Path, history: History) -> None:
        self.path = directory / "left" / "store.db"
        self.path.parent.mkdir(mode=0o700)
        self.history = history
        self.cuts = 0

    def cut(self, disk: Disk, place: int, seed: int, *, synced: list[tuple[int, int]]) -> None:
        """Cut the power before change number `place`; AssertionError when a promise is broken."""
        disk.advance(place)
        for left in self.path.parent.iterdir():
            left.unlink()
        for name, content in disk.left_after_power_cut(random.Random(seed)).items():
            if content:
                (self.path.parent / name).write_bytes(content)
        promised = max((number for at, number in synced if at <= place), default=-1)
        begun = sum(at <= place for at in self.history.begun)
        store = SqliteStore(self.path)
        try:
            store.database.connection.execute("PRAGMA synchronous=OFF")  # no more cuts: be quick
            self._check(store, promised, begun, f"place {place}, seed {seed}")
        finally:
            store.close()
        self.cuts += 1

    def _check(self, store, promised, begun, where) -> None:
        found = standing(store)
        # Before the first promise an empty store is as good as one that was never made.
        possible = [*self.history.stands[max(promised, 0) : begun]]
        if promised < 0:
            possible.append(tuple(None for _ in KEYS))
        assert found in possible, f"{where}: {found}, promised {promised}, begun {begun}"
        for owner, texts in self.history.texts.items():
            messages = store.messages(owner)
            whole = messages[:-1]  # the last one may be still growing
            assert [message.text for message in whole] == texts[: len(whole)], where
            assert store.verify(owner) is None, where
        assert store.database.connection.pragma("quick_check") == "ok", where

    def cut_often(self, *, seed: int, cuts: int, synced=None) -> None:
        """Cut at random places, in their order, several rounds."""
        chance = random.Random(seed)
        promises = self.history.synced if synced is None else synced
        while self.cuts < cuts:
            disk = Disk(self.history.log)
            places = sorted(chance.randrange(len(self.history.log) + 1) for _ in range(200))
            for place in places[: cuts - self.cuts]:
                self.cut(disk, place, chance.getrandbits(32), synced=promises)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "cuts", [60, pytest.param(400, marks=EXTENDED), pytest.param(10_000, marks=SOAK)]
)
def test_what_was_synced_outlives_a_power_cut(tmp_path, history, cuts):
    seed = 42 if cuts < 10_000 else random.randrange(2**32)
    Laboratory(tmp_path, history).cut_often(seed=seed, cuts=cuts)


@EXTENDED
def test_the_power_is_cut_on_both_sides_of_every_sync(tmp_path, history):
    laboratory = Laboratory(tmp_path, history)
    disk = Disk(history.log)
    for place, _ in history.synced:
        for near in (place - 1, place):
            laboratory.cut(disk, near, place, synced=history.synced)


def test_the_history_has_all_that_can_go_wrong(history):
    """Else the replay would prove less than it says."""
    kinds = {(change.kind, change.file) for change in history.log}
    assert {("write", "store.db"), ("write", "store.db-wal"), ("sync", "store.db-wal")} <= kinds
    assert ("sync", "store.db") in kinds
    assert {kind for kind, _ in kinds} >= {"delete"}
    starts_of_the_log = [
        change for change in history.log if change.file.endswith("-wal") and change.at == 0
    ]
    assert sum(change.kind == "write" for change in starts_of_the_log) >= 3  # used again and again
    assert 20 < len(history.synced) < len(history.stands) / 2


def test_a_disk_that_ignores_syncs_is_found_out(tmp_path, history):
    lying = History(
        log=[change for change in history.log if change.kind != "sync"],
        texts=history.texts,
        stands=history.stands,
    )
    kept = [0]
    for change in history.log:
        kept.append(kept[-1] + (change.kind != "sync"))
    lying.begun = [kept[at] for at in history.begun]
    lying.synced = [(kept[at], number) for at, number in history.synced]
    laboratory = Laboratory(tmp_path, lying)
    with pytest.raises(
        Exception, match=r"promised|malformed|not a database|damaged|cut short|is not there"
    ):
        laboratory.cut_often(seed=1, cuts=CUTS_UNTIL_FOUND)
