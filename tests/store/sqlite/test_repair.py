"""repair.py: each table lost whole in turn, and what stands in its place."""

from __future__ import annotations

import apsw
import pytest

from upthread.core.commands import RecordProject
from upthread.core.events import RunParked, TurnEnded, TurnIntended
from upthread.core.types import Outcome, ProjectIdentity
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.salvage import salvage
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN, TURN, WORKSTREAM

PAGE_BYTES = 4096
SAID = ["message 1", "message 2", "message 3"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    identity = ProjectIdentity(path="/srv/somewhere")
    store.commit([RecordProject(project_id=PROJECT, identity=identity), *samples.home()])
    store.commit([samples.run(), samples.moved(1), samples.happened(1)])
    store.commit([samples.said(seq) for seq in (1, 2, 3)])
    store.close()
    return path


def salvaged_without(path, *names: str):
    """Salvage the database once each page of some tables or indexes was zeroed."""
    connection = apsw.Connection(str(path))
    pages = [
        row[0]
        for name in names
        for row in connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,))
    ]
    connection.close()
    assert pages
    content = bytearray(path.read_bytes())
    for page in pages:
        content[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(content)
    done = salvage(path, path.with_name("new.db"), key=None, now_ms=9_000)
    return done, SqliteStore(path.with_name("new.db"))


def said(store, conversation_id=CONVERSATION):
    assert store.verify(conversation_id) is None
    return [message.text for message in store.messages(conversation_id)]


def test_a_lost_conversation_and_turn_have_their_ids_from_an_index(path):
    done, store = salvaged_without(path, "conversation", "turn")
    assert {message.turn_id for message in store.messages(CONVERSATION)} == {TURN}
    found = store.conversation(CONVERSATION)
    assert (found.key.address, found.base_name) == (f"{WORKSTREAM}/planner", "Kael")
    assert (said(store), done.lost) == (SAID, ())
    assert done.notes == (f"conversation con_one was lost: it is {WORKSTREAM}/planner now",)
    store.close()


def test_a_conversation_of_which_no_name_is_left_gets_one(path):
    lost = ("conversation", "conversation_by_key", "sqlite_autoindex_conversation_1")
    done, store = salvaged_without(path, *lost)
    (found,) = store.conversations(PROJECT, "salvaged")
    assert said(store, found.conversation_id) == SAID
    assert all(not each.is_lost for each in done.lost)
    store.close()


def test_a_lost_workstream_and_place_are_told_by_what_names_them(path):
    done, store = salvaged_without(path, "workstream", "project_identity")
    assert store.workstream(PROJECT, WORKSTREAM).base_name == "Kael"
    (known,) = store.known_projects()
    assert (known.project_id, known.identity.path) == (PROJECT, "/srv/project")
    assert len(done.notes) == 2
    assert said(store) == SAID
    store.close()


def test_a_turn_of_which_no_event_is_left_has_ended_with_an_unknown_outcome(path):
    _, store = salvaged_without(path, "turn_event")
    intended, ended = store.turn_events(TURN)
    assert isinstance(intended, TurnIntended)
    assert intended.reasons == ("salvaged",)
    assert isinstance(ended, TurnEnded)
    assert ended.outcome is Outcome.UNKNOWN
    assert said(store) == SAID
    store.close()


def test_a_run_that_was_under_way_is_parked_and_one_without_its_beginning_is_gone(path):
    _, store = salvaged_without(path, "turn_event")
    assert store.run_events(RUN)[-1] == RunParked(reason="salvaged")
    store.close()
    path.with_name("new.db").unlink()
    done, store = salvaged_without(path, "run_event")
    assert store.runs(PROJECT, WORKSTREAM) == ()
    assert "a run was lost whose beginning cannot be read" in done.notes
    store.close()


def test_lost_parts_are_outlines_that_an_index_tells_of(path):
    done, store = salvaged_without(path, "part")
    (lost,) = done.lost
    assert (lost.from_seq, lost.to_seq, lost.is_lost) == (1, 3, True)
    assert [message.parts[0].kind for message in store.messages(CONVERSATION)] == ["lost"] * 3
    assert store.verify(CONVERSATION) is None
    store.commit([samples.said(4)])
    assert store.verify(CONVERSATION) is None
    store.close()
