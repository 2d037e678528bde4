"""Children an agent says nothing of: their sessions are read, and only what is new is told."""

from __future__ import annotations

import anyio

from upthread.agents.acp.children import (
    CHILDREN_READ_MAX,
    UNREAD,
    Translator,
    children_called,
    of_newest_calls,
    read_silent_children,
)
from upthread.core.events import (
    AgentEvent,
    TextReceived,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.types import UpstreamSessionId
from upthread.errors import UpstreamError

CHILD, DEEP = UpstreamSessionId("ses_child"), UpstreamSessionId("ses_deep")


def asked(text, session=CHILD, message_id=None):
    return UserTextReplayed(upstream_session_id=session, text=text, message_id=message_id)


def said(text, session=CHILD):
    return TextReceived(upstream_session_id=session, text=text)


def called(child, session=CHILD, status="completed"):
    return ToolCallUpdated(
        upstream_session_id=session, call_id="c", status=status, child_upstream_session_id=child
    )


def task(translator, child, *, call_id="c"):
    """A call of the delegating tool, as opencode sends it."""
    row = {"toolCallId": call_id, "title": "task", "rawInput": {"subagent_type": "explore"}}
    done = {"toolCallId": call_id, "status": "completed"}
    done["rawOutput"] = {"metadata": {"sessionId": child}}
    for kind, update in (("tool_call", row), ("tool_call_update", done)):
        params = {"sessionId": "s", "update": {"sessionUpdate": kind, **update}}
        translator.translate(params)


def read(translator, histories) -> list[AgentEvent]:
    told: list[AgentEvent] = []

    async def load(session):
        if session not in histories:
            raise UpstreamError("it is gone", outcome="missing", hint="")
        return histories[session]

    async def on_event(event):
        told.append(event)

    anyio.run(read_silent_children, translator, load, on_event)
    return told


def test_a_silent_child_is_read_once():
    translator = Translator()
    task(translator, CHILD)
    history = (asked("look"), said("found"))
    assert read(translator, {CHILD: history}) == list(history)
    assert read(translator, {}) == []


def test_a_child_that_spoke_for_itself_is_not_read():
    translator = Translator()
    task(translator, CHILD)
    content = {"type": "text", "text": "I look"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    translator.translate({"sessionId": CHILD, "update": update})
    assert read(translator, {}) == []


def test_of_a_child_called_before_only_the_new_calls_are_told():
    history = (asked("one"), said("1"), asked("two"), said("2"), asked("three"), said("3"))
    assert of_newest_calls(history, CHILD, 1) == history[4:]
    assert of_newest_calls(history, CHILD, 2) == history[2:]
    assert of_newest_calls(history, CHILD, 3) == history
    assert of_newest_calls(history[1:2], CHILD, 1) == history[1:2]


def test_a_prompt_in_pieces_is_one_prompt():
    history = (asked("one"), asked("t", message_id="m"), asked("wo", message_id="m"), said("2"))
    assert of_newest_calls(history, CHILD, 1) == history[1:]


def test_the_children_of_a_child_are_read_for_its_new_calls_only():
    translator = Translator()
    task(translator, CHILD)
    old, new = UpstreamSessionId("ses_old"), DEEP
    child = (asked("one"), called(old), asked("two"), called(new), said("done"))
    deep = (asked("deeper", DEEP), said("deep", DEEP))
    assert read(translator, {CHILD: child, DEEP: deep}) == [*child[2:], *deep]
    assert children_called([called(new), called(new), called(old, status="in_progress")]) == {
        new: 2
    }


def test_a_child_that_cannot_be_read_is_said_to_be_unread():
    translator = Translator()
    task(translator, CHILD)
    (event,) = read(translator, {})
    assert isinstance(event, UnknownReceived)
    assert (event.upstream_session_id, event.kind) == (CHILD, UNREAD)
    assert "it is gone" in str(event.raw)


def test_children_that_name_each_other_come_to_an_end():
    translator = Translator()
    task(translator, CHILD)
    told = read(translator, {CHILD: (called(DEEP),), DEEP: (called(CHILD, DEEP),)})
    assert len(told) == CHILDREN_READ_MAX + 1
    assert isinstance(told[-1], UnknownReceived)
