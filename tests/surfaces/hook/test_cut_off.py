"""A call whose agent was killed: what its own store has of it is on record, and told, and once."""

import json
import os
import subprocess
import sys
import time

import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase, text, tool
from tests.agent_stores.transcripts import ClaudeTranscript, result, said, use
from tests.support.decisions_told import decisions_told
from tests.surfaces.hook.conftest import LIBRARIES, PROGRAM, let_die

from upthread.core.decision.words import RESUME_WITH_REPLAY

PROMPT = "Make the file, KIWI-9."
CHILD = "a1b2c3"


class Killed:
    """Claude Code, killed in a call of the planner that had written `made.txt`."""

    def __init__(self, place) -> None:
        self.place = place
        self.role = "planner"
        self.home = place.home.parent
        self.main = self.home / ".claude/projects/-work/main-1.jsonl"
        self.transcript = self.main.with_suffix("") / "subagents" / f"agent-{CHILD}.jsonl"
        self.made = place.project / "made.txt"

    def begin(
        self, prompt: str = PROMPT, call_id: str = "c1", *, is_background: bool = False
    ) -> None:
        self.before(prompt, call_id)
        if is_background:
            self.answered({"isAsync": True, "agentId": CHILD}, prompt, call_id)
        self.die()

    def die(self) -> None:
        let_die(self.place)

    def event(self, name: str, call_id: str, tool: str, **fields: object) -> dict:
        asked = {"hook_event_name": name, "session_id": "main-1", "tool_name": tool}
        asked |= {"cwd": str(self.place.project), "tool_use_id": call_id}
        return self.place.hook({**asked, **fields}, agent="claude-code").answer

    def before(self, prompt: str, call_id: str) -> dict:
        given = {"subagent_type": self.role, "prompt": prompt}
        return self.event("PreToolUse", call_id, "Agent", tool_input=given)

    def write_to_child(self, message: str) -> None:
        given = {"to": CHILD, "message": message}
        self.event("PreToolUse", "c2", "SendMessage", tool_input=given)

    def answered(self, answer: dict, prompt: str, call_id: str) -> None:
        given = {"subagent_type": self.role, "prompt": prompt}
        more = {"tool_response": answer, "transcript_path": str(self.main)}
        self.event("PostToolUse", call_id, "Agent", tool_input=given, **more)

    def leave_transcript(self, prompt: str = PROMPT, call_id: str = "c1") -> None:
        self.made.write_text("made\n")
        write = {**use("w1", "Write"), "input": {"file_path": str(self.made), "content": "made\n"}}
        told = ClaudeTranscript(is_sidechain=True, version="2.1.330")
        told.user(prompt)
        took = {"input_tokens": 900, "output_tokens": 100}
        told.assistant(said("I write it."), write, usage=took)
        told.user([result("w1", "File created")])
        push = {**use("b1"), "input": {"command": "git push origin main"}}
        told.assistant(push, usage=took)
        told.write(self.transcript)
        self.main.write_text("")
        meta = self.transcript.with_suffix(".meta.json")
        meta.write_text(json.dumps({"toolUseId": call_id}))


@pytest.fixture
def killed(place) -> Killed:
    return Killed(place)


@pytest.fixture
def cut_off(killed) -> Killed:
    """A call that was killed, whose transcript is there."""
    killed.begin()
    killed.leave_transcript()
    killed.place.commits_max = 3
    return killed


@pytest.mark.extended
def test_whatever_is_asked_first_tells_what_was_asked_done_and_cut_off(cut_off):
    for words in (("show", "spec-42"), ("why", "spec-42/planner"), ("brief", "spec-42/planner")):
        told = cut_off.place.run(*words).out
        assert "KIWI-9" in told, words
        assert "made.txt" in told, words
        assert "cut off" in told, words
    effects = cut_off.place.upthread("show", "spec-42", "--effects")["effects"]
    assert [each["state"] for each in effects] == ["done", "unknown"]
    (conversation,) = cut_off.place.upthread("audit", "spec-42")["conversations"]
    (turn,) = conversation["turns"]
    assert turn["outcome"] is None, "until the next prompt ends it, as of a turn of ours"


