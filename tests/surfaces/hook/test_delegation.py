"""What the hook decides, seen from outside: one process for each event."""

import json
import os
import sqlite3
import stat
import subprocess
from contextlib import closing

import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase, text
from tests.support.decisions_told import decisions_told
from tests.surfaces.hook.conftest import let_die

from upthread.core.decision.words import FIRST, RESUME, done_in_words


@pytest.mark.parametrize("calls_before", [0, 1])
def test_a_call_under_way_is_running_for_whoever_asks(place, calls_before):
    for number in range(calls_before):
        place.call(f"c{number}", "ses_1")
    place.hook(place.request("before", "c9", prompt="Plan it."))
    (listed,) = place.upthread("ls")["workstreams"]
    assert listed["state"] == "running"
    shown = place.upthread("show", "spec-42/planner")
    assert (shown["state"], shown["standing"]["agent"]) == ("running", "opencode")
    assert f"pid {os.getpid()}" in place.run("show", "spec-42/planner").out
    assert place.upthread("why", "spec-42/planner")["now"]["reasons"][0] == "busy"
    assert place.upthread("status")["underway"] == ["spec-42/planner"]


@pytest.mark.soak
def test_a_call_that_no_hook_saw_begin_is_on_record_beside_the_session_the_role_has(place):
    place.call("c1", "ses_1")
    missed = place.request("started", "c2", child="ses_2")
    place.hook(missed)
    ended = {"prompt": "Go on.", "outcome": "ok", "reply": "Gone on."}
    place.hook(place.request("ended", "c2", child="ses_2", **ended))
    beside = place.upthread("show", "spec-42/planner~2")
    assert beside["turns"] == 1
    (_, conversation) = place.upthread("audit", "spec-42")["conversations"]
    (turn,) = conversation["turns"]
    assert (turn["decision"], turn["reasons"], turn["outcome"]) == ("first", ["unseen"], "ok")
    assert "Gone on." in json.dumps(turn)
    again = place.hook(place.request("before", "c3", prompt="And now?")).answer
    assert again["task_id"] == "ses_1"
    place.hook(missed)
    assert len(place.upthread("audit", "spec-42")["conversations"]) == 2, "it is over"


def test_after_a_reset_the_next_call_starts_as_if_there_had_been_none(place):
    place.upthread("setup", "opencode", "--yes")
    place.call("c1", "ses_1")
    place.upthread("reset", "spec-42/planner", "--yes")
    answer = place.hook(place.request("before", "c2", prompt="Plan it.")).answer
    assert answer["task_id"] == ""
    assert answer["line"].endswith(f": {done_in_words(FIRST, None)}")


@pytest.mark.extended
def test_calls_at_the_same_moment_get_a_session_each(place):
    answers = [
        place.hook(place.request("before", call_id, prompt="Plan it.")).answer
        for call_id in ("c1", "c2", "c3")
    ]
    addresses = [answer["line"].split()[1] for answer in answers]
    assert addresses == ["spec-42/planner", "spec-42/planner~2", "spec-42/planner~3"]
    assert place.upthread("status")["underway"] == sorted(addresses)


def named(place, call_id: str, child: str, **ended):
    """One delegation of a model that names the session to go on in."""
    decided = place.hook(place.request("named", call_id, prompt="Go on.", child=child))
    place.hook(place.request("started", call_id, child=child))
    end = {"prompt": "Go on.", "outcome": "ok", "reply": "Gone on.", **ended}
    place.hook(place.request("ended", call_id, child=child, **end))
    return decided.answer["line"]


@pytest.mark.soak
def test_a_session_that_the_model_names_itself_is_gone_on_with_on_record(place):
    place.call("c1", "ses_1")
    assert "spec-42/planner" in named(place, "c2", "ses_1")
    (role,) = place.upthread("show", "spec-42")["roles"]
    assert (role["turns"], role["upstream_session_id"]) == (2, "ses_1")
    place.hook(place.request("named", "c3", prompt="And on.", child="ses_1"))
    assert place.upthread("show", "spec-42")["state"] == "running"


