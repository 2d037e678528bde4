"""One query of a database file: what the store would say, or nothing."""

from __future__ import annotations

import pytest
from tests.support.default_turn import open_place

from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.session_query import identities_in, open_session


@pytest.fixture
def opened(tmp_path):
    """A store with a conversation and its link, and what a glance needs to know of it."""
    database = tmp_path / "upthread.db"
    store = SqliteStore(database)
    place = open_place(store, "spec-42")
    yield store, str(database), identities_in(store.database.connection), place.conversation.key
    store.close()


def test_a_glance_sees_what_the_store_resolves(opened):
    store, database, identities, key = opened
    resolved = store.resolve(key)
    assert resolved is not None
    assert resolved.link is not None
    named = (key.project_id, key.workstream, key.role, key.slot)
    said = (resolved.conversation.conversation_id, resolved.link.agent)
    assert open_session(database, identities, named) == (*said, resolved.link.upstream_session_id)
    assert open_session(database, identities, (key.project_id, "else", key.role, 1)) is None


def test_a_file_of_another_schema_or_with_more_projects_is_left_to_the_store(opened):
    _, database, (version, *known), key = opened
    named = (key.project_id, key.workstream, key.role, key.slot)
    assert open_session(database, [version + 1, *known], named) is None
    assert open_session(database, [version, 7, 7], named) is None


def test_no_file_is_made_by_a_glance(tmp_path):
    assert open_session(str(tmp_path / "none.db"), [0, 0, 0], ("p", "w", "r", 1)) is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("no database")
    assert open_session(str(tmp_path / "text.db"), [0, 0, 0], ("p", "w", "r", 1)) is None
