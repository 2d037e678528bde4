"""The field notes' conversation on the real OpenCode: limited, and its session lost."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.live.shell import Shell, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
ADDRESS = "spec-42/planner"
DEADLINE_S = 12


@pytest.fixture
def shell(opencode_shell: Shell) -> Shell:
    return opencode_shell


def lose(home: Path, session: str) -> None:
    """Delete a session as a person would who tidies up OpenCode's own store."""
    (database,) = home.glob("**/opencode.db")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        gone = connection.execute("DELETE FROM session WHERE id = ?", (session,))
        assert gone.rowcount == 1


def test_after_a_rate_limit_a_deadline_and_a_lost_session_the_next_request_holds_the_first_turn(
    shell, model, project, tmp_path
):
    first = only(shell.lines("tell", ADDRESS, "We agreed on KIWI-42."), "turn_ended")
    assert first["outcome"] == "ok"
    session = first["upstream_session_id"]

    # OpenCode tries again by itself for as long as it is limited: the deadline is ours.
    settings = project / "upthread.toml"
    settings.write_text(f"prompt_timeout_s = {DEADLINE_S}\n")
    limit = "What did we agree on? [[FAIL 429 retry-after=600 rate limit reached]]"
    limited = shell.lines("tell", ADDRESS, limit, exit_code=4)
    parked = only(limited, "turn_ended")["parked"]
    assert parked["reason"] in {"timed_out", "rate_limited"}
    settings.unlink()
    assert shell.lines("id", ADDRESS)[0]["upstream_session_id"] == session

    lose(tmp_path / "home", session)
    third = shell.lines("tell", ADDRESS, "And now?")
    started = only(third, "turn_started")
    assert started["decision"] == "resume_with_replay"
    assert started["reasons"][0] == "missing"
    assert started["upstream_session_id"] != session
    told = json.dumps(model.model_requests[-1].body["messages"])
    assert "We agreed on KIWI-42." in told
    assert "What did we agree on?" in told

    fourth = only(shell.lines("tell", ADDRESS, "Once more."), "turn_started")
    assert fourth["decision"] == "resume"
    assert "We agreed on KIWI-42." in json.dumps(model.model_requests[-1].body["messages"])
    chain = shell.lines("show", ADDRESS)[0]["chain"]
    assert [link["ended_because"] for link in chain] == ["missing", None]
