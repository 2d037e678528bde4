"""Salvage keeps all that is left of a damaged database: salvaging, pages, shapes and rechaining.

What is undamaged is told without any code of ours: each part's text is one mark again and again,
and a part is undamaged when no page that holds its mark was destroyed.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sets import EXTENDED

from upthread.core.commands import (
    EnqueueTransition,
    OpenConversation,
    RecordProject,
    RecordRunEvent,
    RecordTurnEvent,
)
from upthread.core.events import PromptSent, SessionAttached, TurnEnded, TurnIntended
from upthread.core.types import (
    ConversationId,
    Outcome,
    ProjectIdentity,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import StoreError, UsageError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.chain_repair import LOST
from upthread.store.sqlite.pages import PAGE_BYTES
from upthread.store.sqlite.salvage import salvage
from upthread.testing.store_conformance import copies, samples

KEY = bytes(range(32))
CONVERSATIONS = 12
MESSAGES = 40
NOW_MS = 9_000
MARK = re.compile(rb"<\d+:\d+:\d+>")


def own(number):
    return ConversationId(f"con_{number:030}"), TurnId(f"trn_{number:030}")


def text_of(number, seq, ordinal, chance):
    mark = f"<{number}:{seq}:{ordinal}>"
    return TextPart(text=mark * chance.choice([3, 20, 60, 200, 900]))


def events_of(turn, *, is_over):
    told = [
        TurnIntended(decision="first", reasons=(), prompt_seq=1),
        SessionAttached(upstream_session_id=UpstreamSessionId("ses_a"), how="new", agent="x"),
        PromptSent(prompt_seq=1),
        *([TurnEnded(outcome=Outcome.OK)] if is_over else []),
    ]
    return [
        RecordTurnEvent(turn_id=turn, seq=seq, event=event, recorded_at_ms=5_000)
        for seq, event in enumerate(told, start=1)
    ]


def made(path: Path, key: bytes | None) -> dict[str, str]:
    """Make a record; return each part's mark and its text."""
    chance = random.Random(7)
    store = SqliteStore(path, key=key)
    identity = ProjectIdentity(path="/srv/project")
    store.commit([RecordProject(project_id=samples.PROJECT, identity=identity), *samples.home()])
    texts: dict[str, str] = {}
    for number in range(CONVERSATIONS):
        owner, turn = own(number)
        role = samples.sibling_key(role=f"role-{number}")
        store.commit(
            [
                OpenConversation(conversation=samples.conversation(owner, key=role)),
                samples.turn(turn, owner=owner),
                *events_of(turn, is_over=number > 0),
            ]
        )
    for seq in range(1, MESSAGES + 1):
        for number in range(CONVERSATIONS):
            owner, turn = own(number)
            parts = [text_of(number, seq, each, chance) for each in range(chance.choice([1, 1, 2]))]
            for ordinal, part in enumerate(parts):
                texts[f"<{number}:{seq}:{ordinal}>"] = part.text
            speaker = Speaker.USER if seq % 2 else Speaker.ASSISTANT
            said = samples.said(seq, *parts, owner=owner, turn_id=turn, speaker=speaker)
            store.commit([said])
    store.close()
    return texts


