"""Spans are what a receiver takes, hang where they belong, and tell no content unless asked."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.by_hand import of_each
from tests.support.default_turn import MESSAGES, commits_of, open_place, prepare_turn, record_turn
from tests.support.every_case import CASES, environment_of, fill
from tests.support.otlp_receiver import spans_of, told_of
from tests.support.world import ALLOW, SMALL_PIPELINE, SMALL_SPECIFICATION, World

import upthread
from upthread.client.project_opener import open_project
from upthread.core.agents import AGENTS, provider_of
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.formats.otel import document, ended_spans

OPTIONS = upthread.TellOptions(agent="rehearsal")
pytestmark = pytest.mark.anyio


def received(told: Any) -> list[Any]:
    """The spans as a receiver decodes them: an unknown name, or a value of a wrong kind, is refused.

    Protocol buffers have bytes in base64 where OTLP's own JSON has ids in hexadecimal.
    """
    for resource in told["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    request = ExportTraceServiceRequest()
    json_format.Parse(json.dumps(told), request)
    return spans_of(request)


async def exported(project: upthread.Project, name: str, **more: bool) -> list[Any]:
    return received(plain(document(await project.audit(name), **more)))


@pytest.mark.extended
async def test_a_run_is_one_trace_of_a_workflow_with_its_agents_and_their_tools(world: World):
    world.configure(ALLOW + SMALL_PIPELINE)
    async with world.open() as project:
        await project.run("w", SMALL_SPECIFICATION, upthread.RunOptions(agent="rehearsal"))
        await project.tell("w/planner", "[[rehearse: say beside]]", OPTIONS)
        spans = await exported(project, "w")
        again = await exported(project, "w")
    assert spans == again
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    (workflow,) = [span for span in spans if span.name == "invoke_workflow pipeline"]
    in_run = [span for span in spans if span.trace_id == workflow.trace_id]
    agents = [span for span in in_run if span.name.startswith("invoke_agent ")]
    tools = [span for span in in_run if span.name.startswith("execute_tool ")]
    assert len(in_run) == 1 + len(agents) + len(tools)
    assert {span.parent_span_id for span in agents} == {workflow.span_id}
    assert {by_id[span.parent_span_id].name.partition(" ")[0] for span in tools} == {"invoke_agent"}
    assert not workflow.parent_span_id
    assert told_of(workflow)["upthread.workstream"] == "w"
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
    beside = [span for span in spans if span.trace_id != workflow.trace_id]
    assert [(span.name, span.parent_span_id) for span in beside] == [("invoke_agent planner", b"")]


async def test_the_conversation_stays_the_same_over_a_rollover_and_says_why(world: World):
    async with world.open() as project:
        first = "[[rehearse: child explorer look around]] [[rehearse: tokens 900 100]]"
        await project.tell("w/planner", first, OPTIONS)
        await project.tell(
            "w/planner", "[[rehearse: if_resumed lose_session]] [[rehearse: say x]]", OPTIONS
        )
        spans = await exported(project, "w")
    turns = [span for span in spans if span.name == "invoke_agent planner"]
    one, two = map(told_of, turns)
    assert one["gen_ai.conversation.id"] == two["gen_ai.conversation.id"] == one["session.id"]
    assert one["upthread.upstream_session_id"] != two["upthread.upstream_session_id"]
    assert two["upthread.decision"] == "resume_with_replay"
    assert next(each.string_value for each in two["upthread.reasons"].values) == "missing"
    assert (one["gen_ai.usage.input_tokens"], one["gen_ai.usage.output_tokens"]) == (900, 100)
    assert "gen_ai.usage.cache_read.input_tokens" not in one
    (child,) = [span for span in spans if span.name == "invoke_agent explorer"]
    (tool,) = [span for span in spans if span.span_id == child.parent_span_id]
    assert tool.name.startswith("execute_tool ")
    assert tool.parent_span_id == turns[0].span_id
    assert told_of(child)["gen_ai.conversation.id"] != one["gen_ai.conversation.id"]


@pytest.mark.extended
async def test_what_was_said_is_told_only_where_it_is_asked_for(world: World):
    async with world.open() as project:
        await project.tell(
            "w/planner", "[[rehearse: read README]] [[rehearse: say secret words]]", OPTIONS
        )
        silent = plain(document(await project.audit("w")))
        spans = await exported(project, "w", with_content=True)
    assert "secret" not in json.dumps(silent)
    assert "README" not in json.dumps(silent)
    turn, tool = map(told_of, spans)
    said = json.loads(turn["gen_ai.output.messages"])
    assert "".join(part["content"] for each in said for part in each["parts"]).endswith(
        "secret words"
    )
    asked = json.loads(turn["gen_ai.input.messages"])
    assert asked[0]["role"] == "user"
    assert json.loads(tool["gen_ai.tool.call.arguments"])
    assert tool["gen_ai.tool.call.result"]


async def test_a_turn_that_failed_is_an_error_and_every_kind_of_turn_is_taken(tmp_path):
    (tmp_path / "project").mkdir()
    async with open_project(tmp_path / "project", environment=environment_of(tmp_path)) as project:
        await fill(project)
        for case in CASES:
            spans = await exported(project, case.workstream)
            (turn,) = [s for s in spans if told_of(s).get("upthread.turn_id") == case.turn_id]
            assert bool(turn.status.code) == (case.end != "ok")
            assert ("error.type" in told_of(turn)) == (case.end != "ok")


async def test_what_goes_on_is_told_later_and_what_a_newer_turn_followed_at_once(world: World):
    async with world.open() as project:
        store = project.store.behind
        place = open_place(store, "w", project=project.project_id)
        record_turn(store, place, prepare_turn(place, 0))
        sent: set[str] = set()

        async def told() -> list[Any]:
            new = list(ended_spans(await project.audit("w"), sent))
            sent.update(each.span_id for each in new)
            agents = [each for each in new if each.name.startswith("invoke_agent")]
            return [each.told["upthread.turn_number"] for each in agents]

        for writes in list(commits_of(place, prepare_turn(place, 1)))[:-1]:
            store.commit(writes)  # it has no end
        place.next_seq += MESSAGES - 1
        assert await told() == [1]
        assert await told() == []
        record_turn(store, place, prepare_turn(place, 2))
        assert await told() == [2, 3]
        assert await told() == []


async def test_the_provider_of_an_agent_is_said_in_the_words_of_the_conventions():
    assert {name: provider_of(name) for name in AGENTS} == of_each(
        AGENTS,
        {
            "claude-code": "anthropic",
            "opencode": "opencode",
            "codex": "openai",
            "gemini": "gcp.gemini",
        },
    )
    assert provider_of("acp:mine") == "acp:mine"
