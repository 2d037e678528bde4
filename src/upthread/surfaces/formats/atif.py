"""ATIF: conversations as trajectories, in the Agent Trajectory Interchange Format, version 1.8.

One trajectory for each session that a conversation has had, a rollover's naming the next one; what
upthread told a session of what was said before is marked as copied. Sub-agents are embedded, and
named by the result of the call that started them. Read from harbor-framework/harbor,
rfcs/0001-trajectory-format.md, through the package `atif` 1.8.0, which the tests validate with.

What the format has no word for is in `extra.upthread`: decisions, permissions, effects, what was
erased. Tokens are known for a turn as a whole; they stand at its last step, with how many requests
they are of.
"""

import time
from collections.abc import Iterator, Mapping
from typing import assert_never, cast

from msgspec import Struct

from upthread.core import types
from upthread.core.events import Usage
from upthread.core.turns.spent_tokens import together
from upthread.runtime.record.timeline import Branch, Item, Said, Timeline, ToolCall, TurnNode
from upthread.surfaces.cli.terminal.output import Shape, members, plain
from upthread.surfaces.formats import Asked, json_line

SCHEMA = "ATIF-v1.8"
UNKNOWN = "unknown"


_SOURCES = {
    types.Speaker.USER: "user",
    types.Speaker.ASSISTANT: "agent",
    types.Speaker.TOOL: "system",
}