def test_why_says_what_the_hook_then_says_of_a_call_inside_the_agent(cut_off):
    cut_off.place.upthread("setup", "claude", "--yes")
    why = cut_off.place.upthread("why", "spec-42/planner")
    assert why["now"]["reasons"][0] == "sub_agent_session"
    assert why["inside"]["agent"] == "claude-code"
    assert why["inside"]["reasons"][0] == "cut_off_elsewhere"
    text = cut_off.place.run("why", "spec-42/planner").out
    cut_off.before("Go on.", "c2")  # denied once: its sub-agent can be written to
    (conversation,) = cut_off.place.upthread("audit", "spec-42")["conversations"]
    assert conversation["turns"][-1]["outcome"] is None, "a call that is denied ends no turn"
    line = cut_off.before("Go on.", "c3")["systemMessage"]
    assert why["inside"]["words"] in line
    assert why["inside"]["words"] in text
    assert "in    claude-code, called by its own tool, it would" in text


def test_why_says_that_a_call_inside_the_agent_is_refused_in_another_profile(cut_off, tmp_path):
    cut_off.place.upthread("setup", "claude", "--yes")
    cut_off.place.environment["CLAUDE_CONFIG_DIR"] = str(tmp_path / "other profile")
    inside = cut_off.place.upthread("why", "spec-42/planner")["inside"]
    assert inside["reasons"][0] == "other_profile"


@pytest.mark.extended
def test_the_next_call_in_the_agent_gets_the_replay_with_what_must_not_be_done_again(cut_off):
    denied = cut_off.before("Go on.", "c2")["hookSpecificOutput"]
    assert "SendMessage" in denied["permissionDecisionReason"]
    answer = cut_off.before("Go on.", "c3")
    prompt = answer["hookSpecificOutput"]["updatedInput"]["prompt"]
    assert prompt.endswith("\n\nGo on.")
    assert "KIWI-9" in prompt
    assert "made.txt: done" in prompt
    assert "git push origin main: outcome unknown" in prompt
    assert decisions_told(answer["systemMessage"]) == [RESUME_WITH_REPLAY]
    assert "the last turn was cut off" in answer["systemMessage"]


def test_another_main_session_is_told_in_which_the_doubt_is_and_how_to_continue_there(killed):
    place = killed.place
    place.upthread("use", "--clear")
    killed.begin()
    killed.leave_transcript()
    asked = {"session_id": "main-2", "cwd": str(place.project)}
    start = {**asked, "hook_event_name": "SessionStart"}
    line = place.hook(start, agent="claude-code").answer["systemMessage"]
    assert "; first type: upthread use session-main1; ask for planner again" in line
    call = {"tool_name": "Bash", "tool_input": {"command": "git push origin main"}}
    call |= {**asked, "hook_event_name": "PreToolUse", "tool_use_id": "c9"}
    answers = [place.hook(call, agent=each).answer for each in ("claude-code", "codex")]
    why = [each["hookSpecificOutput"]["permissionDecisionReason"] for each in answers]
    other = place.request("guard", "c9", tool="bash", arguments=call["tool_input"])
    held = place.hook(other).answer["held"]
    assert (why[0], why[1]) == (held, held)
    assert "git push origin main: outcome unknown" in held
    assert held.endswith("; to settle it: upthread effects session-main1")
    place.upthread("use", "session-main1")
    start_here = place.hook(start, agent="claude-code").answer["systemMessage"]
    assert "outcome unknown; ask for planner again" in start_here


@pytest.mark.extended
def test_secrets_are_not_kept(killed):
    secret = "ghp_" + "a1B2c3D4" * 4 + "a1B2"
    killed.begin(f"Use {secret}.")
    killed.leave_transcript(f"Use {secret}.")
    assert secret not in killed.place.run("audit", "spec-42").out
    held = [path for path in killed.place.home.rglob("*") if path.is_file()]
    assert [path for path in held if secret.encode() in path.read_bytes()] == []


def test_where_only_an_outline_is_recorded_no_words_and_no_paths_are_kept(killed):
    (killed.place.project / "upthread.toml").write_text('record = "index"\n')
    killed.begin()
    killed.leave_transcript()
    assert "made.txt" not in killed.place.run("show", "spec-42").out
    held = [path for path in killed.place.home.rglob("*") if path.is_file()]
    for word in (b"KIWI-9", b"made.txt"):
        assert [path for path in held if word in path.read_bytes()] == [], word