def marked_pages(path: Path, key: bytes | None) -> dict[str, set[int]]:
    """Return the pages that hold each mark."""
    connection = apsw.Connection(str(path))
    if key is not None:
        connection.pragma("key", f"raw:{key.hex()}")
    image = connection.serialize("main")
    connection.close()
    found: dict[str, set[int]] = {}
    for page in range(len(image) // PAGE_BYTES):
        for mark in set(MARK.findall(image[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])):
            found.setdefault(mark.decode(), set()).add(page)
    return found


@pytest.fixture(scope="module", params=[None, KEY], ids=["plain", "encrypted"])
def record(request, tmp_path_factory):
    """A record: its file, its key, its texts and the pages they are on."""
    path = tmp_path_factory.mktemp("record") / "store.db"
    texts = made(path, request.param)
    return path, request.param, texts, marked_pages(path, request.param)


def destroyed(path: Path, place: Path, pages: set[int], filling: bytes) -> Path:
    damaged = place / "damaged.db"
    content = bytearray(path.read_bytes())
    for page in pages:
        content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = filling
    damaged.write_bytes(content)
    return damaged


def kept(path: Path, key: bytes | None) -> dict[ConversationId, tuple]:
    """Return all messages of a database that verifies."""
    store = SqliteStore(path, key=key)
    try:
        found = {}
        for project in {each.project_id for each in store.known_projects()}:
            for known in store.workstreams(project):
                for each in store.conversations(project, known.workstream):
                    assert store.verify(each.conversation_id) is None
                    found[each.conversation_id] = store.messages(each.conversation_id)
        return found
    finally:
        store.close()


def texts_of(messages) -> set[str]:
    parts = [part for each in messages.values() for message in each for part in message.parts]
    return {part.text for part in parts if isinstance(part, TextPart)}


@EXTENDED
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), is_zeroed=st.booleans())
def test_every_undamaged_message_survives_one_percent_of_pages(
    record, tmp_path_factory, seed, is_zeroed
):
    path, key, texts, marked = record
    count = path.stat().st_size // PAGE_BYTES
    chance = random.Random(seed)
    pages = set(chance.sample(range(count), max(1, count // 100)))
    filling = bytes(PAGE_BYTES) if is_zeroed else chance.randbytes(PAGE_BYTES)
    place = tmp_path_factory.mktemp("salvage")
    damaged = destroyed(path, place, pages, filling)
    done = salvage(damaged, place / "new.db", key=key, now_ms=NOW_MS)
    messages = kept(place / "new.db", key)
    undamaged = {mark for mark in texts if not marked[mark] & pages}
    assert {texts[mark] for mark in undamaged} <= texts_of(messages)
    said = {
        (each.conversation_id, seq)
        for each in done.lost
        if each.is_lost
        for seq in range(each.from_seq, each.to_seq + 1)
    }
    for name, each in messages.items():
        for message in each:
            is_lost = any(getattr(part, "kind", "") == LOST for part in message.parts)
            assert is_lost is ((name, message.seq) in said)
    assert not {each.name for each in place.iterdir()} - {"damaged.db", "new.db"}


@EXTENDED
def test_a_sound_database_is_salvaged_whole(record, tmp_path):
    path, key, texts, _ = record
    before = path.read_bytes()
    done = salvage(path, tmp_path / "new.db", key=key, now_ms=NOW_MS)
    assert (done.lost, done.notes) == ((), ())
    assert kept(tmp_path / "new.db", key) == kept(path, key)
    assert texts_of(kept(path, key)) == set(texts.values())
    assert path.read_bytes() == before
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600


def test_what_is_only_in_the_log_is_salvaged_beside_an_empty_file(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit([*samples.home(), samples.said(1)])
    log = (tmp_path / "store.db-wal").read_bytes()
    (tmp_path / "damaged.db").write_bytes(b"")
    (tmp_path / "damaged.db-wal").write_bytes(log)
    store.close()
    salvage(tmp_path / "damaged.db", tmp_path / "new.db", key=None, now_ms=NOW_MS)
    assert texts_of(kept(tmp_path / "new.db", None)) == {"message 1"}
    assert (tmp_path / "damaged.db-wal").read_bytes() == log


def test_a_text_that_was_changed_is_lost_and_said(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit([*samples.home(), *(samples.said(seq) for seq in range(1, 6))])
    store.close()
    content = (tmp_path / "store.db").read_bytes()
    (tmp_path / "store.db").write_bytes(content.replace(b"message 3", b"massage 3"))
    done = salvage(tmp_path / "store.db", tmp_path / "new.db", key=None, now_ms=NOW_MS)
    (lost, after) = done.lost
    assert (lost.from_seq, lost.to_seq, lost.is_lost) == (3, 3, True)
    assert (after.from_seq, after.is_lost) == (4, False)
    assert texts_of(kept(tmp_path / "new.db", None)) == {f"message {n}" for n in (1, 2, 4, 5)}


@EXTENDED
def test_what_was_under_way_is_parked_and_what_had_ended_stays(record, tmp_path):
    path, key, _, _ = record
    salvage(path, tmp_path / "new.db", key=key, now_ms=NOW_MS)
    store = SqliteStore(tmp_path / "new.db", key=key)
    last = [type(store.turn_events(own(number)[1])[-1]).__name__ for number in range(2)]
    store.close()
    assert last == ["TurnParked", "TurnEnded"]


def test_nothing_is_made_of_what_is_not_ours(tmp_path):
    (tmp_path / "list.db").write_bytes(b"milk, honey\n" * 2000)
    with pytest.raises(StoreError, match=r"nothing of ours|nothing can be read"):
        salvage(tmp_path / "list.db", tmp_path / "new.db", key=None, now_ms=NOW_MS)
    assert not (tmp_path / "new.db").exists()
    (tmp_path / "new.db").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        salvage(tmp_path / "list.db", tmp_path / "new.db", key=None, now_ms=NOW_MS)


def test_every_row_of_every_table_is_salvaged(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit(copies.everything())
    done = salvage(tmp_path / "store.db", tmp_path / "new.db", key=None, now_ms=NOW_MS)
    assert (done.lost, done.notes) == ((), ())
    new = SqliteStore(tmp_path / "new.db")
    # Turns and runs that were under way got an end.
    ends = (RecordTurnEvent, RecordRunEvent, EnqueueTransition)
    both = [
        [repr(w) for w in copies.recorded_in(each, samples.PROJECT) if type(w) not in ends]
        for each in (store, new)
    ]
    assert both[0] == both[1]
    store.close()
    new.close()
