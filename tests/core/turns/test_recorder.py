"""Playbooks: an agent's events and what is written of them, conversation by conversation."""

from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.commands import OpenConversation, OpenLink, RecordParts, RecordQuarantine, Write
from upthread.core.events import (
    INTERRUPTED,
    AgentEvent,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    PermissionAnswered,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.turns.recorder import (
    ALARM,
    ALARMS,
    CHILDREN_MAX,
    KnownChild,
    Recorder,
    child_conversation,
    child_named,
)
from upthread.core.types import (
    QUESTION_DISMISSED,
    Conversation,
    ConversationId,
    Outcome,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.testing.store_conformance import samples

OWN = UpstreamSessionId("ses_own")
A, B, DEEP = (UpstreamSessionId(f"ses_{name}") for name in ("a", "b", "deep"))
ROOT = samples.conversation(ConversationId("con_root"))
LINK = samples.link(1, OWN, owner=ROOT.conversation_id)


def recorder(**changes: object) -> Recorder:
    return Recorder(conversation=ROOT, turn_id=TurnId("trn"), link=LINK, next_seq=2, **changes)  # type: ignore[arg-type]


def known(next_seq: int, *open_calls: ToolCallPart) -> KnownChild:
    return KnownChild(
        upstream_session_id=A, conversation_id=CON_A, next_seq=next_seq, open_calls=open_calls
    )


def text(said: str, session: UpstreamSessionId | None = OWN) -> TextReceived:
    return TextReceived(upstream_session_id=session, text=said)


def call(call_id: str, session: UpstreamSessionId | None = OWN) -> ToolCallAnnounced:
    return ToolCallAnnounced(
        upstream_session_id=session, call_id=call_id, title="Task", arguments={"n": call_id}
    )


def result(call_id: str, session: UpstreamSessionId = OWN, **changes: object) -> ToolCallUpdated:
    usual: dict[str, object] = {"status": "completed", "text": f"result of {call_id}", **changes}
    return ToolCallUpdated(upstream_session_id=session, call_id=call_id, **usual)  # type: ignore[arg-type]


def running(call_id: str, session: UpstreamSessionId = OWN) -> ToolCallUpdated:
    return result(call_id, session, status="in_progress", text=None)


def start(
    child: UpstreamSessionId, *, of: UpstreamSessionId = OWN, call_id: str | None = None
) -> ChildStarted:
    return ChildStarted(
        upstream_session_id=of, child_upstream_session_id=child, role="explore", call_id=call_id
    )


def end(
    child: UpstreamSessionId, *, of: UpstreamSessionId = OWN, outcome: Outcome = Outcome.OK
) -> ChildEnded:
    return ChildEnded(upstream_session_id=of, child_upstream_session_id=child, outcome=outcome)


def child_of(parent: ConversationId, child: UpstreamSessionId) -> ConversationId:
    opened = child_conversation(
        ROOT, parent_conversation_id=parent, started=start(child), opened_at_ms=0
    )
    return opened.conversation_id


CON_A, CON_B = (child_of(ROOT.conversation_id, child) for child in (A, B))
CON_DEEP = child_of(CON_A, DEEP)


def committed(events: Iterable[AgentEvent], on: Recorder) -> list[Write]:
    writes: list[Write] = []
    for at_ms, event in enumerate(events, start=10):
        on.record(event, at_ms=at_ms)
        writes += on.drain()
    return writes


def play(events: Iterable[AgentEvent], on: Recorder | None = None) -> list[Write]:
    taking = on or recorder()
    return [*committed(events, taking), *taking.finish(at_ms=99)]


def is_alarm(part: Part) -> bool:
    return isinstance(part, UnknownPart) and part.kind == ALARM


def parts(writes: Iterable[Write]) -> dict[ConversationId, list[Part]]:
    """What was written, conversation by conversation; alarms are looked at apart."""
    found: dict[ConversationId, list[Part]] = defaultdict(list)
    for write in writes:
        if isinstance(write, RecordParts):
            found[write.conversation_id] += [part for part in write.parts if not is_alarm(part)]
    return {conversation_id: said for conversation_id, said in found.items() if said}


def alarms(writes: Iterable[Write]) -> list[tuple[object, object, object]]:
    raws = [
        part.raw
        for write in writes
        if isinstance(write, RecordParts) and write.conversation_id == ROOT.conversation_id
        for part in write.parts
        if isinstance(part, UnknownPart) and part.kind == ALARM
    ]
    return [(raw["alarm"], raw["depth"], raw["upstream_session_id"]) for raw in raws]  # type: ignore[index,call-overload]


def opened(writes: Iterable[Write]) -> list[Conversation]:
    return [write.conversation for write in writes if isinstance(write, OpenConversation)]


def quarantine(writes: Iterable[Write]) -> list[RecordQuarantine]:
    return [write for write in writes if isinstance(write, RecordQuarantine)]


def ended_note(conversation_id: ConversationId, outcome: str, **changes: object) -> UnknownPart:
    raw = {"conversation_id": conversation_id, "outcome": outcome, "tokens_used": None, "title": ""}
    return UnknownPart(kind="child_ended", raw={**raw, **changes})  # type: ignore[arg-type]


# --- the turn's own session --------------------------------------------------------------------


def test_a_reply_is_stamped_with_turn_session_and_time():
    (write,) = play([text("Hello")])
    assert isinstance(write, RecordParts)
    assert (write.conversation_id, write.seq, write.first_ordinal) == (ROOT.conversation_id, 2, 0)
    assert (write.turn_id, write.upstream_session_id) == ("trn", OWN)
    assert write.recorded_at_ms == 99


def test_a_turn_has_worked_once_its_own_session_called_a_tool():
    on = recorder()
    play([text("hm")], on)
    assert not on.own.has_worked
    play([call("c1")], on)
    assert on.own.has_worked
    play([result("c1")], on)
    assert on.own.has_worked


@pytest.mark.parametrize(
    ("progress", "session", "kind", "has_acted"),
    [
        ("Reconnecting... 1/5", OWN, "x", False),
        ("", OWN, "x", True),
        ("", None, "x", False),
        ("", OWN, "system/informational", False),
    ],
)
def test_that_an_agent_tries_again_or_writes_a_log_line_is_nothing_that_it_did(
    progress, session, kind, has_acted
):
    on = recorder()
    play([UnknownReceived(upstream_session_id=session, kind=kind, raw={}, progress=progress)], on)
    assert on.has_acted is has_acted


def test_what_was_asked_of_nobody_is_known():
    on, raw = recorder(), {"questions": [{"question": "Blue?"}, {"question": "Now?"}]}
    play([UnknownReceived(upstream_session_id=OWN, kind=QUESTION_DISMISSED, raw=raw)], on)
    assert on.asked == "Blue?; Now?"


def test_what_was_drained_is_not_written_again():
    taking = recorder()
    taking.record(text("a\n\nb"), at_ms=1)
    assert taking.drain() == ()
    assert parts(taking.flush()) == {ROOT.conversation_id: [TextPart(text="a\n\n")]}
    assert taking.flush() == ()
    taking.record(text("c"), at_ms=2)
    assert parts(taking.finish(at_ms=3)) == {ROOT.conversation_id: [TextPart(text="bc")]}
    assert taking.finish(at_ms=4) == ()
    assert taking.own.reply == "a\n\nbc"


def test_usage_and_title_are_kept_and_the_users_own_words_are_not_recorded_twice():
    taking = recorder()
    writes = play(
        [
            UserTextReplayed(upstream_session_id=OWN, text="our prompt"),
            UsageReported(upstream_session_id=OWN, tokens_used=5),
            UsageReported(upstream_session_id=OWN, tokens_used=None, tokens_window=100),
            TitleChanged(upstream_session_id=OWN, title="Greeting"),
        ],
        taking,
    )
    assert parts(writes) == {ROOT.conversation_id: [UnknownPart(kind="title", raw="Greeting")]}
    assert (taking.own.tokens_used, taking.own.tokens_window, taking.own.title) == (
        5,
        100,
        "Greeting",
    )


def request(session: UpstreamSessionId, read: int) -> UsageReported:
    return UsageReported(
        upstream_session_id=session, tokens_used=read + 1, tokens_read=read, tokens_written=1
    )


def test_each_request_is_counted_those_of_sub_agents_with_them():
    taking = recorder()
    play([request(OWN, 100), start(A), request(A, 50), request(OWN, 120)], taking)
    counted = taking.counted
    assert (counted.usage.requests, counted.tokens, counted.usage.first_read) == (3, 273, 100)


def test_another_request_is_to_come_after_a_call_and_after_a_sub_agents_own_and_not_at_the_end():
    taking = recorder()
    assert taking.next_read is None
    for events, next_read in (
        ((request(OWN, 100),), None),
        ((call("c1"), request(OWN, 110)), 111),
        ((UsageReported(upstream_session_id=OWN, tokens_used=112),), 112),
        ((request(OWN, 120),), None),
        ((result("c9"), request(OWN, 130)), 131),
        ((start(A), request(A, 50)), 131),
        ((request(OWN, 140),), None),
    ):
        play(events, taking)
        assert taking.next_read == next_read, events
    taking.intend(OWN, ToolCallPart(call_id="c2", title="push", tool_kind="execute"), at_ms=1)
    play([request(OWN, 150)], taking)
    assert taking.next_read == 151


def test_a_compaction_that_the_agent_tells_is_kept_and_noted():
    taking = recorder()
    assert taking.own.was_compacted is False
    writes = play([ContextCompacted(upstream_session_id=OWN)], taking)
    assert taking.own.was_compacted is True
    assert parts(writes) == {ROOT.conversation_id: [UnknownPart(kind="compacted", raw=None)]}


def test_an_outward_action_is_recorded_before_it_is_allowed_and_nobodys_is_not():
    asked = ToolCallPart(call_id="c1", title="git push", tool_kind="execute")
    taking = recorder()
    taking.intend(UpstreamSessionId("ses_nobody"), asked, at_ms=1)
    assert taking.drain() == ()
    taking.intend(OWN, asked, at_ms=2)
    assert parts(taking.drain()) == {ROOT.conversation_id: [asked]}


def test_reasoning_plans_permissions_and_the_unknown_are_kept():
    told = parts(
        play(
            [
                ReasoningReceived(upstream_session_id=OWN, text="hm"),
                PlanChanged(upstream_session_id=OWN, entries=(("build", "pending"),)),
                PermissionAnswered(
                    upstream_session_id=OWN,
                    call_id="c1",
                    title="rm",
                    answer="deny",
                    answered_by="policy",
                ),
                UnknownReceived(upstream_session_id=OWN, kind="new", raw={"a": 1}),
            ]
        )
    )
    permission = {"call_id": "c1", "title": "rm", "answer": "deny", "answered_by": "policy"}
    assert told == {
        ROOT.conversation_id: [
            ReasoningPart(text="hm"),
            UnknownPart(kind="plan", raw=(("build", "pending"),)),
            UnknownPart(kind="permission", raw=permission),
            UnknownPart(kind="new", raw={"a": 1}),
        ]
    }


# --- children ----------------------------------------------------------------------------------


def test_what_a_child_says_never_reaches_the_parent():
    taking = recorder()
    writes = play(
        [
            text("I ask. "),
            call("c1"),
            start(A, call_id="c1"),
            UserTextReplayed(upstream_session_id=A, text="Explore."),
            text("child speaks", A),
            UsageReported(upstream_session_id=A, tokens_used=42),
            TitleChanged(upstream_session_id=A, title="Exploring"),
            result("c1"),
            end(A),
            text("Thanks."),
        ],
        taking,
    )
    assert parts(writes) == {
        ROOT.conversation_id: [
            TextPart(text="I ask. "),
            ToolCallPart(call_id="c1", title="Task", tool_kind="other", arguments={"n": "c1"}),
            ToolResultPart(
                call_id="c1", status="completed", text="result of c1", child_conversation_id=CON_A
            ),
            ended_note(CON_A, "ok", tokens_used=42, title="Exploring"),
            TextPart(text="Thanks."),
        ],
        CON_A: [
            TextPart(text="Explore."),
            TextPart(text="child speaks"),
            UnknownPart(kind="title", raw="Exploring"),
        ],
    }
    assert alarms(writes) == []
    assert taking.own.reply == "I ask. \n\nThanks."
    assert taking.own.tokens_used is None


def test_a_child_is_stored_when_it_starts_under_its_parents_call():
    conversation, link = play([call("c1"), running("c1"), start(A, call_id="c1")])[1:3]
    assert isinstance(conversation, OpenConversation)
    assert isinstance(link, OpenLink)
    child = conversation.conversation
    assert (child.parent_conversation_id, child.parent_call_id) == (ROOT.conversation_id, "c1")
    assert (child.key.workstream, child.key.role, child.key.slot) == ("spec-42", "explore", 0)
    assert (link.link.upstream_session_id, link.link.seq, link.link.agent) == (A, 1, "rehearsal")
    assert link.link.working_directory == LINK.working_directory


def test_two_children_at_once_and_a_child_of_a_child_stay_apart():
    writes = play(
        [
            *(call("c1"), call("c2"), running("c2"), running("c1")),
            *(start(A, call_id="c1"), start(B, call_id="c2"), text("a1 ", A), text("b1 ", B)),
            *(call("d1", A), running("d1", A), start(DEEP, of=A, call_id="d1"), text("deep", DEEP)),
            *(text("a2", A), text("b2", B), end(DEEP, of=A), result("d1", A)),
            *(result("c2"), end(B, outcome=Outcome.UNKNOWN)),
            *(result("c1", status="failed"), end(A, outcome=Outcome.TIMED_OUT)),
        ]
    )
    said = parts(writes)
    assert said[CON_B] == [TextPart(text="b1 b2")]
    assert said[CON_DEEP] == [TextPart(text="deep")]
    kinds = [TextPart, ToolCallPart, TextPart, UnknownPart, ToolResultPart]
    assert [type(part) for part in said[CON_A]] == kinds
    results = [p for p in said[ROOT.conversation_id] if isinstance(p, ToolResultPart)]
    assert [(p.call_id, p.status, p.child_conversation_id) for p in results] == [
        ("c2", "completed", CON_B),
        ("c1", "failed", CON_A),
    ]
    assert ended_note(CON_A, "timed_out") in said[ROOT.conversation_id]
    assert ended_note(CON_DEEP, "ok") in said[CON_A]
    parents = [child.parent_conversation_id for child in opened(writes)]
    assert parents == [ROOT.conversation_id, ROOT.conversation_id, CON_A]


def test_a_child_still_running_at_the_end_is_closed_and_noted_as_unknown():
    begun = [call("c1"), running("c1"), start(A, call_id="c1"), text("half", A), call("d1", A)]
    said = parts(play(begun))
    assert said[CON_A][-1] == ToolResultPart(call_id="d1", status="unknown", text=INTERRUPTED)
    assert said[ROOT.conversation_id][1:] == [
        ended_note(CON_A, "unknown"),
        ToolResultPart(
            call_id="c1", status="unknown", text=INTERRUPTED, child_conversation_id=CON_A
        ),
    ]


def test_nested_children_are_closed_from_the_inside():
    said = parts(play([start(A), start(DEEP, of=A)]))
    assert said == {
        CON_A: [ended_note(CON_DEEP, "unknown")],
        ROOT.conversation_id: [ended_note(CON_A, "unknown")],
    }


@pytest.mark.parametrize("stray", [end(A), end(OWN), start(OWN)], ids=["child", "own", "itself"])
def test_an_end_without_a_start_and_a_child_of_itself_change_nothing(stray: AgentEvent):
    taking = recorder()
    said = parts(play([text("a"), stray, text("b")], taking))
    assert [type(part) for part in said.pop(ROOT.conversation_id)] in ([TextPart], [TextPart] * 2)
    assert said == {}
    assert taking.own.reply == "ab"


def test_the_depth_counter_tells_what_it_found_odd():
    nested = [start(A), start(DEEP, of=A), end(DEEP, of=A), end(A)]
    parallel = [start(A), start(B), end(A), end(B)]
    assert alarms(play(nested)) == [("nested", 2, DEEP)]
    assert alarms(play(parallel)) == [("parallel", 2, B)]
    assert alarms(play([start(A), end(A), start(B), end(B)])) == []
    assert alarms(play([start(A), start(A), end(A)])) == [], "a start counts once"
    assert alarms(play([start(A), end(A), end(A)])) == [("unmatched_end", 0, A)]
    assert alarms(play([start(A), start(DEEP, of=A)])) == [
        ("nested", 2, DEEP),
        ("open_at_end", 2, A),
        ("open_at_end", 2, DEEP),
    ]


def test_a_child_beside_another_is_parallel_at_any_depth_and_each_alarm_has_its_words():
    told = alarms(play([start(A), start(B), start(DEEP, of=A)]))
    assert [alarm for alarm, *_ in told[:3]] == ["parallel", "nested", "parallel"]
    assert set(ALARMS) == {"nested", "parallel", "unmatched_end", "open_at_end"}
    assert all(ALARMS.values())


def test_sessions_that_name_each_other_as_parents_do_not_hang_the_count():
    circle = [start(A), start(B, of=A), end(A), start(A, of=B), start(DEEP, of=A)]
    assert [alarm for alarm, *_ in alarms(play(circle))[:3]] == ["nested"] * 3


def test_a_child_that_speaks_after_its_end_is_still_the_child():
    said = parts(play([start(A), end(A), end(A, outcome=Outcome.UNKNOWN), text("late", A)]))
    assert said[CON_A] == [TextPart(text="late")]
    assert said[ROOT.conversation_id] == [ended_note(CON_A, "ok")], "a second end changes nothing"


def test_a_child_named_by_a_calls_result_is_opened_before_the_result():
    arguments = {"subagent_type": "reviewer"}
    announced = ToolCallAnnounced(
        upstream_session_id=OWN, call_id="c1", title="Task", arguments=arguments
    )
    writes = play([announced, result("c1", child_upstream_session_id=A)])
    assert [conversation.key.role for conversation in opened(writes)] == ["reviewer"]
    said = parts(writes)[ROOT.conversation_id]
    assert isinstance(said[1], ToolResultPart)
    assert said[1].child_conversation_id == CON_A


@pytest.mark.parametrize("arguments", [None, "text", {"subagent_type": 5}, {"subagent_type": ""}])
def test_a_child_of_an_unknown_role_is_a_subagent(arguments: object):
    writes = play([result("c1", child_upstream_session_id=A, arguments=arguments)])
    assert [conversation.key.role for conversation in opened(writes)] == ["subagent"]


def test_a_child_is_linked_to_every_call_that_names_it_however_it_became_known():
    first = [call("c1"), start(A), result("c1", child_upstream_session_id=A), end(A)]
    again = [call("c2"), start(A, call_id="c2"), text("again", A), result("c2"), end(A)]
    said = parts(play([*first, *again]))[ROOT.conversation_id]
    linked = [p.child_conversation_id for p in said if isinstance(p, ToolResultPart)]
    assert linked == [CON_A, CON_A]
    assert said.count(ended_note(CON_A, "ok")) == 2


def test_a_result_that_names_an_ended_child_does_not_start_it_again():
    ended = [call("c1"), start(A, call_id="c1"), end(A)]
    writes = play([*ended, result("c1", child_upstream_session_id=A)])
    said = parts(writes)[ROOT.conversation_id]
    assert said.count(ended_note(CON_A, "ok")) == 1
    assert ended_note(CON_A, "unknown") not in said


def test_a_call_that_names_its_own_session_as_child_refers_to_none():
    said = parts(play([result("c1", child_upstream_session_id=OWN)]))[ROOT.conversation_id]
    assert isinstance(said[1], ToolResultPart)
    assert said[1].child_conversation_id is None


def test_beyond_the_limit_a_child_is_not_opened_and_its_words_are_quarantined():
    many = [start(UpstreamSessionId(f"ses_{number}")) for number in range(CHILDREN_MAX + 1)]
    writes = play([*many, text("lost", UpstreamSessionId(f"ses_{CHILDREN_MAX}"))])
    assert len(opened(writes)) == CHILDREN_MAX
    assert [write.raw["text"] for write in quarantine(writes)] == ["lost"]  # type: ignore[call-overload,index]


# --- quarantine --------------------------------------------------------------------------------


def test_events_before_their_child_started_are_kept_away_from_everybody():
    writes = play([text("early", A), start(A), text("later", A)])
    assert parts(writes)[CON_A] == [TextPart(text="later")]
    (kept,) = quarantine(writes)
    assert (kept.ordinal, kept.reason, kept.turn_id) == (0, "unknown session id", "trn")
    assert kept.raw == {
        "event": "TextReceived",
        "upstream_session_id": A,
        "text": "early",
        "message_id": None,
    }


def test_an_event_without_an_id_is_nobodys_unless_the_adapter_guarantees_it():
    taking = recorder()
    assert [write.reason for write in quarantine(play([text("?", None)], taking))] == [
        "no session id"
    ]
    assert taking.own.reply == ""
    sure = recorder(guarantees_owner=True)
    assert quarantine(play([text("!", None)], sure)) == []
    assert sure.own.reply == "!"


def test_numbers_in_quarantine_go_on_from_an_earlier_recorder():
    taking = recorder(quarantined=3)
    assert [write.ordinal for write in quarantine(play([text("?", A)] * 2, taking))] == [3, 4]


def test_a_kind_of_event_this_version_does_not_know_is_kept():
    (kept,) = quarantine(play([AgentEvent(upstream_session_id=OWN)]))
    assert kept.reason == "unknown kind of event"


# --- going on after a crash --------------------------------------------------------------------


def test_a_call_recorded_before_the_crash_gets_its_result_only():
    taking = recorder()
    taking.own.expect(ToolCallPart(call_id="c1", title="Run", tool_kind="execute"))
    got = ToolResultPart(call_id="c1", status="completed", text="result of c1")
    assert parts(play([result("c1")], taking)) == {ROOT.conversation_id: [got]}


def test_a_child_recorded_before_the_crash_goes_on_where_it_stopped():
    taking = recorder(children=[known(5)])
    writes = play([call("c1"), start(A, call_id="c1"), text("more", A), result("c1")], taking)
    assert opened(writes) == []
    said = [w for w in writes if isinstance(w, RecordParts) and w.conversation_id == CON_A]
    assert [(write.seq, write.first_ordinal) for write in said] == [(5, 0)]
    results = [p for p in parts(writes)[ROOT.conversation_id] if isinstance(p, ToolResultPart)]
    assert results[0].child_conversation_id == CON_A


def test_a_child_that_outlives_its_turn_goes_on_in_its_own_conversation():
    first = [call("c1"), running("c1"), start(A, call_id="c1"), text("half ", A), result("c1")]
    before = play(first)
    assert parts(before)[ROOT.conversation_id][-1] == ended_note(CON_A, "unknown")
    taking = recorder(children=[known(2)])
    writes = play([text("meanwhile"), text("done", A), end(A)], taking)
    assert opened(writes) == []
    assert parts(writes) == {
        CON_A: [TextPart(text="done")],
        ROOT.conversation_id: [TextPart(text="meanwhile"), ended_note(CON_A, "ok")],
    }
    assert (quarantine(writes), alarms(writes)) == ([], [])


def test_a_child_cut_off_by_a_crash_is_closed_with_the_turn():
    part = ToolCallPart(call_id="d1", title="Run", tool_kind="execute")
    taking = recorder(children=[known(3, part)])
    said = parts(taking.finish(at_ms=9))
    assert said == {
        ROOT.conversation_id: [ended_note(CON_A, "unknown")],
        CON_A: [ToolResultPart(call_id="d1", status="unknown", text=INTERRUPTED)],
    }


# --- in general --------------------------------------------------------------------------------

SESSIONS = st.sampled_from([OWN, A, B, DEEP])
ANY_EVENT = st.one_of(
    st.builds(text, st.sampled_from(["x", "yz"]), SESSIONS | st.none()),
    st.builds(call, st.sampled_from(["c1", "c2"]), SESSIONS),
    st.builds(
        result,
        st.sampled_from(["c1", "c2"]),
        SESSIONS,
        status=st.sampled_from(["in_progress", "completed", "failed"]),
        child_upstream_session_id=SESSIONS | st.none(),
    ),
    st.builds(start, SESSIONS, of=SESSIONS, call_id=st.sampled_from([None, "c1", "c2"])),
    st.builds(end, SESSIONS, of=SESSIONS),
)


@given(st.lists(ANY_EVENT, max_size=40))
def test_whatever_comes_nothing_is_lost_mixed_up_or_misnumbered(events: list[AgentEvent]):
    taking = recorder()
    writes = play(events, taking)
    place: dict[ConversationId, tuple[int, int]] = {ROOT.conversation_id: (2, -1)}
    for write in writes:
        if isinstance(write, OpenConversation):
            assert write.conversation.conversation_id not in place
            place[write.conversation.conversation_id] = (1, -1)
        elif isinstance(write, RecordParts):
            seq, ordinal = place[write.conversation_id]
            place[write.conversation_id] = (write.seq, write.first_ordinal)
            assert place[write.conversation_id] in {(seq, ordinal + 1), (seq + 1, 0)}
    kept = sum(
        len(part.text)
        for said in parts(writes).values()
        for part in said
        if isinstance(part, TextPart)
    )
    said = sum(len(event.text) for event in events if isinstance(event, TextReceived))
    away = sum(
        len(w.raw.get("text", "")) for w in quarantine(writes) if w.raw["event"] == "TextReceived"
    )  # type: ignore[union-attr,call-overload,index,arg-type]
    assert kept + away == said
    own = [e.text for e in events if isinstance(e, TextReceived) and e.upstream_session_id == OWN]
    assert taking.own.reply.replace("\n\n", "") == "".join(own)
    ordinals = [write.ordinal for write in quarantine(writes)]
    assert ordinals == list(range(len(ordinals)))


def test_an_event_names_the_sub_agent_it_is_about_or_none():
    assert child_named(start(OWN)) == OWN
    assert child_named(result("call_1")) is None
    assert child_named(text("hi")) is None


def test_what_follows_is_numbered_after_all_that_was_recorded():
    on = recorder()
    assert on.own.next_seq == 2
    play([text("hi")], on)
    assert on.own.next_seq == 3
