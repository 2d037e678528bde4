"""The sessions that real agents have stored are listed, searched, imported and resumed."""

import json

import pytest
from tests.live import codex, opencode
from tests.live.agents import AGENTS
from tests.live.shell import ADDRESS, Shell, kill_tree, wait_until
from tests.support.sets import EXTENDED, spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

BACK = "[[SAY I am back]]"


def resumed(shell: Shell, address: str, *options: str) -> str:
    """Prompt a role that must resume; returns its session."""
    told = shell.tell(BACK, *options, address=address)
    assert told["decision"].startswith("resume"), told
    return told["upstream_session_id"]


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_a_stored_session_is_listed_as_it_is_found_by_its_words_and_resumed(name, shell):
    shell.run("git", "checkout", "-qb", "feature/export")
    delegation = AGENTS[name].delegation("Look. [[SAY seen]]")
    prompt = f"Count the zebras in Lisbon. {delegation} [[SAY done]]"
    session = shell.tell(prompt)["upstream_session_id"]
    stranger = shell.with_own("stranger")
    told = stranger.one("--all")
    (main,) = told["sessions"]
    assert (main["agent"], main["session_id"]) == (name, session)
    assert main["directory"] == str(shell.project.resolve())
    for member in ("title", "model", "version"):
        assert main[member]
    assert main["tokens"] > 0
    assert main["ending"] == "ended"
    # OpenCode stores no branch.
    assert main["branch"] == (None if name == "opencode" else "feature/export")
    assert main["resume_command"][-1] == session
    (numbers,) = told["agents"]
    assert numbers["here"]["sub_agents"] == 1
    assert (told["passed_over"], bool(told["foreign"])) == ([], False)

    *hits, result = stranger.lines("search", "zebras", "lisbon")
    assert result["hits"] == len(hits) > 0
    assert {hit["agent"] for hit in hits} == {name}
    assert "Count the zebras in Lisbon" in hits[0]["text"]

    # Codex's sub-agents can be picked too.
    picked = stranger.one("adopt", "--pick", "--yes")["sessions"]
    assert {each["fault"] for each in picked} == {None}
    addresses = {each["session_id"]: each["address"] for each in picked}
    assert resumed(stranger, addresses[session]) == session


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "adopted"])
@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code"]))
def test_an_imported_session_is_resumed_while_it_exists_and_replayed_afterwards(
    name, shell, is_kept
):
    prompt = f"Count the zebras in Lisbon. {AGENTS[name].command('seq 9000')} [[SAY forty two]]"
    session = shell.tell(prompt)["upstream_session_id"]
    prices = ("tokens_to_resume", "tokens_to_brief")
    price = [shell.one("why", ADDRESS)["now"][each] for each in prices]
    other = shell.with_own("other")
    if is_kept:
        (kept,) = other.one("keep", session, "--as", "zoo/planner")["sessions"]
        assert kept["fault"] is None
    else:
        other.lines("adopt", "zoo/planner", session, "--agent", name)
    its_price = [other.one("why", "zoo/planner")["now"][each] for each in prices]
    assert its_price == pytest.approx(price, rel=0.05)
    assert resumed(other, "zoo/planner", "--agent", name) == session
    assert "forty two" in json.dumps(other.one("audit", "zoo", "--format", "json"))
    AGENTS[name].delete_session(shell.home, session)
    fresh = other.tell("[[SAY who am I]]", address="zoo/planner")
    assert fresh["upstream_session_id"] != session
    assert fresh["decision"] == "resume_with_replay"
    assert "Count the zebras in Lisbon" in str(other.lines("brief", "zoo/planner"))


ROLE = "---\nmode: subagent\ndescription: keeps animals\n---\nYou keep animals.\n"


@pytest.mark.parametrize("name", spread(["opencode", "codex"], first=0, extended=["codex"]))
def test_a_sub_agent_is_imported_and_resumed(name, shell):
    """Neither agent lists its sub-agents, and both resume them."""
    if name == "codex":
        delegation = codex.delegation("Look. [[SAY seen]]")
    else:
        role = shell.project / ".opencode" / "agent" / "zookeeper.md"
        role.parent.mkdir(parents=True)
        role.write_text(ROLE)
        delegation = opencode.delegation("Count. [[SAY 42]]", subagent_type="zookeeper")
    main = shell.tell(f"{delegation} [[SAY done]]")["upstream_session_id"]
    other = shell.with_own("other")
    hits = [each for each in other.lines("search", "SAY", "--all") if each["type"] == "hit"]
    (child,) = {each["session_id"] for each in hits} - {main}
    other.lines("adopt", "zoo/planner", child, "--agent", name)
    assert resumed(other, "zoo/planner") == child


@EXTENDED
@pytest.mark.parametrize("name", ["codex"])
def test_an_archived_thread_is_resumed_after_the_command_that_is_shown(name, shell):
    session = shell.tell("Count the zebras. [[SAY done]]")["upstream_session_id"]
    shell.run("codex", "archive", session)
    (archived,) = shell.with_own("stranger").one("--all")["sessions"]
    other = shell.with_own("other")
    assert other.one("adopt", "--pick")["sessions"] == []
    shell.run(*archived["unarchive_command"])
    other.lines("adopt", "zoo/planner", session, "--agent", name)
    assert resumed(other, "zoo/planner") == session


OLDER = "ccccccc1-0000-4000-8000-000000000001"


def write_older_thread(shell: Shell) -> None:
    """Codex before 0.147 numbered no lines, and goes on so in a thread that it began."""
    stamp = {"timestamp": "2026-11-20T10:00:00.000Z"}
    meta = {"id": OLDER, "cwd": str(shell.project), "cli_version": "0.142.0", "source": "cli"}
    meta |= {"originator": "codex_cli", **stamp}
    told: list[tuple[str, dict[str, object]]] = [("session_meta", {**meta})]
    for kind, text in (("user", "Plan the gate."), ("agent", "KIWI-42 is its code.")):
        role, block = ("user", "input_text") if kind == "user" else ("assistant", "output_text")
        content = [{"type": block, "text": text}]
        told.append(("response_item", {"type": "message", "role": role, "content": content}))
        told.append(("event_msg", {"type": f"{kind}_message", "message": text}))
    lines = [json.dumps({**stamp, "type": kind, "payload": payload}) for kind, payload in told]
    days = shell.home / ".codex" / "sessions" / "2026" / "11" / "20"
    days.mkdir(parents=True)
    path = days / f"rollout-2026-11-20T10-00-00-{OLDER}.jsonl"
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["codex"])
def test_a_thread_of_an_older_codex_is_kept_whole_and_continued_after_a_kill(name, shell, model):
    write_older_thread(shell)
    shell.one("keep", OLDER, "--as", "kept/planner")
    other = shell.with_own("other")
    other.lines("adopt", ADDRESS, OLDER, "--agent", name)
    running = other.start("tell", ADDRESS, "Think long. [[HANG]]")
    wait_until(lambda: model.model_requests, "request to the model")
    kill_tree(running)
    told = other.tell("--continue")
    assert (told["outcome"], told["upstream_session_id"]) == ("ok", OLDER)
    shell.one("keep", OLDER)
    kept = json.dumps(shell.one("audit", "kept", "--format", "json"))
    for words in ("Plan the gate.", "KIWI-42 is its code.", "Think long."):
        assert words in kept
