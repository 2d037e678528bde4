"""Every verb under exactly the rights that docs/operations.md lists, on a real PostgreSQL."""

import json
import os
import re
import signal
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres_server import as_role, drop_database_at, migrated_database_at
from tests.support.sets import EXTENDED

from upthread.surfaces.cli.program import ALIASES
from upthread.surfaces.cli.program import VERBS as VERBS_THERE_ARE

OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
ROLE = "upthread_worker"
SAY = "[[rehearse: say hello]]"
AGENT = ("--agent", "rehearsal")
STEP = """
[permissions]
edit = "allow"

[[pipeline.steps]]
role = "planner"
task = "Plan it."
"""

pytestmark = [EXTENDED, pytest.mark.timeout(600)]

# With the exit code of each: a verb that finds nothing to do has asked the database first.
VERBS: list[tuple[tuple[str, ...], int]] = [
    (("tell", "w/planner", SAY, *AGENT), 0),
    (("tell", "w/planner", SAY, *AGENT), 0),
    (("run", "spec-1", SAY, *AGENT), 4),
    (("answer", "spec-1", "This one."), 3),
    (("ls",), 0),
    (("ls", "--workers"), 0),
    (("show", "w"), 0),
    (("why", "w/planner", *AGENT), 0),
    (("id", "w/planner"), 0),
    (("open", "w/planner", "--dry-run"), 2),
    (("setup", "opencode", "--dry-run"), 0),
    (("trust",), 0),
    (("use", "w"), 0),
    (("status",), 0),
    (("brief", "w/planner"), 0),
    (("fork", "w/planner", "--as", "x/planner", "--yes"), 0),
    (("reset", "x/planner", "--yes"), 0),
    (("adopt", "y/planner", "ses_unknown", *AGENT), 1),
    (("audit", "w"), 0),
    (("savings", "w"), 0),
    (("search", "nothing that anybody said"), 0),
    (("effects", "w"), 0),
    (("effects", "w", "done"), 3),
    (("worktree", "w"), 3),
    (("agents",), 0),
    (("help",), 0),
    (("doctor",), 0),
    (("backup",), 2),
    (("restore", "{file}"), 2),
    (("repair", "w/planner", "--dry-run"), 0),
    (("mcp",), 0),
    (("encrypt",), 2),
    (("keep", "--yes"), 0),
    (("migrate", "--from", "{db}", "--to", "{file}", "--yes"), 0),
    (("migrate", "--from", "{file}", "--to", "{db}", "--yes"), 0),
    (("forget", "w", "--yes"), 0),
    (("run", "spec-2", SAY, "--detach", *AGENT), 0),
    (("forget", "--before", "2100-01-31", "--yes"), 0),
]


def documented_grants() -> list[str]:
    """The statements of docs/operations.md, as they stand there."""
    blocks = re.findall(r"```sql\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    found = [
        statement.strip()
        for block in blocks
        for statement in block.split(";")
        if statement.strip().startswith("GRANT")
    ]
    assert found
    return found


@pytest.fixture
def address(tmp_path):
    address = migrated_database_at(tmp_path)
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        for statement in documented_grants():
            connection.execute(statement)
    yield as_role(address, ROLE)
    with psycopg.connect(address) as connection:
        connection.execute(f"DROP OWNED BY {ROLE}")
        connection.execute(f"DROP ROLE {ROLE}")
    drop_database_at(tmp_path)


@pytest.fixture
def upthread(make_upthread, tmp_path, address):
    made = make_upthread(tmp_path)
    made.environment["UPTHREAD_DB"] = address
    with (made.home / "upthread" / "config.toml").open("a") as own:
        own.write(STEP)
    return made


def test_the_list_has_every_verb():
    # The demo has its own store; what serves until it is ended is tried by itself; `export` reads
    # what `audit` reads, and wants a collector.
    tried = {words[0] for words, _ in VERBS} | {"worker", "web", "demo", "export"}
    assert tried == {*VERBS_THERE_ARE, *ALIASES}


def test_every_verb_does_with_the_listed_rights(upthread, address, tmp_path):
    given = {"{db}": address, "{file}": str(tmp_path / "moved.db")}
    others = []
    for words, code in VERBS:
        done = upthread(*(given.get(word, word) for word in words), code=None)
        told = done.out + done.err
        assert "permission denied" not in told, (words, told)
        assert "grant the role" not in told, (words, told)
        assert "Traceback" not in told, (words, told)
        others += [(words, done)] if done.code != code else []
    assert others == [], "\n".join(map(str, others))
    shown = json.loads(upthread("show", "w", "--json").out)
    assert "hello" not in json.dumps(shown)


@pytest.mark.soak
def test_a_worker_works_with_the_listed_rights(upthread):
    upthread("run", "spec-2", "[[rehearse: ask What colour?]]", "--detach", *AGENT)
    worker = upthread.start("worker", "--json", *AGENT)
    told = []
    for line in worker.stdout:
        told.append(json.loads(line))
        if any(each in line.decode() for each in ("run_ended", "run_parked")):
            break
    os.kill(worker.pid, signal.SIGTERM)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 0, errors
    assert b"permission denied" not in errors
    assert any("step_started" in json.dumps(each) for each in told), told