def pieces(timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield each trajectory as a line of JSON."""
    for trajectory in trajectories(timeline):
        yield json_line(trajectory, asked.redactor)


def trajectories(timeline: Timeline) -> Iterator[Shape]:
    """Yield the trajectories of a workstream, each one a document of its own."""
    for branch in timeline.branches:
        yield from _segments(branch, timeline.name)


def _segments(branch: Branch, workstream: str) -> Iterator[Shape]:
    """Yield a conversation's trajectories, one for each session it went on in."""
    conversation_id = branch.conversation.conversation_id
    told_of: set[str] = set()
    segment = _Segment(branch, workstream, str(conversation_id), told_of)
    number = 1
    for turn in branch.turns:
        session = turn.view.attached.upstream_session_id if turn.view.attached else None
        # A turn that never reached a session belongs to the one before it.
        if session is not None and segment.session not in {None, session}:
            number += 1
            following = f"{conversation_id}/{number}"
            yield segment.document(continued=following)
            segment = _Segment(branch, workstream, following, told_of)
        segment.session = session or segment.session
        segment.add_turn(turn)
    for item in branch.items():
        segment.add_item(item)
    # The sub-agents whose call is not on record.
    for child in branch.children:
        if str(child.conversation.conversation_id) not in told_of:
            segment.embed(child)
    yield segment.document()


class _Segment(Struct):
    """One trajectory while it is put together.

    `told_of` are the sub-agents that are in one of the conversation's trajectories already.
    """

    branch: Branch
    workstream: str
    trajectory_id: str
    told_of: set[str]
    session: types.UpstreamSessionId | None = None
    steps: list[Shape] = []
    children: dict[str, Shape] = {}
    usage: Usage | None = None
    last_agent_step: Shape | None = None
    called_in: int = 0

    def add_turn(self, turn: TurnNode) -> None:
        """Add a turn: what was decided, what was told and said, and how it ended."""
        self.last_agent_step = None
        for found in turn.decisions:
            told: Shape = {
                **members(turn, "turn_id run_id"),
                "decision": found.decision,
                "reasons": list(found.reasons),
                "changes": list(found.changes),
            }
            self._step("system", turn.opened_at_ms, f"{found.done}: {found.because}", told)
        for item in turn.items:
            self.add_item(item)
        if turn.usage is not None:
            self._count(turn.usage, turn)
        stop, ended = turn.stop, turn.view.ended
        told = members(turn, "turn_id outcome")
        if ended is not None and ended.report is not None:
            told["report"] = plain(ended.report)
        self._step("system", turn.last_at_ms, stop.said if stop else "it has no end", told)
        self.last_agent_step = None

    def add_item(self, item: Item) -> None:
        """Add what was said or done."""
        if isinstance(item, Said):
            self._say(item)
            return
        step = self._agent_step(item.at_ms, item.seq)
        if isinstance(item.asked, types.ToolCallPart):
            _appended(step, "tool_calls", _tool_call(item, item.asked))
        else:
            # Of a call that is not on record, or erased, only the result can be told.
            step = self._step("agent", item.at_ms, "", {"message": item.seq, **_known_of(item)})
        result = self._result(item)
        if result is not None:
            _appended(cast("Shape", step.setdefault("observation", {})), "results", result)

    def document(self, *, continued: str | None = None) -> Shape:
        """Return the trajectory as it is."""
        conversation = self.branch.conversation
        link = next(
            (each for each in self.branch.chain if each.upstream_session_id == self.session), None
        )
        told = {
            "workstream": self.workstream,
            "conversation_id": conversation.conversation_id,
            "address": None if self.branch.is_child else conversation.address,
            "upstream_session_id": self.session,
            **members(link, "opened_because ended_because"),
        }
        document: Shape = {
            "schema_version": SCHEMA,
            "session_id": self.workstream,
            "trajectory_id": self.trajectory_id,
            "agent": {
                "name": link.agent if link else UNKNOWN,
                "version": (link.agent_version if link else "") or UNKNOWN,
                "extra": {"role": conversation.key.role, "instance": conversation.instance_name},
            },
            "steps": self.steps,
            "final_metrics": {
                "total_steps": len(self.steps),
                **_tokens(self.usage or Usage(), "total_"),
            },
            "extra": {"upthread": told},
        }
        if self.children:
            document["subagent_trajectories"] = list(self.children.values())
        if continued is not None:
            document["continued_trajectory_ref"] = continued
        return document

    # --- steps ---------------------------------------------------------------------------------

    def _step(self, source: str, at_ms: int, message: str, told: Mapping[str, object]) -> Shape:
        step: Shape = {
            "step_id": len(self.steps) + 1,
            "timestamp": _timestamp(at_ms),
            "source": source,
            "message": message,
            "extra": {"upthread": dict(told)},
        }
        self.steps.append(step)
        if source == "agent":
            self.last_agent_step = step
        return step

    def _agent_step(self, at_ms: int, seq: int) -> Shape:
        """Return the step of a call: that of the words before it, or of the calls beside it."""
        last = self.last_agent_step
        if last is not None and last is self.steps[-1]:
            # Results without their calls, or the calls of another answer, are a step of their own.
            is_of_words = "tool_calls" not in last and "observation" not in last
            if is_of_words or ("tool_calls" in last and self.called_in == seq):
                self.called_in = seq
                return last
        self.called_in = seq
        return self._step("agent", at_ms, "", {"message": seq})

    def _say(self, said: Said) -> None:
        told: Shape = {"message": said.seq}
        source = _SOURCES[said.speaker]
        match said.part:
            case types.TextPart(text=text):
                self._step(source, said.at_ms, text, told)
            case types.ContextPart(text=text):
                step = self._step("user", said.at_ms, text, told)
                step["is_copied_context"] = True
            case types.ReasoningPart(text=text):
                self._step("agent", said.at_ms, "", told)["reasoning_content"] = text
            case types.FilePart(uri=uri, mime_type=mime_type):
                self._step(source, said.at_ms, "", {**told, "file": uri, "mime_type": mime_type})
            case types.UnknownPart(kind=kind, raw=raw):
                self._step("system", said.at_ms, kind, {**told, "raw": plain(raw)})
            case types.ErasedPart(kind=kind):
                self._step(source, said.at_ms, "", {**told, "erased": kind})
            # A call is an item of its own.
            case types.ToolCallPart() | types.ToolResultPart():
                pass
            case _:
                assert_never(said.part)

    def _result(self, call: ToolCall) -> Shape | None:
        children = self.branch.children_of(call)
        for child in children:
            self.embed(child)
        if call.result is None and not children:
            return None
        result: Shape = {"extra": {"upthread": members(call, "status")}}
        if call.call_id:
            result["source_call_id"] = call.call_id
        if isinstance(call.result, types.ToolResultPart):
            result["content"] = call.result.text
        if children:
            result["subagent_trajectory_ref"] = [
                {"trajectory_id": child.conversation.conversation_id} for child in children
            ]
        return result

    def embed(self, child: Branch) -> None:
        """Put a sub-agent's trajectories into this one."""
        self.told_of.add(str(child.conversation.conversation_id))
        for document in _segments(child, self.workstream):
            self.children[str(document["trajectory_id"])] = document

    def _count(self, usage: Usage, turn: TurnNode) -> None:
        self.usage = together(self.usage, usage)
        step = self.last_agent_step or self._step(
            "agent", turn.last_at_ms, "", members(turn, "turn_id")
        )
        step["metrics"] = {
            **_tokens(usage),
            "extra": {"cache_written_tokens": usage.cache_written, "of": "the turn"},
        }
        if usage.requests:
            step["llm_call_count"] = usage.requests


def _appended(shape: Shape, name: str, value: Shape) -> None:
    cast("list[Shape]", shape.setdefault(name, [])).append(value)


def _tool_call(call: ToolCall, asked: types.ToolCallPart) -> Shape:
    arguments = plain(asked.arguments)
    return {
        "tool_call_id": call.call_id,
        "function_name": asked.tool_kind,
        # The format has an object here; what is none is kept under a name of ours.
        "arguments": arguments if isinstance(arguments, dict) else _named(arguments),
        "extra": {
            "upthread": {
                "title": asked.title,
                "locations": list(asked.locations),
                "message": call.seq,
                **_known_of(call),
            }
        },
    }


def _named(arguments: object) -> Shape:
    return {} if arguments is None else {"value": arguments}


def _known_of(call: ToolCall) -> Shape:
    effect = call.effect
    told = members(call, "call_id status")
    if isinstance(call.asked, types.ErasedPart):
        told["erased"] = call.asked.kind
    if call.answer:
        told |= {"permission": call.answer, "answered_by": call.answered_by}
    if effect is not None:
        told |= {
            "effect": str(effect.state),
            "is_outward": bool(effect.actions),
            "settled": str(effect.settled) if effect.settled else None,
        }
    return told


def _tokens(usage: Usage, prefix: str = "") -> Shape:
    """Return the counts that are known, under the format's names for a step, or for all of it."""
    counts = {
        "prompt_tokens": usage.read,
        "completion_tokens": usage.written,
        "cached_tokens": usage.cached,
    }
    return {f"{prefix}{name}": count for name, count in counts.items() if count is not None}


def _timestamp(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"
