"""The real agents, killed in the middle of a delegated turn that had written a file.

The prompt and the file are then on record, whichever verb comes first, and the next turn has both.
"""

import json
import time

import pytest
from tests.live.hooked import SET_UPS, PluggedOpenCode, SetUp
from tests.live.shell import wait_until
from tests.support.continuity.cases import WRITTEN_AFTER_S
from tests.support.sets import SOAK, spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ASKED = "Make the file, KIWI-9."
INTERRUPTED = "its last turn was cut off"


@pytest.fixture
def set_up(name, request, model, tmp_path) -> SetUp:
    kind = SET_UPS[name]
    return kind(request.getfixturevalue(kind.agent.fixture), model, tmp_path)


@pytest.fixture
def killed(set_up) -> SetUp:
    """The agent's sub-agent has written a file, and waits for its model, when SIGKILL comes."""
    set_up.use("spec-1")
    made = set_up.project / "made.txt"
    step = set_up.agent.write(made)

    def until_it_waits() -> None:
        wait_until(made.exists, "file of the sub-agent")
        wait_until(lambda: is_waiting(set_up), "request of the sub-agent after the file")
        time.sleep(WRITTEN_AFTER_S)

    delegation = set_up.delegate(f"{ASKED} {step} [[HANG]]")
    set_up.kill_when(f"Go.\n\n{delegation}", until_it_waits)
    return set_up


def is_waiting(set_up: SetUp) -> bool:
    """Whether a sub-agent's last request has the file's result, and the model never answers."""
    return any(
        request.status is None and ASKED in json.dumps(request.body)
        for request in set_up.model.model_requests
    )


def text_of(set_up: SetUp, *words: str) -> str:
    return set_up.output_of([*set_up.program, *words])


@pytest.mark.parametrize("name", spread(SET_UPS, first=0, extended=["claude-code", "codex"]))
def test_after_a_kill_each_verb_and_the_next_sub_agent_know_the_prompt_and_the_file(name, killed):
    told = {
        verb: text_of(killed, *verb.split())
        for verb in ("show spec-1", "why spec-1/planner", "brief spec-1/planner", "audit spec-1")
    }
    for verb, text in told.items():
        for words in ("made.txt", "KIWI-9", "cut off"):
            assert words in text, verb
    assert INTERRUPTED in told["show spec-1"]
    assert "made.txt" in text_of(killed, "show", "spec-1", "--effects")
    effects = killed.upthread("show", "spec-1", "--effects")["effects"]
    assert [each["state"] for each in effects] == ["done"], "nothing is recorded twice"
    assert killed.planner("spec-1", turns=1)["turns"] == 1

    ran = killed.run(f"Go.\n\n{killed.delegate('What was it?')}")
    lines, sent = "\n".join(ran.lines), "\n".join(ran.by_children)
    assert "UNDECIDED" not in lines
    assert "KIWI-9" in sent
    assert "made.txt" in sent
    if name == "claude-code":  # `codex exec` prints nothing of what a hook says
        assert "cut off" in lines
    if name != "opencode":  # its session is resumed, and has its history
        assert "prior context" in sent
        assert "do not repeat them" in sent
    assert killed.planner("spec-1", turns=2)["turns"] == 2


@pytest.mark.parametrize("name", spread(SET_UPS, first=0, extended=["codex"]))
def test_tell_does_what_why_says_and_the_session_knows_the_kill(name, killed):
    why = killed.upthread("why", "spec-1/planner")["now"]
    told = text_of(killed, "tell", "spec-1/planner", "What was it?", "--json").splitlines()
    result = json.loads(told[-1])
    assert (why["decision"], why["reasons"][0]) == (result["decision"], result["reasons"][0])
    # Claude Code opens a sub-agent only inside its main session.
    is_claude = name == "claude-code"
    assert why["decision"] == ("resume_with_replay" if is_claude else "resume")
    assert why["reasons"][0] == ("sub_agent_session" if is_claude else "interrupted")
    sent = json.dumps(killed.model.model_requests[-1].body)
    for words in ("KIWI-9", "made.txt", "do not repeat them"):
        assert words in sent


@SOAK
@pytest.mark.parametrize("name", ["opencode"])
def test_a_session_that_tell_continued_is_continued_inside_opencode(set_up: PluggedOpenCode):
    """OpenCode then counts the session as another of its agents'."""
    set_up.use("spec-1")
    set_up.run(set_up.delegate("Remember KIWI-9."))
    set_up.planner("spec-1", turns=1)
    text_of(set_up, "tell", "spec-1/planner", "And PLUM-9.")
    ran = set_up.run(set_up.delegate("What was it?"))
    assert len(set_up.planner("spec-1", turns=3)["chain"]) == 1
    assert "KIWI-9" in ran.by_children[-1]
    assert "PLUM-9" in ran.by_children[-1]
