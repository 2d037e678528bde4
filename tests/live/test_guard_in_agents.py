"""Everything is killed after a push, a new main session delegates again: no push without a word."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.hooked import SET_UPS, SetUp
from tests.support.sets import spread

from upthread.testing.rehearsal_model import RehearsalModel

TIMEOUT_S = 90.0
GAP = "\n\n"
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture(params=spread(SET_UPS))
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    binary = request.getfixturevalue(f"{kind.agent.program}_binary")
    with RehearsalModel() as model:
        made = kind(binary, model, tmp_path)
        made.upthread("trust", "--yes")
        made.use("as-own")
        yield made


COMMANDS = (
    "git push nowhere main",
    "curl -sX POST http://127.0.0.1:9/deploy",
    "make release",
    "./publish --now",
)
MOMENTS_S = (1.0, 0.3, 0.05, 0.0)
KILLS = [(command, after_s) for after_s in MOMENTS_S for command in COMMANDS]
"""What the sub-agent does, and how long after it everything is killed."""


@pytest.mark.parametrize("kill", spread(KILLS, first=1, extended=0, name=str))
def test_what_may_have_been_done_is_held_in_a_new_main_session(played, tmp_path: Path, kill):
    command, after_s = kill
    deeds = tmp_path / "deeds"
    push = played.shell(f"echo done >> {deeds}; {command}")

    def done() -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while not deeds.exists():
            assert time.monotonic() < until_s
            time.sleep(0.02)
        time.sleep(after_s)

    played.kill_when(f"Go.\n\n{played.delegate(f'Release.{GAP}{push} [[HANG]]')}", done)
    ran = played.run(f"Anew.\n\n{played.delegate(f'Bring it out.{GAP}{push}')}")
    assert deeds.read_text() == "done\n"
    told = json.dumps(ran.by_children)
    # Codex may end its sub-agent with the main session, before it comes to the call.
    reached = "function_call_output" in told or played.agent.program != "codex"
    assert not reached or "to settle it: upthread effects as-own" in told
    effects = played.upthread("show", "as-own", "--effects")["effects"]
    assert command in json.dumps(effects)
    # What was held is no action: only the killed one is in doubt, and a person settles it.
    in_doubt = {each["effect_id"] for each in effects if each["state"] in {"intent", "unknown"}}
    # Codex may end before it stores that a call was held: then that call is in doubt as well.
    most = 2 if played.agent.program == "codex" else 1
    assert len(in_doubt) <= most, json.dumps(effects, indent=1)
    if in_doubt and reached:
        played.upthread("effects", "as-own", "again", *in_doubt)
        played.run(f"Once more.\n\n{played.delegate(f'Bring it out now.{GAP}{push}')}")
        assert deeds.read_text() == "done\ndone\n"
