"""What a person reads has words in it: no name that only our own code knows, in any verb's text."""

import re
from pathlib import Path

import anyio
import pytest
from tests.support.every_case import CASES, environment_of, fill, result_of
from tests.support.sets import spread

from upthread.client.project_opener import open_project
from upthread.core.decision.freshness import Freshness
from upthread.core.decision.handshake import because
from upthread.core.decision.words import RECOGNISED
from upthread.core.types import TurnId, UpstreamSessionId
from upthread.errors import LeaseHeldError, RefusedError
from upthread.runtime.turns.delegation import TurnStarted
from upthread.surfaces.cli.failures import failure_of
from upthread.surfaces.cli.program import main
from upthread.surfaces.cli.terminal.phrases import failure_in_words, stopped_in_words
from upthread.surfaces.cli.verbs.run import step_in_words
from upthread.surfaces.mcp_server.delegations import _trouble
from upthread.testing.store_conformance import samples

SETTINGS = ("prompt_timeout_s", "start_timeout_s", "resume_tokens_max", "depth_max", "relays_max")
"""Names with an underscore that a person writes into upthread.toml, and so has to read."""

CODE = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+")
ID = re.compile(r"\b(?:ses|con|trn|run|prj|eff)_[A-Za-z0-9-]+")


def codes_in(text: str) -> set[str]:
    """The tokens with an underscore that are neither ids nor what a person writes."""
    return {each for each in CODE.findall(ID.sub("", text)) if each not in SETTINGS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("words")
    (place / "project").mkdir()
    environment = environment_of(place)

    async def filled() -> None:
        async with open_project(place / "project", environment=environment) as project:
            await fill(project)

    anyio.run(filled)
    return place


@pytest.fixture
def told(place, monkeypatch, capsys):
    """Runs a verb in this process, and returns all that a person reads of it."""
    for name, value in environment_of(place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place / "project")

    def tell(*words: str) -> str:
        code = main(words)
        found = capsys.readouterr()
        assert "this is a bug in upthread" not in found.err, found.err
        assert code in {0, 3, 4}, found
        return found.out + found.err

    return tell


VERBS = (
    ("ls", "{workstream}"),
    ("show", "{workstream}"),
    ("show", "{workstream}/planner"),
    ("show", "{workstream}", "--effects"),
    ("why", "{workstream}/planner"),
    ("brief", "{workstream}/planner"),
    ("audit", "{workstream}"),
    ("audit", "{workstream}", "--format", "html"),
    ("id", "{workstream}/planner"),
)


@pytest.mark.extended
@pytest.mark.timeout(300)
@pytest.mark.parametrize("verb", spread(VERBS, first=VERBS[:5], name=" ".join))
def test_no_reading_verb_prints_a_name_of_our_code(told, verb):
    found = {}
    for case in CASES:
        text = told(*(word.format(workstream=case.workstream) for word in verb))
        if codes := codes_in(text):
            found[case] = codes
    assert found == {}


@pytest.mark.parametrize("verb", ["ls", "agents", "doctor", "status"])
def test_no_verb_on_all_of_a_project_prints_a_name_of_our_code(told, verb):
    assert codes_in(told(verb)) == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_no_line_of_a_turn_has_a_name_of_our_code(case):
    result = result_of(case)
    started = [
        TurnStarted(
            conversation=samples.conversation(),
            turn_id=TurnId("trn_1"),
            decision=case.decision,
            reasons=(case.reason, "unchanged"),
            recognition=recognition,
            agent="rehearsal",
            upstream_session_id=UpstreamSessionId("ses_1"),
            turn_number=2,
        ).line
        for recognition in ("", *RECOGNISED)
    ]
    refused = RefusedError("no", reasons=(case.reason,), address="w/planner")
    held = LeaseHeldError("held", holder="process 1", address="w/planner")
    failures = [failure_of(error) for error in (refused, held)]
    lines = [
        *started,
        *stopped_in_words(case.end or "ok", detail="", until_ms=None),
        *failure_in_words(result),
        *step_in_words(result),
        *(each.refused for each in failures if each),
        because((case.reason, "unchanged"), Freshness()),
        _trouble(result, "parked" if result.parked else "failed"),
    ]
    assert codes_in("\n".join(lines)) == set()
    assert all(lines[: len(started)])
