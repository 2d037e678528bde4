"""Two surfaces never say different things of one state, decision, stop or outcome.

Each case of every_case.py is looked at through every surface that a person or a program has: what
the verbs print, what they say in JSON, the audit in both its forms, and the tools of the MCP server.
"""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.support.every_case import CASES, STOPS, Case, environment_of, fill, result_of

from upthread.client.project import Project
from upthread.client.project_opener import open_blocking, open_project
from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.words import done_in_words
from upthread.core.runs.stops import stop_in_words
from upthread.runtime.turns.delegation import TurnStarted
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.program import load_verb
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.screen import Screen
from upthread.surfaces.cli.verbs.run import step_in_words
from upthread.surfaces.formats.md import stopped
from upthread.surfaces.mcp_server.delegations import (
    Delegated,
    Delegations,
    _Delegation,
    _stands,
    current_project,
)
from upthread.surfaces.mcp_server.server import server_of


class InOneProject(Call, kw_only=True):
    """A call of a verb on a project that stays open for the next one."""

    opened: Project
    wait: Callable[..., Any]

    def with_project(self, use, **_):
        return self.wait(use, self.opened)


@dataclass(frozen=True, eq=False)
class Surfaces:
    """The ways to look at one project, which no test changes: each view is asked for once."""

    project: Project
    wait: Callable[..., Any]
    mcp: dict[str, Any]

    @cache  # noqa: B019  # as long as the tests of this module
    def text(self, verb: str, *words: str, is_json: bool = False) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            call = InOneProject(output=Output(is_json=is_json), opened=self.project, wait=self.wait)
            found = load_verb(verb)
            assert found.invoke(found.make_context(verb, [*words], obj=call)) == 0
        return said.getvalue()

    def json(self, verb: str, *words: str) -> Any:
        return json.loads(self.text(verb, *words, is_json=True))


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    place = tmp_path_factory.mktemp("agree")
    (place / "project").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment_of(place).items():
            patch.setenv(name, value)
        patch.chdir(place / "project")
        with open_blocking(".") as (project, wait):
            wait(fill, project)
            yield Surfaces(project, wait, wait(asked_through_mcp, project))


async def asked_through_mcp(project: Project) -> dict[str, Any]:
    """What the tools that look say: of all workstreams, and why, by the address."""
    async with (
        current_project(project, open_project) as current,
        anyio.create_task_group() as tasks,
        Client(server_of(current, Delegations(current, tasks))) as client,
    ):
        listed = (await client.call_tool("status", {})).structured_content
        found = {each["workstream"]: each for each in listed["workstreams"]}
        for case in CASES:
            asked = {"address": f"{case.workstream}/planner"}
            found[asked["address"]] = (await client.call_tool("why", asked)).structured_content
    return found


# --- how something stands --------------------------------------------------------------------------


def in_json(shape: Any) -> tuple[str, str]:
    """The state and why, as JSON has them; a stranger's words stand behind ours in any text."""
    standing = shape["standing"]
    detail = f": {standing['detail']}" if standing["detail"] else ""
    return shape["state"], f"{standing['reason']}{detail}"


def in_text(text: str, label: str) -> tuple[str, str]:
    """The same as a verb prints it: the state ends the first line, why follows its label."""
    found = re.search(rf"^  {label} +(.+)$", text, re.MULTILINE)
    assert found, text
    return text.splitlines()[0].rpartition(": ")[2], found[1]


def in_markdown(text: str, before: str) -> tuple[str, str]:
    """The same in an audit, where it stands behind these words; strangers' are in a code span."""
    found = re.search(
        rf"{before}(\w+): (.+?)(?:, `([^`\n]+)`)?(; since [^.\n]+)?\.?$", text, re.MULTILINE
    )
    assert found, text
    return found[1], f"{found[2]}: {found[3]}" if found[3] else found[2]


def in_table(text: str, name: str) -> str:
    """The state that `ls` has in its third column, behind a name."""
    (row,) = [line.split() for line in text.splitlines() if line.startswith(f"{name} ")]
    return row[2]


@pytest.mark.extended
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_every_surface_says_the_same_of_a_role(surfaces: Surfaces, case: Case):
    address = f"{case.workstream}/planner"
    (listed,) = [
        each for each in surfaces.mcp[case.workstream]["roles"] if each["address"] == address
    ]
    (audited,) = [
        each
        for each in surfaces.json("audit", case.workstream, "--format", "json")["conversations"]
        if each["address"] == address
    ]
    written = surfaces.text("audit", case.workstream, "--format", "md")
    said = {
        "show": in_text(surfaces.text("show", address), "because"),
        "show --json": in_json(surfaces.json("show", address)),
        "why": in_text(surfaces.text("why", address), "state"),
        "why --json": in_json(surfaces.json("why", address)),
        "audit": in_markdown(written.partition(f"## `{address}`")[2], "It is "),
        "audit --json": in_json(audited),
        "MCP status": in_json(listed),
        "MCP why": in_json(surfaces.mcp[address]),
    }
    assert set(said.values()) == {said["show"]}, said
    table = surfaces.text("ls", case.workstream)
    assert in_table(table, address) == said["show"][0]


