"""A role is held to the limits of its file, whatever the person's rules allow, on each turn."""

from typing import Any

import pytest
from msgspec import structs
from tests.runtime.test_permissions import answers_in
from tests.support.sets import EXTENDED
from tests.support.world import ALLOW, World

import upthread
from upthread.agents.base import NOBODY, PermissionAnswer, PermissionRequest
from upthread.core.roles.limits import RoleLimits
from upthread.core.roles.role import limits_of_codex, limits_of_front_matter
from upthread.core.types import UpstreamSessionId
from upthread.runtime.permissions import Gate
from upthread.runtime.turns.delegation import Listener, Notice

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/planner"
WRITE = "[[rehearse: write a.txt hello]]"
SAY = "[[rehearse: say on]]"


def write_role(world: World, front_matter: str) -> None:
    folder = world.project / ".opencode" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "planner.md").write_text(f"---\n{front_matter}\n---\nYou plan.\n")
    world.configure(ALLOW)


async def told(world: World, *texts: str) -> tuple[list[Any], Any, list[Notice]]:
    notices: list[Notice] = []
    options = upthread.TellOptions(agent="rehearsal", listener=Listener(notice=notices.append))
    async with world.open() as project:
        results = [await project.tell(ADDRESS, text, options) for text in texts]
        return results, await project.audit("spec-42"), notices


@EXTENDED
async def test_what_a_role_denies_is_refused_on_each_turn_and_the_turn_goes_on(world):
    write_role(world, "permission:\n  edit: deny")
    results, audit, _ = await told(world, f"{WRITE} {SAY}", f"{WRITE} {SAY}")
    assert [(each.outcome, each.parked) for each in results] == [("ok", None)] * 2
    assert results[1].decision == "resume"
    assert not (world.project / "a.txt").exists()
    assert answers_in(audit) == [("reject_once", "role edit=deny")] * 2


@EXTENDED
async def test_what_a_role_allows_is_not_given(world: World) -> None:
    write_role(world, "permission: allow\npermissionMode: bypassPermissions")
    world.configure('[permissions]\nedit = "deny"\n')
    _, audit, _ = await told(world, f"{WRITE} {SAY}")
    assert answers_in(audit) == [("reject_once", "rule edit=deny")]


async def test_a_person_is_told_that_an_agent_holds_limits_only_where_it_asks(world):
    write_role(world, "permission:\n  edit: deny\nmodel: a/b")
    _, _, notices = await told(world, SAY)
    assert [each.text for each in notices if each.kind == "role_limits"] == [
        (
            "of the limits of planner not all hold: what it may not do holds only where rehearsal "
            "asks before it acts; rehearsal uses its own model: a/b is opencode's"
        )
    ]


# --- a call that is about to run -----------------------------------------------------------------


def asked(tool: str, **arguments: str) -> PermissionRequest:
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId("ses-1"),
        call_id="call-1",
        title=tool,
        tool_kind="other",
        arguments=dict(arguments),
        locations=(),
        options=(("yes", "allow_once"), ("no", "reject_once")),
        tool=tool,
    )


def gate(limits: RoleLimits, answers: list[str] | None = None, tree: str = "/") -> Gate:
    """A gate of which the person's rules allow all; `answers` are the ones a person gives."""

    async def person(request: PermissionRequest) -> PermissionAnswer:
        kind = answers.pop(0)
        option_id = next((name for name, of in request.options if of == kind), None)
        return PermissionAnswer(option_id=option_id, answered_by="Ada")

    kinds = ("edit", "execute", "fetch", "other", "read", "search", "think")
    return Gate(
        rules=dict.fromkeys(kinds, "allow"),
        ask_person=None if answers is None else person,
        tree=tree,
        limits=limits,
    )


ASKS = limits_of_front_matter({"permission": {"bash": "ask"}}, "a")


async def test_a_denied_call_does_not_run_where_the_agent_does_not_ask_and_the_turn_goes_on():
    answer = await gate(limits_of_front_matter({"tools": "Read"}, "a")).hold(asked("Bash"))
    assert (answer.runs, answer.ends_turn, answer.answered_by) == (False, False, "role bash=deny")
    assert "the role's file does not allow this (bash=deny)" in answer.why


async def test_who_was_asked_before_a_call_is_not_asked_about_it_again():
    at = gate(ASKS, ["allow_once"])
    held = await at.hold(asked("bash", command="ls"))
    assert (held.runs, held.answered_by) == (True, "Ada")
    answer = await at.answer(asked("bash", command="ls"))
    assert (answer.option_id, answer.answered_by) == ("yes", "Ada")


@pytest.mark.parametrize(("kind", "ends_turn"), [("reject_once", False), ("nothing", True)])
async def test_a_person_who_says_no_is_no(kind: str, ends_turn: bool):
    held = await gate(ASKS, [kind]).hold(asked("bash", command="ls"))
    assert (held.runs, held.ends_turn) == (False, ends_turn)


async def test_with_nobody_to_ask_the_turn_parks():
    at = gate(ASKS)
    held = await at.hold(asked("bash", command="ls"))
    assert (held.runs, held.ends_turn, held.answered_by) == (False, True, NOBODY)
    assert at.parked is not None


async def test_who_is_to_ask_nobody_is_refused_what_would_be_asked():
    of = limits_of_front_matter({"permission": {"bash": "ask"}, "permissionMode": "dontAsk"}, "a")
    held = await gate(of, []).hold(asked("bash", command="ls"))
    assert (held.runs, held.ends_turn) == (False, False)
    answer = await Gate(limits=of).answer(asked("Read", path="a"))
    assert (answer.option_id, answer.answered_by) == ("no", "role asks nobody")


async def test_paths_are_compared_from_the_tree_on_and_where_links_lead(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").touch()
    (tmp_path / "docs" / "link").symlink_to("../secret")
    of = limits_of_front_matter({"permission": {"edit": {"*": "deny", "docs/*": "allow"}}}, "a")
    at = gate(of, tree=str(tmp_path))
    for path in ("docs/a", str(tmp_path / "docs" / "a"), "x/../docs/a"):
        assert await at.hold(asked("edit", filePath=path)) is None
    for path in ("a", "docs/../a", "docs/link", str(tmp_path / "secret"), "/etc/passwd", "a\0"):
        assert await at.hold(asked("edit", filePath=path)) is not None


async def test_an_agent_that_reads_by_commands_may_read_and_run_nothing_else():
    at = gate(limits_of_codex({"sandbox_mode": "read-only"}, "a"))
    reading = structs.replace(asked("Bash", command="cat a | head"), reads_by_commands=True)
    writing = structs.replace(asked("Bash", command="cat a > b"), reads_by_commands=True)
    assert await at.hold(reading) is None
    assert await at.hold(writing) is not None
    assert await at.hold(structs.replace(writing, is_sandboxed=True)) is None