@pytest.mark.soak
def test_a_session_that_is_no_role_s_any_more_is_recorded_beside_it_when_the_model_names_it(place):
    place.call("c1", "ses_1")
    place.call("c2", "ses_2", prompt="fresh: Anew.")
    line = named(place, "c3", "ses_1")
    assert "goes on in a session that is no role's now, only recorded" in line
    assert named(place, "c4", "ses_unknown", reply="Who am I?") == ""
    (role,) = place.upthread("show", "spec-42")["roles"]
    assert (role["turns"], role["upstream_session_id"]) == (2, "ses_2")
    kept = json.dumps(place.upthread("audit", "spec-42"))
    assert "Gone on." in kept
    assert "Who am I?" in kept


def test_another_role_s_session_is_gone_on_with_and_that_is_said(place):
    place.call("c1", "ses_1")
    request = place.request("named", "c2", prompt="Go on.", child="ses_1", role="validator")
    assert "the call asks for another role in it: validator" in place.hook(request).answer["line"]


def test_a_session_that_somebody_is_using_is_said_to_be_in_use_when_a_model_names_it(place):
    place.call("c1", "ses_1")
    place.hook(place.request("before", "c2", prompt="Go on."))
    line = place.hook(place.request("named", "c3", prompt="And?", child="ses_1")).answer["line"]
    assert f"goes on in a session that is in use by pid {os.getpid()}" in line
    assert "a call in opencode" in line
    assert "only recorded" in line


@pytest.mark.soak
def test_a_session_the_agent_does_not_have_is_replaced_with_what_was_said(place):
    place.call("c1", "ses_1", prompt="Remember KIWI.")
    request = place.request("before", "c2", prompt="Go on.", unusable={"ses_1": "missing"})
    answer = place.hook(request).answer
    assert answer["task_id"] == ""
    assert "KIWI" in answer["prompt"]
    assert "no longer has the session" in answer["line"]
    place.hook(place.request("ended", "c2", child="ses_2", outcome="ok", reply="Planned."))
    chain = place.upthread("show", "spec-42/planner")["chain"]
    assert [link["upstream_session_id"] for link in chain] == ["ses_1", "ses_2"]
    assert chain[0]["ended_because"] == "missing"


@pytest.mark.extended
def test_the_environment_a_prompt_a_branch_and_nothing_say_which_workstream(place):
    place.upthread("use", "--clear")
    request = place.request("before", "c1", prompt="Plan it.")
    assert "session-sesmain/planner" in place.hook(request).answer["line"]
    request["call_id"] = "c2"
    named = place.hook(request, UPTHREAD_WORKSTREAM="spec-9").answer["line"]
    assert "spec-9/planner" in named
    subprocess.run(["git", "checkout", "-qb", "feature/x"], cwd=place.project, check=True)
    request["call_id"] = "c3"
    assert "feature/x/planner" in place.hook(request).answer["line"]
    assert place.upthread("status")["because"] == "branch"


def test_a_place_nobody_set_up_is_left_alone(place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    said = place.hook(place.request("before", "c1", prompt="Plan it.", cwd=str(elsewhere)))
    assert (said.code, said.out, said.err) == (0, "", "")


def test_files_are_private_and_names_are_never_paths(place):
    answer = place.hook(
        place.request("before", "c1", prompt="Plan it."), UPTHREAD_WORKSTREAM="../../../escape"
    ).answer
    assert "../../../escape/planner" in answer["line"]
    written = [path for path in place.home.rglob("*") if path.is_file()]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in written)
    assert {stat.S_IMODE(p.stat().st_mode) for p in place.home.rglob("*") if p.is_dir()} == {0o700}
    assert not any("escape" in path.name for path in place.home.parent.rglob("*"))


def test_a_call_whose_agent_died_frees_its_session_and_is_told_as_interrupted(place):
    database = OpenCodeDatabase(place.home.parent / ".local/share/opencode/opencode.db")
    child = database.session()
    place.hook(place.request("before", "c1", prompt="Plan it."))
    place.hook(place.request("started", "c1", child=child))
    database.message(child, "user", text("Plan it."))
    let_die(place)
    place.commits_max = 2
    (role,) = place.upthread("show", "spec-42")["roles"]
    assert (role["state"], role["last_turn"]["outcome"]) == ("interrupted", None)
    again = place.hook(place.request("before", "c2", prompt="Go on.")).answer
    assert again["task_id"] == child
    assert "cut off" in again["line"]
    place.hook(place.request("ended", "c2", child=child, outcome="ok", reply="Planned."))
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert [t["outcome"] for t in conversation["turns"]] == ["process_died", "ok"]


