"""The plug-in in the real OpenCode: `task` finds its session, whatever happened in between."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.live.acp_process import AcpProcess
from tests.live.opencode import WINDOW_TOKENS, opencode_environment
from tests.live.pricing import tokens_in
from tests.live.set_up import PATIENCE_S, AgentSetUp

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ROLES = {
    role: {"mode": "subagent", "description": role, "prompt": f"You are the {role}."}
    for role in ("planner", "validator")
}
ROLES["planner"]["tools"] = {"bash": False}


class Plugged(AgentSetUp):
    """OpenCode with the plug-in, as `upthread setup` installs it, and a project it works in."""

    def __init__(
        self, binary: Path, model: RehearsalModel, directory: Path, *, python: str = sys.executable
    ) -> None:
        self.binary = binary
        self.model = model
        self.home = directory / "upthread"
        environment = {
            **opencode_environment(directory / "home", model, more_config={"agent": ROLES}),
            "UPTHREAD_HOME": str(self.home),
        }
        super().__init__(directory / "project", environment, python=python)
        self.upthread("setup", "opencode", "--yes")

    def start(self) -> AcpProcess:
        return AcpProcess([str(self.binary), "acp"], environment=self.environment, cwd=self.project)

    @contextmanager
    def serving(self, environment: dict[str, str]) -> Iterator[Callable[[str, Any], Any]]:
        """Yields how to post to a server of OpenCode's: a path, and what is sent as JSON."""
        server = subprocess.Popen(
            [str(self.binary), "serve", "--hostname", "127.0.0.1", "--port", "0"],
            env=self.environment | environment,
            cwd=self.project,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout
        try:
            lines = iter(server.stdout.readline, "")
            url = next(line.split()[-1] for line in lines if "http://" in line)
            yield lambda path, body: _post(f"{url}/{path}", body)
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE_S)

    def requests_of(self, session: str) -> list[Any]:
        return [r for r in list(self.model.model_requests) if r.session_id == session]

    def binding(self, role: str) -> Path:
        for path in self.home.glob("hooks/projects/*/bindings/*.json"):
            found = json.loads(path.read_text())
            if (found["workstream"], found["role"]) == (self.used, role):
                return path
        raise AssertionError(f"{role} has no binding in {self.used}")

    def use(self, workstream: str) -> None:
        self.used = workstream
        self.upthread("use", workstream)


