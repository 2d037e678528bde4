"""A delegation is the same on record, whether `tell` or the real agent's own tool made it.

Each scenario is played twice in one project, in a workstream of its own, and everything that the
verbs report of the two is compared: same keys, same values. What may differ stands in DIFFERENT.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.live.hooked import SET_UPS, TIMEOUT_S, SetUp, stop_when, waiting_for
from tests.live.shell import wait_until
from tests.support.postgres_server import as_owner, migrated_database_at
from tests.support.sets import EXTENDED, spread

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

IDS = frozenset(
    {
        *("turn_id", "conversation_id", "upstream_session_id", "session_stamp", "detail_id"),
        *("base_name", "instance_name", "effect_id"),
        *("conversation", "call_id", "parent_call_id", "main_session", "holder"),
        *("parent_conversation_id", "child_conversation_id"),
        *("id", "messageID", "sessionID"),
    }
)
"""Ids and names, each of its own."""

FIGURES = frozenset(
    {"price_error", "count", "total", "characters", "size_bytes", "first_read", "read", "written"}
)
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

OF_SCENARIO = {
    # The scripted model answers by the form in which it was asked again.
    "resumed": frozenset({"text", "reply", "report", "ending", "price_error", "parts"}),
    # Which of the two ended last.
    "parallel": frozenset({"role"}),
    # The call itself, which is on record in these two. The agent refused it, as `tell` does.
    "unknown_role": frozenset({"main", "stranger"}),
    # How the tool was called; and what a call does is read from the agent's store at its end.
    "background": frozenset({"is_background", "unseen"}),
}
"""What may differ beside."""

OF_AGENT = {"codex": frozenset({"is_background", "arguments", "title", "locations"})}
"""Codex runs each sub-agent in the background, and words a shell's call in two ways."""

NO_ARGUMENT = "the tool that was called takes no session to go on in"

WINDOW_TOKENS = {"claude-code": 1_000_000, "codex": 272_000, "opencode": 100_000}
"""The window of each agent's model, which Claude Code does not name to a hook."""

VERBS = ("show {}", "show {}/planner", "why {}/planner", "savings {}", "show {} --effects")
VERBS += ("effects {}", "audit {}")


def plain(value: Any, name: str = "", also: frozenset[str] = frozenset()) -> Any:
    """Return a report without what is each one's own, and what `also` names."""
    if isinstance(value, dict):
        return {k: plain(v, k, also) for k, v in value.items() if k not in DIFFERENT | also}
    if isinstance(value, list):
        listed = [plain(each, name, also) for each in value if not is_left_out(each, also)]
        # A sub-agent in the background is attached twice: first known, then left at work.
        return [x for i, x in enumerate(listed) if not is_attached(x) or x not in listed[:i]]
    return value if value is None else plain_leaf(value, name)


def plain_leaf(value: Any, name: str) -> Any:
    if name in IDS or name.endswith("_ms"):
        return "own"
    if name.startswith("tokens") or name in FIGURES | {"start", "end"}:
        return "figure"
    if isinstance(value, str):
        said = value.replace("as-own", "as-x").replace("as-told", "as-x")
        # The scripted model repeats its prompts, which an agent hands on in words of its own.
        said = re.sub(r"req_\d+|prior_\w+", "own", said)
        # The role, which an agent has from a file of its own; the reason that names its tool; and
        # what Claude Code writes beside a sub-agent's reply.
        said = re.sub(r"^<role name=.*?</role>\s*", "", said, flags=re.DOTALL)
        said = said.replace(f"; {NO_ARGUMENT}", "")
        said = said.replace("\n\n## My request for Codex:", "")
        said = re.sub(r"\nagentId: .*?</usage>", "", said, flags=re.DOTALL)
        return said.split("seen=")[0] if said.startswith("HIST ") else said
    return value


def is_left_out(part: Any, also: frozenset[str]) -> bool:
    """Return whether one of the two alone has it, for a reason.

    The instructions of a role: an agent loads its own role file. That an interrupted turn was read
    back: `tell` does that before the next prompt, a call inside an agent is read back at once. What
    upthread was asked to permit: inside an agent, the agent asks its person itself.
    """
    if not isinstance(part, dict):
        return part == "no_resume_argument"  # the reason that names the agent's tool
    text = str(part.get("text"))
    is_role = text.startswith("<role name=") and text.rstrip().endswith("</role>")
    is_read_back = part.get("kind") == "prompt_recognised"
    is_asked = part.get("unknown_kind") == "permission"
    return is_role or is_read_back or is_asked or part.get("role") in also


