"""S1-S4, S6, S9, S10, S11, S20, S21: what a commit does and refuses."""

from __future__ import annotations

from msgspec import structs

from upthread.core import commands
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import (
    CHILD_SLOT,
    ConversationId,
    ErasedPart,
    Fence,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    ToolCallPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import ConflictError, FencedError, NotFoundError
from upthread.runtime.record.store_copy import due_runs
from upthread.store.log import LogStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises, refused
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, TURN

_ONCE = commands.RecordOnce(
    project_id=PROJECT, key="deploy", attempt_id="att_1", state="intent", recorded_at_ms=9
)
_QUARANTINED = commands.RecordQuarantine(
    conversation_id=CONVERSATION,
    turn_id=TURN,
    ordinal=0,
    reason="whose?",
    raw={"x": 1},
    recorded_at_ms=9,
)
_IDENTITY = ProjectIdentity(path="/srv/project", root_commit="abc", owner="ada@one")


def _one_of_each() -> list[commands.Write]:
    """Return a batch with every kind of write."""
    child = samples.conversation(
        ConversationId("con_child"), key=samples.sibling_key(CHILD_SLOT), parent=CONVERSATION
    )
    return [
        commands.RecordProject(project_id=PROJECT, identity=_IDENTITY),
        *samples.home(),
        commands.OpenConversation(conversation=child),
        commands.EndLink(
            conversation_id=CONVERSATION, seq=1, ended_because="missing", ended_at_ms=9
        ),
        commands.OpenLink(link=samples.link(2, "ses_b")),
        samples.said(1, TextPart(text="do it"), TextPart(text="now")),
        samples.said(2, ToolCallPart(call_id="c", title="t", tool_kind="read", arguments={"a": 1})),
        samples.happened(1),
        samples.run(),
        samples.moved(1),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=1, due_at_ms=10),
        _QUARANTINED,
        commands.RecordDecision(
            conversation_id=CONVERSATION,
            decision="refuse",
            reasons=("busy",),
            inputs={"depth": 1},
            decided_at_ms=9,
        ),
        _ONCE,
        structs.replace(_ONCE, state="done", receipt={"url": "https://git.example/1"}),
        commands.RecordExamined(
            conversation_id=CONVERSATION,
            turn_id=TURN,
            first_ordinal=0,
            upstream_session_id=UpstreamSessionId("ses_a"),
            files=(ExaminedFile(path="a.py", how="read", state="missing"),),
            recorded_at_ms=9,
        ),
        commands.RecordBriefingEdit(
            conversation_id=CONVERSATION, seq=1, edit={"goal": "x"}, recorded_at_ms=9
        ),
        commands.RecordAct(
            conversation_id=CONVERSATION, what="told", by_user="ada", detail=TURN, recorded_at_ms=9
        ),
        commands.RecordAct(run_id=samples.RUN, what="started", by_user="ada", recorded_at_ms=9),
    ]


def _all_of(store: LogStore) -> dict[str, object]:
    """Return what is read of each thing that `_one_of_each` writes, by its name."""
    conversations = store.conversations(PROJECT, samples.WORKSTREAM)
    ids = [CONVERSATION, ConversationId("con_child")]
    links = [link for each in ids for link in store.links(each)]
    return {
        "conversations": conversations,
        "children": [each.parent_call_id for each in conversations if each.parent_call_id],
        "resolved": store.resolve(KEY),
        "workstreams": store.workstreams(PROJECT),
        "projects": store.projects(_IDENTITY),
        "once": store.once(PROJECT, _ONCE.key),
        "receipts": getattr(store.once(PROJECT, _ONCE.key), "receipt", None),
        "links": links,
        "ended links": [each.ended_because for each in links if each.ended_because],
        "messages": [store.messages(each) for each in ids],
        "message count": store.message_count(CONVERSATION),
        "turns": store.turns(CONVERSATION),
        "turn owner": store.owner(PROJECT, turn_id=TURN),
        "turn events": store.turn_events(CONVERSATION, TURN),
        "runs": store.runs(PROJECT, samples.WORKSTREAM),
        "run events": store.run_events(samples.RUN),
        "pending": due_runs(store, PROJECT, before_ms=10_000),
        "quarantined": store.quarantined(CONVERSATION, TURN),
        "refusals": store.refusals(CONVERSATION),
        "examined": store.examined(CONVERSATION),
        "edit": store.briefing_edit(CONVERSATION),
        "owner of a session": store.owner(PROJECT, "ses_b"),
        "acts": store.acts(CONVERSATION),
        "acts of a run": store.acts(samples.RUN),
    }


