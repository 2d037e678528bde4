"""OpenTelemetry: a workstream's runs and turns as spans, and as OTLP's JSON without a dependency.

A run is a workflow, a turn an agent's, a call a tool's; a sub-agent's spans hang under the call
that started it. One trace for each run, and for each turn that no run asked for. The id of a
conversation is ours, so it stays the same over rollovers. Ids of spans are made from those of the
record: exported again, a span is the same span. What was said is left out unless it is asked for.

The names that begin with `gen_ai.` are of OpenTelemetry's conventions for generative AI, read from
open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-agent-spans.md and gen-ai-spans.md, at
COMMIT; they are still in development there. `session.id` is OpenInference's name for a
conversation, which viewers group by. Ours begin with `upthread.`.

OTLP's JSON has its ids in hexadecimal and 64-bit numbers as texts: opentelemetry-proto,
docs/specification.md.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

import upthread
from upthread.core import types
from upthread.core.agents import provider_of
from upthread.core.events import Usage
from upthread.runtime.record.timeline import (
    Branch,
    Item,
    RunNode,
    Said,
    Timeline,
    ToolCall,
    TurnNode,
)
from upthread.surfaces.cli.shapes import run_status
from upthread.surfaces.cli.terminal.output import Shape, plain
from upthread.surfaces.formats import Asked, json_line

COMMIT = "002c8a6ea1c8a42b14a4527db83b3cabcded610a"
KIND_INTERNAL = 1
STATUS_ERROR = 2
WORKFLOW = "pipeline"
"""Every run's workflow: the convention asks for few names, and a workstream's is one of many."""

RESOURCE = {
    "service.name": "upthread",
    "service.version": upthread.__version__,
}
TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
MS_NS = 1_000_000
_WELL = frozenset({"approved", "done", "running", "idle"})

Known = str | int | bool | Sequence[str]
Value = Known | None


class Span(Struct, frozen=True, kw_only=True):
    """A span. Ids are hexadecimal, `parent` empty for a root; `told` has no value that is None.

    `fault` is None for what went well, else what was said of it, which may be nothing.
    """

    trace: str
    span_id: str
    parent: str
    name: str
    started_at_ms: int
    ended_at_ms: int
    told: Mapping[str, Known]
    fault: str | None


class SpanParent(NamedTuple):
    """Where a span hangs; `parent` is empty for the root of a trace."""

    trace: str
    parent: str = ""


def pieces(timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield all spans as one line of JSON."""
    yield json_line(document(timeline, with_content=asked.with_content), asked.redactor)


def document(timeline: Timeline, *, with_content: bool = False) -> Shape:
    """Return the export of a workstream, as a collector takes it."""
    resource = _attributes(RESOURCE)
    scope = {"name": "upthread", "version": upthread.__version__}
    made = _Spans(timeline, with_content=with_content, is_whole=True).all()
    spans = [
        {
            "traceId": span.trace,
            "spanId": span.span_id,
            "name": span.name,
            "kind": KIND_INTERNAL,
            "startTimeUnixNano": str(span.started_at_ms * MS_NS),
            "endTimeUnixNano": str(span.ended_at_ms * MS_NS),
            "attributes": _attributes(span.told),
            "status": {} if span.fault is None else {"code": STATUS_ERROR, "message": span.fault},
            **({"parentSpanId": span.parent} if span.parent else {}),
        }
        for span in made
    ]
    scoped = {"scope": scope, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scoped]}]}


def ended_spans(
    timeline: Timeline, sent: Collection[str], *, with_content: bool = False
) -> Iterator[Span]:
    """Yield the spans of what has ended, without those whose ids are in `sent`."""
    spans = _Spans(timeline, with_content=with_content, is_whole=False)
    yield from (each for each in spans.all() if each.span_id not in sent)


