"""`open`, `adopt`, `reset`, `agents`: they say what they do, and a reset asks."""

import json
import sys

from upthread.core.decision.words import RESUME, done_in_words


def test_open_becomes_the_agent_in_the_sessions_directory(shared):
    shared("tell", "o1/planner", "[[rehearse: say hi]]")
    session = shared("id", "o1/planner").out.strip()
    opened = shared("open", "o1/planner")
    dry = shared("open", "o1/planner", "--dry-run")
    as_json = shared("open", "o1/planner", "--json").json

    assert opened.out == f"opened --session {session} in {shared.directory}\n"
    assert dry.out == f"cd {shared.directory} && opencode --session {session}\n"
    assert as_json["command"] == ["opencode", "--session", session]
    assert f"opencode --session {session}" in shared("show", "o1").out


def test_adopted_session_is_resumed_and_a_foreign_one_is_refused(shared):
    elsewhere = shared.beside(UPTHREAD_HOME=str(shared.home / "elsewhere"))
    elsewhere("tell", "a/planner", "[[rehearse: say the word is heron]]", "--agent", "rehearsal")
    session = elsewhere("id", "a/planner").out.strip()
    adopted = shared("adopt", "a1/planner", session, "--agent", "rehearsal")
    resumed = shared("tell", "a1/planner", "[[rehearse: say hi]]")
    taken = shared("adopt", "a2/planner", session, "--agent", "rehearsal", code=2)
    unknown = shared("adopt", "a2/planner", "ses_nowhere", "--agent", "rehearsal", code=1)

    assert f"ADOPTED {session} of rehearsal" in adopted.out
    assert done_in_words(RESUME, session) in resumed.err
    assert "belongs to a1/planner" in taken.err
    assert "rehearsal has no session 'ses_nowhere'" in unknown.err


def test_reset_shows_asks_and_keeps_the_old_conversation(shared):
    shared("tell", "r1/planner", "hi", "--agent", "rehearsal")
    before = shared("show", "r1/planner", "--json").json["conversation_id"]
    dry = shared("reset", "r1/planner", "--dry-run")
    nobody = shared("reset", "r1/planner", code=2)
    terminal = shared.on_terminal("reset", "r1/planner")
    terminal.wait_for("[y/N]")
    terminal.type("n")
    declined = terminal.end()
    unchanged = shared("show", "r1/planner", "--json").json["conversation_id"]
    done = shared("reset", "r1/planner", "--yes", "--json").json
    audit = shared("audit", "r1", "--json").json

    assert "A new conversation begins in its place" in dry.out
    assert "--yes" in nobody.err
    assert declined == 1
    assert before == unchanged == done["old_conversation_id"]
    kept = [(each["conversation_id"], each["generation"]) for each in audit["conversations"]]
    assert kept == [(before, 1), (done["new_conversation_id"], 2)]
    assert "has no open session" in shared("id", "r1/planner", code=3).err


def test_why_says_that_the_agent_of_a_session_is_no_longer_configured(shared):
    speaks = json.dumps([sys.executable, "-m", "upthread.agents.rehearsal"])
    shared.configure(f"[agents.mine]\ncommand = {speaks}\n")
    shared("tell", "w9/planner", "hi", "--agent", "mine")
    shared.configure(f"[agents.other]\ncommand = {speaks}\n")
    told = shared("why", "w9/planner").out
    refused = shared("tell", "w9/planner", "again", code=2).err
    (shared.directory / "upthread.toml").unlink()
    assert "nothing would be sent without another --agent: there is no agent 'mine'" in told
    assert "there is no agent 'mine', which has the session" in refused
    assert "other; known: " in refused


def test_agents_lists_what_is_here_and_what_the_configuration_adds(shared):
    shared.configure('[agents.mine]\ncommand = ["no-such-agent"]\n')
    settings = shared.home / "upthread" / "config.toml"
    users = settings.read_text()
    settings.unlink()
    listed = shared("agents", "--json").json
    settings.write_text(users)
    table = shared("agents").out
    (shared.directory / "upthread.toml").unlink()
    by_name = {agent["agent"]: agent for agent in listed["agents"]}

    assert (by_name["opencode"]["is_installed"], by_name["opencode"]["version"]) == (
        True,
        "opencode 9.9",
    )
    assert by_name["opencode"]["tested_with"] == "1.18.33"
    assert by_name["opencode"]["can"][:2] == ["resume", "load"]
    assert by_name["opencode"]["notice"] == (
        "opencode 9.9 is newer than 1.18.33, which this upthread was tested with; "
        "try what it does: upthread doctor --probe opencode"
    )
    assert by_name["mine"]["can"] is None
    assert by_name["mine"]["is_configured"]
    assert not by_name["mine"]["is_installed"]
    assert by_name["rehearsal"]["is_installed"]
    assert table.splitlines()[0].split() == [
        *("AGENT", "HERE", "VERSION", "DRIVEN", "BY", "CAN", "COMMAND")
    ]
