"""A delegation is the same on record, whether `tell` or the real agent's own tool made it.

Each scenario is played twice in one project, in a workstream of its own, and everything that the
verbs report of the two is compared: same keys, same values. What may differ stands in DIFFERENT.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.hooked import SET_UPS, TIMEOUT_S, SetUp
from tests.support.sets import EXTENDED, SOAK

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

IDS = frozenset(
    {
        *("turn_id", "conversation_id", "upstream_session_id", "session_stamp", "detail_id"),
        *("base_name", "instance_name", "effect_id"),
        *("conversation", "call_id", "parent_call_id", "main_session"),
    }
)
"""Ids and names, each of its own."""

FIGURES = frozenset({"count", "total", "characters", "size_bytes", "first_read", "read", "written"})
"""Beside what begins with `tokens_`: an agent reads more for a main session than for another."""

DIFFERENT = frozenset(
    {
        # How it is opened, and what a prompt from outside would do to a sub-agent's session.
        *("resume_command", "open", "own_interface", "now", "inside", "in_agent"),
        # The reason that names the agent's tool, and the call itself.
        *("call", "takes_no_session", "acts"),
        # Notes about the process that upthread itself drove.
        *("late_events", "configuration", "tokens_window", "cache", "expected", "source"),
        *("window_tokens", "price_error_median"),
        *("agent_pid", "agent_started_at_ticks"),
        # What upthread was asked to permit.
        *("permissions", "was_asked"),
    }
)
"""What may differ."""

OF_SCENARIO = {"resumed": frozenset({"text", "reply", "report", "ending", "price_error", "parts"})}
"""What may differ beside: the scripted model answers by the form in which it was asked again."""

OF_AGENT = {"codex": frozenset({"is_background", "arguments", "title", "locations"})}
"""Codex runs each sub-agent in the background, and words a shell's call in two ways."""

VERBS = (
    ("show", "{}"),
    ("show", "{}/planner"),
    ("why", "{}/planner"),
    ("savings", "{}"),
    ("show", "{}", "--effects"),
    ("audit", "{}"),
)


def plain(value: Any, name: str = "", also: frozenset[str] = frozenset()) -> Any:
    """Return a report without what is each one's own, and what `also` names."""
    if isinstance(value, dict):
        return {k: plain(v, k, also) for k, v in value.items() if k not in DIFFERENT | also}
    if isinstance(value, list):
        return [plain(each, name, also) for each in value if not is_left_out(each)]
    return value if value is None else plain_leaf(value, name)


def plain_leaf(value: Any, name: str) -> Any:
    if name in IDS or name.endswith("_ms"):
        return "own"
    if name.startswith("tokens") or name in FIGURES:
        return "figure"
    if isinstance(value, str):
        said = value.replace("as-own", "as-x").replace("as-told", "as-x")
        # The scripted model repeats its prompts, which an agent hands on in words of its own.
        said = re.sub(r"req_\d+", "req", said)
        return said.split("seen=")[0] if said.startswith("HIST ") else said
    return value


def is_left_out(part: Any) -> bool:
    """Return whether one of the two alone has it, for a reason.

    The instructions of a role: an agent loads its own role file. That an interrupted turn was read
    back: `tell` does that before the next prompt, a call inside an agent is read back at once. What
    upthread was asked to permit: inside an agent, the agent asks its person itself.
    """
    if not isinstance(part, dict):
        return False
    is_role = part.get("kind") == "context" and str(part.get("text")).startswith("<role name=")
    is_read_back = part.get("kind") == "prompt_recognised"
    return is_role or is_read_back or part.get("unknown_kind") == "permission"


