"""The promise itself, on the real agents: the same session, whatever was killed in between."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, AGENTS, WAYS, judging, over_acp, reporting
from tests.live.asked import last_request, session_of, user_texts
from tests.live.shell import (
    agents_left,
    is_alive,
    kill_all,
    kill_tree,
    only,
    processes_with,
    tree_of,
    wait_until,
)
from tests.support.sets import EXTENDED, SOAK, spread

from upthread.testing.rehearsal_model import MODEL_ID

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SPECIFICATION = "# Export\n\n- R{}: write `export.txt`\n"


@pytest.mark.parametrize("name", spread(AGENTS, first=["claude-code", "codex"], extended=0))
def test_a_role_is_resumed_and_after_its_session_was_lost_its_history_is_replayed(
    name, shell, model
):
    first = shell.tell("Remember KIWI-42.")
    session = first["upstream_session_id"]
    assert first["outcome"] == "ok"
    second = shell.tell("What was it?")
    assert (second["decision"], second["upstream_session_id"]) == ("resume", session)
    assert session_of(model.model_requests[-1]) == session
    assert "KIWI-42" in last_request(model)
    assert shell.one("id", ADDRESS)["upstream_session_id"] == session

    AGENTS[name].delete_session(shell.home, session)
    third = shell.tell("What was it, again?")
    assert (third["decision"], third["reasons"][0]) == ("resume_with_replay", "missing")
    assert (third["outcome"], third["upstream_session_id"] == session) == ("ok", False)
    assert "KIWI-42" in last_request(model)
    chain = shell.one("show", "spec-42")["roles"][0]["chain"]
    assert [link["ended_because"] for link in chain] == ["missing", None]


PROFILES = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "opencode": "XDG_DATA_HOME"}


OFTEN = {"acp": [*PROFILES], "wrapper": ["claude-code"]}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=EXTENDED if name in OFTEN.get(way, ["codex"]) else SOAK)
        for way in ("shell", "acp", "file", "command", "wrapper")
        for name in PROFILES
    ],
)
def test_a_session_in_another_profile_is_named_with_the_cure_and_not_replaced(
    name, way, shell, model, request
):
    """A shell, the configuration against the shell, a command or a wrapper sets the profile."""
    if way in {"acp", "command"}:
        over_acp(shell, name, request)
    file, program = shell.own / "config.toml", shell.home.parent / "bin" / AGENTS[name].program
    variable, binary = PROFILES[name], program.resolve()
    usual = shell.environment.get(variable, str(shell.home / f".{name.partition('-')[0]}"))
    work = shutil.copytree(usual, str(shell.home / "work"))
    setting = f"env {variable}=$(cat {shell.home}/profile)"
    words = f"""'sh', '-c', 'exec {setting} "$@"', 'sh', """ if way == "command" else ""
    config = file.read_text().replace("command = [", f"command = [{words}")
    if way == "wrapper":
        program.unlink()
        program.write_text(f'#!/bin/sh\n{setting} {binary} "$@"\n')
        program.chmod(0o700)

    def enter(profile: str) -> None:
        (shell.home / "profile").write_text(profile)
        own = f'[agents.{name}.environment]\n{variable} = "{profile}"\n' if way == "file" else ""
        file.write_text(config + own)
        shell.environment[variable] = profile if way in {"shell", "acp"} else work

    is_told_before = way not in {"command", "wrapper"}
    both = ((work, usual, "spec-1/planner"), (usual, work, ADDRESS))
    for here, there, address in both[is_told_before:]:
        tell = partial(shell.tell, address=address)
        enter(here)
        session = tell("Remember KIWI-42.")["upstream_session_id"]
        model.answer_next(50 * "[[FAIL 400 odd request]]")
        assert tell("Fail.", exit_code=4)["parked"]["reason"] == "unknown"
        model.forget_answers()
        enter(there)
        is_told = shell.one("why", address)["now"]["reasons"] == ["other_profile"]
        assert is_told == is_told_before
        opened = shell.one("show", address)["resume_command"]
        assert way != "shell" or opened.startswith(f"env {variable}={here}")
        for words in ("--continue", "Go on."):
            said = shell.lines("tell", address, words, exit_code=5 if is_told_before else 4)[-1]
            assert f"{variable}={here}" in str(said)
            assert is_told_before or f"{variable}={there}" in str(said)
        enter(here)
        assert tell("--continue")["upstream_session_id"] == session
    AGENTS[name].delete_session(shell.home, session)
    enter(there)
    assert shell.tell("Go on.")["reasons"][0] == "missing", "no profile has it"


@pytest.mark.extended
@pytest.mark.parametrize("name", ["opencode"])
def test_a_new_session_is_told_what_was_said_before_a_kill(name, shell, model):
    session = shell.tell("Begin.")["upstream_session_id"]
    agent = AGENTS[name]
    calls = f"{agent.command('sleep 2')} {agent.command('touch made; sleep 25')}"
    running = shell.start("tell", ADDRESS, f"Do it. [[TELL KIWI-42]] {calls}")
    wait_until((shell.project / "made").exists, "second call")
    kill_tree(running)
    agent.delete_session(shell.home, session)
    assert shell.tell("What was it?")["decision"] == "resume_with_replay"
    told = user_texts(model)[-1]
    assert "You replied:\n> KIWI-42" in told
    assert "may be unfinished" in told


def is_written(home: Path, text: str) -> bool:
    """Whether Claude Code has a text in a transcript: it asks the model first, and then writes."""
    return any(text in each.read_text() for each in (home / ".claude").rglob("*.jsonl"))


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_an_interrupted_turn_continues_in_the_same_session(name, shell, model):
    running = shell.start("tell", ADDRESS, "Think long.\n\n[[HANG]]")
    wait_until(lambda: model.model_requests, "request to the model")
    if name == "claude-code":
        wait_until(lambda: is_written(shell.home, "Think long."), "prompt in the transcript")
    kill_tree(running)
    told = shell.tell("--continue")
    assert (told["outcome"], told["recognition"]) == ("ok", "incomplete")
    prompts = [text for text in user_texts(model) if "Think long.\n\n[[HANG]]" in text]
    assert len(prompts) == 1, "the prompt is not sent again: one continuation is sent"
    assert "interrupted" in user_texts(model)[-1]


@pytest.mark.parametrize("name", spread(AGENTS, first=1, extended=["codex", "opencode"]))
def test_an_agent_that_was_suspended_with_its_upthread_is_ended_by_who_continues(name, shell):
    """As a container is paused, and then killed; the agent has its session open all the time."""
    running = shell.start_call(f"Wait a while.\n\n{AGENTS[name].command('sleep 30')}")
    suspended, guards = tree_of(running.pid), set[int]()
    for pid in suspended:
        # A short-lived child may be gone by now.
        with suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid, signal.SIGSTOP)
            # Of ours one that ends leftovers, and cannot now.
            guards |= {pid} if "_guard" in Path(f"/proc/{pid}/cmdline").read_text() else set()
    running.kill()
    running.communicate()
    # It may not have stored its prompt by then, and gets it once more.
    assert shell.tell("--continue")["outcome"] == "ok"
    wait_until(lambda: not any(map(is_alive, suspended - guards)), "end of the first agent")
    kill_all(guards)


@EXTENDED
@pytest.mark.parametrize("name", ["codex"])
def test_a_kill_of_upthread_alone_ends_the_agent_and_its_running_command(name, shell):
    """The agent's pipes close with upthread."""
    running = shell.start_call(f"Wait a while.\n\n{AGENTS[name].command('sleep 60')}")
    lines = " ".join(processes_with(str(shell.home)).values())
    assert "app-server" in lines
    assert "sleep" in lines
    running.kill()
    running.communicate()
    assert agents_left(shell.home.parent) == []


