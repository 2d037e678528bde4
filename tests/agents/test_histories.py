"""Finding: every store on the machine, where its agent keeps it; a damaged one is told."""

from __future__ import annotations

from tests.vendors.opencode_database import OpenCodeDatabase
from tests.vendors.transcripts import ClaudeTranscript, rollout, spoken

from upthread.agents.stored import stored_histories
from upthread.core.agents import WITH_A_STORE
from upthread.errors import StoreError


def filled(home):
    transcript = ClaudeTranscript()
    transcript.user("go")
    transcript.write(home / ".claude" / "projects" / "-work" / "s1.jsonl")
    rollout(
        home / ".codex" / "sessions" / "2026" / "11" / "20" / "rollout-1.jsonl", spoken("user", "x")
    )
    database = OpenCodeDatabase(home / ".local" / "share" / "opencode" / "opencode.db")
    database.session()
    database.close()
    return {"HOME": str(home)}


def test_the_stores_of_all_agents_are_found_under_a_home(tmp_path):
    found = list(stored_histories(filled(tmp_path)))
    assert [each.agent for each in found] == ["claude-code", "opencode", "codex"]
    assert list(WITH_A_STORE) == ["claude-code", "opencode", "codex"]


def test_one_agents_store_is_found_alone_and_elsewhere_when_told(tmp_path):
    filled(tmp_path)
    environment = {
        "HOME": "/nowhere",
        "XDG_DATA_HOME": str(tmp_path / ".local" / "share"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude"),
        "CODEX_HOME": str(tmp_path / ".codex"),
    }
    assert len(list(stored_histories(environment))) == 3
    assert [each.agent for each in stored_histories(environment, agent="codex")] == ["codex"]


def test_a_store_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path):
    environment = filled(tmp_path)
    (tmp_path / ".local" / "share" / "opencode" / "opencode.db").write_bytes(b"damaged" * 99)
    (tmp_path / ".claude" / "projects" / "-work" / "s2.jsonl").mkdir()
    found = list(stored_histories(environment))
    assert [isinstance(each, StoreError) for each in found] == [False, True, True, False]
