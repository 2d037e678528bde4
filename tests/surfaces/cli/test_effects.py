"""`upthread effects`: what may have been done to the outside, and what a person says of it."""

import os
import signal
import subprocess

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import eventually

AGENT = ("--agent", "rehearsal")
DEPLOY = "[[rehearse: execute sh deploy.sh]]"
REPORTS = '[[rehearse: say ```upthread\n{"status": "done", "summary": "looked"}\n```]]'
IN_DOUBT = 4


@pytest.fixture
def up(make_upthread, tmp_path):
    """A role was killed in the middle of a deployment."""
    up = make_upthread(tmp_path)
    up.configure('[permissions]\nexecute = "allow"\n')
    done = up.directory / "done"
    script = "echo deployed >> done\ntest -e slow && sleep 60\nexit 0\n"
    (up.directory / "deploy.sh").write_text(script)
    (up.directory / "slow").touch()
    child = up.start("tell", "w/planner", DEPLOY, *AGENT)
    eventually(done.exists)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    (up.directory / "slow").unlink()
    return up


def deployments(up) -> int:
    return len((up.directory / "done").read_text().split())


def test_what_may_have_been_done_is_listed_and_not_done_again_before_somebody_looked(up):
    (effect,) = up("effects", "w", "--json").json["in_doubt"]
    assert (effect["title"], effect["settled"]) == ("Run sh deploy.sh", None)
    assert effect["state"] in {"intent", "unknown"}
    assert "upthread effects w" in up("show", "w").out
    for words in (("ls",), ("ls", "w")):
        listed = up(*words).out
        assert "interrupted" in listed
        said = "w: an action beyond this machine may have been done, or not: upthread effects w"
        assert said in listed
    (stands,) = up("ls", "--json").json["workstreams"]
    assert stands["standing"]["command"] == "upthread effects w"
    assert stands["standing"]["cure"].endswith(": upthread tell w/planner --continue")
    told = up("effects", "w").out
    assert effect["effect_id"] in told
    assert f"upthread effects w not-done {effect['effect_id']}" in told
    up("tell", "w/planner", "--continue", code=None)
    said = up("tell", "w/auditor", DEPLOY, *AGENT, code=IN_DOUBT).err
    assert "(look first: upthread effects w)" in said
    assert "--continue" not in said
    waiting = up("effects", "w", "--json").json["waiting"]
    held = "Run sh deploy.sh: outcome unknown"
    addresses = ("w/auditor", "w/planner")
    assert sorted(each["address"] for each in waiting) == [*addresses]
    assert {each["detail"] for each in waiting} == {held}
    assert "w/auditor waits: " in up("effects", "w").out
    assert deployments(up) == 1


@EXTENDED
@pytest.mark.parametrize("said", ["not-done", "again"])
def test_what_a_person_says_may_be_done_is_done(up, said):
    settled = up("effects", "w", said, "--json").json
    assert settled["settled"] == said
    assert up("effects", "w").out == "nothing of w is held back\n"
    up("tell", "w/auditor", DEPLOY, *AGENT)
    assert deployments(up) == 2


def acts(up):
    audit = up("audit", "w", "--json").json
    return [act for conversation in audit["conversations"] for act in conversation["acts"]]


@EXTENDED
def test_what_a_turn_had_done_that_was_cut_off_is_held_back_until_a_person_settles_it(up):
    """Its receipt was kept: agent and upthread were killed after the action and before the end."""
    child = up.start("tell", "v/planner", f"{DEPLOY} [[rehearse: execute sleep 60]]", *AGENT)
    eventually(lambda: deployments(up) == 2 and done_of(up, "v"))
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    up("tell", "v/planner", "[[rehearse: say well]]", *AGENT)
    for role in ("auditor", "planner"):
        told = up("tell", f"v/{role}", DEPLOY, *AGENT, "--json", code=IN_DOUBT).stream[-1]
        assert (told["parked"]["reason"], deployments(up)) == ("held_back", 2), role
    (effect,) = up("effects", "v", "--json").json["done"]
    up("effects", "v", "again", effect["effect_id"])
    up("tell", "v/planner", DEPLOY, *AGENT)
    assert deployments(up) == 3


def done_of(up, workstream):
    if workstream not in up("ls").out:
        return []
    effects = up("show", workstream, "--effects", "--json").json["effects"]
    return [each for each in effects if each["state"] == "done"]