@pytest.mark.parametrize(
    "name", spread([way for way in WAYS if "asking" in way], first=0, extended=["codex, asking"])
)
def test_without_a_person_to_ask_the_turn_is_parked_and_nothing_is_done(name, shell):
    (shell.own / "config.toml").unlink()
    told = shell.tell(f"Do it.\n\n{WAYS[name].command('touch x')}", exit_code=4)
    assert told["parked"]["reason"] == "permission"
    assert not (shell.project / "x").exists()


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_the_pipeline_runs_to_approved_in_new_processes(name, shell, model):
    (shell.project / "spec.md").write_text(SPECIFICATION.format(1))
    model.answer_next(reporting(status="needs_input", questions=[{"id": "q1", "text": "Red?"}]))
    lines = shell.lines("run", "spec-42", "--spec", "spec.md", exit_code=4)
    shell.lines("answer", "spec-42", only(lines, "waiting")["questions"][0]["id"], "Yes.")
    planned, rejected = reporting(summary="Plan KIWI-42."), judging("rejected", "No PEAR-7.")
    approved = judging("approved", "Fine.")
    written = AGENTS[name].command("touch export.txt") + reporting()
    steps = (reporting(), planned, rejected, reporting(), approved, written, approved)
    model.answer_next("".join(steps))
    assert only(shell.lines("run", "spec-42"), "result")["status"] == "approved"
    roles = shell.one("show", "spec-42")["roles"]
    links = {link["upstream_session_id"] for role in roles for link in role["chain"]}
    assert links == {session_of(request) for request in model.model_requests}
    shown = [json.dumps(request.body) for request in model.model_requests]
    assert any("KIWI-42" in each and "PEAR-7" in each for each in shown), "it knows its own plan"
    chains = {role["role"]: len(role["chain"]) for role in roles}
    assert chains["clarifier"] == chains["planner"] == chains["constructor"] == 1


