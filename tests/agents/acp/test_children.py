"""Whose words they are, and when a sub-agent began and ended.

Children an agent says nothing of: their sessions are read, and only what is new is told.
"""

import anyio

from upthread.agents.acp.children import (
    CHILDREN_READ_MAX,
    ROLE_UNKNOWN,
    UNREAD,
    Translator,
    children_called,
    of_newest_calls,
    read_silent_children,
)
from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    TextReceived,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.types import UpstreamSessionId
from upthread.errors import UpstreamError


def tell(translator, session, kind, **update):
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **update}}
    return translator.translate(params)


def say(translator, session, text, **more):
    content = {"type": "text", "text": text}
    return tell(translator, session, "agent_message_chunk", content=content, **more)


def call(translator, arguments):
    return tell(translator, "s", "tool_call", toolCallId="c", title="task", rawInput=arguments)


OF_PARENT = {"upstream_session_id": "s", "child_upstream_session_id": "ses_child"}
STARTED = ChildStarted(**OF_PARENT, role="explore", call_id="c")
ENDED = ChildEnded(**OF_PARENT)


def test_a_child_id_starts_the_child_once_before_its_words():
    translator = Translator()
    started, said = say(translator, "s:subagent:1", "hello")
    assert started == ChildStarted(
        upstream_session_id="s", child_upstream_session_id="s:subagent:1", role=ROLE_UNKNOWN
    )
    assert (said.text, said.upstream_session_id) == ("hello", "s:subagent:1")
    assert len(say(translator, "s:subagent:1", "more")) == 1


def test_a_grandchild_belongs_to_its_own_parent():
    started, _ = say(Translator(), "s:subagent:1:subagent:2", "deep")
    assert started.upstream_session_id == "s:subagent:1"


def test_the_only_open_call_is_where_a_child_came_from_and_of_two_neither():
    translator = Translator()
    call(translator, {"agent_type": "reviewer"})
    started, _ = say(translator, "s:subagent:1", "hello")
    assert (started.role, started.call_id) == ("reviewer", "c")
    for call_id in ("d", "e"):
        given = {"title": "t", "rawInput": {"role": "planner"}}
        tell(translator, "s", "tool_call", toolCallId=call_id, **given)
    started, _ = say(translator, "s:subagent:2", "hello")
    assert (started.role, started.call_id) == (ROLE_UNKNOWN, None)


def opencode_result(state="completed"):
    return f'<task id="ses_child" state="{state}">\n<task_result>done</task_result>'


def test_opencodes_task_names_its_child_at_the_end():
    """opencode 1.18.33: arguments come with in_progress, the id with the result only."""
    translator = Translator()
    call(translator, {})
    arguments = {"subagent_type": "explore", "prompt": "look"}
    progress = {"toolCallId": "c", "status": "in_progress", "rawInput": arguments}
    tell(translator, "s", "tool_call_update", **progress)
    output = {"output": opencode_result(), "metadata": {"sessionId": "ses_child"}}
    done = {"toolCallId": "c", "status": "completed", "rawOutput": output}
    started, updated, ended = tell(translator, "s", "tool_call_update", **done)
    assert (started, ended) == (STARTED, ENDED)
    assert isinstance(updated, ToolCallUpdated)
    assert updated.child_upstream_session_id == "ses_child"


def end(translator, text, status="completed"):
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    update = {"toolCallId": "c", "status": status, "content": content}
    return tell(translator, "s", "tool_call_update", **update)


def called_child(arguments, text, status="completed"):
    translator = Translator()
    call(translator, arguments)
    return end(translator, text, status)


def test_a_result_names_a_child_and_how_it_ended_where_its_call_delegates():
    explore = {"subagent_type": "explore"}
    in_background = called_child(explore, opencode_result("running"))
    assert [type(event) for event in in_background] == [ChildStarted, ToolCallUpdated]
    started, *_ = called_child(explore, "task_id: ses_old (for resuming)")
    assert started.child_upstream_session_id == "ses_old", "the older form"
    *_, ended = called_child(explore, opencode_result("error"), status="failed")
    assert ended.outcome == "unknown"
    (event,) = called_child({"path": "notes.md"}, opencode_result())
    assert event.child_upstream_session_id is None, "a file that quotes a child makes none"


def test_claudes_child_speaks_under_its_parents_id():
    translator = Translator()
    call(translator, {"subagent_type": "Explore"})
    meta = {"claudeCode": {"parentToolUseId": "c"}}
    started, said = say(translator, "s", "from below", _meta=meta)
    assert started.role == "Explore"
    assert said.upstream_session_id == "s:subagent:c"
    (own,) = say(translator, "s", "from above")
    assert own.upstream_session_id == "s"


def test_what_has_no_session_is_nobodys_and_a_notification_of_another_form_is_kept():
    (event,) = say(Translator(), None, "whose?")
    assert isinstance(event, TextReceived)
    assert event.upstream_session_id is None
    for params in (None, [], {"sessionId": 5, "update": {}}, {"update": {}}, {"update": "x"}):
        (event,) = Translator().translate(params)
        assert event == UnknownReceived(upstream_session_id=None, kind="session/update", raw=params)
    for update in ({"agentId": "a"}, {"sessionId": "x", "state": "running"}):
        (event,) = tell(Translator(), "s", "subagent_update", **update)
        assert isinstance(event, UnknownReceived)