def _post(url: str, body: Any) -> Any:
    sent = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(sent, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def delegate(prompt: str, role: str = "planner", **named: str) -> str:
    call = {"description": "work", "prompt": prompt, "subagent_type": role, **named}
    return f"Delegate it.\n\n[[CALL task {json.dumps(call)}]] [[SAY handed back]]"


def main_session(agent: AcpProcess, plugged: Plugged) -> str:
    made = agent.call("session/new", cwd=str(plugged.project), mcpServers=[])
    return made["result"]["sessionId"]


def told(request: Any) -> str:
    return json.dumps(request.body["messages"])


@pytest.fixture(scope="module")
def plugged(opencode_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugged]:
    with RehearsalModel() as model:
        yield Plugged(opencode_binary, model, tmp_path_factory.mktemp("plugged"))
    assert model.violations == []


@pytest.fixture(scope="module")
def agent(plugged: Plugged) -> Iterator[AcpProcess]:
    with plugged.start() as agent:
        yield agent


def test_task_without_an_id_finds_its_session_from_another_process_and_main_session(plugged):
    plugged.use("spec-1")
    for prompt in ("Remember KIWI-42.", "What was it?"):
        with plugged.start() as agent:
            agent.prompt(main_session(agent, plugged), delegate(prompt))
    child = plugged.conversation("spec-1/planner", turns=2)
    first, second = plugged.requests_of(child["upstream_session_id"])
    assert len(child["chain"]) == 1
    assert "KIWI-42" in told(second)
    assert second.body["messages"][-1]["content"] == "What was it?"
    assert first.body["messages"][0] == second.body["messages"][0], "the role's own instructions"
    assert first.body["tools"] == second.body["tools"], "the role's own permissions"
    assert "You are the planner." in told(second)
    audit = plugged.upthread("audit", "spec-1")
    turns = [turn for each in audit["conversations"] for turn in each["turns"]]
    ended = [each for turn in turns for each in turn["events"] if each["kind"] == "turn_ended"]
    assert [each["tokens_window"] for each in ended] == [WINDOW_TOKENS] * 2
    assert 0 < ended[0]["tokens_used"] < ended[1]["tokens_used"]
    # What its first request read is held against the price, though no sum is kept of a stored turn.
    saved = plugged.upthread("savings", "spec-1")["delegations"]
    assert [each["tokens_first_read"] for each in saved] == [tokens_in(first), tokens_in(second)]
    assert [each["tokens_first_cached"] for each in saved] == [0, 0]
    assert [each["tokens_read"] for each in saved] == [None, None]


def tasks(plugged) -> list[Any]:
    """What OpenCode has kept of its tasks, the last one last."""
    path = Path(plugged.environment["XDG_DATA_HOME"], "opencode", "opencode.db")
    with closing(sqlite3.connect(path)) as database:
        kept = database.execute("SELECT data FROM part ORDER BY time_created").fetchall()
    parts = [json.loads(data) for (data,) in kept]
    return [each["state"] for each in parts if each.get("tool") == "task"]


def test_what_was_decided_stays_with_the_task_and_names_the_child(plugged, agent):
    plugged.use("spec-11")
    agent.prompt(main_session(agent, plugged), delegate("Plan."))
    plugged.conversation("spec-11/planner", turns=1)
    agent.prompt(main_session(agent, plugged), delegate("Go on.\n\n[[FAIL 400 no]]"))
    first, failed = tasks(plugged)[-2:]
    assert first["status"] == "completed"
    assert first["title"] == "work · upthread: spec-11/planner: STARTED"
    assert first["metadata"]["upthread"] == "upthread: spec-11/planner: STARTED"
    assert failed["status"] == "error"
    assert "RESUMED" in failed["input"]["description"], "what its interface shows of a task"
    assert failed["input"]["description"].startswith("work · upthread: spec-11/planner")


def test_a_child_that_failed_goes_on_in_its_session(plugged, agent):
    plugged.use("spec-2")
    for prompt in ("Remember KIWI-43.", "Fail.\n\n[[FAIL 400 no]]", "What was it?"):
        agent.prompt(main_session(agent, plugged), delegate(prompt))
    child = plugged.conversation("spec-2/planner", turns=3)
    assert len(child["chain"]) == 1
    assert "KIWI-43" in told(plugged.requests_of(child["upstream_session_id"])[-1])
    audit = plugged.upthread("audit", "spec-2", "--format", "json")
    outcomes = [turn["outcome"] for turn in audit["conversations"][0]["turns"]]
    assert outcomes[0] == outcomes[2] == "ok"
    assert outcomes[1] != "ok"


def test_a_child_that_failed_at_once_is_known_all_the_same(plugged, agent):
    plugged.use("spec-3")
    for prompt in ("Remember KIWI-44.\n\n[[FAIL 400 no]]", "What was it?"):
        agent.prompt(main_session(agent, plugged), delegate(prompt))
    child = plugged.conversation("spec-3/planner", turns=2)
    assert len(child["chain"]) == 1
    assert "KIWI-44" in told(plugged.requests_of(child["upstream_session_id"])[-1])


def test_a_child_that_was_aborted_goes_on_in_its_session(plugged, agent):
    plugged.use("spec-4")
    session = main_session(agent, plugged)
    before = len(plugged.model.model_requests)
    running = agent.start_prompt(session, delegate("Remember KIWI-45.\n\n[[HANG]]"))
    agent.wait_for(lambda: len(plugged.model.model_requests) >= before + 2)
    agent.notify("session/cancel", sessionId=session)
    agent.answer_to(running)
    agent.prompt(main_session(agent, plugged), delegate("What was it?"))
    child = plugged.conversation("spec-4/planner", turns=2)
    assert len(child["chain"]) == 1
    assert "KIWI-45" in told(plugged.requests_of(child["upstream_session_id"])[-1])


def test_an_id_that_opencode_does_not_know_is_replaced_with_what_was_said(plugged, agent):
    plugged.use("spec-5")
    agent.prompt(main_session(agent, plugged), delegate("Remember KIWI-46."))
    plugged.conversation("spec-5/planner", turns=1)
    path = plugged.binding("planner")
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "session": "ses_00000000000000000000000000"}))
    agent.prompt(main_session(agent, plugged), delegate("What was it?"))
    child = plugged.conversation("spec-5/planner", turns=2)
    assert child["last_turn"]["decision"] == "resume_with_replay"
    assert child["last_turn"]["reasons"][0] == "missing"
    assert "KIWI-46" in told(plugged.requests_of(child["upstream_session_id"])[-1])


