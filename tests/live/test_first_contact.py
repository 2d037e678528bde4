"""What the real agents have stored is listed as it is, and what can be resumed is resumed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live import claude_code, codex
from tests.live.claude_code import claude_environment
from tests.live.codex import codex_environment
from tests.live.opencode import opencode_environment
from tests.live.shell import Shell, agents_left, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TASK = json.dumps(
    {"description": "sub", "prompt": "Look. [[SAY seen]]", "subagent_type": "general"}
)


@dataclass(frozen=True)
class Way:
    """One agent: what its program is called, what makes a sub-agent, and that one's role."""

    agent: str
    program: str
    delegation: str
    role: str


WAYS = {
    "claude-code": Way(
        "claude-code", "claude", claude_code.delegation("Look. [[SAY seen]]"), "general-purpose"
    ),
    "opencode": Way("opencode", "opencode", f"[[CALL task {TASK}]]", "general"),
    "codex": Way("codex", "codex", codex.delegation("Look. [[SAY seen]]"), ""),
}


@pytest.fixture(params=list(WAYS))
def way(request) -> Way:
    return WAYS[request.param]


@pytest.fixture
def shell(way, request, model, project, tmp_path) -> Iterator[Shell]:
    binaries, home = tmp_path / "bin", tmp_path / "home"
    binaries.mkdir()
    binary = request.getfixturevalue(f"{way.program}_binary")
    (binaries / way.program).symlink_to(binary)
    environments = {
        "claude": claude_environment,
        "opencode": opencode_environment,
        "codex": codex_environment,
    }
    environment = {
        **environments[way.program](home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    # Codex tells a branch only of a repository that has a commit.
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    commit = (*identity, "commit", "-qm", "seed", "--allow-empty")
    for words in (("checkout", "-qb", "feature/export"), commit):
        subprocess.run(("git", *words), cwd=project, check=True, capture_output=True)
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def looked_at(shell: Shell, tmp_path: Path) -> Mapping[str, object]:
    """What somebody sees who has no record of ours."""
    stranger = {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "stranger")}
    (told,) = Shell(shell.project, stranger).lines("--all")
    return told


def test_what_an_agent_stored_is_listed_as_it_is_and_can_be_gone_on_with(way, shell, tmp_path):
    lines = shell.lines("tell", "w/planner", f"{way.delegation} [[SAY done]]")
    session = only(lines, "result")["upstream_session_id"]
    told = looked_at(shell, tmp_path)
    (main,) = told["sessions"]
    assert (main["agent"], main["session_id"]) == (way.agent, session)
    assert main["directory"] == str(shell.project.resolve())
    assert main["title"]
    assert main["model"]
    assert main["version"]
    assert main["tokens"] > 0
    assert main["ending"] == "ended"
    assert main["branch"] in {"feature/export", None}
    assert (main["branch"] is None) == (way.agent == "opencode"), "it keeps no branch"
    assert main["resume_command"][-1] == session
    (numbers,) = told["agents"]
    assert numbers["here"]["sub_agents"] == 1
    assert told["passed_over"] == []
    assert not told["foreign"]
    stranger = {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "stranger")}
    other = Shell(shell.project, stranger)
    other.lines("adopt", "w/planner", session, "--agent", way.agent)
    again = other.lines("tell", "w/planner", "[[SAY I am back]]")
    assert only(again, "turn_started")["upstream_session_id"] == session
    assert only(again, "result")["decision"].startswith("resume")


def test_what_is_adopted_from_the_list_is_gone_on_in(way, shell, tmp_path):
    lines = shell.lines("tell", "w/planner", "Count the zebras. [[SAY done]]")
    session = only(lines, "result")["upstream_session_id"]
    other = Shell(shell.project, {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "other")})
    (told,) = other.lines("adopt", "--pick", "--yes")
    assert [each["fault"] for each in told["sessions"]] == [None]
    address = told["sessions"][0]["address"]
    again = other.lines("tell", address, "[[SAY I am back]]")
    assert only(again, "turn_started")["upstream_session_id"] == session