def is_attached(part: Any) -> bool:
    return isinstance(part, dict) and part.get("kind") == "session_attached"


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
        shown[verb] = plain(played.upthread(*verb.format(workstream).split()), also=also)
    (listed,) = [
        each for each in played.upthread("ls")["workstreams"] if each["workstream"] == workstream
    ]
    return {**shown, "ls": plain(listed, also=also)}


class Told:
    """The same as an agent's main session does, by `upthread tell`."""

    def __init__(self, played: SetUp) -> None:
        self.played = played

    def tell(self, workstream: str, prompt: str, *, role: str = "planner") -> None:
        self.start(workstream, prompt, role=role).wait(timeout=TIMEOUT_S)

    def start(
        self, workstream: str, prompt: str, *more: str, role: str = "planner"
    ) -> subprocess.Popen[bytes]:
        agent = self.played.agent.name
        words = ["tell", f"{workstream}/{role}", prompt, "--agent", agent, *more]
        return self.played.started([*self.played.program, *words])

    def stop_when(
        self, workstream: str, prompt: str, wait: Callable[[], None], number: signal.Signals
    ) -> None:
        stop_when(self.start(workstream, prompt), wait, number)


def once(prompt: str) -> Callable[[SetUp], None]:
    def play(played: SetUp) -> None:
        played.use("as-own")
        played.run(f"Go.\n\n{played.delegate(prompt)}")
        Told(played).tell("as-told", prompt)

    return play


def stopped(number: signal.Signals) -> Callable[[SetUp], None]:
    """Return what ends both while the sub-agent's model is asked, by a signal."""

    def play(played: SetUp) -> None:
        prompt = "Remember KIWI-K.\n\n[[HANG]]"
        played.use("as-own")
        main = f"Go.\n\n{played.delegate(prompt)}"
        played.stop_when(main, waiting_for(played, "KIWI-K"), number)
        Told(played).stop_when("as-told", prompt, waiting_for(played, "KIWI-K"), number)

    return play


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
    """It pushes to where nothing is: an action beyond this machine that fails, after two others."""
    lines = ("echo fine", "echo bad; exit 3", "git push nowhere main")
    once(f"Push.\n\n{' '.join(map(played.shell, lines))} [[SAY pushed]]")(played)


def nearly_full(played: SetUp) -> None:
    window = WINDOW_TOKENS[played.agent.name]
    with (played.own / "config.toml").open("a") as file:
        file.write(f"[freshness]\nwindow_tokens = {window}\n")
    prompt = f"Plan. [[USAGE {window * 96 // 100}]] [[SAY planned]]"
    once(prompt)(played)
    played.continue_main(played.delegate("Go on. [[SAY went on]]"))
    Told(played).tell("as-told", "Go on. [[SAY went on]]")


def background(played: SetUp) -> None:
    """The reports are read while both still work."""
    prompt = "Look for KIWI-B.\n\n[[HANG]]"
    played.use("as-own")
    wait = waiting_for(played, "KIWI-B")
    played.start_in_background(prompt)
    wait()
    # The hook that names the sub-agent's session runs beside the sub-agent.
    wait_until(lambda: played.planner("as-own", turns=1)["upstream_session_id"], "its session")
    wait = waiting_for(played, "KIWI-B")
    Told(played).start("as-told", prompt)
    wait()


def nested(played: SetUp) -> None:
    """The sub-agent has a sub-agent of its own, of a role that upthread does not continue."""
    deeper = played.delegate("Deeper. [[SAY deep]]", played.agent.sub_agent)
    once(f"Look.\n\n{deeper} [[SAY looked]]")(played)


def parallel(played: SetUp) -> None:
    """Two at once: each waits until both have begun."""
    meet = "mkdir one 2> /dev/null || mkdir two; until test -d two; do sleep 0.1; done"
    prompt = f"Look.\n\n{played.shell(meet)} [[SAY looked]]"
    played.use("as-own")
    played.run_both(prompt)
    for name in ("one", "two"):
        (played.project / name).rmdir()
    both = [Told(played).start("as-told", prompt)]
    time.sleep(3)
    both.append(Told(played).start("as-told", prompt, "--sibling"))
    for each in both:
        each.wait(timeout=TIMEOUT_S)


def unknown_role(played: SetUp) -> None:
    """A role that neither the agent nor upthread knows: nobody does anything."""
    played.use("as-own")
    once("Plan. [[SAY planned]]")(played)
    played.run(f"Go.\n\n{played.delegate('Look.', 'stranger')}")
    Told(played).tell("as-told", "Look.", role="stranger")


