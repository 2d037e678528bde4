"""`fork`: it shows, asks, copies up to a message, and the other branch knows what was said."""

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import RESUME, RESUME_WITH_REPLAY, done_in_words


@pytest.fixture(scope="module")
def up(tmp_path_factory, make_upthread):
    """Two turns: the first one wrote a file and called a sub-agent."""
    up = make_upthread(tmp_path_factory.mktemp("fork"))
    up.configure('[permissions]\nedit = "allow"\n')
    first = "[[rehearse: write a.txt a]] [[rehearse: child explorer look]] The word is heron."
    up("tell", "w/planner", first, "--agent", "rehearsal")
    up("tell", "w/planner", "The word is now stork. [[rehearse: say noted]]")
    return up


def messages(up, workstream, role="planner"):
    audit = up("audit", workstream, "--json").json
    own = next(each for each in audit["conversations"] if each["role"] == role)
    return own, [message for turn in own["turns"] for message in turn["messages"]]


def texts(found):
    return [p["text"] for m in found for p in m["parts"] if p["kind"] == "text"]


def first_end(up):
    _, found = messages(up, "w")
    (second,) = (m for m in found if m["speaker"] == "user" and m["seq"] > 1)
    return second["seq"] - 1


def test_a_fork_in_the_middle_replays_what_was_said_until_there(up):
    at = first_end(up)
    dry = up("fork", "w/planner", "--at", str(at), "--as", "w1/planner", "--dry-run")
    assert "not undone, 2 actions:" in dry.out
    assert "left with the first branch: 1 sub-agent" in dry.out
    assert "replays them into a new session" in dry.out
    assert up("show", "w1", code=3)

    made = up("fork", "w/planner", "--at", str(at), "--as", "w1/planner", "--yes", "--json").json
    assert (made["is_done"], made["at_message"], made["upstream_session_id"]) == (True, at, None)
    assert [each["state"] for each in made["effects"]] == ["done", "done"]
    own, found = messages(up, "w1")
    assert "stork" not in " ".join(texts(found))
    notes = [p for m in found for p in m["parts"] if p["kind"] == "unknown"]
    left = [n["raw"]["conversation_id"] for n in notes if n["unknown_kind"] == "child_elsewhere"]
    assert left == made["children_left"]
    assert own["chain"] == []

    told = up("tell", "w1/planner", "[[rehearse: say and now?]]", "--agent", "rehearsal")
    assert decisions_told(told.err) == [RESUME_WITH_REPLAY]
    _, found = messages(up, "w1")
    *_, context = (p["text"] for m in found for p in m["parts"] if p["kind"] == "context")
    assert "The word is heron." in context
    assert "stork" not in context
    assert "Write a.txt: done" in context
    assert len(messages(up, "w")[1]) > at, "the first branch has all it had"


def test_a_fork_at_the_end_is_the_agents_own_where_it_can_and_is_resumed(up):
    dry = up("fork", "w/planner", "--as", "w2/planner", "--dry-run")
    assert "rehearsal is asked to fork its session" in dry.out
    made = up("fork", "w/planner", "--as", "w2/planner", "--yes", "--json").json
    before = up("id", "w/planner").out.strip()
    assert made["upstream_session_id"] not in {None, before}
    assert up("id", "w2/planner").out.strip() == made["upstream_session_id"]

    told = up("tell", "w2/planner", "What do you remember?")
    assert done_in_words(RESUME, made["upstream_session_id"]) in told.err
    ours, theirs = (
        (up.home / "sessions" / f"{session}.jsonl").read_text()
        for session in (made["upstream_session_id"], before)
    )
    for words in ("The word is heron.", "The word is now stork.", "What do you remember?"):
        assert words in ours
    assert "What do you remember?" not in theirs


def test_an_agent_that_cannot_fork_replays_and_says_so(up):
    cannot = up.beside(UPTHREAD_REHEARSAL_CAPABILITIES="no_fork")
    made = cannot("fork", "w/planner", "--as", "w3/planner", "--yes")
    assert "FORKED from w/planner" in made.out
    assert "it will replay: rehearsal cannot fork a session" in made.err
    assert "has no open session" in up("id", "w3/planner", code=3).err


def test_a_place_that_cannot_be_cut_is_refused_with_the_nearest(up):
    refused = up("fork", "w/planner", "--at", "1", "--as", "w4/planner", "--yes", code=2)
    assert "cannot be cut after message 1" in refused.err
    assert f"cut at message {first_end(up)}" in refused.err
    taken = up("fork", "w/planner", "--as", "w/planner", "--yes", code=2)
    assert "has a conversation already" in taken.err
    nobody = up("fork", "w/auditor", "--as", "w4/auditor", "--yes", code=3)
    assert "'w/auditor' has no conversation yet" in nobody.err
    assert "--yes" in up("fork", "w/planner", "--as", "w4/planner", code=2).err


def test_a_person_is_asked_and_no_changes_nothing(up):
    terminal = up.on_terminal("fork", "w/planner", "--as", "w5/planner")
    terminal.wait_for("[y/N]")
    terminal.type("n")
    assert terminal.end() == 1
    up("show", "w5", code=3)
