"""An outward action of unknown outcome is not done again, on the real agents, asking or not.

A role acts; all or some of it is killed while the far end is at work. The next turn would act again
in other words: the far end counts what arrives.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.live.agents import ADDRESS, AGENTS, WAYS, RealAgent, judging
from tests.live.far_ends import FarEnd, Posts, Pushes
from tests.live.shell import Shell, kill_all, kill_tree, only, tree_of, wait_until
from tests.support.sets import spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A repository, a far end that counts, an agent on PATH, upthread beside them."""

    agent: RealAgent
    shell: Shell
    far_end: FarEnd

    def asks_for(self, words: str) -> str:
        return f"Do it. {self.agent.command(words)}"

    def start(self, words: str = "") -> subprocess.Popen[str]:
        """Tell the role to act; return once the far end is at work and the call is on record."""
        running = self.shell.start_call(self.asks_for(words or self.far_end.words))
        wait_until(lambda: self.far_end.count, "arrival at the far end")
        return running

    def cut_off(self, words: str = "") -> None:
        """Let the role act, and kill all of it at once."""
        kill_tree(self.start(words))
        self.far_end.prepare()

    def assert_held(self, told: dict[str, Any]) -> None:
        assert told["parked"] is not None, told
        assert (told["parked"]["reason"], self.far_end.count) == ("held_back", 1)
        assert self.far_end.words in told["parked"]["detail"]

    def assert_asking_is_held(self, address: str, *options: str, words: str = "") -> None:
        prompt = self.asks_for(words or self.far_end.other_words)
        self.assert_held(self.shell.tell(prompt, *options, address=address, exit_code=4))


@pytest.fixture(params=[Pushes])
def desk(request, name, shell, tmp_path) -> Iterator[Desk]:
    far_end = request.param(tmp_path, shell.project)
    yield Desk(agent=WAYS[name], shell=shell, far_end=far_end)
    far_end.close()


@pytest.mark.parametrize("name", spread(WAYS, first=0, extended=["claude-code, asking"]))
def test_a_turn_that_is_continued_does_not_act_again(desk, model):
    desk.cut_off()
    model.answer_next(desk.agent.command(desk.far_end.other_words))
    desk.assert_held(desk.shell.tell("--continue", exit_code=4))


@pytest.mark.parametrize("name", spread(WAYS, first=0, extended=["codex, asking"]))
def test_a_new_prompt_and_another_role_do_not_act_again_until_somebody_looked(desk):
    desk.cut_off()
    desk.assert_asking_is_held(ADDRESS)
    desk.assert_asking_is_held("spec-42/auditor")
    other = desk.asks_for(desk.far_end.something_else)
    # In doubt, every call is held that may reach the far end.
    desk.assert_held(desk.shell.tell(other, address="spec-42/validator", exit_code=4))
    looking = f"Look. {desk.agent.command('git status')}"
    assert desk.shell.tell(looking, address="spec-42/constructor")["outcome"] == "ok"


@pytest.mark.parametrize("name", spread(WAYS, first=0, extended=["claude-code"]))
def test_an_action_that_a_person_settled_as_done_is_refused_and_the_turn_ends(desk, model):
    desk.cut_off()
    desk.shell.lines("effects", "spec-42", "done")
    model.answer_next(desk.agent.command(desk.far_end.other_words))
    ended = desk.shell.tell("--continue")
    assert (ended["outcome"], ended["parked"], desk.far_end.count) == ("ok", None, 1)
    desk.shell.tell(desk.asks_for(desk.far_end.other_words))
    assert desk.far_end.count == 2, "the turn has ended: a new prompt that asks for it means it"


LOOKS_ONLY = '[[pipeline.steps]]\nrole = "validator"\ntask = "Look."\n'


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code"]))
def test_a_run_that_approves_reports_an_unsettled_action_until_a_person_settles_it(desk, model):
    desk.cut_off()
    desk.shell.configure(LOOKS_ONLY)
    model.answer_next(judging("approved", "fine"))
    result = desk.shell.lines("run", "spec-42", "Look.", exit_code=4)[-1]
    assert (result["status"], result["state"]) == ("approved", "unsettled")
    (effect_id,) = result["in_doubt"]
    assert result["next"] == ["upthread effects spec-42"]
    (in_doubt,) = desk.shell.one("show", "spec-42")["in_doubt"]
    assert in_doubt["effect_id"] == effect_id
    assert in_doubt["looks"] == ["git ls-remote origin refs/heads/main"]
    desk.shell.lines("effects", "spec-42", "done")
    assert (desk.shell.one("show", "spec-42")["in_doubt"], desk.far_end.count) == ([], 1)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_a_script_that_pushed_is_in_doubt_and_nothing_pushes_again(desk, model):
    script = desk.shell.project / "ship.sh"
    script.write_text(f"#!/bin/sh\n{desk.far_end.words}\n")
    script.chmod(0o755)
    desk.cut_off("./ship.sh")
    assert len(desk.shell.one("effects", "spec-42")["in_doubt"]) == 1
    model.answer_next(desk.agent.command("./ship.sh"))
    assert desk.shell.tell("--continue", exit_code=4)["parked"]["reason"] == "held_back"
    plainly = desk.asks_for(desk.far_end.words)
    told = desk.shell.tell(plainly, address="spec-42/auditor", exit_code=4)
    assert (told["parked"]["reason"], desk.far_end.count) == ("held_back", 1)


@pytest.mark.parametrize("name", spread(WAYS, first=0, extended=["codex, asking"]))
@pytest.mark.parametrize("desk", [Posts], indirect=True)
def test_a_post_is_not_sent_again(desk, model):
    desk.cut_off()
    model.answer_next(desk.agent.command(desk.far_end.other_words))
    desk.assert_held(desk.shell.tell("--continue", exit_code=4))


@pytest.mark.parametrize("name", spread(WAYS, first=0, extended=["codex"]))
def test_an_agent_that_is_killed_alone_is_not_asked_again_while_it_may_have_acted(desk):
    running = desk.start()
    desk.far_end.prepare()
    kill_all(tree_of(running.pid) - {running.pid})
    assert running.stdout is not None
    with running.stdout:
        lines = [json.loads(line) for line in running.stdout]
    running.wait()
    desk.assert_held(only(lines, "turn_ended"))