class _Spans(Struct):
    """The spans of a workstream, in the order of its conversations, those of its runs last.

    Only what has ended; with `is_whole` all, also what goes on.
    """

    timeline: Timeline
    with_content: bool
    is_whole: bool
    ends: dict[str, int] = {}

    def all(self) -> Iterator[Span]:
        """Yield them all."""
        for branch in self.timeline.branches:
            yield from self._branch(branch, None)
        # Last: a run ends with the last of its turns.
        for run in self.timeline.runs:
            if self.is_whole or run.view.ended:
                yield self._run(run)

    def _run(self, audited: RunNode) -> Span:
        run_id, status = audited.run.run_id, run_status(audited.view)
        started = audited.run.opened_at_ms
        return self._span(
            f"invoke_workflow {WORKFLOW}",
            SpanParent(trace_id(run_id)),
            span_id(run_id),
            started_at_ms=started,
            ended_at_ms=self.ends.get(run_id, started),
            told={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": WORKFLOW,
                "upthread.workstream": self.timeline.name,
                "upthread.run_id": run_id,
                "upthread.status": status,
                "error.type": None if status in _WELL else status,
            },
        )

    def _branch(self, branch: Branch, under: SpanParent | None) -> Iterator[Span]:
        """Yield a conversation's spans; `under` is where a sub-agent's hang."""
        conversation_id = branch.conversation.conversation_id
        calls: list[str] = []
        for turn in branch.turns:
            # A turn that a newer turn has followed never continues.
            is_over = turn.view.ended is not None or turn.number < len(branch.turns)
            if not self.is_whole and not is_over:
                return  # the calls of the turn that goes on are not known yet
            calls += (call.call_id for call in turn.calls)
            trace = trace_id(turn.run_id or turn.turn_id)
            parent = span_id(turn.run_id) if turn.run_id is not None else ""
            place = under or SpanParent(trace, parent)
            within = SpanParent(place.trace, span_id(turn.turn_id))
            yield self._turn(turn, branch, place)
            yield from self._calls(turn.items, branch, within)
            if turn.run_id is not None:
                self.ends[turn.run_id] = max(self.ends.get(turn.run_id, 0), turn.last_at_ms)
        place = under or SpanParent(trace_id(conversation_id))
        # What is recorded of the conversation in turns of the one that called it.
        beside = branch.items()
        if beside or branch.is_child:
            yield self._child(beside, branch, place)
            own = SpanParent(place.trace, span_id(conversation_id))
            yield from self._calls(beside, branch, own)
        calls += (each.call_id for each in beside if isinstance(each, ToolCall))
        for child in branch.other_children(calls):
            yield from self._branch(child, place)

    def _turn(self, turn: TurnNode, branch: Branch, place: SpanParent) -> Span:
        usage = turn.usage or Usage()
        attached, found = turn.view.attached, turn.decision
        stop = turn.stop
        return self._span(
            f"invoke_agent {branch.conversation.key.role}",
            place,
            span_id(turn.turn_id),
            started_at_ms=turn.opened_at_ms,
            ended_at_ms=turn.last_at_ms,
            told={
                **self._agent(branch, attached.upstream_session_id if attached else None),
                "upthread.turn_id": turn.turn_id,
                "upthread.turn_number": turn.number,
                "upthread.run_id": turn.run_id,
                "upthread.decision": found.decision if found else None,
                "upthread.reasons": found.reasons if found else None,
                "upthread.outcome": turn.outcome,
                "error.type": None if turn.outcome == "ok" else turn.outcome,
                "gen_ai.usage.input_tokens": usage.read,
                "gen_ai.usage.output_tokens": usage.written,
                "gen_ai.usage.cache_read.input_tokens": usage.cached,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_written,
                **self._said(turn.items),
            },
            message=stop.said if stop and turn.outcome != "ok" else "",
        )

    def _child(self, items: Sequence[Item], branch: Branch, place: SpanParent) -> Span:
        started = ended = branch.conversation.opened_at_ms
        for item in items:
            ended = max(ended, item.at_ms, (isinstance(item, ToolCall) and item.ended_at_ms) or 0)
        session = branch.chain[-1].upstream_session_id if branch.chain else None
        return self._span(
            f"invoke_agent {branch.conversation.key.role}",
            place,
            span_id(branch.conversation.conversation_id),
            started_at_ms=started,
            ended_at_ms=ended,
            told={**self._agent(branch, session), **self._said(items)},
        )

    def _agent(self, branch: Branch, session: types.UpstreamSessionId | None) -> dict[str, Value]:
        conversation = branch.conversation
        link = next((each for each in branch.chain if each.upstream_session_id == session), None)
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider_of(link.agent) if link else "upthread",
            "gen_ai.agent.name": conversation.key.role,
            "gen_ai.agent.id": conversation.instance_name,
            "gen_ai.agent.version": (link.agent_version if link else "") or None,
            "gen_ai.conversation.id": conversation.conversation_id,
            "session.id": conversation.conversation_id,
            "upthread.workstream": self.timeline.name,
            "upthread.address": None if branch.is_child else conversation.address,
            "upthread.role": conversation.key.role,
            "upthread.upstream_session_id": session,
        }

    def _calls(self, items: Sequence[Item], branch: Branch, place: SpanParent) -> Iterator[Span]:
        for item in items:
            if isinstance(item, ToolCall):
                own = span_id(f"{branch.conversation.conversation_id}\0{item.seq}\0{item.call_id}")
                yield self._call(item, branch, place, own)
                for child in branch.children_of(item):
                    yield from self._branch(child, SpanParent(place.trace, own))

    def _call(self, call: ToolCall, branch: Branch, place: SpanParent, own: str) -> Span:
        effect = call.effect
        told: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool_kind,
            "gen_ai.tool.call.id": call.call_id or None,
            "gen_ai.conversation.id": branch.conversation.conversation_id,
            "upthread.effect": str(effect.state) if effect else None,
            "upthread.effect.is_outward": bool(effect.actions) if effect else None,
            "upthread.permission": call.answer or None,
            "error.type": None if call.status == "completed" else call.status,
        }
        # A title has the command in it, which is as much content as its arguments are.
        if self.with_content and isinstance(call.asked, types.ToolCallPart):
            told["upthread.tool.title"] = call.title
            told["gen_ai.tool.call.arguments"] = json.dumps(plain(call.asked.arguments))
        if self.with_content and isinstance(call.result, types.ToolResultPart):
            told["gen_ai.tool.call.result"] = call.result.text
        return self._span(
            f"execute_tool {call.tool_kind}",
            place,
            own,
            started_at_ms=call.at_ms,
            ended_at_ms=call.ended_at_ms or call.at_ms,
            told=told,
        )

    def _said(self, items: Sequence[Item]) -> dict[str, Value]:
        """Return what was said, in the form that the conventions give messages; only if asked."""
        if not self.with_content:
            return {}
        spoken = [
            (item.speaker is types.Speaker.USER, item.part.text)
            for item in items
            if isinstance(item, Said) and isinstance(item.part, types.TextPart | types.ContextPart)
        ]
        read = [_message("user", text) for is_user, text in spoken if is_user]
        written = [_message("assistant", text) for is_user, text in spoken if not is_user]
        return {
            "gen_ai.input.messages": json.dumps(read),
            "gen_ai.output.messages": json.dumps(
                [{**each, "finish_reason": "stop"} for each in written]
            ),
        }

    @staticmethod
    def _span(
        name: str,
        place: SpanParent,
        own: str,
        *,
        started_at_ms: int,
        ended_at_ms: int,
        told: Mapping[str, Value],
        message: str = "",
    ) -> Span:
        return Span(
            trace=place.trace,
            span_id=own,
            parent=place.parent,
            name=name,
            started_at_ms=started_at_ms,
            ended_at_ms=max(started_at_ms, ended_at_ms),
            told={key: value for key, value in told.items() if value is not None},
            fault=message if told.get("error.type") else None,
        )


def trace_id(identity: str) -> str:
    """Return the id of a run's trace, or of a turn's that no run asked for."""
    return _digest(f"trace\0{identity}", TRACE_ID_BYTES)


def span_id(identity: str) -> str:
    """Return the id of a span, of what it is about."""
    return _digest(f"span\0{identity}", SPAN_ID_BYTES)


def _digest(identity: str, size: int) -> str:
    # What an id must not be is zero throughout, which no digest comes to.
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _message(role: str, text: str) -> Shape:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _attributes(told: Mapping[str, Known]) -> list[Shape]:
    return [{"key": key, "value": _value(value)} for key, value in told.items()]


def _value(value: str | int | bool | Sequence[str]) -> Shape:  # noqa: FBT001  # a value
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