def test_what_was_said_to_a_real_agent_is_found(way, shell, tmp_path):
    shell.lines("tell", "w/planner", "Count the zebras in Lisbon. [[SAY done]]")
    stranger = {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "stranger")}
    *hits, result = Shell(shell.project, stranger).lines("search", "zebras", "lisbon")
    assert result["hits"] == len(hits) > 0
    assert {hit["agent"] for hit in hits} == {way.agent}
    assert "Count the zebras in Lisbon" in hits[0]["text"]


def test_a_kept_session_is_gone_on_in_while_it_is_there_and_briefed_from_after(
    way, shell, tmp_path
):
    lines = shell.lines("tell", "w/planner", "Count the zebras in Lisbon. [[SAY forty two]]")
    session = only(lines, "result")["upstream_session_id"]
    other = Shell(shell.project, {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "other")})
    (kept,) = other.lines("keep", session, "--as", "zoo/planner")
    assert [each["fault"] for each in kept["sessions"]] == [None]
    again = other.lines("tell", "zoo/planner", "[[SAY I am back]]", "--agent", way.agent)
    assert only(again, "turn_started")["upstream_session_id"] == session
    (audit,) = other.lines("audit", "zoo", "--format", "json")
    assert json.dumps(audit).count("forty two") > 0
    if way.agent != "claude-code":
        return
    (transcript,) = (tmp_path / "home").rglob(f"{session}.jsonl")
    transcript.unlink()
    fresh = other.lines("tell", "zoo/planner", "[[SAY who am I]]")
    assert only(fresh, "result")["upstream_session_id"] != session
    assert only(fresh, "result")["decision"] == "resume_with_replay"
    assert "Count the zebras in Lisbon" in str(other.lines("brief", "zoo/planner"))


ROLES = {
    "opencode": (
        ".opencode/agent/zookeeper.md",
        "---\nmode: subagent\ndescription: keeps animals\n---\nYou keep animals.\n",
        json.dumps({"description": "sub", "prompt": "Count. [[SAY 42]]",
                    "subagent_type": "zookeeper"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["opencode", "codex"], indirect=True)
def test_a_sub_agent_is_adopted_and_gone_on_in(way, shell, tmp_path):
    """Neither agent lists its sub-agents, and both go on in them."""
    delegation = way.delegation
    if way.agent == "opencode":
        path, text, task = ROLES["opencode"]
        (shell.project / path).parent.mkdir(parents=True)
        (shell.project / path).write_text(text)
        delegation = f"[[CALL task {task}]]"
    shell.lines("tell", "w/planner", f"{delegation} [[SAY done]]")
    other = Shell(shell.project, {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "other")})
    shown = [each for each in other.lines("search", "SAY", "--all") if each["type"] == "hit"]
    (main,) = looked_at(shell, tmp_path)["sessions"]
    (child,) = {each["session_id"] for each in shown} - {main["session_id"]}
    other.lines("adopt", "zoo/planner", child, "--agent", way.agent)
    again = other.lines("tell", "zoo/planner", "[[SAY I am back]]")
    assert only(again, "turn_started")["upstream_session_id"] == child
    assert only(again, "result")["decision"].startswith("resume")


@pytest.mark.parametrize("way", ["codex"], indirect=True)
def test_an_archived_thread_is_gone_on_in_after_the_command_that_is_shown(way, shell, tmp_path):
    lines = shell.lines("tell", "w/planner", "Count the zebras. [[SAY done]]")
    session = only(lines, "result")["upstream_session_id"]
    run = {"cwd": shell.project, "env": shell.environment, "capture_output": True}
    subprocess.run(("codex", "archive", session), check=True, **run)
    (archived,) = looked_at(shell, tmp_path)["sessions"]
    other = Shell(shell.project, {**shell.environment, "UPTHREAD_HOME": str(tmp_path / "other")})
    (picked,) = other.lines("adopt", "--pick")
    assert picked["sessions"] == []
    subprocess.run(archived["unarchive_command"], check=True, **run)
    other.lines("adopt", "zoo/planner", session, "--agent", "codex")
    again = other.lines("tell", "zoo/planner", "[[SAY I am back]]")
    assert only(again, "turn_started")["upstream_session_id"] == session
