"""One query of a database file: what the store would say, or nothing."""

from __future__ import annotations

import pytest
from tests.support.default_turn import open_place

from upthread.core.commands import RecordProject
from upthread.core.types import ProjectIdentity
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import to_columns
from upthread.store.sqlite.session_query import identities_in, open_session

HERE = ("/somewhere", "c0ffee")


def rows_of(store: SqliteStore):
    return lambda statement, values: store.database.rows(statement, to_columns(*values))


@pytest.fixture
def opened(tmp_path):
    """A store with a conversation and its link, and what a glance needs to know of it."""
    database = tmp_path / "upthread.db"
    store = SqliteStore(database)
    place = open_place(store, "spec-42")
    project_id = place.conversation.key.project_id
    known = ProjectIdentity(path=HERE[0], root_commit=HERE[1])
    store.commit([RecordProject(project_id=project_id, identity=known)])
    known_as = identities_in(rows_of(store), HERE)
    yield store, str(database), known_as, place.conversation.key
    store.close()


def test_a_glance_sees_what_the_store_resolves(opened):
    store, database, identities, key = opened
    resolved = store.resolve(key)
    assert resolved is not None
    assert resolved.link is not None
    named = (key.project_id, key.workstream, key.role, key.slot)
    link = resolved.link
    said = (resolved.conversation.conversation_id, link.agent, link.upstream_session_id)
    assert open_session(database, HERE, identities, named) == said
    assert open_session(database, HERE, identities, (key.project_id, "else", key.role, 1)) is None


def test_a_file_of_another_schema_or_with_other_identities_is_left_to_the_store(opened):
    _, database, (version, *known), key = opened
    named = (key.project_id, key.workstream, key.role, key.slot)
    assert open_session(database, HERE, [version, *known], named) is not None
    assert open_session(database, HERE, [version + 1, *known], named) is None
    assert open_session(database, HERE, [version], named) is None
    ((*said, seal),) = known
    assert open_session(database, HERE, [version, [*said, seal[2:] + "00"]], named) is None


def test_a_path_that_is_no_unicode_is_told_apart_by_the_store_and_left_to_it(opened):
    store, database, _, key = opened
    odd = ("/not\udcff-unicode", None)
    before = identities_in(rows_of(store), odd)
    known = ProjectIdentity(path=odd[0])
    store.commit([RecordProject(project_id=key.project_id, identity=known)])
    after = identities_in(rows_of(store), odd)
    assert len(after) == len(before) + 1
    named = (key.project_id, key.workstream, key.role, key.slot)
    assert open_session(database, odd, after, named) is None


def test_no_file_is_made_by_a_glance(tmp_path):
    assert open_session(str(tmp_path / "none.db"), HERE, [0], ("p", "w", "r", 1)) is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("no database")
    assert open_session(str(tmp_path / "text.db"), HERE, [0], ("p", "w", "r", 1)) is None