def differences(own: Any, told: Any, path: str = "") -> Iterator[str]:
    """Yield where two reports differ, in words."""
    if isinstance(own, dict) and isinstance(told, dict):
        for name in sorted(own.keys() | told.keys()):
            yield from differences(own.get(name, "-"), told.get(name, "-"), f"{path}.{name}")
    elif isinstance(own, list) and isinstance(told, list) and len(own) == len(told):
        for number, (one, other) in enumerate(zip(own, told, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif own != told:
        yield f"{path}: {str(own)[:200]} / {str(told)[:200]}"


def reports(played: SetUp, workstream: str, also: frozenset[str]) -> dict[str, Any]:
    shown = {}
    for verb in VERBS:
        words = [each.format(workstream) for each in verb]
        shown[" ".join(verb)] = plain(played.upthread(*words), also=also)
    (listed,) = [
        each for each in played.upthread("ls")["workstreams"] if each["workstream"] == workstream
    ]
    return {**shown, "ls": plain(listed, also=also)}


class Told:
    """The same as an agent's main session does, by `upthread tell`."""

    def __init__(self, played: SetUp) -> None:
        self.played = played

    def words(self, workstream: str, prompt: str) -> list[str]:
        agent = self.played.agent.name
        return [*self.played.program, "tell", f"{workstream}/planner", prompt, "--agent", agent]

    def tell(self, workstream: str, prompt: str) -> None:
        subprocess.run(
            self.words(workstream, prompt),
            cwd=self.played.project,
            env=self.played.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def kill_when(self, workstream: str, prompt: str, wait: Callable[[], None]) -> None:
        running = subprocess.Popen(
            self.words(workstream, prompt),
            cwd=self.played.project,
            env=self.played.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait()
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def waiting_for(played: SetUp, word: str) -> Callable[[], None]:
    """Return what waits until a model is asked something with a word, for the first time now."""
    before = len(played.model.model_requests)

    def wait() -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while not any(
            word in json.dumps(each.body) and each.status is None
            for each in list(played.model.model_requests)[before:]
        ):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        time.sleep(1.0)

    return wait


def once(prompt: str) -> Callable[[SetUp], None]:
    def play(played: SetUp) -> None:
        played.use("as-own")
        played.run(f"Go.\n\n{played.delegate(prompt)}")
        Told(played).tell("as-told", prompt)

    return play


def killed(played: SetUp) -> None:
    prompt = "Remember KIWI-K.\n\n[[HANG]]"
    played.use("as-own")
    main = f"Go.\n\n{played.delegate(prompt)}"
    played.kill_when(main, waiting_for(played, "KIWI-K"))
    Told(played).kill_when("as-told", prompt, waiting_for(played, "KIWI-K"))


def resumed(played: SetUp) -> None:
    """Twice in one main session, where the agent goes on with a sub-agent only there."""
    once("Remember KIWI. [[SAY noted PEAR]]")(played)
    child = played.planner("as-own", turns=1)["upstream_session_id"]
    played.continue_main(played.continue_(child, "What was it?"))
    Told(played).tell("as-told", "What was it?")


def changed_files(played: SetUp) -> None:
    (played.project / "a.txt").write_text("one\n")
    once(f"Read it.\n\n{played.reading(played.project / 'a.txt')} [[SAY read]]")(played)
    (played.project / "a.txt").write_text("two\n")


def outward(played: SetUp) -> None:
    """It pushes to where nothing is: an action beyond this machine that fails."""
    once(f"Push.\n\n{played.shell('git push nowhere main')} [[SAY pushed]]")(played)


SCENARIOS = {
    "first": once("Remember KIWI. [[SAY noted PEAR]]"),
    "resumed": resumed,
    "changed_files": changed_files,
    "outward": outward,
    "rate_limit": once("Try.\n\n[[FAIL 429 retry-after=60 slow down]]"),
    "killed": killed,
}


@pytest.fixture(
    params=[
        pytest.param("claude-code", id="claude-code"),
        pytest.param("codex", marks=EXTENDED, id="codex"),
        pytest.param("opencode", marks=SOAK, id="opencode"),
    ]
)
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    binary = request.getfixturevalue(f"{kind.agent.program}_binary")
    with RehearsalModel() as model:
        made = kind(binary, model, tmp_path)
        made.upthread("trust", "--yes")
        (made.own / "config.toml").write_text('[permissions]\nexecute = "allow"\n')
        yield made
        end_left(tmp_path)


def end_left(directory: Path) -> None:
    """End what a killed `tell` has left at work in a directory of the test."""
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if (each / "cwd").readlink().is_relative_to(directory):
                os.kill(int(each.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_delegation_is_the_same_on_record_whoever_made_it(played, scenario):
    SCENARIOS[scenario](played)
    also = OF_SCENARIO.get(scenario, frozenset())
    also |= OF_AGENT.get(played.agent.name, frozenset())
    own, told = (reports(played, each, also) for each in ("as-own", "as-told"))
    assert "\n".join(differences(own, told)) == ""