def a_batch_that_fails_at_its_end_leaves_nothing(trial: Trial) -> None:
    before = _all_of(trial.store)
    with refused(ConflictError):
        trial.store.commit([*_one_of_each(), samples.said(99)])
    assert _all_of(trial.store) == before
    trial.reopen()
    assert _all_of(trial.store) == before


def a_batch_that_succeeds_is_there_whole(trial: Trial) -> None:
    before = _all_of(trial.store)
    trial.store.commit(_one_of_each())
    stored = _all_of(trial.store)
    assert [what for what, found in stored.items() if found == before[what]] == []
    trial.reopen()
    assert _all_of(trial.store) == stored
    assert trial.store.message_count(CONVERSATION) == 2


def the_same_batch_again_changes_nothing(trial: Trial) -> None:
    trial.store.commit(_one_of_each())
    stored = _all_of(trial.store)
    trial.store.commit(_one_of_each())
    assert _all_of(trial.store) == stored
    trial.reopen()
    trial.store.commit(_one_of_each())
    assert _all_of(trial.store) == stored


def each_write_again_by_itself_changes_nothing(trial: Trial) -> None:
    trial.store.commit(_one_of_each())
    stored = _all_of(trial.store)
    for write in _one_of_each():
        trial.store.commit([write])
    assert _all_of(trial.store) == stored


def the_same_batch_again_may_end_in_something_new(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.said(1)])
    trial.store.commit([*samples.home(), samples.said(1), samples.said(2)])
    assert trial.store.message_count(CONVERSATION) == 2


def other_content_under_the_same_key_is_a_conflict(trial: Trial) -> None:
    trial.store.commit(_one_of_each())
    stored = _all_of(trial.store)
    others: list[commands.Write] = [
        samples.workstream(base_name="Lyra"),
        commands.OpenConversation(conversation=samples.conversation(generation=2)),
        commands.OpenLink(link=samples.link(1, "ses_other")),
        commands.OpenTurn(turn_id=TURN, conversation_id=CONVERSATION, opened_at_ms=1),
        samples.said(1, TextPart(text="do something else")),
        samples.said(1, TextPart(text="do it"), speaker=Speaker.ASSISTANT),
        samples.happened(1, samples.happened(7).event),
        structs.replace(samples.run(), opened_at_ms=1),
        samples.moved(1, samples.moved(7).event),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=1, due_at_ms=11),
        structs.replace(_QUARANTINED, raw={"x": 2}),
        structs.replace(_ONCE, recorded_at_ms=10),
        structs.replace(_ONCE, state="done", receipt={"url": "https://git.example/2"}),
    ]
    for write in others:
        with refused(ConflictError):
            trial.store.commit([samples.said(3), write])
    assert _all_of(trial.store) == stored


def the_first_cause_of_an_end_stands(trial: Trial) -> None:
    trial.store.commit(_one_of_each())
    later = commands.EndLink(
        conversation_id=CONVERSATION, seq=1, ended_because="expired", ended_at_ms=99
    )
    trial.store.commit([later])
    ended = trial.store.links(CONVERSATION)[0]
    assert (ended.ended_because, ended.ended_at_ms) == ("missing", 9)


def a_fence_that_holds_lets_the_batch_in(trial: Trial) -> None:
    lease = trial.store.acquire_lease("workstream", samples.HOLDER)
    assert lease is not None
    trial.store.commit(samples.home(), fences=[samples.fence(lease)])
    assert trial.store.conversation(CONVERSATION) is not None


def a_fence_that_was_lost_keeps_the_batch_out(trial: Trial) -> None:
    store = trial.store
    lost = store.acquire_lease("workstream", samples.HOLDER)
    kept = store.acquire_lease("other", samples.HOLDER)
    assert lost is not None
    assert kept is not None
    assert store.acquire_lease("workstream", samples.OTHER_HOLDER, seen=lost) is not None
    with refused(FencedError):
        store.commit(samples.home(), fences=[samples.fence(kept), samples.fence(lost)])
    assert store.workstreams(PROJECT) == ()