@EXTENDED
@pytest.mark.parametrize("name", ["codex"])
def test_a_sub_agents_work_is_recorded_as_its_own_to_its_end(name, shell):
    """Codex ends the parent's turn before the sub-agent's, and nothing of it is lost."""
    agent = AGENTS[name]
    child = agent.delegation(f"{agent.command('sleep 1; echo child-at-work')} [[SAY child says]]")
    shell.tell(f"Delegate.\n\n{child} [[SAY parent says]]")
    audit = shell.one("audit", "spec-42", "--format", "json")["conversations"]
    by_role = {each["role"]: json.dumps(each) for each in audit}
    assert set(by_role) == {"planner", agent.sub_agent}
    assert "child-at-work" in by_role[agent.sub_agent]
    assert "child says" in by_role[agent.sub_agent]
    assert "parent says" in by_role["planner"]
    parent = next(each for each in audit if each["role"] == "planner")
    assert parent["turns"][0]["quarantined"] == []


@EXTENDED
@pytest.mark.parametrize("name", ["codex"])
def test_a_session_that_its_agent_refuses_twice_is_replaced_and_its_history_replayed(
    name, shell, model
):
    """Codex refuses a rollout whose last record has no ordinal for ever (openai/codex#45150)."""
    shell.tell("Remember KIWI-42.")
    (rollout,) = (shell.home / ".codex" / "sessions").rglob("*.jsonl")
    *lines, last = rollout.read_text().splitlines()
    record = json.loads(last)
    del record["ordinal"]
    rollout.write_text("\n".join([*lines, json.dumps(record)]) + "\n")
    first = only(shell.lines("tell", ADDRESS, "Go on.", exit_code=None), "turn_ended")
    assert "refused thread/resume" in first["detail"]
    for verb, what in (("why", ADDRESS), ("show", ADDRESS), ("audit", "spec-42")):
        assert "no session took the prompt" in shell.run(*shell.command(verb, what))
    lines = shell.lines("tell", ADDRESS, "Go on.")
    (said,) = (line for line in lines if line.get("kind") == "refused_again")
    assert "refused thread/resume" in said["text"]
    started = only(lines, "turn_started")
    assert (started["decision"], started["reasons"]) == ("resume_with_replay", ["refused"])
    assert "KIWI-42" in last_request(model)
    assert shell.tell("And now?")["decision"] == "resume"


STORES = {"claude-code": ".claude/projects", "codex": ".codex/sessions"}


