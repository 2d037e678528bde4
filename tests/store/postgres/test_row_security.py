"""Row-level security by table and operation, in SQL that knows no scope of ours.

Each row is also reached: by a session for its own project, and by another one once the table is
guarded no more. So a row that is not seen is one that was refused.
"""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors, sql
from tests.support.postgres_server import as_owner, drop_database_at, migrated_database_at

from upthread.core.types import ProjectId
from upthread.store.postgres import PostgresStore
from upthread.testing.store_conformance.copies import everything
from upthread.testing.store_conformance.samples import HOLDER, PROJECT

ANOTHER = ProjectId("prj_another")
UNGUARDED = {"meta", "job_queue_migration", "worker"}
TABLES = ("head", "entry", "tag", "lease")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A database with rows of one project in every table, as its owner reaches it."""
    place = tmp_path_factory.mktemp("rows")
    address = as_owner(migrated_database_at(place))
    store = PostgresStore(address)
    store.commit(everything())
    assert store.acquire_lease(f"conversation {PROJECT} spec-42/planner", HOLDER)
    store.close()
    yield address
    drop_database_at(place)


@pytest.fixture
def connection(filled):
    """A transaction of the owner's, whom policies bind; nothing of it stays."""
    with psycopg.connect(filled) as connection:
        yield connection
        connection.rollback()


def act_for(connection: psycopg.Connection, project: ProjectId) -> None:
    setting = f"x{project.encode().hex()}"
    connection.execute("SELECT set_config('upthread.project', %s, true)", (setting,))


def columns(connection: psycopg.Connection, table: str) -> list[str]:
    """The columns that can be written."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' AND attidentity = '' ORDER BY attnum",
        (f"upthread.{table}",),
    )
    return [name for (name,) in rows]


def of_project(table: str) -> sql.Composed:
    whose = sql.SQL("upthread.{} WHERE project = {}")
    return whose.format(sql.Identifier(table), PROJECT.encode())


def select(connection: psycopg.Connection, table: str) -> int:
    return connection.execute(sql.SQL("SELECT 1 FROM ") + of_project(table)).rowcount


def update(connection: psycopg.Connection, table: str) -> int:
    column = sql.Identifier(columns(connection, table)[0])
    where = sql.SQL(" WHERE project = {}").format(PROJECT.encode())
    change = sql.SQL("UPDATE upthread.{} SET {} = {}").format(sql.Identifier(table), column, column)
    return connection.execute(change + where).rowcount


def delete(connection: psycopg.Connection, table: str) -> int:
    return connection.execute(sql.SQL("DELETE FROM ") + of_project(table)).rowcount


def insert(connection: psycopg.Connection, table: str) -> int:
    """Insert a row of the project, as one that is there; that it is there already is no refusal."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns(connection, table)))
    act_for(connection, PROJECT)
    told = connection.execute(
        sql.SQL("SELECT {} FROM ").format(names) + of_project(table) + sql.SQL(" LIMIT 1")
    ).fetchone()
    act_for(connection, ANOTHER)
    values = sql.SQL(", ").join(sql.Placeholder() * len(told or ()))
    into = sql.SQL("INSERT INTO upthread.{} ({}) VALUES ({})")
    try:
        with connection.transaction():
            return connection.execute(
                into.format(sql.Identifier(table), names, values), told
            ).rowcount
    except errors.UniqueViolation:
        return 1
    except errors.InsufficientPrivilege as error:
        if "row-level security policy" not in str(error):
            raise  # another right is missing, which would refuse the project's own rows too
        return 0


OPERATIONS: tuple[Callable[[psycopg.Connection, str], int], ...] = (select, update, delete, insert)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("table", TABLES)
def test_a_row_is_within_reach_of_its_own_project_and_the_policy_keeps_others_out(
    connection, table, operation
):
    def reached_for(project: ProjectId) -> int:
        act_for(connection, project)
        with connection.transaction(force_rollback=True):
            return operation(connection, table)

    assert reached_for(ANOTHER) == 0
    if operation is not insert:  # which is always for the other project
        assert reached_for(PROJECT) > 0
    unguarded = sql.SQL("ALTER TABLE upthread.{} DISABLE ROW LEVEL SECURITY")
    connection.execute(unguarded.format(sql.Identifier(table)))
    assert reached_for(ANOTHER) > 0


def test_every_table_that_holds_rows_of_projects_is_tried(connection):
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'upthread'")
    names = {name for (name,) in rows if not name.startswith("procrastinate_")}
    assert names - UNGUARDED == set(TABLES)
