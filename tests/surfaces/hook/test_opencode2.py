"""The plug-in in a stand-in for OpenCode 2, made from its public source; not tried on the real one."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED

from upthread.core.decision.words import FIRST, RESUME, RESUME_WITH_REPLAY

HOST = Path(__file__).resolve().parents[2] / "support" / "opencode2" / "host.mjs"
pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="the plug-in runs on Node here"),
    pytest.mark.timeout(120),
]


class OpenCode2:
    """A process of the stand-in: `call` delegates, as a model does."""

    def __init__(self, place: Path, project: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["node", str(HOST), str(place / "upthread.mjs"), str(project)],
            cwd=project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == {"loaded": "upthread"}

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def play(self, **line: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        return self._read()

    def call(self, main: str, prompt: str, *, agent: str = "planner", **more: Any) -> Any:
        given = {"agent": agent, "prompt": prompt, "description": "do it"}
        given |= {key: more.pop(key) for key in ("sessionID", "background") if key in more}
        return self.play(main=main, input=given, **more)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Place:
    """A project on a workstream, with the plug-in that `setup` writes for both versions."""

    def __init__(self, up: Any, directory: Path) -> None:
        self.up, self.directory = up, directory
        up("use", "spec-1")
        up("setup", "opencode", "--yes")
        (written,) = (up.home / ".config" / "opencode").rglob("upthread.js")
        # By its name Node knows that it is a module; OpenCode knows by itself.
        shutil.copy(written, directory / "upthread.mjs")
        self._started: list[OpenCode2] = []

    def opencode(self) -> OpenCode2:
        self._started.append(OpenCode2(self.directory, self.up.directory, self.up.environment))
        return self._started[-1]

    def close(self) -> None:
        for each in self._started:
            each.close()


@pytest.fixture
def place(make_upthread, tmp_path: Path) -> Iterator[Place]:
    made = Place(make_upthread(tmp_path), tmp_path)
    yield made
    made.close()


def child(told: Any) -> str:
    assert told["status"] == "completed", told
    found: str = told["result"]["output"]["sessionID"]
    return found


@pytest.mark.soak
def test_a_role_goes_on_in_its_session_within_the_main_session(place: Place):
    opencode = place.opencode()
    first = opencode.call("ses_a", "Plan it.", reads=["README.md"])
    assert decisions_told(first["input"]["description"]) == [FIRST]
    assert "sessionID" not in first["input"]
    again = opencode.call("ses_a", "And the tests?")
    assert again["input"]["sessionID"] == child(first) == child(again)
    assert again["input"]["prompt"].endswith("And the tests?")
    assert decisions_told(again["result"]["metadata"]["upthread"]) == [RESUME]
    assert again["input"]["description"].startswith("do it · upthread: ")
    shown = place.up("show", "spec-1/planner").out
    assert child(first) in shown


@EXTENDED
def test_from_another_main_session_it_is_told_what_was_said_and_names_no_session(place: Place):
    opencode = place.opencode()
    first = opencode.call("ses_a", "We agreed on KIWI-42.")
    there = opencode.call("ses_b", "What did we agree on?")
    assert "sessionID" not in there["input"]
    assert child(there) != child(first)
    assert "KIWI-42" in there["input"]["prompt"]
    assert decisions_told(there["input"]["description"]) == [RESUME_WITH_REPLAY]
    assert "opens only inside its main session" in there["result"]["metadata"]["upthread"]
    # What is newest goes on from then on.
    again = opencode.call("ses_b", "And now?")
    assert child(again) == child(there), again


@EXTENDED
def test_in_a_new_process_it_goes_on_where_the_last_one_stopped(place: Place):
    first = child(place.opencode().call("ses_a", "Plan it."))
    restarted = place.opencode()
    restarted.play(session="ses_a")
    restarted.play(session=first, parent="ses_a")
    assert child(restarted.call("ses_a", "Go on.")) == first


@pytest.mark.soak
def test_a_call_that_failed_and_one_in_the_background_are_known_by_their_child(place: Place):
    opencode = place.opencode()
    failed = opencode.call("ses_a", "Plan it.", fail="step limit")
    assert failed["status"] == "error"
    again = opencode.call("ses_a", "Go on.", background=True, says="Done behind.")
    assert again["input"]["sessionID"] in failed["error"]["message"]
    last = opencode.call("ses_a", "And?")
    assert child(last) == again["input"]["sessionID"]
    assert "Done behind." in place.up("audit", "spec-1").out


@EXTENDED
def test_where_upthread_is_gone_opencode_goes_on(place: Place):
    opencode = place.opencode()
    shutil.rmtree(Path(place.up.environment["UPTHREAD_HOME"]) / "hooks")
    told = opencode.call("ses_a", "Plan it.")
    assert told["status"] == "completed"
    assert told["input"]["prompt"] == "Plan it."