@pytest.mark.extended
@pytest.mark.parametrize("what", ["link", "pipe"])
def test_a_transcript_that_leads_elsewhere_is_not_read_and_that_is_said(killed, what: str):
    killed.begin()
    killed.leave_transcript()
    moved = killed.transcript.rename(killed.home / "elsewhere.jsonl")
    if what == "link":
        killed.transcript.symlink_to(moved)
    else:
        os.mkfifo(killed.transcript)
    told = killed.place.run("show", "spec-42")
    assert "made.txt" not in told.out
    assert "is not read" in told.err


def test_a_file_that_was_touched_after_the_kill_is_one_to_look_at_again(cut_off):
    an_hour_ago_ns = cut_off.transcript.stat().st_mtime_ns - 3_600_000_000_000
    os.utime(cut_off.transcript, ns=(an_hour_ago_ns, an_hour_ago_ns))
    why = cut_off.place.run("why", "spec-42/planner").out
    assert "made.txt" in why.partition("  next  ")[2]


def test_a_sub_agent_that_was_gone_on_with_and_never_got_the_prompt_is_not_doubled(cut_off):
    """`SendMessage` was seen, and the agent killed before it was carried out."""
    cut_off.write_to_child("Go on.")
    cut_off.die()
    effects = cut_off.place.upthread("show", "spec-42", "--effects")["effects"]
    assert len(effects) == 2, "those of the first call alone"


