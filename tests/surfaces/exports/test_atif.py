"""Trajectories are what the format's own models take, and keep what they claim to keep."""

import json

import pytest
from atif import Trajectory
from tests.support.every_case import CASES, environment_of, fill
from tests.support.hostile_record import write_record
from tests.support.record_page import ATTACKS, Saying
from tests.support.world import World

import upthread
from upthread.client.project_opener import open_project
from upthread.core.types import ContextPart, TextPart, ToolCallPart, ToolResultPart
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.formats.atif import trajectories

OPTIONS = upthread.TellOptions(agent="rehearsal")
pytestmark = pytest.mark.anyio


async def exported(project: upthread.Project, workstream: str) -> list[Trajectory]:
    told = [plain(each) for each in trajectories(await project.audit(workstream))]
    return [Trajectory.model_validate_json(json.dumps(each)) for each in told]


async def test_every_kind_of_turn_there_is_validates(tmp_path):
    (tmp_path / "project").mkdir()
    async with open_project(tmp_path / "project", environment=environment_of(tmp_path)) as project:
        await fill(project)
        for case in CASES:
            assert await exported(project, case.workstream)


async def test_hostile_texts_validate_and_come_through_as_they_are(tmp_path):
    text = "\n".join(ATTACKS.values())
    (tmp_path / "project").mkdir()
    environment = environment_of(tmp_path)
    await write_record(tmp_path / "project", environment, Saying(text))
    async with open_project(tmp_path / "project", environment=environment) as project:
        (one,) = await exported(project, "spec")
    assert text in {step.message for step in one.steps}


async def test_a_rollover_is_a_continuation_and_a_sub_agent_is_embedded_where_it_was_called(
    world: World,
):
    async with world.open() as project:
        first = "[[rehearse: child explorer look around]] [[rehearse: tokens 900 100]]"
        await project.tell("w/planner", first, OPTIONS)
        await project.tell(
            "w/planner", "[[rehearse: if_resumed lose_session]] [[rehearse: say x]]", OPTIONS
        )
        one, two = await exported(project, "w")
    assert one.continued_trajectory_ref == two.trajectory_id
    assert two.continued_trajectory_ref is None
    assert one.session_id == two.session_id == "w"
    (child,) = one.subagent_trajectories or []
    refs = [
        ref.trajectory_id
        for step in one.steps
        for result in (step.observation.results if step.observation else ())
        for ref in result.subagent_trajectory_ref or ()
    ]
    assert refs == [child.trajectory_id]
    assert any("look around" in str(step.message) for step in child.steps)
    copied = [step for step in two.steps if step.is_copied_context]
    assert "look around" in "".join(str(step.message) for step in copied)
    metrics = [step.metrics for step in one.steps if step.metrics]
    assert [(each.prompt_tokens, each.completion_tokens) for each in metrics] == [(900, 100)]
    assert one.final_metrics is not None
    assert one.final_metrics.total_prompt_tokens == 900
    assert one.final_metrics.total_cached_tokens is None
    decided = [
        step.extra["upthread"]["decision"]
        for step in two.steps
        if "decision" in (step.extra or {}).get("upthread", {})
    ]
    assert decided == ["resume", "resume_with_replay"]


async def test_no_text_call_or_result_is_lost(world: World):
    world.configure('[permissions]\nedit = "allow"\nexecute = "allow"\n')
    prompt = (
        "[[rehearse: think hm]] [[rehearse: read README]] [[rehearse: say and]] "
        "[[rehearse: write a.txt a]] [[rehearse: plan a|b]] [[rehearse: child explorer look]] "
        "[[rehearse: announce git push]] [[rehearse: say done]]"
    )
    async with world.open() as project:
        await project.tell("w/planner", prompt, OPTIONS)
        record = await project.audit("w")
        (one,) = await exported(project, "w")
    parts = [
        part for turn in record.conversations[0].turns for m in turn.messages for part in m.parts
    ]
    texts = [part.text for part in parts if isinstance(part, TextPart | ContextPart)]
    assert [step.message for step in one.steps if step.message in texts] == texts
    calls = [call for step in one.steps for call in step.tool_calls or ()]
    asked = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [(each.tool_call_id, each.arguments) for each in calls] == [
        (part.call_id, plain(part.arguments) or {}) for part in asked
    ]
    results = [
        (result.source_call_id, result.content)
        for step in one.steps
        for result in (step.observation.results if step.observation else ())
    ]
    assert results == [(p.call_id, p.text) for p in parts if isinstance(p, ToolResultPart)]
    assert [step.reasoning_content for step in one.steps if step.reasoning_content] == ["hm"]
    outward = [call for call in calls if (call.extra or {})["upthread"].get("is_outward")]
    assert len(outward) == 1
