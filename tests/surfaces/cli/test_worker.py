"""`worker` and `run --detach` where they cannot work: what is missing, and what to do."""

import pytest
from tests.support.postgres_server import database_at, drop_database_at


@pytest.fixture
def upthread(make_upthread, tmp_path):
    return make_upthread(tmp_path)


def test_a_worker_needs_a_database_that_machines_share(upthread):
    for verb in ("worker",), ("ls", "--workers"):
        done = upthread(*verb, "--json", code=2)
        assert "SQLite file of one machine" in done.json["error"]["message"]
        assert "postgres://" in done.json["error"]["hint"]


def test_a_run_cannot_be_left_to_workers_where_there_are_none(upthread):
    done = upthread("run", "spec-1", "Say hello.", "--agent", "rehearsal", "--detach", code=2)
    assert "no workers to leave a run to" in done.err
    assert upthread("ls", "--json").json["workstreams"] == []


def test_a_worker_does_not_start_before_the_project_says_what_agents_may_do(upthread, address):
    done = upthread("worker", "--agent", "rehearsal", "--db", address, "--json", code=1)
    assert "does not say what agents may do" in done.json["error"]["message"]
    assert "[permissions]" in done.json["error"]["hint"]


def test_a_worker_needs_an_agent(upthread, address):
    (upthread.directory / "upthread.toml").write_text('[permissions]\nedit = "deny"\n')
    (upthread.home / "upthread" / "config.toml").unlink()
    (upthread.home / "bin" / "opencode").unlink()
    upthread.environment["PATH"] = "/usr/bin:/bin"
    done = upthread("worker", "--db", address, "--json", code=2)
    assert "no agent is here" in done.json["error"]["message"]


def test_a_worker_needs_a_schema(upthread, tmp_path):
    address = database_at(tmp_path)
    done = upthread("worker", "--db", address, "--json", code=1)
    assert "upthread migrate" in done.json["error"]["hint"]
    drop_database_at(tmp_path)


def test_nobody_works_before_a_worker_is_started(upthread, address):
    done = upthread("ls", "--workers", "--db", address)
    assert "start one with: upthread worker" in done.err
    assert upthread("ls", "--workers", "--db", address, "--json").json["workers"] == []