def test_an_id_that_the_model_gives_itself_is_gone_on_with_on_record(plugged, agent):
    """OpenCode's results offer it; what it does not know would be a new child, silently."""
    plugged.use("spec-15")
    main = main_session(agent, plugged)
    agent.prompt(main, delegate("Remember KIWI-47."))
    session = plugged.conversation("spec-15/planner", turns=1)["upstream_session_id"]
    agent.prompt(main, delegate("What was it?", task_id=session))
    child = plugged.conversation("spec-15/planner", turns=2)
    assert child["upstream_session_id"] == session
    assert "KIWI-47" in told(plugged.requests_of(session)[-1])
    assert "RESUMED" in tasks(plugged)[-1]["input"]["description"]
    unknown = "ses_00000000000000000000000000"
    agent.prompt(main, delegate("And now?", task_id=unknown))
    again = plugged.conversation("spec-15/planner", turns=3)
    assert (again["upstream_session_id"], len(again["chain"])) == (session, 1)
    assert "And now?" in json.dumps(plugged.upthread("audit", "spec-15"))
    assert again["last_turn"]["reasons"] == ["unchanged", "unknown_session"]
    line = tasks(plugged)[-1]["metadata"]["upthread"]
    assert f"the call named {unknown}, a session that the agent does not have" in line