def announce(translator, child="ses_child", *, parent="s", **more):
    return tell(translator, parent, "subagent_update", sessionId=child, **more)


def test_acp_announces_a_child_before_it_speaks_and_tells_its_end():
    translator = Translator()
    call(translator, {"subagent_type": "explore"})
    started, titled = announce(translator, title="Look around", state={"state": "running"})
    assert started == STARTED
    assert (titled.upstream_session_id, titled.title) == ("ses_child", "Look around")
    (said,) = say(translator, "ses_child", "I look")
    assert said.upstream_session_id == "ses_child"
    (ended,) = announce(translator, state={"state": "idle", "stopReason": "end_turn"})
    assert ended == ENDED


def test_the_end_that_was_announced_is_not_told_again_by_the_call():
    translator = Translator()
    call(translator, {"subagent_type": "explore"})
    announce(translator, state={"state": "idle", "stopReason": "cancelled"})
    (updated,) = end(translator, "done")
    assert isinstance(updated, ToolCallUpdated)
    assert updated.child_upstream_session_id == "ses_child"


def test_an_announced_child_may_be_cancelled_fail_and_begin_again():
    translator = Translator()
    _, cancelled = announce(translator, state={"state": "idle", "stopReason": "cancelled"})
    (again,) = announce(translator, state={"state": "running"})
    (failed,) = announce(translator, state={"state": "idle", "stopReason": "refusal"})
    assert (cancelled.outcome, failed.outcome) == ("cancelled", "unknown")
    assert isinstance(again, ChildStarted)
    assert announce(translator, state={"state": "idle"}) == ()


def test_what_a_child_is_told_is_its_users_word():
    translator = Translator()
    content = [{"type": "text", "text": "Look "}, {"type": "image"}, {"type": "text", "text": "up"}]
    message = {"senderSessionId": "s", "recipientSessionId": "ses_child", "content": content}
    (early,) = tell(translator, "s", "session_message", **message)
    assert isinstance(early, UnknownReceived)
    announce(translator)
    (told,) = tell(translator, "s", "session_message", **message)
    assert told == UserTextReplayed(upstream_session_id="ses_child", text="Look up")


def test_claudes_announced_child_speaks_under_its_own_id_and_is_told_once():
    """As claude-agent-acp 0.100.0 sends it: what it is told comes in the streams of both."""
    translator = Translator()
    running = {"state": "running"}
    tell(translator, "s", "subagent_update", sessionId="child", title="sub", state=running)
    content = [{"type": "text", "text": "Look."}]
    told = {"messageId": "m", "recipientSessionId": "child", "content": content}
    heard = [tell(translator, session, "session_message", **told) for session in ("s", "child")]
    assert [[event.text for event in each] for each in heard] == [["Look."], []]
    meta = {"claudeCode": {"parentToolUseId": "c"}}
    (said,) = say(translator, "child", "hello", _meta=meta)
    assert (said.upstream_session_id, said.text) == ("child", "hello")


def test_a_child_that_is_called_once_more_begins_and_ends_once_more():
    translator = Translator()
    for call_id in ("c", "d"):
        started, updated, ended = task(translator, "ses_child", call_id=call_id)
        assert (started.call_id, updated.call_id) == (call_id, call_id)
        assert ended.child_upstream_session_id == "ses_child"


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
    """A call of the delegating tool, as opencode sends it; returns the events of its end."""
    arguments = {"subagent_type": "explore"}
    tell(translator, "s", "tool_call", toolCallId=call_id, title="task", rawInput=arguments)
    done = {"status": "completed", "rawOutput": {"metadata": {"sessionId": child}}}
    return tell(translator, "s", "tool_call_update", toolCallId=call_id, **done)


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


def test_a_silent_child_is_read_once_and_one_that_spoke_for_itself_is_not():
    translator = Translator()
    task(translator, CHILD)
    history = (asked("look"), said("found"))
    assert read(translator, {CHILD: history}) == list(history)
    assert read(translator, {}) == []
    task(translator, CHILD)
    say(translator, CHILD, "I look")
    assert read(translator, {}) == []


def test_of_a_child_called_before_only_the_new_calls_are_told():
    history = (asked("one"), said("1"), asked("two"), said("2"), asked("three"), said("3"))
    for calls, first in ((1, 4), (2, 2), (3, 0)):
        assert of_newest_calls(history, CHILD, calls) == history[first:]
    assert of_newest_calls(history[1:2], CHILD, 1) == history[1:2]
    pieces = (asked("one"), asked("t", message_id="m"), asked("wo", message_id="m"), said("2"))
    assert of_newest_calls(pieces, CHILD, 1) == pieces[1:], "a prompt in pieces is one prompt"


def test_the_children_of_a_child_are_read_for_its_new_calls_only():
    translator = Translator()
    task(translator, CHILD)
    old, new = UpstreamSessionId("ses_old"), DEEP
    child = (asked("one"), called(old), asked("two"), called(new), said("done"))
    deep = (asked("deeper", DEEP), said("deep", DEEP))
    assert read(translator, {CHILD: child, DEEP: deep}) == [*child[2:], *deep]
    calls = [called(new), called(new), called(old, status="in_progress")]
    assert children_called(calls) == {new: 2}


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