def a_fence_on_a_released_or_unknown_lease_keeps_the_batch_out(trial: Trial) -> None:
    lease = trial.store.acquire_lease("workstream", samples.HOLDER)
    assert lease is not None
    trial.store.release_lease(samples.fence(lease))
    for fence in (samples.fence(lease), Fence(name="never taken", token=1)):
        with refused(FencedError):
            trial.store.commit(samples.home(), fences=[fence])
        with refused(FencedError):
            trial.store.commit([], fences=[fence])
    assert trial.store.workstreams(PROJECT) == ()


def a_gap_between_messages_is_a_conflict(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.said(1)])
    for seq in (0, -1, 3):
        with refused(ConflictError):
            trial.store.commit([samples.said(seq)])
    assert trial.store.message_count(CONVERSATION) == 1


def a_gap_between_parts_is_a_conflict(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.said(1)])
    for write in (samples.said(1, first_ordinal=2), samples.said(2, first_ordinal=1)):
        with refused(ConflictError):
            trial.store.commit([write])


def parts_join_the_last_message_and_no_earlier_one(trial: Trial) -> None:
    more = TextPart(text=" and more")
    trial.store.commit([*samples.home(), samples.said(1)])
    trial.store.commit([samples.said(1, more, first_ordinal=1), samples.said(2)])
    with refused(ConflictError):
        trial.store.commit([samples.said(1, more, first_ordinal=2)])
    assert [message.text for message in trial.store.messages(CONVERSATION)] == [
        "message 1 and more",
        "message 2",
    ]


def a_message_has_one_speaker(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.said(1)])
    with refused(ConflictError):
        trial.store.commit([samples.said(1, first_ordinal=1, speaker=Speaker.ASSISTANT)])


def a_gap_between_links_or_events_is_a_conflict(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.run(), samples.moved(1), samples.happened(1)])
    gaps: list[commands.Write] = [
        commands.OpenLink(link=samples.link(3, "ses_c")),
        samples.happened(3),
        samples.moved(3),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=2, due_at_ms=1),
    ]
    for write in gaps:
        with refused(ConflictError):
            trial.store.commit([write])


def what_was_written_verifies(trial: Trial) -> None:
    trial.store.commit(_one_of_each())
    trial.store.commit([samples.said(seq) for seq in range(3, 40)])
    assert trial.store.verify(CONVERSATION) is None
    trial.reopen()
    assert trial.store.verify(CONVERSATION) is None
    assert trial.store.verify(ConversationId("con_unknown")) is None


def an_erased_part_verifies(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.said(1, ErasedPart(kind="text")), samples.said(2)])
    assert trial.store.messages(CONVERSATION)[0].parts == (ErasedPart(kind="text"),)
    assert trial.store.verify(CONVERSATION) is None


def one_key_and_generation_has_one_conversation(trial: Trial) -> None:
    trial.store.commit(samples.home())
    other = samples.conversation(ConversationId("con_other"))
    with refused(ConflictError):
        trial.store.commit([commands.OpenConversation(conversation=other)])
    trial.store.commit(
        [commands.OpenConversation(conversation=structs.replace(other, generation=2))]
    )
    resolved = trial.store.resolve(KEY)
    assert resolved is not None
    assert resolved.conversation.conversation_id == "con_other"


def children_may_share_their_key(trial: Trial) -> None:
    trial.store.commit(samples.home())
    key = samples.sibling_key(CHILD_SLOT, "explore")
    for name in ("con_a", "con_b"):
        child = samples.conversation(ConversationId(name), key=key, parent=CONVERSATION)
        trial.store.commit([commands.OpenConversation(conversation=child)])
    found = trial.store.conversations(PROJECT, samples.WORKSTREAM)
    assert [each.conversation_id for each in found] == [CONVERSATION, "con_a", "con_b"]
    assert trial.store.resolve(key) is None


def a_workstream_has_one_base_name_and_shares_it_with_none(trial: Trial) -> None:
    trial.store.commit([samples.workstream()])
    for write in (
        samples.workstream(base_name="Lyra"),
        samples.workstream("other", base_name="Kael"),
    ):
        with refused(ConflictError):
            trial.store.commit([write])
    trial.store.commit([samples.workstream("other", base_name="Lyra")])
    trial.store.commit([samples.workstream(project_id=ProjectId("prj_two"))])
    assert [each.base_name for each in trial.store.workstreams(PROJECT)] == ["Kael", "Lyra"]