SCENARIOS = {
    "first": once("Remember KIWI. [[SAY noted PEAR]]"),
    "resumed": resumed,
    "changed_files": changed_files,
    "outward": outward,
    "rate_limit": once("Try.\n\n[[FAIL 429 retry-after=60 slow down]]"),
    "killed": stopped(signal.SIGKILL),
    "cancelled": stopped(signal.SIGINT),
    "nearly_full": nearly_full,
    "background": background,
    "nested": nested,
    "parallel": parallel,
    "unknown_role": unknown_role,
}


HAS_NOT = {
    ("codex", "nested"): "a sub-agent of Codex has no tool for sub-agents (0.171.0)",
    ("opencode", "nested"): "a sub-agent of OpenCode starts none, by `subagent_depth` (1.18.33)",
    ("opencode", "rate_limit"): "OpenCode waits for its limit and ends no call (1.18.33)",
}
"""What an agent cannot do."""


@pytest.fixture(params=spread(SET_UPS, extended=1))
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    binary = request.getfixturevalue(f"{kind.agent.program}_binary")
    with RehearsalModel() as model:
        made = kind(binary, model, tmp_path)
        made.upthread("trust", "--yes")
        (made.own / "config.toml").write_text('[permissions]\nexecute = "allow"\n')
        yield made
        made.left_open.close()
        end_left(tmp_path)
        for each in made.running:
            each.wait(timeout=TIMEOUT_S)


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
    if missing := HAS_NOT.get((played.agent.name, scenario)):
        pytest.skip(missing)
    SCENARIOS[scenario](played)
    also = OF_SCENARIO.get(scenario, frozenset())
    also |= OF_AGENT.get(played.agent.name, frozenset())
    own, told = (reports(played, each, also) for each in ("as-own", "as-told"))
    assert "\n".join(differences(own, told)) == ""


def while_the_file_is_locked(played: SetUp, _directory: Path, play: Callable[[], Any]) -> Any:
    played.use("as-own")
    with closing(sqlite3.connect(played.own / "upthread.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        return play()


def while_the_server_is_away(played: SetUp, directory: Path, play: Callable[[], Any]) -> Any:
    server = as_owner(migrated_database_at(directory))
    played.environment["UPTHREAD_DB"] = server
    played.use("as-own")
    played.environment["UPTHREAD_DB"] = "postgres://nobody@127.0.0.1:1/none"
    ran, played.environment["UPTHREAD_DB"] = play(), server
    return ran


@pytest.mark.parametrize(
    "away", [while_the_server_is_away, pytest.param(while_the_file_is_locked, marks=EXTENDED)]
)
def test_a_call_while_the_record_is_away_is_read_back_by_the_next_command(played, tmp_path, away):
    main = f"Go.\n\n{played.delegate('Remember KIWI. [[SAY noted PEAR]]')}"
    ran = away(played, tmp_path, lambda: played.run(main))
    is_once = away is while_the_server_is_away
    assert not is_once or len(ran.lines) == (played.agent.name == "claude-code")
    (turn,) = played.upthread("audit", "as-own")["conversations"][0]["turns"]
    assert turn["events"][-1]["outcome"] == "ok"
    assert turn["messages"][-1]["parts"][-1]["text"] == "noted PEAR"


def two_hours_before(found: re.Match[str]) -> str:
    return (datetime.fromisoformat(found[0]) - timedelta(hours=2)).isoformat()


@EXTENDED
def test_a_call_that_was_killed_while_the_server_is_away_is_an_interrupted_turn(played, tmp_path):
    if played.agent.name == "claude-code":
        pytest.skip("it stores a hook's line with the result of the call (2.1.332)")
    wait, main = waiting_for(played, "KIWI-K"), played.delegate("Remember KIWI-K. [[HANG]]")
    while_the_server_is_away(
        played, tmp_path, lambda: played.stop_when(f"Go.\n\n{main}", wait, signal.SIGKILL)
    )
    assert "planner" not in json.dumps(played.upthread("ls")), "its agent may still be at work"
    for path in played.home.rglob("rollout-*.jsonl"):
        path.write_text(re.sub(r'(?<="timestamp":")[^"]+', two_hours_before, path.read_text()))
    for path in played.home.rglob("opencode.db"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE part SET time_updated = time_updated - 7200000")
    assert played.planner("as-own", turns=1)["state"] == "interrupted"
