"""The hooks in the real Claude Code: what its sub-agents know of the work before."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.asked import tokens_in
from tests.live.claude_code import call, command
from tests.live.hooked import HookedClaude
from tests.live.reading import NOT_READ, NOT_TOLD, WAYS
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED

from upthread.core.decision.words import FIRST, RESUME, START_FRESH
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def hooked(claude_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookedClaude]:
    with RehearsalModel() as model:
        yield HookedClaude(claude_binary, model, tmp_path_factory.mktemp("hooked"))
    assert model.violations == []


def test_another_main_session_gets_the_briefing_and_the_person_the_line(hooked):
    hooked.use("spec-1")
    reading = call("Read", file_path=str(hooked.project / "a.txt"))
    first = hooked.run(
        "Go.\n\n" + hooked.delegate(f"Remember KIWI-1.\n\n{reading} [[SAY noted PEAR]]")
    )
    assert [decisions_told(line) for line in first.lines] == [[FIRST]]
    hooked.planner("spec-1", turns=1)
    second = hooked.run(f"Go.\n\n{hooked.delegate('What was it?')}")
    (line,) = second.lines[-1:]
    assert len(second.lines) == 1, second.lines
    assert decisions_told(line) == [START_FRESH]
    assert "takes no session" in line
    (child,) = second.by_children
    for words in ("# Briefing", "KIWI-1", "noted PEAR", "a.txt"):
        assert words in child
    view = hooked.planner("spec-1", turns=2)
    assert view["last_turn"]["decision"] == "start_fresh_with_briefing"
    assert view["resume_command"] is None, "a sub-agent has no interface of its own"


@EXTENDED
def test_a_file_that_a_sub_agent_read_with_commands_is_stale_once_it_has_changed(hooked):
    hooked.use("spec-9")
    lines = [*WAYS, *NOT_READ, *NOT_TOLD]
    files = [f"read-{number}.txt" for number in range(len(lines) + 1)]
    for file in files:
        (hooked.project / file).write_text(f"{file}\nmore\n")
    *by_shell, by_tool = files
    steps = [command(line.format(file, file)) for line, file in zip(lines, by_shell, strict=True)]
    steps.append(call("Read", file_path=str(hooked.project / by_tool)))
    hooked.run("Go.\n\n" + hooked.delegate("Look.\n\n" + "\n".join(steps)), "Bash")
    hooked.planner("spec-9", turns=1)
    for file in files:
        (hooked.project / file).write_text("somebody else's\n")
    why = hooked.upthread("why", "spec-9/planner")
    read = {**dict(zip(WAYS, files, strict=False)), "Read": by_tool}
    stale = set(why["now"]["stale_files"])
    assert [way for way, file in read.items() if file not in stale] == []
    assert stale.difference(read.values()) == set()
    known = {"files": len(read), "commands_not_known": len(NOT_TOLD)}
    assert why["reading"] == {**known, "searches_not_known": 0, "calls_not_kept": 0}


@EXTENDED
def test_the_same_main_session_continues_a_sub_agent_of_the_background(hooked, monkeypatch):
    """Claude Code lets its sub-agents work in the background unless it is told not to."""
    monkeypatch.delitem(hooked.environment, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS")
    hooked.use("spec-5")
    first = hooked.run(f"Go.\n\n{hooked.delegate('Remember KIWI-2.')}")
    child = hooked.planner("spec-5", turns=1)["upstream_session_id"]
    second = hooked.run(
        f"Go on.\n\n{hooked.continue_(child, 'What was it?')}", "--resume", first.session
    )
    told = json.dumps(second.requests[0].body["messages"])
    assert f"spec-5/planner: SendMessage with to: '{child}'" in told
    assert any("RESUMED" in line for line in second.lines)
    assert "KIWI-2" in second.by_children[-1]
    assert "What was it?" in second.by_children[-1]
    view = hooked.planner("spec-5", turns=2)
    assert len(view["chain"]) == 1
    assert view["last_turn"]["outcome"] == "ok"
    audit = json.dumps(hooked.upthread("audit", "spec-5"))
    assert "HIST n_user=2" in audit, "its reply was recorded"
    saved = hooked.upthread("savings", "spec-5")["delegations"]
    charged = [tokens_in(each) for each in hooked.model.requests]
    read = [each["tokens_first_read"] for each in saved]
    # Its transcript may lack the last answer when its hook is heard: then it is not told.
    assert set(read) <= {None, *charged}, (read, charged)


class Newcomer(HookedClaude):
    """Claude Code as it comes, on `main`, with one role file and no configuration."""

    def make_environment(self) -> dict[str, str]:
        return self.agent.environment(self.home, self.model)

    def write_role(self) -> None:
        role = self.project / ".claude" / "agents" / "reviewer.md"
        role.parent.mkdir(parents=True)
        role.write_text("---\nname: reviewer\ndescription: reviews\n---\nYou review.\n")


@EXTENDED
def test_a_newcomer_sets_up_and_delegates_twice_and_the_role_is_resumed(claude_binary, tmp_path):
    with RehearsalModel() as model:
        new = Newcomer(claude_binary, model, tmp_path)  # `upthread setup claude` and no more
        first = new.run(f"Go.\n\n{new.delegate('Remember KIWI.', 'reviewer')}")
        address = f"session-{first.session[-8:]}/reviewer"
        child = new.conversation(address, turns=1)["upstream_session_id"]
        load = call("ToolSearch", query="select:SendMessage")
        again = new.continue_main(f"{new.delegate('And?', 'reviewer')} {load}")
        tools = [each.get("name") for each in again.requests[0].body["tools"]]
        assert "SendMessage" not in tools, "it is deferred"
        told = f"continue it, and start no new one: SendMessage with to: '{child}'"
        assert told in again.by_main[-1]
        last = new.continue_main(new.continue_(child, "And?"))
        (started, resumed) = (*first.lines, *again.lines, *last.lines)
        assert decisions_told(started) + decisions_told(resumed) == [FIRST, RESUME]
        assert "Remember KIWI." in last.by_children[0]
        assert new.conversation(address, turns=2)["upstream_session_id"] == child


def test_removal_restores_the_settings_byte_for_byte(hooked):
    assert "hooks/upthread-launcher" in hooked.settings.read_text()
    hooked.upthread("setup", "claude", "--remove", "--yes")
    assert hooked.settings.read_text() == hooked.SETTINGS
