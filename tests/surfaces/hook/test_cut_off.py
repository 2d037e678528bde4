"""A call whose agent was killed: what its own store has of it is on record, and told, and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.vendors.transcripts import ClaudeTranscript, result, said, use

PROMPT = "Make the file, KIWI-9."
CHILD = "a1b2c3"


def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    return ended.pid


class Killed:
    """Claude Code, killed in a call of the planner that had written `made.txt`."""

    def __init__(self, place) -> None:
        self.place = place
        self.home = place.home.parent
        self.main = self.home / ".claude/projects/-work/main-1.jsonl"
        self.transcript = self.main.with_suffix("") / "subagents" / f"agent-{CHILD}.jsonl"
        self.made = place.project / "made.txt"

    def begin(self, prompt: str = PROMPT, call_id: str = "c1") -> None:
        self.before(prompt, call_id)
        for path in (*self.place.files("bindings/*.json"), *self.place.files("spool/*.json")):
            kept = json.loads(path.read_text())
            held = kept.get("claim", kept)
            held.update(pid=dead_pid(), ticks=1)
            path.write_text(json.dumps(kept))

    def before(self, prompt: str, call_id: str) -> dict:
        given = {"subagent_type": "planner", "prompt": prompt}
        asked = {"hook_event_name": "PreToolUse", "session_id": "main-1", "tool_name": "Agent"}
        asked |= {"cwd": str(self.place.project), "tool_use_id": call_id, "tool_input": given}
        return self.place.hook(asked, agent="claude-code").answer

    def leave_transcript(self, prompt: str = PROMPT, call_id: str = "c1") -> None:
        self.made.write_text("made\n")
        write = {**use("w1", "Write"), "input": {"file_path": str(self.made), "content": "made\n"}}
        told = ClaudeTranscript(is_sidechain=True, version="2.1.330")
        told.user(prompt)
        told.assistant(said("I write it."), write)
        told.user([result("w1", "File created")])
        told.assistant({**use("b1"), "input": {"command": "git push origin main"}})
        told.write(self.transcript)
        self.main.write_text("")
        meta = self.transcript.with_suffix(".meta.json")
        meta.write_text(json.dumps({"toolUseId": call_id}))


@pytest.fixture
def killed(place) -> Killed:
    return Killed(place)


def test_whatever_is_asked_first_tells_what_was_asked_done_and_cut_off(killed):
    killed.begin()
    killed.leave_transcript()
    for words in (("show", "spec-42"), ("why", "spec-42/planner"), ("brief", "spec-42/planner")):
        told = killed.place.run(*words).stdout
        assert "KIWI-9" in told, words
        assert "made.txt" in told, words
        assert "cut off: the agent ended before its sub-agent did" in told, words
    effects = killed.place.upthread("show", "spec-42", "--effects")["effects"]
    assert [each["state"] for each in effects] == ["done", "unknown"]
    (conversation,) = killed.place.upthread("audit", "spec-42")["conversations"]
    (turn,) = conversation["turns"]
    assert turn["outcome"] == "process_died"


def test_why_says_that_it_cannot_be_opened_from_outside_and_would_be_told(killed):
    killed.begin()
    killed.leave_transcript()
    now = killed.place.upthread("why", "spec-42/planner")["now"]
    assert (now["decision"], now["reasons"][0]) == ("resume_with_replay", "sub_agent_session")


def test_why_says_what_the_hook_then_says_of_a_call_inside_the_agent(killed):
    killed.begin()
    killed.leave_transcript()
    installed = killed.place.home / "hooks" / "installed.json"
    known = json.loads(installed.read_text())
    installed.write_text(json.dumps({**known, "agents": {"claude": {}}}))
    why = killed.place.upthread("why", "spec-42/planner")
    assert why["now"]["reasons"][0] == "sub_agent_session"
    assert why["inside"]["agent"] == "claude-code"
    assert why["inside"]["reasons"][0] == "cut_off_elsewhere"
    text = killed.place.run("why", "spec-42/planner").stdout
    killed.place.upthread("drain")
    line = killed.before("Go on.", "c2")["systemMessage"]
    assert why["inside"]["words"] in line
    assert why["inside"]["words"] in text
    assert "in    claude-code, called by its own tool, it would" in text


def test_the_next_call_in_the_agent_gets_the_replay_with_what_must_not_be_done_again(killed):
    killed.begin()
    killed.leave_transcript()
    killed.place.upthread("drain")
    answer = killed.before("Go on.", "c2")
    prompt = answer["hookSpecificOutput"]["updatedInput"]["prompt"]
    assert prompt.endswith("\n\nGo on.")
    assert "KIWI-9" in prompt
    assert "made.txt: done" in prompt
    assert "git push origin main: outcome unknown" in prompt
    assert "ROLLED OVER" in answer["systemMessage"]
    assert "the last turn was cut off" in answer["systemMessage"]


def test_a_next_call_that_is_made_before_anything_is_taken_in_is_never_silently_fresh(killed):
    killed.begin()
    killed.leave_transcript()
    answer = killed.before("Go on.", "c2")  # its drain takes nothing in
    assert "UNDECIDED" in answer["systemMessage"]
    assert "its last call was cut off" in answer["systemMessage"]


def test_taken_in_twice_it_is_there_once(killed):
    killed.begin()
    killed.leave_transcript()
    spool = {path: path.read_bytes() for path in killed.place.files("spool/*.json")}
    killed.place.upthread("drain")
    before = killed.place.upthread("audit", "spec-42")["conversations"]
    for path, raw in spool.items():  # as a drain leaves them that was killed after its commit
        path.write_bytes(raw)
    assert killed.place.upthread("drain")["calls"] == 1
    assert killed.place.upthread("audit", "spec-42")["conversations"] == before


def test_secrets_are_not_kept(killed):
    secret = "ghp_" + "a1B2c3D4" * 4 + "a1B2"
    killed.begin(f"Use {secret}.")
    killed.leave_transcript(f"Use {secret}.")
    killed.place.upthread("drain")
    assert secret not in killed.place.run("audit", "spec-42").stdout
    held = [path for path in killed.place.home.rglob("*") if path.is_file()]
    assert [path for path in held if secret.encode() in path.read_bytes()] == []


def test_where_only_an_outline_is_recorded_no_words_and_no_paths_are_kept(killed):
    (killed.place.project / "upthread.toml").write_text('record = "index"\n')
    killed.begin()
    killed.leave_transcript()
    killed.place.upthread("drain")
    held = [path for path in killed.place.home.rglob("*") if path.is_file()]
    for word in (b"KIWI-9", b"made.txt"):
        assert [path for path in held if word in path.read_bytes()] == [], word


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_a_transcript_that_leads_elsewhere_is_not_read_and_that_is_said(killed, what: str):
    killed.begin()
    killed.leave_transcript()
    moved = killed.transcript.rename(killed.home / "elsewhere.jsonl")
    if what == "link":
        killed.transcript.symlink_to(moved)
    else:
        os.mkfifo(killed.transcript)
    told = killed.place.run("show", "spec-42").stdout
    assert "KIWI-9" not in told
    assert "is not read" in told


def test_without_a_transcript_it_is_said_that_what_was_asked_was_not_kept(killed):
    killed.begin()
    told = killed.place.run("show", "spec-42").stdout
    assert "cut off: the agent ended before its sub-agent did" in told
    assert "it was asked: not kept" in told


def test_a_file_that_was_touched_after_the_kill_is_one_to_look_at_again(killed):
    killed.begin()
    killed.leave_transcript()
    an_hour_ago_ns = killed.transcript.stat().st_mtime_ns - 3_600_000_000_000
    os.utime(killed.transcript, ns=(an_hour_ago_ns, an_hour_ago_ns))
    killed.place.upthread("drain")
    why = killed.place.run("why", "spec-42/planner").stdout
    assert "made.txt" in why.partition("  now  ")[2]


def test_a_sub_agent_that_was_gone_on_with_and_never_got_the_prompt_is_not_doubled(killed):
    """`SendMessage` was seen, and the agent killed before it was carried out."""
    killed.begin()
    killed.leave_transcript()
    killed.place.upthread("drain")
    asked = {"hook_event_name": "PreToolUse", "session_id": "main-1", "tool_name": "SendMessage"}
    asked |= {"cwd": str(killed.place.project), "tool_use_id": "c2"}
    asked |= {"tool_input": {"to": CHILD, "message": "Go on."}}
    killed.place.hook(asked, agent="claude-code")
    for path in (*killed.place.files("bindings/*.json"), *killed.place.files("spool/*.json")):
        kept = json.loads(path.read_text())
        (kept.get("claim") or kept).update(pid=dead_pid(), ticks=1)
        path.write_text(json.dumps(kept))
    assert killed.place.upthread("drain")["calls"] == 1
    effects = killed.place.upthread("show", "spec-42", "--effects")["effects"]
    assert len(effects) == 2, "those of the first call alone"
    assert "not kept" in killed.place.run("show", "spec-42").stdout


def test_the_cure_after_a_persons_own_agent_died_sends_nobody_to_a_log_of_ours(killed):
    killed.begin()
    killed.leave_transcript()
    for words in (("show", "spec-42"), ("show", "spec-42/planner")):
        told = killed.place.run(*words).stdout
        assert "agent-stderr" not in told, words
        assert "what helps   delegate it again in the agent, or tell it from here" in told, words
        assert 'go on with   upthread tell spec-42/planner "…"' in told, words


def test_a_sub_agents_session_is_reached_from_its_main_session_and_that_is_said(killed):
    killed.begin()
    killed.leave_transcript()
    told = killed.place.run("show", "spec-42/planner").stdout
    assert "has no interface of its own" not in told
    assert (
        "open it with nothing: it is a sub-agent's session, which claude-code opens only inside the "
        "main session that it was started in, main-1"
    ) in told
    assert f"open that by cd {killed.place.project} && " in told
    assert "claude --resume main-1\n" in told
    assert f"and there    ask it to go on with {CHILD} by SendMessage" in told
    refused = killed.place.run("open", "spec-42/planner", "--dry-run")
    assert refused.returncode == 2
    assert "claude --resume main-1" in refused.stderr
    assert CHILD in refused.stderr


def test_that_nothing_was_done_is_not_said_of_a_call_whose_doings_are_not_on_record(killed):
    killed.begin()
    told = killed.place.run("show", "spec-42", "--effects").stdout
    assert "nothing was done" not in told
    assert "whether anything was done to the world in spec-42 is not known" in told
    assert "one turn was delegated inside claude-code, of which no call is on record here" in told
    unseen = killed.place.upthread("show", "spec-42", "--effects")["unseen"]
    assert unseen == {"turns": 1, "agents": ["claude-code"], "calls": 0}


def ended_well(killed: Killed, *, is_behind: bool) -> None:
    """A call that pushed and was answered; where `is_behind`, its transcript lacks the answer."""
    killed.before(PROMPT, "c1")
    told = ClaudeTranscript(is_sidechain=True, version="2.1.330")
    told.user(PROMPT)
    told.assistant({**use("b1"), "input": {"command": "git push origin main"}})
    told.user([result("b1", "done")])
    if is_behind:
        told.assistant({**use("b2"), "input": {"command": "git status"}})
    else:
        told.assistant(said("Pushed, MANGO-9."))
    told.write(killed.transcript)
    killed.main.write_text("")
    killed.transcript.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": "c1"}))
    answer = {"agentId": CHILD, "content": [{"type": "text", "text": "Pushed, MANGO-9."}]}
    given = {"subagent_type": "planner", "prompt": PROMPT}
    event = {"hook_event_name": "PostToolUse", "session_id": "main-1", "tool_name": "Agent"}
    event |= {"cwd": str(killed.place.project), "tool_use_id": "c1", "tool_input": given}
    event |= {"tool_response": answer, "transcript_path": str(killed.main)}
    killed.place.hook(event, agent="claude-code")
    killed.place.wait_for_words()


@pytest.mark.parametrize("is_behind", [False, True])
def test_what_a_call_that_ended_well_did_is_on_record_too(killed, is_behind):
    ended_well(killed, is_behind=is_behind)
    (effect,) = killed.place.upthread("show", "spec-42", "--effects")["effects"]
    assert effect["state"] == "done"
    assert "git push origin main" in json.dumps(effect)
    (conversation,) = killed.place.upthread("audit", "spec-42")["conversations"]
    (turn,) = conversation["turns"]
    assert turn["outcome"] == "ok"
    said_in = json.dumps(turn)
    assert (said_in.count("KIWI-9"), said_in.count("MANGO-9")) == (1, 1)


def test_a_turn_that_was_killed_keeps_its_words_when_the_main_session_goes_on_with_it(killed):
    killed.begin()
    killed.leave_transcript()
    asked = {"hook_event_name": "PreToolUse", "session_id": "main-1", "tool_name": "SendMessage"}
    asked |= {"cwd": str(killed.place.project), "tool_use_id": "c2"}
    asked |= {"tool_input": {"to": CHILD, "message": "Go on, PLUM-9."}}
    killed.place.hook(asked, agent="claude-code")
    transcript = ClaudeTranscript(is_sidechain=True, version="2.1.330")
    transcript.user(PROMPT)
    write = {**use("w1", "Write"), "input": {"file_path": str(killed.made), "content": "made"}}
    transcript.assistant(write)
    transcript.user([result("w1", "File created")])
    transcript.user("Go on, PLUM-9.")
    transcript.assistant(said("Gone on."))
    transcript.write(killed.transcript)
    killed.place.upthread("drain")
    (conversation,) = killed.place.upthread("audit", "spec-42")["conversations"]
    first = json.dumps(conversation["turns"][0])
    assert "KIWI-9" in first
    assert "made.txt" in first
    assert "Gone on." not in first
    assert "PLUM-9" not in first