@pytest.mark.extended
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_every_surface_says_the_same_of_a_workstream(surfaces: Surfaces, case: Case):
    name = case.workstream
    said = {
        "show": in_text(surfaces.text("show", name), "because"),
        "show --json": in_json(surfaces.json("show", name)),
        "audit": in_markdown(surfaces.text("audit", name, "--format", "md"), "- state: "),
        "audit --json": in_json(surfaces.json("audit", name, "--format", "json")),
        "MCP status": in_json(surfaces.mcp[name]),
    }
    assert set(said.values()) == {said["show"]}, said


@pytest.mark.extended
def test_the_list_of_all_says_of_each_what_the_others_say(surfaces: Surfaces):
    table = surfaces.text("ls")
    listed = surfaces.json("ls")["workstreams"]
    assert {each["workstream"]: in_json(each) for each in listed} == {
        case.workstream: in_json(surfaces.mcp[case.workstream]) for case in CASES
    }
    assert {each["workstream"]: in_table(table, each["workstream"]) for each in listed} == {
        each["workstream"]: each["state"] for each in listed
    }


# --- a decision -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_every_surface_says_the_same_of_a_turns_decision(surfaces: Surfaces, case: Case):
    address, session = f"{case.workstream}/planner", f"ses_{case.number}"
    shown = surfaces.json("show", address)["last_turn"]
    (audited, *_) = surfaces.json("audit", case.workstream, "--format", "json")["conversations"]
    codes = {
        "show --json": (shown["decision"], tuple(shown["reasons"])),
        "audit --json": (audited["turns"][0]["decision"], tuple(audited["turns"][0]["reasons"])),
    }
    assert set(codes.values()) == {(case.decision, (case.reason, "unchanged"))}, codes
    words = reasons_in_words((case.reason, "unchanged"))
    done = done_in_words(case.decision, None)
    assert f"; {done} ({words}), " in surfaces.text("show", address)
    written = surfaces.text("audit", case.workstream, "--format", "md")
    assert f"- decision: {done} `{session}`: {words}" in written


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_every_surface_says_the_same_of_the_last_and_the_next_decision(
    surfaces: Surfaces, case: Case
):
    address = f"{case.workstream}/planner"
    told, asked = surfaces.json("why", address), surfaces.mcp[address]
    text = surfaces.text("why", address)
    for name, label in (("last", "last"), ("now", "next")):
        assert told[name] == asked[name]
        (line,) = re.findall(rf"^  {label}  +(.+)$", text, re.MULTILINE)
        assert line.endswith(f": {told[name]['words']}")
        assert told[name]["words"] == reasons_in_words(told[name]["reasons"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_the_line_of_a_turn_that_begins_is_one_everywhere(case: Case, capsys):
    result = result_of(case)
    started = TurnStarted(
        conversation=result.conversation,
        turn_id=result.turn_id,
        decision=case.decision,
        reasons=(case.reason, "unchanged"),
        agent="rehearsal",
        upstream_session_id="ses_1",
        turn_number=2,
    )
    Screen(Output()).listener().started(started)
    running = delegated(started=started)
    said = {
        "tell": capsys.readouterr().err.strip(),
        "tell --json": shapes.turn_started(started)["line"],
        "MCP delegate": running.line,
    }
    assert set(said.values()) == {started.line}, said
    assert done_in_words(case.decision, "ses_1") in started.line
    assert reasons_in_words((case.reason, "unchanged")) in started.line


# --- how a turn ended -----------------------------------------------------------------------------


def delegated(**known: object) -> Delegated:
    """How the MCP server says that a delegation is under way, or over."""

    async def stands() -> Delegated:
        return _stands("dlg_1", _Delegation("w/planner", "", is_fresh=False, **known))

    return anyio.run(stands)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.workstream)
def test_every_surface_says_the_same_of_an_end(case: Case, capsys):
    result, reason = result_of(case), case.end or "ok"
    stop = stop_in_words(reason)
    Screen(Output()).end(result)
    told, asked = capsys.readouterr().err, delegated(result=result)
    status = shapes.told_status(result)
    in_json = shapes.told(result, result.spent, in_doubt=())
    assert {in_json["status"], asked.status} == {status}
    assert in_json["exit_code"] == {"done": 0, "failed": 1, "parked": 4}[status]
    assert status == ("parked" if reason in STOPS else "done" if reason == "ok" else "failed")
    if status == "done":
        assert (told.strip(), asked.detail) == ("", "")
        return
    for surface in (told, asked.detail, stopped(reason, "")):
        assert stop.said in surface
    for surface in (told, asked.detail):
        assert stop.cure in surface
    if status == "failed":
        assert stop.said in " ".join(step_in_words(result))