def test_what_cannot_be_meant_is_said_and_changes_nothing(up):
    assert "is not one of 'done', 'not-done', 'again'" in up("effects", "w", "maybe", code=2).err
    assert "no effect eff_0 of w is held back" in up("effects", "w", "done", "eff_0", code=3).err
    assert "there is no workstream 'v'" in up("effects", "v", "done", code=3).err
    assert "there is no workstream 'v'" in up("effects", "v", code=3).err
    assert len(up("effects", "w", "--json").json["in_doubt"]) == 1


@pytest.mark.soak
def test_a_model_does_not_say_what_came_of_it(up):
    up.environment["CLAUDECODE"] = "1"
    told = up("effects", "w", "done", code=2).err
    assert "what came of an action nobody says from inside an agent's turn" in told
    assert "by a model (claude-code)" in told
    assert "look yourself, at your own terminal: upthread effects w" in told
    clean = [f"{name}={value}" for name, value in up.environment.items() if name != "CLAUDECODE"]
    below = ["sh", "-c", '"$@"; exit $?', "sh", "env", "-i", *clean, *up.words("effects", "w")]
    done = subprocess.run(
        [*below, "not-done"], cwd=up.directory, env=up.environment, capture_output=True, check=False
    )
    assert done.returncode == 2, "a clean environment below an agent is still an agent's"
    del up.environment["CLAUDECODE"]
    assert len(up("effects", "w", "--json").json["in_doubt"]) == 1


def test_what_is_in_doubt_is_not_forgotten_by_a_person_before_they_looked_nor_by_a_model(up):
    told = up("forget", "w", "--yes", code=2).err
    assert "'w': what is known of an action that is held back would be forgotten" in told
    assert "until then nobody does it again: upthread effects w" in told
    assert len(up("effects", "w", "--json").json["in_doubt"]) == 1
    up("effects", "w", "done")
    up.environment["CLAUDECODE"] = "1"
    told = up("forget", "w", "--yes", code=2).err
    assert "nobody erases from inside an agent's turn" in told
    del up.environment["CLAUDECODE"]
    assert "FORGOTTEN" in up("forget", "w", "--yes").out


@EXTENDED
def test_what_is_in_doubt_outlives_what_is_kept_for_so_long(up):
    up.configure("[keep]\ncontent_days = 0\n")
    assert "w is kept until you have looked: upthread effects w" in up("keep", "--yes").err


@pytest.fixture
def place(make_upthread, tmp_path):
    """A repository whose agent may run what it likes."""
    up = make_upthread(tmp_path)
    subprocess.run(["git", "init", "-q", up.directory], check=True)
    up.configure(ALLOWS)
    return up


ALLOWS = '[permissions]\nexecute = "allow"\n'
PUSH = "[[rehearse: announce git push origin main]]"
PUSHED = "w/constructor: Run git push origin main"
LOOK = "see what is there: git ls-remote origin refs/heads/main"
APPROVES = (
    '[[rehearse: say ```upthread\n{"status": "done", "summary": "looked", '
    '"verdict": {"result": "approved", "evidence": ["fine"]}}\n```]]'
)


def pipeline(**tasks: str) -> str:
    steps = "".join(
        f"[[pipeline.steps]]\nrole = '{r}'\ntask = '''{t}'''\n" for r, t in tasks.items()
    )
    return f"{ALLOWS}{steps}on_rejected = 'constructor'\n"


def test_an_approved_run_whose_action_nobody_heard_the_end_of_is_not_plainly_approved(place):
    place.configure(pipeline(constructor=f"{PUSH} {REPORTS}", validator=APPROVES))
    told = place("run", "w", "Release it.", *AGENT, code=IN_DOUBT)
    assert "w: approved, but in doubt" in told.out
    assert PUSHED in told.out
    assert LOOK in told.out
    assert f"{PUSHED}: may have been done, or not" in told.err, "as soon as the step was over"
    shown = place("show", "w")
    assert "w (" in shown.out
    assert "): unsettled" in shown.out
    assert LOOK in shown.out
    assert "validator: approved, while an action beyond this machine is in doubt" in shown.out
    assert " unsettled " in place("ls").out
    assert "unsettled" in place("why", "w/constructor").out
    assert LOOK.removeprefix("see what is there: ") in place("effects", "w").out
    place("effects", "w", "not-done")
    assert " approved " in place("ls").out
    place("run", "w")