def test_roles_nobody_configured_are_left_alone_and_recorded_under_their_main_session(place):
    for number in ("1", "2"):
        request = place.request("before", number, prompt="Look.", role="explore")
        answer = place.hook(request).answer
        assert (answer["line"], answer["task_id"], answer["prompt"]) == ("", "", "Look.")
        child = f"ses_{number}"
        place.hook(place.request("started", number, child=child, role="explore"))
        end = {"outcome": "ok", "reply": "Seen.", "prompt": "Look.", "role": "explore"}
        place.hook(place.request("ended", number, child=child, **end))
    main, *children = place.upthread("audit", "spec-42")["conversations"]
    assert (main["role"], main["parent_conversation_id"]) == ("main", None)
    for child in children:
        assert child["role"] == "explore"
        assert child["parent_conversation_id"] == main["conversation_id"]
        assert "Seen." in json.dumps(child["turns"])
    assert len(children) == 2, "never resumed"


def test_without_a_workstream_a_role_continues_within_its_main_session_alone(place):
    place.upthread("use", "--clear")
    place.call("c1", "ses_1")
    again = place.hook(place.request("before", "c2", prompt="Go on.")).answer
    assert again["task_id"] == "ses_1"
    assert decisions_told(again["line"]) == [RESUME]
    other = place.request("before", "c3", prompt="Plan it.", session="ses_other")
    assert place.hook(other).answer["task_id"] == ""
    assert place.upthread("status")["last"] is None, "it is no workstream that a person named"


def test_a_persons_own_role_counts_in_every_project(place):
    own = place.home.parent / ".config/opencode/agent"
    own.mkdir(parents=True)
    (own / "surveyor.md").write_text("---\ndescription: surveys\n---\nYou survey.\n")
    for call_id, session in (("c1", ""), ("c2", "ses_1")):
        request = place.request("before", call_id, prompt="Survey.", role="surveyor")
        assert place.hook(request).answer["task_id"] == session
        end = {"outcome": "ok", "child": "ses_1", "reply": "Done.", "role": "surveyor"}
        place.hook(place.request("ended", call_id, prompt="Survey.", **end))


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_role_is_known_by_its_name_and_one_without_an_address_is_told(place, agent):
    folder, tool, wanted, prompt = {
        "claude-code": (".claude", "Agent", "subagent_type", "prompt"),
        "codex": (".codex", "spawn_agent", "agent_type", "message"),
    }[agent]

    def line(role: str) -> str:
        event = {"hook_event_name": "PreToolUse", "session_id": "main-1", "tool_name": tool}
        event |= {"cwd": str(place.project), "tool_use_id": role}
        said = place.hook({**event, "tool_input": {wanted: role, prompt: "Go."}}, agent=agent)
        return said.answer.get("systemMessage", "")

    for base in (place.home.parent, place.project):
        own = base / folder / "agents"
        own.mkdir(parents=True)
        for file, name in (("odd", f"{base.name} odd"), ("filename", f"of-{base.name}")):
            text = {".claude": f'---\nname: "{name}"\n---\n', ".codex": f'name = "{name}"\n'}
            (own / f"{file}.{'md' if agent == 'claude-code' else 'toml'}").write_text(text[folder])
        assert f"spec-42/of-{base.name} " in line(f"of-{base.name}")
        assert f"only recorded: {own}/odd" in line(f"{base.name.upper()} odd")
    assert line("filename") == line("odd") == line("some:other") == ""


def test_a_hook_is_one_commit_and_writes_nothing_but_the_database(place):
    before = {path for path in place.home.rglob("*") if path.is_file()}
    place.call("c1", "ses_1")
    after = {path.name for path in place.home.rglob("*") if path.is_file() and path not in before}
    assert all(name.startswith("upthread.db") for name in after), after
    with closing(sqlite3.connect(place.home / "upthread.db")) as database:
        counted = "SELECT count(DISTINCT at_ms) FROM entry WHERE kind = 'turn_event'"
        (moments,) = database.execute(counted).fetchone()
    assert moments == 3, "before, started, ended"
