"""An upgrade while runs wait and workers work: nobody is interrupted, and all runs end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.laboratory.sharing import Observer, Workers, until
from tests.support.postgres_server import database_at, drop_database_at
from tests.support.sets import EXTENDED, SOAK
from tests.support.world import ALLOW, REPORT, World
from tests.workers.test_waiting_runs import waiting_run
from upthread.store.sql.statements import read_migrations

from upthread.core.types import RunId
from upthread.store.postgres import migrate

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

NEWEST = read_migrations("postgres")[-1].version

ONE_STEP = """
[[pipeline.steps]]
role = "planner"
task = "Plan it."
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    yield database_at(tmp_path)
    drop_database_at(tmp_path)


CONFIGURATION = ALLOW + ONE_STEP


WITHOUT_TENANCY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'
        AND relnamespace = 'upthread'::regnamespace LOOP
        EXECUTE 'ALTER TABLE ' || name || ' DISABLE ROW LEVEL SECURITY,'
            || ' NO FORCE ROW LEVEL SECURITY';
    END LOOP;
    FOR name IN SELECT format('%s DROP COLUMN %I CASCADE', attrelid::regclass, attname)
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relkind = 'r' AND c.relnamespace = 'upthread'::regnamespace AND NOT attisdropped
        AND (attgenerated = 's' OR attname = 'seal'
        OR (attname = 'project_id' AND relname IN ('link', 'link_end', 'turn', 'part', 'refusal',
        'examined', 'briefing_edit', 'turn_event', 'quarantine', 'run_event', 'transition',
        'act')) OR (relname, attname) = ('project_identity', 'owner'))
    LOOP
        EXECUTE 'ALTER TABLE ' || name;
    END LOOP;
END $$;
ALTER TABLE upthread.link ADD PRIMARY KEY (conversation_id, seq);
ALTER TABLE upthread.link_end ADD PRIMARY KEY (conversation_id, seq);
ALTER TABLE upthread.run_event ADD PRIMARY KEY (run_id, seq);
ALTER TABLE upthread.transition ADD UNIQUE (run_id, run_seq);
ALTER TABLE upthread.turn_event ADD PRIMARY KEY (turn_id, seq);
ALTER TABLE upthread.part ADD PRIMARY KEY (conversation_id, message_seq, ordinal);
ALTER TABLE upthread.quarantine ADD PRIMARY KEY (turn_id, ordinal);
ALTER TABLE upthread.examined ADD PRIMARY KEY (turn_id, ordinal);
ALTER TABLE upthread.briefing_edit ADD PRIMARY KEY (conversation_id, seq);
CREATE INDEX project_identity_by_path ON upthread.project_identity (sha256(path));
CREATE INDEX project_identity_by_root_commit ON upthread.project_identity (sha256(root_commit));
CREATE INDEX workstream_by_name ON upthread.workstream (sha256(workstream));
CREATE INDEX workstream_by_base_name ON upthread.workstream (sha256(base_name));
CREATE INDEX conversation_by_key ON upthread.conversation (sha256(role));
CREATE INDEX conversation_by_workstream ON upthread.conversation (sha256(workstream));
CREATE INDEX run_by_workstream ON upthread.run (sha256(workstream));
CREATE INDEX once_event_by_key ON upthread.once_event (sha256(key));
CREATE INDEX link_by_upstream_session_id ON upthread.link (sha256(upstream_session_id));
CREATE INDEX lease_by_name ON upthread.lease (sha256(name));
"""


def go_back(address: str, version: int) -> None:
    """Leave the database as the version with so many migrations had it, with all it holds."""
    with psycopg.connect(address) as connection:
        connection.execute(
            """
            DO $$ DECLARE name text; BEGIN
                FOR name IN SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'
                    AND relnamespace = 'upthread'::regnamespace
                    AND relname LIKE 'procrastinate%' LOOP
                    EXECUTE 'DROP TABLE ' || name || ' CASCADE';
                END LOOP;
                FOR name IN SELECT oid::regprocedure::text FROM pg_proc
                    WHERE pronamespace = 'upthread'::regnamespace LOOP
                    EXECUTE 'DROP ROUTINE ' || name || ' CASCADE';
                END LOOP;
                FOR name IN SELECT oid::regtype::text FROM pg_type
                    WHERE typnamespace = 'upthread'::regnamespace
                    AND typname LIKE 'procrastinate%' LOOP
                    EXECUTE 'DROP TYPE ' || name || ' CASCADE';
                END LOOP;
            END $$;
            """
        )
        connection.execute(WITHOUT_TENANCY)
        connection.execute("DROP TABLE upthread.worker, upthread.job_queue_migration, upthread.act")
        connection.execute("DROP INDEX upthread.transition_due")
        connection.execute(
            "ALTER TABLE upthread.transition DROP COLUMN is_settled, DROP COLUMN queue,"
            " DROP COLUMN server_due_at_ms"
        )
        connection.execute("DELETE FROM upthread.schema_migration WHERE version > %s", (version,))


@SOAK
@pytest.mark.parametrize(
    "waiting", [pytest.param(8, marks=EXTENDED), pytest.param(100, marks=SOAK)]
)
async def test_waiting_runs_all_end_after_an_upgrade_with_workers_that_roll(
    tmp_path: Path, world: World, address: str, waiting: int
) -> None:
    migrate(address)
    async with world.open() as project:
        for number in range(waiting):
            said = f"[[rehearse: say {REPORT}]]"
            project.store.commit(waiting_run(project, number, specification=said))
    go_back(address, 2)
    assert migrate(address)[1:] == (2, NEWEST)
    observer = Observer(address)
    with Workers(tmp_path, world.environment, [world.project]) as workers:
        rolling = [workers.start("--concurrency", "2") for _ in range(2)]
        async with world.open() as project:
            for number in range(waiting):
                await project.answer(f"spec-{number}", "This one.")
                if number % (waiting // 4) == 0:
                    old = rolling.pop(0)
                    await until(lambda old=old: old.lines)
                    os.kill(old.pid, signal.SIGTERM)
                    rolling.append(workers.start("--concurrency", "2"))
                    assert old.exit_code == 0
            ended = "SELECT count(*) FROM upthread.run_event WHERE kind = 'run_ended'"
            await until(lambda: observer.one(ended) == waiting, within_s=200)
            last = project.store.run_events(RunId(f"run_{waiting - 1}"))[-1].event
        workers.check_no_traceback()
    observer.close()
    assert last.status == "done"
