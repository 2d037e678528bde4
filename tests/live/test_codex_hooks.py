"""The hooks in the real Codex: what its sub-agents know of the work before."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.asked import tokens_in
from tests.live.codex import command
from tests.live.hooked import HookedCodex
from tests.support.sets import EXTENDED

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def hooked(codex_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookedCodex]:
    with RehearsalModel() as model:
        yield HookedCodex(codex_binary, model, tmp_path_factory.mktemp("hooked"))
    assert model.violations == []


def test_another_main_session_is_told_which_session_to_open_and_finds_the_whole_history(hooked):
    hooked.use("spec-1")
    hooked.run(f"Go. {hooked.delegate('Remember KIWI-1. [[SAY noted PEAR]]')}")
    child = hooked.planner("spec-1", turns=1)["upstream_session_id"]
    second = hooked.run(f"Go on. {hooked.continue_(child, 'What was it?')}")
    told = f"spec-1/planner: resume_agent with id '{child}', then send_input to it"
    assert told in second.by_main[0]
    assert "KIWI-1" in second.by_children[-1]
    assert "noted PEAR" in second.by_children[-1]
    view = hooked.planner("spec-1", turns=2)
    assert view["upstream_session_id"] == child
    assert len(view["chain"]) == 1
    assert view["last_turn"]["decision"] == "resume"
    assert "HIST n_user=2" in json.dumps(hooked.upthread("audit", "spec-1")), "its reply is kept"
    saved = hooked.upthread("savings", "spec-1")["delegations"]
    charged = [tokens_in(each) for each in hooked.model.requests]
    assert [each["tokens_first_read"] in charged for each in saved] == [True, True]


@EXTENDED
def test_a_sub_agent_that_ends_with_its_main_session_is_known_as_interrupted(hooked):
    hooked.use("spec-3")
    working = hooked.spawn(f"Remember KIWI-3. {command('touch begun; sleep 600')}")
    hooked.run(f"Go. {working} {hooked.wait_until('test -e begun')}")
    view = hooked.planner("spec-3", turns=1)
    assert (view["state"], view["last_turn"]["outcome"]) == ("interrupted", None)


@EXTENDED
def test_hooks_that_no_person_has_trusted_change_nothing(hooked):
    hooked.use("spec-4")
    ran = hooked.run(f"Go. {hooked.delegate('Plan.')}", is_trusted=False)
    assert "upthread:" not in ran.written
    known = [each["workstream"] for each in hooked.upthread("ls")["workstreams"]]
    assert "spec-4" not in known
    (finding,) = hooked.upthread("doctor")["findings"]
    assert finding["what"].startswith("8 hooks left out, not trusted: ")
    assert "/hooks" in finding["cure"]


def test_a_call_for_a_type_of_agent_that_codex_lacks_is_over_and_nobody_is_in_use(hooked):
    hooked.use("spec-5")
    spawns = (hooked.spawn(text, "auditor") for text in ("Audit it.", "Again.", "Once more."))
    hooked.run(f"Go. {' '.join(spawns)}")
    (listed,) = (
        each for each in hooked.upthread("ls")["workstreams"] if each["workstream"] == "spec-5"
    )
    (auditor,) = listed["roles"]
    assert (auditor["address"], auditor["turns"], auditor["holder"]) == ("spec-5/auditor", 3, None)
    (told,) = hooked.upthread("audit", "spec-5")["conversations"]
    assert [each["outcome"] for each in told["turns"]] == ["unknown"] * 3
    assert {each["detail"] for each in told["turns"]} == {"unknown agent_type 'auditor'"}


def test_removal_restores_the_file_byte_for_byte(hooked):
    assert "hooks/upthread-launcher" in hooked.hooks.read_text()
    hooked.upthread("setup", "codex", "--remove", "--yes")
    assert hooked.hooks.read_text() == hooked.HOOKS