@pytest.mark.parametrize("name", spread(STORES, first=0, extended=["codex"]))
def test_a_session_stays_current_while_its_agent_can_store_none(name, shell):
    session = shell.tell("Remember KIWI-42.")["upstream_session_id"]
    store = shell.home / STORES[name]
    kept = store.rename(shell.home / "kept")
    store.write_text("no directory")
    for words in (["Go on."], ["--continue"]):
        lines = shell.lines("tell", ADDRESS, *words, exit_code=4)
        detail = only(lines, "turn_ended")["parked"]["detail"]
        assert "a new session was refused, too" in detail
        assert session in detail
    assert f"upthread tell {ADDRESS} --continue" in shell.run(*shell.command("why", ADDRESS))
    store.unlink()
    kept.rename(store)
    again = shell.tell("Go on.")
    assert (again["decision"], again["upstream_session_id"]) == ("resume", session)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_a_session_that_may_not_be_read_is_named_with_the_cure_and_not_replaced(
    name, shell, monkeypatch
):
    """Codex calls its rollout damaged, Claude Code its transcript gone; OpenCode does not start."""
    session = shell.tell("Remember KIWI-42.")["upstream_session_id"]
    wanted = "opencode.db" if name == "opencode" else f"*{session}.jsonl"
    file = next(each for each in shell.home.rglob(wanted) if each.is_file())
    monkeypatch.setattr(shell, "command", partial(_without_roots_rights, shell.command))
    for closed in (file, *([] if name == "opencode" else [file.parent])):
        mode = closed.stat().st_mode
        closed.chmod(0)
        why = shell.run(*shell.command("why", ADDRESS))
        assert "Permission denied" in why
        assert "may have lost the session" not in why
        ended = only(shell.lines("tell", ADDRESS, "Go on.", exit_code=1), "turn_ended")
        closed.chmod(mode)
        assert ended["outcome"] == "unknown"
        assert re.match(f"{closed} .*: Permission denied .change who may read it", ended["detail"])
        again = shell.tell("Go on.")
        assert (again["decision"], again["upstream_session_id"]) == ("resume", session)


def _without_roots_rights(command: Callable[..., list[str]], *words: str) -> list[str]:
    dropped = "-dac_override,-dac_read_search"
    before = ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}"]
    return [*(before if os.geteuid() == 0 else []), *command(*words)]


@EXTENDED
@pytest.mark.parametrize("name", ["opencode"])
def test_a_session_whose_model_is_no_longer_configured_is_replaced_at_the_second_prompt(
    name, shell, model
):
    """OpenCode keeps the model's name in the session."""
    shell.tell("Remember KIWI-42.")
    variable = "OPENCODE_CONFIG_CONTENT"
    renamed = shell.environment[variable].replace(MODEL_ID, "other-model")
    shell.environment[variable] = renamed
    refused = shell.tell("Go on.", exit_code=None)
    assert "Model not found" in refused["parked"]["detail"]
    lines = shell.lines("tell", ADDRESS, "Go on.")
    started = [line for line in lines if line["type"] == "turn_started"]
    assert [each["decision"] for each in started] == ["resume", "resume_with_replay"]
    assert "KIWI-42" in last_request(model)
    assert shell.tell("And now?")["decision"] == "resume"


@EXTENDED
@pytest.mark.parametrize(("name", "way"), [("opencode", "native"), ("opencode", "acp")])
def test_a_session_whose_directory_was_moved_is_replaced_at_once(name, way, shell, model, request):
    """OpenCode takes a prompt there and fails without a word (anomalyco/opencode#29260)."""
    shell = over_acp(shell, name, request) if way == "acp" else shell
    shell.tell("Remember KIWI-42.")
    before, shell.project = shell.project, shell.project.rename(shell.project.with_name("moved"))
    if way == "acp":  # only then it refuses the session before the prompt
        before.write_text("")
    lines = shell.lines("tell", ADDRESS, "Go on.")
    started = only(lines, "turn_started")
    assert started["decision"] == "resume_with_replay"
    assert started["reasons"][0] == "workspace_changed"
    assert "KIWI-42" in last_request(model)
    assert shell.tell("And now?")["decision"] == "resume"