def a_conversation_takes_its_workstreams_base_name(trial: Trial) -> None:
    trial.store.commit([samples.workstream()])
    with refused(ConflictError):
        other = samples.conversation(base_name="Lyra")
        trial.store.commit([commands.OpenConversation(conversation=other)])


def conversations_of_two_projects_never_meet(trial: Trial) -> None:
    trial.store.commit(samples.home())
    other = ProjectId("prj_two")
    key = structs.replace(KEY, project_id=other)
    assert trial.store.resolve(key) is None
    assert trial.store.conversations(other, samples.WORKSTREAM) == ()
    assert trial.store.workstream(other, samples.WORKSTREAM) is None
    assert trial.store.workstreams(other) == ()
    assert trial.store.owner(other, "ses_a") is None
    trial.store.commit([samples.run()])
    assert trial.store.runs(other, samples.WORKSTREAM) == ()
    theirs = samples.conversation(ConversationId("con_theirs"), key=key)
    trial.store.commit(
        [samples.workstream(project_id=other), commands.OpenConversation(conversation=theirs)]
    )
    resolved = trial.store.resolve(KEY)
    assert resolved is not None
    assert resolved.conversation.conversation_id == CONVERSATION


def what_was_never_opened_is_not_found(trial: Trial) -> None:
    another = samples.conversation(ConversationId("con_two"), key=samples.sibling_key(2))
    trial.store.commit([*samples.home(), commands.OpenConversation(conversation=another)])
    nobody = ConversationId("con_nobody")
    lost: list[commands.Write] = [
        commands.OpenConversation(
            conversation=samples.conversation(
                nobody, key=structs.replace(KEY, workstream="nowhere")
            )
        ),
        commands.OpenConversation(
            conversation=samples.conversation(
                nobody, key=samples.sibling_key(CHILD_SLOT), parent=ConversationId("con_gone")
            )
        ),
        commands.OpenLink(link=samples.link(owner=nobody)),
        commands.EndLink(conversation_id=CONVERSATION, seq=2, ended_because="x", ended_at_ms=1),
        samples.turn(TurnId("trn_two"), owner=nobody),
        structs.replace(samples.turn(TurnId("trn_two")), run_id=RunId("run_nobody")),
        samples.said(1, owner=nobody),
        samples.said(1, turn_id=TurnId("trn_nobody")),
        samples.happened(1, turn_id=TurnId("trn_nobody")),
        samples.happened(1, owner=another.conversation_id),
        structs.replace(_QUARANTINED, conversation_id=another.conversation_id),
        samples.moved(1),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=0, due_at_ms=1),
        structs.replace(_QUARANTINED, turn_id=TurnId("trn_nobody")),
        commands.RecordDecision(
            conversation_id=nobody, decision="refuse", reasons=(), inputs=None, decided_at_ms=1
        ),
    ]
    for write in lost:
        with refused(NotFoundError):
            trial.store.commit([samples.said(1), write])
    assert trial.store.message_count(CONVERSATION) == 0


WRITING_PROMISES = promises(
    {
        "S1": [a_batch_that_fails_at_its_end_leaves_nothing, a_batch_that_succeeds_is_there_whole],
        "S2": [
            the_same_batch_again_changes_nothing,
            each_write_again_by_itself_changes_nothing,
            the_same_batch_again_may_end_in_something_new,
        ],
        "S3": [other_content_under_the_same_key_is_a_conflict, the_first_cause_of_an_end_stands],
        "S4": [
            a_fence_that_holds_lets_the_batch_in,
            a_fence_that_was_lost_keeps_the_batch_out,
            a_fence_on_a_released_or_unknown_lease_keeps_the_batch_out,
        ],
        "S6": [
            a_gap_between_messages_is_a_conflict,
            a_gap_between_parts_is_a_conflict,
            parts_join_the_last_message_and_no_earlier_one,
            a_message_has_one_speaker,
            a_gap_between_links_or_events_is_a_conflict,
        ],
        "S9": [what_was_written_verifies, an_erased_part_verifies],
        "S10": [one_key_and_generation_has_one_conversation, children_may_share_their_key],
        "S11": [
            a_workstream_has_one_base_name_and_shares_it_with_none,
            a_conversation_takes_its_workstreams_base_name,
        ],
        "S20": [conversations_of_two_projects_never_meet],
        "S21": [what_was_never_opened_is_not_found],
    }
)
