"""Every session of a home at a glance, whatever else lies in it; and for a search, newest first."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from tests.support.agent_homes import Months, compressed, make_home

from upthread.agent_stores.base import Look, look
from upthread.agent_stores.reader import Words
from upthread.agents.stored import searched_sessions, stored_outlines

SMALL = Months(claude_code=9, codex=8, opencode=7, sub_agents=6, session_bytes=60_000)


def looked_at(home: Path, seen: Look | None = None):
    return list(stored_outlines({"HOME": str(home)}, seen or look()))


def digest(home: Path) -> str:
    """Every name, kind, size, time and content, of pipes and links only what they are."""
    told = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        found = path.lstat()
        told.update(f"{path} {found.st_mode} {found.st_size} {found.st_mtime_ns}".encode())
        if path.is_file() and not path.is_symlink() and found.st_size < 1_000_000:
            told.update(path.read_bytes())
    return told.hexdigest()


def test_every_session_and_sub_agent_of_a_home_is_found(tmp_path):
    found = looked_at(make_home(tmp_path, SMALL))
    numbers = Counter((each.agent, each.is_sub_agent) for each in found)
    own = {"claude-code": 9, "codex": 8, "opencode": 7}
    assert {agent: numbers[agent, False] for agent in own} == own
    assert {agent: numbers[agent, True] for agent in own} == dict.fromkeys(own, 2)
    assert numbers.total() == len(found) == 30
    main = {each.session_id for each in found if not each.is_sub_agent}
    assert {each.parent_session_id for each in found if each.is_sub_agent} <= main
    for each in found:
        assert each.directory.startswith("/src/project-")
        assert each.unredacted_title.startswith("Make the ")
        assert each.tokens
        assert each.model
        assert each.version
        assert each.ending == "ended"
        assert each.begun_at_ms
        assert each.used_at_ms >= each.begun_at_ms - 1_000
        assert bool(each.role) == each.is_sub_agent
        assert (each.deleted_at_ms is not None) == (each.agent == "claude-code")


def test_one_agent_is_read_alone_and_a_look_that_is_cut_short_has_what_it_reached(tmp_path):
    home = make_home(tmp_path / "home", SMALL)
    only = stored_outlines({"HOME": str(home)}, look(), agent="codex")
    assert {each.agent for each in only} == {"codex"}
    assert looked_at(tmp_path / "empty") == []
    seen = Look(until_s=float("inf"), sessions_max=5)
    assert len(looked_at(home, seen)) == 5
    assert seen.is_cut_short


CONTENTS = {
    "empty": b"",
    "binary": b"\0\x93\xfe" * 60,
    "text": b"this is a letter\nto nobody\n",
    "cut": b'{"type":"user","cwd":"/x"}\n{"type":"us',
    "foreign": b'{"colour":"red"}\n' * 3,
    "deep": b"[" * 50_000 + b"\n",
}
KINDS = (*CONTENTS, "link", "dangling", "pipe", "folder")


def strew(directory: Path, number: int) -> None:
    """Put files into a directory that are called as an agent's are, and are none of them."""
    directory.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        kind = KINDS[index % len(KINDS)]
        suffix = ".jsonl.zst" if index % 3 == 0 and "sessions" in str(directory) else ".jsonl"
        name = "agent" if directory.name == "subagents" else "rollout-2026-11-20T10-00-00"
        path = directory / f"{name}-{kind}-{index}{suffix}"
        if kind in CONTENTS:
            path.write_bytes(CONTENTS[kind])
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero" if kind == "link" else "/nowhere")
        if not path.is_symlink():
            os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    "each", [200, pytest.param(33_400, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
def test_whatever_lies_in_the_agents_folders_is_passed_over_at_once_and_left_as_it_is(
    tmp_path, each
):
    home = make_home(tmp_path, SMALL)
    expected = {outline.session_id for outline in looked_at(home)}
    strewn = home / ".claude" / "projects" / "-strewn"
    day = home / ".codex" / "sessions" / "2026" / "11" / "20"
    folders = (strewn, strewn / "s" / "subagents", day)
    for folder in folders:
        strew(folder, each)
    huge = folders[0] / "huge.jsonl"
    huge.touch()
    os.truncate(huge, 10 * 1024**3)
    (home / ".claude" / "projects" / "-out").symlink_to("/")
    opencode = home / ".local" / "share" / "opencode"
    (opencode / "opencode-2.db").write_bytes(b"damaged" * 99)
    os.mkfifo(opencode / "opencode-3.db")
    old = opencode / "storage" / "session" / "p"
    old.mkdir(parents=True)
    (old / "ses_old.json").touch()
    before = digest(home)
    seen = look()
    found = looked_at(home, seen)
    sound = {outline.session_id for outline in found if not outline.is_foreign}
    assert sound >= expected or seen.is_cut_short
    if each == 200:
        assert all("-cut-" in session for session in sound - expected), "Claude Code resumes these"
        assert seen.passed_over["claude-code", "binary"] == 2 * each // 10 + 1
        assert seen.passed_over["opencode", "not a database of a known form"] == 2
        assert seen.passed_over["opencode", "of before 1.2, not migrated by OpenCode"] == 1
    assert digest(home) == before


def test_a_directory_that_cannot_be_entered_is_counted(tmp_path):
    home = make_home(tmp_path, SMALL)
    if os.geteuid() == 0:
        pytest.skip("root may enter any directory")
    closed = next((home / ".claude" / "projects").iterdir())
    closed.chmod(0)
    seen = look()
    assert len(looked_at(home, seen)) > 0
    assert seen.passed_over["claude-code", "Permission denied"] == 1
    closed.chmod(0o700)


# --- for a search --------------------------------------------------------------------------------

FEW = Months(claude_code=6, codex=6, opencode=6, sub_agents=6, session_bytes=20_000)


def found(home, *words: str, agent=None):
    """(agent, speaker, text) of all that has the words."""
    wanted = Words(words)
    with searched_sessions({"HOME": str(home)}, look(), agent=agent) as sessions:
        return [
            (session.agent, said.speaker, said.text)
            for session in sessions
            for said in session.said(wanted)
            if wanted.place_in(said.text) is not None
        ]


def test_the_sessions_come_newest_first_whichever_agent_has_them(tmp_path):
    home = make_home(tmp_path, FEW)
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        times = [each.used_at_ms for each in sessions]
    assert len(times) == 24
    assert times == sorted(times, reverse=True)


def test_each_agent_is_gone_through_and_what_the_outline_says_is_its_session(tmp_path):
    home = make_home(tmp_path, FEW)
    hits = found(home, "the", "parser", "part")
    assert {agent for agent, _, _ in hits} == {"claude-code", "codex", "opencode"}
    assert {speaker for _, speaker, _ in hits} == {"user"}
    assert {agent for agent, _, _ in found(home, "rows", agent="codex")} == {"codex"}
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        assert all(each.outline().agent == each.agent for each in sessions)


def test_calls_and_results_are_found_as_the_tools_they_are_of(tmp_path):
    claude = {"type": "assistant", "message": {"content": [
        {"type": "tool_use", "name": "Bash", "input": {"command": "make zebra"}}]}}  # fmt: skip
    path = tmp_path / ".claude" / "projects" / "-w" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(claude) + "\n")
    call = {"type": "function_call", "name": "exec", "arguments": '{"cmd": "make zebra"}'}
    line = json.dumps({"type": "response_item", "payload": call}) + "\n"
    rollout = tmp_path / ".codex" / "archived_sessions" / "rollout-2026-11-20T10-00-00-x.jsonl.zst"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes(compressed(line.encode()))
    hits = found(tmp_path, "ZEBRA")
    of = sorted((agent, speaker) for agent, speaker, _ in hits)
    assert of == [("claude-code", "tool"), ("codex", "tool")]
