"""An outward action of unknown outcome is not done again, on the real agents, asking or not.

A role acts; all or some of it is killed while the far end is at work. Whoever goes on, in whatever
way, would act again in other words: what arrives is counted at the far end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.live.far_ends import FarEnd, Posts, Pushes
from tests.live.shell import Shell, agents_left, kill_tree, only, tree_of
from tests.live.ways import WAYS, Way, desk_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ADDRESS = "spec-42/planner"
PATIENCE_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A repository, a far end that counts, an agent on PATH, upthread beside them."""

    way: Way
    shell: Shell
    far_end: FarEnd

    def start(self, words: str = "") -> subprocess.Popen[str]:
        """Tell the role to act, and return while the far end is at work."""
        step = self.way.step(words or self.far_end.words)
        running = self.shell.start("tell", ADDRESS, f"Do it. {step}", "--agent", self.way.agent)
        deadline = time.monotonic() + PATIENCE_S
        while not self.far_end.count:
            assert running.poll() is None, running.stdout and running.stdout.read()
            assert time.monotonic() < deadline, "nothing has arrived"
            time.sleep(0.05)
        time.sleep(0.5)
        return running

    def cut_off(self) -> None:
        """Have it act, and kill all of it at once."""
        kill_tree(self.start())
        self.far_end.prepare()


@pytest.fixture(params=WAYS)
def way(request) -> Way:
    return WAYS[request.param]


@pytest.fixture(params=[Pushes])
def desk(request, way, model, tmp_path) -> Iterator[Desk]:
    binary = request.getfixturevalue(f"{way.fixture}_binary")
    shell = desk_of(way, binary, model, tmp_path)
    far_end = request.param(tmp_path, shell.project)
    yield Desk(way=way, shell=shell, far_end=far_end)
    far_end.close()
    assert agents_left(tmp_path) == []


def assert_held(desk: Desk, told: list[dict]) -> None:
    parked = only(told, "turn_ended")["parked"]
    assert parked is not None, told
    assert (parked["reason"], desk.far_end.count) == ("held_back", 1)
    assert desk.far_end.words in parked["detail"]


def asks_again(desk: Desk, address: str, *options: str) -> list[dict]:
    prompt = f"Do it. {desk.way.step(desk.far_end.other_words)}"
    words = ("tell", address, prompt, "--agent", desk.way.agent, *options)
    return desk.shell.lines(*words, exit_code=4)


def test_a_turn_that_is_gone_on_with_does_not_act_again(desk, model):
    desk.cut_off()
    model.answer_next(desk.way.step(desk.far_end.other_words))
    assert_held(desk, desk.shell.lines("tell", ADDRESS, "--continue", exit_code=4))


def test_a_new_prompt_and_another_role_do_not_act_again_until_somebody_looked(desk):
    desk.cut_off()
    assert_held(desk, asks_again(desk, ADDRESS))
    assert_held(desk, asks_again(desk, "spec-42/auditor"))
    other = desk.way.step(desk.far_end.something_else)
    words = ("tell", "spec-42/validator", f"Do it. {other}", "--agent", desk.way.agent)
    assert only(desk.shell.lines(*words), "turn_ended")["outcome"] == "ok"
    assert desk.far_end.count == 2, "what is another action is nobody's doubt"


def test_what_a_person_found_done_is_refused_and_the_turn_goes_on_to_its_end(desk, model):
    desk.cut_off()
    desk.shell.lines("effects", "spec-42", "done")
    model.answer_next(desk.way.step(desk.far_end.other_words))
    ended = only(desk.shell.lines("tell", ADDRESS, "--continue"), "turn_ended")
    assert (ended["outcome"], ended["parked"], desk.far_end.count) == ("ok", None, 1)
    desk.shell.lines("tell", ADDRESS, f"Do it. {desk.way.step(desk.far_end.other_words)}")
    assert desk.far_end.count == 2, "the turn has come to its end: who asks for it again means it"


