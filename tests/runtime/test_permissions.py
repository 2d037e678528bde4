"""Who or what answers when an agent asks: a rule for its kind, a person, else nobody."""

from typing import Any

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.world import World

import upthread
from upthread.agents.base import PermissionAnswer, PermissionRequest
from upthread.core.types import PERMISSION, UnknownPart

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
ADDRESS = "spec-42/planner"
WRITE = "[[rehearse: write a.txt hello]]"
EXECUTE = "[[rehearse: execute touch b.txt]]"


def answers_in(audit: Any) -> list[tuple[str, str]]:
    """What was answered to each request of the audit, and by whom."""
    return [
        (part.raw["answer"], part.raw["answered_by"])
        for conversation in audit.conversations
        for turn in conversation.turns
        for message in turn.messages
        for part in message.parts
        if isinstance(part, UnknownPart) and part.kind == PERMISSION and isinstance(part.raw, dict)
    ]


async def told(world: World, text: str, rules: str = "", **more: Any) -> tuple[Any, Any]:
    """Tell the role something under rules; returns the result and the audit."""
    world.configure(f"[permissions]\n{rules}\n")
    async with world.open(**more) as project:
        result = await project.tell(ADDRESS, text, REHEARSAL)
        return result, await project.audit("spec-42")


@EXTENDED
async def test_a_rule_allows_its_kind_of_tool_and_the_audit_names_the_rule(world: World) -> None:
    result, audit = await told(world, WRITE, 'edit = "allow"')
    assert result.outcome == "ok"
    assert (world.project / "a.txt").read_text() == "hello"
    assert answers_in(audit) == [("allow_once", "rule edit=allow")]


@pytest.mark.parametrize(
    "place",
    spread(
        ["../outside.txt", "leads-out/outside.txt", "{out}/outside.txt", ".git/hooks/post-commit"],
        first=2,
    ),
)
async def test_a_rule_that_allows_edits_is_about_the_working_tree(world, tmp_path, place):
    (world.project / "leads-out").symlink_to(tmp_path)
    result, audit = await told(
        world, f"[[rehearse: write {place.format(out=tmp_path)} hello]]", 'edit = "allow"'
    )
    assert result.parked.reason == "permission"
    assert "allow_once" not in str(answers_in(audit))


@pytest.mark.soak
@pytest.mark.parametrize(
    "rules", spread(['edit = "allow"', "", 'execute = "ask"', 'read = "allow"'])
)
async def test_a_kind_without_a_rule_of_its_own_is_allowed_by_nothing(world, rules):
    result, audit = await told(world, EXECUTE, rules)
    assert result.parked.reason == "permission"
    assert "touch b.txt" in result.parked.detail
    assert not (world.project / "b.txt").exists()
    assert answers_in(audit) == [("cancelled", "nobody")]


@EXTENDED
async def test_a_person_is_asked_what_no_rule_answers_and_the_audit_names_them(world):
    asked: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        option = next(name for name, kind in request.options if kind == "allow_once")
        return PermissionAnswer(option_id=option, answered_by="ada")

    text = f"{WRITE} {EXECUTE}"
    result, audit = await told(world, text, 'edit = "allow"', ask_person=ask)
    assert result.outcome == "ok"
    assert [request.tool_kind for request in asked] == ["execute"]
    assert answers_in(audit) == [("allow_once", "rule edit=allow"), ("allow_once", "ada")]
    assert (world.project / "b.txt").exists()