def recorded_beside(plugged: Plugged, workstream: str, *, calls: int) -> list[Any]:
    """The turns that are recorded beside the roles, once so many are in the store."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        plugged.upthread("drain")
        kept = plugged.upthread("audit", workstream)["conversations"]
        turns = [turn for each in kept if each["parent_conversation_id"] for turn in each["turns"]]
        if len(turns) >= calls:
            return turns
        assert time.monotonic() < deadline, kept
        time.sleep(0.2)


def test_ids_that_are_no_role_s_are_said_and_on_record_and_never_silently_fresh(plugged, agent):
    plugged.use("spec-16")
    main, stranger = main_session(agent, plugged), main_session(agent, plugged)
    agent.prompt(stranger, "Remember KIWI-48.")
    agent.prompt(main, delegate("What was it?", task_id=stranger))
    (foreign,) = recorded_beside(plugged, "spec-16", calls=1)
    assert foreign["reasons"] == ["recorded_only", "foreign_session"]
    assert "KIWI-48" in told(plugged.requests_of(stranger)[-1])
    assert "goes on in a session that is no role's now" in tasks(plugged)[-1]["title"]
    unknown = "ses_00000000000000000000000000"
    agent.prompt(main, delegate("And now?", "general", task_id=unknown))
    fresh = next(
        turn
        for turn in recorded_beside(plugged, "spec-16", calls=2)
        if turn["turn_id"] != foreign["turn_id"]
    )
    assert fresh["reasons"] == ["recorded_only", "unknown_session"]
    assert unknown in tasks(plugged)[-1]["metadata"]["upthread"]


def test_a_child_is_told_which_files_have_changed(plugged, agent):
    plugged.use("spec-6")
    file = plugged.project / "notes.txt"
    file.write_text("one\n")
    read = {"filePath": str(file)}
    agent.prompt(
        main_session(agent, plugged),
        delegate(f"Read it.\n\n[[CALL read {json.dumps(read)}]] [[SAY read it]]"),
    )
    plugged.conversation("spec-6/planner", turns=1)
    agent.prompt(main_session(agent, plugged), delegate("Go on."))
    same = plugged.conversation("spec-6/planner", turns=2)
    assert same["last_turn"]["decision"] == "resume"
    file.write_text("another text\n")
    agent.prompt(main_session(agent, plugged), delegate("Go on."))
    child = plugged.conversation("spec-6/planner", turns=3)
    assert child["last_turn"]["decision"] == "resume_with_update"
    assert len(child["chain"]) == 1
    last = plugged.requests_of(child["upstream_session_id"])[-1].body["messages"][-1]["content"]
    assert "`notes.txt`: changed" in last
    assert last.endswith("Go on.")


def test_three_at_once_work_in_three_sessions(plugged, agent):
    plugged.use("spec-7")
    sessions = [main_session(agent, plugged) for _ in range(3)]
    running = [
        agent.start_prompt(session, delegate(f"Part {n}.\n\n[[SLEEP 8]] [[SAY done]]"))
        for n, session in enumerate(sessions)
    ]
    for request in running:
        agent.answer_to(request)
    children = [plugged.conversation(f"spec-7/planner{slot}", turns=1) for slot in ("", "~2", "~3")]
    assert len({child["upstream_session_id"] for child in children}) == 3


def test_a_role_that_starts_fresh_and_a_prompt_that_asks_for_it_get_a_new_session(plugged, agent):
    plugged.use("spec-8")
    for prompt in ("Look.", "Look again."):
        agent.prompt(main_session(agent, plugged), delegate(prompt, "validator"))
    assert len(plugged.conversation("spec-8/validator", turns=2)["chain"]) == 2
    for prompt in ("Plan.", "fresh: Plan again."):
        agent.prompt(main_session(agent, plugged), delegate(prompt))
    child = plugged.conversation("spec-8/planner", turns=2)
    assert child["last_turn"]["reasons"] == ["asked"]
    last = plugged.requests_of(child["upstream_session_id"])[-1].body["messages"][-1]["content"]
    assert last.endswith("Plan again.")
    assert "fresh:" not in last


def test_a_prompt_that_names_a_workstream_binds_the_session(plugged, agent):
    plugged.use("spec-9")
    agent.prompt(main_session(agent, plugged), delegate("Plan."))
    plugged.conversation("spec-9/planner", turns=1)
    plugged.use("other-1")
    agent.prompt(main_session(agent, plugged), f"On spec-9: {delegate('Go on.')}")
    assert plugged.conversation("spec-9/planner", turns=2)["turns"] == 2


REPLACING = """export const Another = async () => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool !== "task") return
    const copy = { ...output.args }
    delete output.args.task_id  // whichever plug-in is asked first, its own copy is what it sees
    output.args = copy
  },
})
"""


IN_BACKGROUND = {"OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS": "true"}


def test_a_child_in_the_background_is_running_until_it_has_ended(plugged):
    """A server, since over ACP there are none."""
    plugged.use("spec-background")
    given = {"description": "work", "prompt": "Look. [[SLEEP 12]] [[SAY child says]]"}
    call = json.dumps({**given, "subagent_type": "planner", "background": True})
    with plugged.serving(IN_BACKGROUND) as ask:
        session = ask("session", {})["id"]
        text = f"Delegate it. [[CALL task {call}]] [[SAY launched]]"
        ask(f"session/{session}/message", {"parts": [{"type": "text", "text": text}]})
        states = [plugged.conversation("spec-background/planner", turns=0)["state"]]
        deadline = time.monotonic() + PATIENCE_S
        while states[-1] == "running":
            assert time.monotonic() < deadline
            states.append(plugged.conversation("spec-background/planner", turns=0)["state"])
    assert (states[0], states[-1]) == ("running", "done")
    (conversation,) = plugged.upthread("audit", "spec-background")["conversations"]
    (turn,) = conversation["turns"]
    said = [part["text"] for part in turn["messages"][-1]["parts"] if part["kind"] == "text"]
    assert (turn["outcome"], said) == ("ok", ["child says"])


def test_a_plug_in_that_replaces_the_arguments_is_found_out_and_named(plugged):
    """OpenCode ignores a new `args` object, and what is set in it: the child is a new one."""
    other = Path(plugged.environment["XDG_CONFIG_HOME"], "opencode", "plugin", "another.js")
    plugged.use("spec-10")
    other.write_text(REPLACING)
    try:
        with plugged.start() as agent:
            for prompt in ("Plan.", "Go on."):
                agent.prompt(main_session(agent, plugged), delegate(prompt))
        child = plugged.conversation("spec-10/planner", turns=2)
    finally:
        other.unlink()
    assert len(child["chain"]) == 2, "told as it went: the second one was not resumed"
    found = [each["what"] for each in plugged.upthread("doctor")["findings"]]
    assert any("does another plug-in replace `args` of `task`?" in what for what in found), found


def test_taking_it_back_leaves_nothing_behind(plugged, opencode_binary):
    plugin = Path(plugged.environment["XDG_CONFIG_HOME"], "opencode", "plugin", "upthread.js")
    assert plugin.exists()
    plugged.upthread("setup", "opencode", "--remove", "--yes")
    assert not plugin.exists()
    assert not os.path.lexists(plugged.home / "hooks" / "installed.json")