def test_what_a_killed_sub_agent_did_is_held_back_where_its_role_is_only_recorded_too(killed):
    killed.role = "general-purpose"
    killed.begin()
    killed.leave_transcript()
    push = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": "main-2"}
    push |= {"tool_input": {"command": "git push origin main"}, "cwd": str(killed.place.project)}
    held = killed.place.hook(push, agent="claude-code", event="Guard").answer
    assert held["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "git push origin main" in killed.place.run("effects", "spec-42").out
    assert killed.place.upthread("ls")["workstreams"][0]["state"] == "unsettled"
    (push_id,) = (
        each["effect_id"]
        for each in killed.place.upthread("show", "spec-42", "--effects")["effects"]
        if each["state"] == "unknown"
    )
    killed.place.upthread("effects", "spec-42", "done", push_id)
    assert "nothing of spec-42 is held back" in killed.place.run("effects", "spec-42").out


def test_a_call_that_is_only_recorded_is_told_as_what_it_was(killed):
    """No briefing of ours went with it: the agent started the sub-agent, and went on with it."""
    killed.role = "general-purpose"
    ended_well(killed, is_behind=False)
    killed.write_to_child("Go on.")
    killed.event("PostToolUse", "c2", "SendMessage", tool_input={"to": CHILD, "message": "Go on."})
    told = killed.place.run("show", "spec-42", "--tree").out
    assert "  1 STARTED · " in told
    assert "  1 RESUMED · " in told
    assert "briefing" not in told


@pytest.mark.parametrize("then", ["nothing", "another call"])
def test_what_a_killed_call_took_is_what_the_agents_own_store_counts(cut_off, then: str):
    """At least: of a request that was under way the store has nothing."""
    if then == "another call":
        cut_off.before("Go on.", "c2")  # denied once
        cut_off.before("Go on.", "c3")
    assert "~2k tokens" in cut_off.place.run("show", "spec-42", "--tree").out
    took = cut_off.place.upthread("savings", "spec-42")["delegations"][0]
    assert (took["requests"], took["tokens_first_read"]) == (2, 900)


def test_the_cure_after_a_persons_own_agent_died_sends_nobody_to_a_log_of_ours(cut_off):
    for words in (("show", "spec-42"), ("show", "spec-42/planner")):
        told = cut_off.place.run(*words).out
        assert "agent-stderr" not in told, words
        assert "look whether it was done, and say so" in told, "it was pushing"


def test_that_nothing_was_done_is_not_said_of_a_call_whose_doings_are_not_on_record(killed):
    killed.begin()
    told = killed.place.run("show", "spec-42", "--effects").out
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
    end(killed, told, "Pushed, MANGO-9.")


def end(killed: Killed, told: ClaudeTranscript, reply: str) -> None:
    """The call's transcript is written, and its hook told of the answer."""
    told.write(killed.transcript)
    killed.main.write_text("")
    killed.transcript.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": "c1"}))
    answer = {"agentId": CHILD, "content": [{"type": "text", "text": reply}]}
    killed.answered(answer, PROMPT, "c1")


@pytest.mark.soak
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


class KilledOpenCode:
    """OpenCode, killed in a call of the planner, before or after its session was begun."""

    def __init__(self, place) -> None:
        self.place = place
        self.database = OpenCodeDatabase(place.home.parent / ".local/share/opencode/opencode.db")
        self.main = self.database.session()

    def begin(self, call_id: str, prompt: str, *, child: str = "") -> None:
        """The call is made, and its main session keeps what it asked for; then all is dead."""
        self.hook("before", call_id, prompt=prompt)
        given = {"subagent_type": "planner", "prompt": prompt}
        part = tool("task", call_id, "running", input=given)
        self.database.message(self.main, "assistant", part)
        if child:
            self.hook("started", call_id, child=child)
        let_die(self.place)

    def hook(self, event: str, call_id: str, **fields: object) -> dict:
        asked = self.place.request(event, call_id, session=self.main, **fields)
        return self.place.hook(asked).answer


@pytest.fixture
def opencode(place) -> KilledOpenCode:
    return KilledOpenCode(place)


@pytest.mark.soak
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_session_that_never_got_its_first_prompt_is_not_gone_on_with(opencode, is_begun):
    opencode.begin("c1", PROMPT, child=opencode.database.session() if is_begun else "")
    assert "KIWI-9" in opencode.place.run("show", "spec-42").out
    answer = opencode.hook("before", "c2", prompt="Go on.")
    assert "KIWI-9" in answer["prompt"]
    assert answer["task_id"] == ""
    assert "the session has what it did" not in answer["line"]


def test_a_database_that_was_locked_is_read_when_it_is_free(opencode):
    child = opencode.database.session(parent=opencode.main)
    written = tool("write", "w1", input={"filePath": "made.txt"}, title="made.txt")
    opencode.database.message(child, "user", text(PROMPT))
    opencode.database.message(child, "assistant", written)
    opencode.begin("c1", PROMPT, child=child)
    execute = opencode.database.connection.execute
    execute("PRAGMA locking_mode = EXCLUSIVE")
    execute("BEGIN EXCLUSIVE")
    told = opencode.place.run("show", "spec-42")
    assert "locked" in told.err
    assert "made.txt" not in told.out
    execute("ROLLBACK")
    opencode.database.close()
    told = opencode.place.run("show", "spec-42").out
    assert "it was asked: Make the file, KIWI-9." in told
    assert "made.txt: done" in told


def test_what_was_forgotten_is_not_looked_for_again(cut_off):
    away = cut_off.transcript.rename(cut_off.transcript.with_suffix(".away"))
    cut_off.place.run("show", "spec-42")
    cut_off.place.upthread("forget", "spec-42", "--yes")
    away.rename(cut_off.transcript)
    assert "KIWI-9" not in cut_off.place.run("audit", "spec-42").out


def test_a_call_whose_agent_dies_before_its_hook_looks_for_it_is_not_running(place):
    """The hook has another parent then, which may live for ever."""
    call = {"subagent_type": "planner", "prompt": "Plan it."}
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Agent", "tool_use_id": "toolu_1"}
    asked |= {"session_id": "main-1", "cwd": str(place.project), "tool_input": call}
    command = [
        sys.executable,
        "-I",
        "-S",
        str(PROGRAM),
        "claude-code",
        str(place.home),
        "PreToolUse",
    ]
    agent = (
        "import json, os, subprocess, sys\n"
        "hook = subprocess.Popen(json.loads(sys.argv[1]), bufsize=0, stdin=-1, stdout=-1)\n"
        "hook.stdin.write(sys.argv[2].encode())\n"
        "os._exit(0)\n"
    )
    words = [json.dumps([*command, *LIBRARIES]), json.dumps(asked)]
    subprocess.run([sys.executable, "-c", agent, *words], env=place.environment, check=True)
    while not place.upthread("ls")["workstreams"]:
        time.sleep(0.05)
    assert place.upthread("ls")["workstreams"][0]["state"] != "running"