@pytest.mark.parametrize("way", ["codex"], indirect=True)
def test_what_its_words_do_not_tell_is_looked_into_and_what_is_everyday_goes_on(desk):
    project = desk.shell.project
    (project / "Makefile").write_text("test:\n\t@echo tested\npush:\n\tgit push origin main\n")
    (project / "push.sh").write_text("#!/bin/sh\ngit push origin main\n")
    (project / "two.sh").write_text("#!/bin/sh\n./push.sh\n")
    for script in ("push.sh", "two.sh"):
        (project / script).chmod(0o700)
    desk.cut_off()
    ways = ("make push", "./two.sh", "python3 -c \"import os; os.system('git push origin main')\"")
    for role, line in zip(("auditor", "validator", "constructor"), ways, strict=True):
        prompt = f"Do it. {desk.way.step(line)}"
        words = ("tell", f"spec-42/{role}", prompt, "--agent", desk.way.agent)
        told = desk.shell.lines(*words, exit_code=4)
        assert_held(desk, told)
        detail = only(told, "turn_ended")["parked"]["detail"]
        assert detail.startswith("may repeat `git push origin main`: it runs `")
    everyday = ("tell", "spec-42/clarifier", f"Do it. {desk.way.step('make test')}")
    told = desk.shell.lines(*everyday, "--agent", desk.way.agent)
    assert only(told, "turn_ended")["outcome"] == "ok"
    assert desk.far_end.count == 1


APPROVES = {
    "status": "done",
    "summary": "looked",
    "verdict": {"result": "approved", "evidence": ["fine"]},
}
LOOKS_ONLY = '[[pipeline.steps]]\nrole = "validator"\ntask = "Look."\n'


@pytest.mark.parametrize("way", ["claude-code", "opencode", "codex"], indirect=True)
def test_a_run_that_approves_says_what_may_have_been_done_until_a_person_says_so(desk, model):
    desk.cut_off()
    desk.shell.configure(LOOKS_ONLY)
    model.answer_next(f"[[SAY ```upthread\n{json.dumps(APPROVES)}\n```]]")
    words = ("run", "spec-42", "Look.", "--agent", desk.way.agent)
    result = desk.shell.lines(*words, exit_code=4)[-1]
    assert (result["status"], result["state"]) == ("approved", "unsettled")
    (effect_id,) = result["in_doubt"]
    assert result["next"] == ["upthread effects spec-42"]
    (shown,) = desk.shell.lines("show", "spec-42")
    assert [each["effect_id"] for each in shown["in_doubt"]] == [effect_id]
    assert shown["in_doubt"][0]["looks"] == ["git ls-remote origin refs/heads/main"]
    desk.shell.lines("effects", "spec-42", "done")
    (settled,) = desk.shell.lines("show", "spec-42")
    assert (settled["in_doubt"], desk.far_end.count) == ([], 1)


@pytest.mark.parametrize("way", ["claude-code", "opencode", "codex"], indirect=True)
def test_what_a_script_pushed_is_known_as_a_push_and_not_pushed_again(desk, model):
    script = desk.shell.project / "ship.sh"
    script.write_text(f"#!/bin/sh\n{desk.far_end.words}\n")
    script.chmod(0o755)
    running = desk.start("./ship.sh")
    kill_tree(running)
    desk.far_end.prepare()
    (held,) = desk.shell.lines("effects", "spec-42")[0]["in_doubt"]
    assert held["looks"] == ["git ls-remote origin refs/heads/main"]
    model.answer_next(desk.way.step("./ship.sh"))
    told = desk.shell.lines("tell", ADDRESS, "--continue", exit_code=4)
    assert only(told, "turn_ended")["parked"]["reason"] == "held_back"
    plainly = ("tell", "spec-42/auditor", f"Do it. {desk.way.step(desk.far_end.words)}")
    told = desk.shell.lines(*plainly, "--agent", desk.way.agent, exit_code=4)
    assert (only(told, "turn_ended")["parked"]["reason"], desk.far_end.count) == ("held_back", 1)


@pytest.mark.soak
@pytest.mark.parametrize("desk", [Posts], indirect=True)
def test_a_post_is_not_sent_again(desk, model):
    desk.cut_off()
    model.answer_next(desk.way.step(desk.far_end.other_words))
    assert_held(desk, desk.shell.lines("tell", ADDRESS, "--continue", exit_code=4))


@pytest.mark.soak
def test_an_agent_that_is_killed_alone_is_started_again_and_does_not_act_again(desk, model):
    running = desk.start()
    desk.far_end.prepare()
    model.answer_next(desk.way.step(desk.far_end.other_words))
    for pid in tree_of(running.pid) - {running.pid}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert_held(desk, [json.loads(line) for line in out.splitlines()])


@pytest.mark.soak
def test_a_session_that_is_new_does_not_act_again(desk):
    desk.cut_off()
    assert_held(desk, asks_again(desk, ADDRESS, "--fresh"))
