"""S1-S4, S6, S9-S11, S20, S21, S31, S32: what a commit does and refuses, and for which project."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from upthread.core import commands
from upthread.core.commands import OpenConversation, OpenTurn, RecordProject, Write
from upthread.core.types import (
    CHILD_SLOT,
    ConversationId,
    Fence,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    TurnId,
)
from upthread.errors import ConflictError, FencedError, NotFoundError, UpthreadError
from upthread.store.kinds import KINDS
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refused, refuses
from upthread.testing.store_conformance.copies import CHILD, HARD, answers, everything, recorded_in
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, TURN, home, said

_WHOLE = (*everything(), said(3))
"""A batch with every kind of write."""


def _refuses_each(trial: Trial, error: type[UpthreadError], writes: Iterable[Write]) -> None:
    """Assert that each of these is an error, and that nothing is there of what came before it."""
    before = recorded_in(trial.store, PROJECT)
    last = trial.store.message_count(CONVERSATION)
    for write in writes:
        with refused(error):
            trial.commit(said(last + 1), write)
    assert recorded_in(trial.store, PROJECT) == before


@promise("S1")
def a_batch_that_fails_at_its_end_leaves_nothing(trial: Trial) -> None:
    with refused(ConflictError):
        trial.commit(*_WHOLE, said(99))
    assert recorded_in(trial.store, PROJECT) == []
    trial.reopen()
    assert recorded_in(trial.store, PROJECT) == []


@promise("S1")
def a_batch_that_succeeds_is_there_whole(trial: Trial) -> None:
    trial.commit(*_WHOLE)
    stored = recorded_in(trial.store, PROJECT)
    written = {kind for *_, entries in stored for _, kind, *_ in entries}
    assert written == {*KINDS}, f"no sample here of {KINDS.keys() ^ written}"
    trial.reopen()
    assert recorded_in(trial.store, PROJECT) == stored
    assert trial.store.message_count(CONVERSATION) == 3


@promise("S2")
def the_same_batch_again_changes_nothing(trial: Trial) -> None:
    """The whole of it, each write by itself, and with something new at its end."""
    trial.commit(*everything())
    stored = recorded_in(trial.store, PROJECT)
    trial.commit(*everything())
    assert recorded_in(trial.store, PROJECT) == stored
    trial.reopen()
    for batch in (everything(), *([write] for write in everything())):
        trial.commit(*batch)
    assert recorded_in(trial.store, PROJECT) == stored
    trial.commit(*_WHOLE)
    assert trial.store.message_count(CONVERSATION) == 3


@promise("S3")
def other_content_under_the_same_key_is_a_conflict(trial: Trial) -> None:
    trial.commit(*everything())
    others: list[Write] = [
        samples.workstream(base_name="Lyra"),
        commands.OpenConversation(conversation=samples.conversation(generation=2)),
        # One key and generation has one conversation (S10).
        commands.OpenConversation(conversation=samples.conversation(ConversationId("con_other"))),
        commands.OpenLink(link=samples.link(1, "ses_other")),
        commands.OpenTurn(turn_id=TURN, conversation_id=CONVERSATION, opened_at_ms=1),
        said(1, TextPart(text="do something else")),
        said(1, TextPart(text=HARD), speaker=Speaker.ASSISTANT),
        samples.happened(1, samples.happened(7).event),
        replace(samples.run(), opened_at_ms=1),
        samples.moved(1, samples.moved(7).event),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=1, due_at_ms=11),
        samples.stray(0, {"x": 2}),
        # Of two who edit a briefing at once the second is refused (S25).
        samples.edit(1, "theirs"),
        replace(samples.step("intent"), recorded_at_ms=10),
        samples.step("done", "att_2", receipt={"url": "another"}),
    ]
    _refuses_each(trial, ConflictError, others)


@promise("S3")
def the_first_cause_of_an_end_stands(trial: Trial) -> None:
    trial.commit(*everything())
    trial.commit(replace(samples.end_of(1, "expired"), ended_at_ms=99))
    ended = trial.store.links(CONVERSATION)[0]
    assert (ended.ended_because, ended.ended_at_ms) == ("missing", 9)


@promise("S4")
def only_fences_that_all_hold_let_a_batch_in(trial: Trial) -> None:
    store = trial.store
    lost, kept = samples.taken(store, "workstream"), samples.taken(store, "other")
    assert store.acquire_lease("workstream", samples.OTHER_HOLDER, seen=lost) is not None
    with refused(FencedError):
        store.commit(home(), fences=[kept.fence, lost.fence])
    assert store.workstreams(PROJECT) == ()
    store.commit(home(), fences=[kept.fence])
    assert store.conversation(CONVERSATION) is not None


@promise("S4")
def a_fence_on_a_released_or_unknown_lease_keeps_the_batch_out(trial: Trial) -> None:
    lease = samples.taken(trial.store, "workstream")
    trial.store.release_lease(lease.fence)
    for fence in (lease.fence, Fence(name="never taken", token=1)):
        with refused(FencedError):
            trial.store.commit(home(), fences=[fence])
        with refused(FencedError):
            trial.store.commit([], fences=[fence])
    assert trial.store.workstreams(PROJECT) == ()


@promise("S6")
def a_message_has_no_gap_and_one_speaker(trial: Trial) -> None:
    trial.commit(*home(), said(1))
    gaps = [*map(said, (0, -1, 3))]
    gaps += [said(1, first_ordinal=2), said(2, first_ordinal=1)]
    refuses(trial, ConflictError, gaps)
    another = said(1, first_ordinal=1, speaker=Speaker.ASSISTANT)
    refuses(trial, ConflictError, [another])
    assert trial.store.message_count(CONVERSATION) == 1


@promise("S6")
def parts_join_the_last_message_and_no_earlier_one(trial: Trial) -> None:
    more = TextPart(text=" and more")
    trial.commit(*home(), said(1))
    trial.commit(said(1, more, first_ordinal=1), said(2))
    with refused(ConflictError):
        trial.commit(said(1, more, first_ordinal=2))
    assert [message.text for message in trial.store.messages(CONVERSATION)] == [
        "message 1 and more",
        "message 2",
    ]


@promise("S6")
def a_gap_between_links_events_or_edits_is_a_conflict(trial: Trial) -> None:
    trial.commit(*home(), samples.run(), samples.moved(1), samples.happened(1))
    gaps: list[Write] = [
        commands.OpenLink(link=samples.link(3, "ses_c")),
        samples.happened(3),
        samples.moved(3),
        samples.edit(2),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=2, due_at_ms=1),
    ]
    _refuses_each(trial, ConflictError, gaps)


@promise("S10")
def children_may_share_their_key(trial: Trial) -> None:
    trial.commit(*home())
    key = samples.sibling_key(CHILD_SLOT, "explore")
    for name in ("con_a", "con_b"):
        child = samples.conversation(ConversationId(name), key=key, parent=CONVERSATION)
        trial.commit(commands.OpenConversation(conversation=child))
    found = trial.store.conversations(PROJECT, samples.WORKSTREAM)
    assert [each.conversation_id for each in found] == [CONVERSATION, "con_a", "con_b"]
    assert trial.store.resolve(key) is None


@promise("S11")
def a_workstream_has_one_base_name_and_shares_it_with_none(trial: Trial) -> None:
    trial.commit(samples.workstream())
    others: list[Write] = [
        samples.workstream(base_name="Lyra"),
        samples.workstream("other", base_name="Kael"),
        commands.OpenConversation(conversation=samples.conversation(base_name="Lyra")),
    ]
    refuses(trial, ConflictError, others)
    trial.commit(samples.workstream("other", base_name="Lyra"))
    trial.commit(samples.workstream(project_id=ProjectId("prj_two")))
    assert [each.base_name for each in trial.store.workstreams(PROJECT)] == ["Kael", "Lyra"]


@promise("S20")
def conversations_of_two_projects_never_meet(trial: Trial) -> None:
    trial.commit(*home())
    other = ProjectId("prj_two")
    key = replace(KEY, project_id=other)
    assert trial.store.resolve(key) is None
    assert trial.store.conversations(other, samples.WORKSTREAM) == ()
    assert trial.store.workstream(other, samples.WORKSTREAM) is None
    assert trial.store.workstreams(other) == ()
    assert trial.store.owner(other, "ses_a") is None
    trial.commit(samples.run(), samples.step("intent"))
    assert trial.store.runs(other, samples.WORKSTREAM) == ()
    assert trial.store.once(other, "deploy") is None
    theirs = samples.conversation(ConversationId("con_theirs"), key=key)
    trial.commit(
        samples.workstream(project_id=other), commands.OpenConversation(conversation=theirs)
    )
    resolved = samples.resolved(trial.store)
    assert resolved.conversation.conversation_id == CONVERSATION


@promise("S21")
def what_was_never_opened_is_not_found(trial: Trial) -> None:
    another = samples.conversation(ConversationId("con_two"), key=samples.sibling_key(2))
    trial.commit(*home(), commands.OpenConversation(conversation=another))
    nobody = ConversationId("con_nobody")
    lost: list[Write] = [
        commands.OpenConversation(
            conversation=samples.conversation(nobody, key=replace(KEY, workstream="nowhere"))
        ),
        commands.OpenConversation(
            conversation=samples.conversation(
                nobody, key=samples.sibling_key(CHILD_SLOT), parent=ConversationId("con_gone")
            )
        ),
        commands.OpenLink(link=samples.link(owner=nobody)),
        samples.end_of(2),
        samples.turn(TurnId("trn_two"), owner=nobody),
        replace(samples.turn(TurnId("trn_two")), run_id=RunId("run_nobody")),
        said(1, owner=nobody),
        said(1, turn_id=TurnId("trn_nobody")),
        samples.happened(1, turn_id=TurnId("trn_nobody")),
        samples.happened(1, owner=another.conversation_id),
        samples.stray(owner=another.conversation_id),
        samples.moved(1),
        commands.EnqueueTransition(run_id=samples.RUN, run_seq=0, due_at_ms=1),
        samples.stray(turn_id=TurnId("trn_nobody")),
        samples.refusal(owner=nobody),
        samples.examined(0, owner=nobody),
        samples.examined(0, turn_id=TurnId("trn_nobody")),
        samples.edit(1, owner=nobody),
        replace(samples.act(), conversation_id=nobody),
        samples.act(of_run=True),
        commands.EraseConversation(conversation_id=nobody),
        commands.EraseRun(run_id=samples.RUN),
    ]
    _refuses_each(trial, NotFoundError, lost)


# --- whose a path is, and a store that acts for one project ---------------------------------------


OTHER = ProjectId("prj_other")
OTHERS_CONVERSATION = ConversationId("con_other")
OTHERS_TURN = TurnId("trn_other")
_NOTHING = (None, (), 0)


@promise("S31")
def a_path_of_another_owner_is_another_place(trial: Trial) -> None:
    mine, theirs = (
        ProjectIdentity(path="/workspace", owner=each) for each in ("ada@one", "bea@two")
    )
    unowned = ProjectIdentity(path="/workspace")
    clone = ProjectIdentity(path="/elsewhere", root_commit="abc", owner="bea@two")
    owners = {"prj_mine": mine, "prj_theirs": theirs, "prj_old": unowned, "prj_clone": clone}
    trial.store.commit(
        [RecordProject(project_id=ProjectId(name), identity=it) for name, it in owners.items()]
    )

    def found(identity: ProjectIdentity) -> list[str]:
        return sorted(each.project_id for each in trial.store.projects(identity))

    assert found(mine) == ["prj_mine", "prj_old"]
    assert found(theirs) == ["prj_old", "prj_theirs"]
    assert found(unowned) == ["prj_old"]
    assert found(replace(mine, root_commit="abc")) == ["prj_clone", "prj_mine", "prj_old"]
    assert found(ProjectIdentity(path="/elsewhere", owner="ada@one")) == []
    (known,) = (each for each in trial.store.projects(mine) if each.project_id == "prj_mine")
    assert known.identity == mine


@promise("S32")
def a_store_that_acts_for_a_project_serves_it_as_before(trial: Trial) -> None:
    store = trial.store
    store.act_for(PROJECT)
    store.commit(everything())
    recorded = recorded_in(store, PROJECT)
    store.commit(home())
    assert recorded_in(store, PROJECT) == recorded
    assert store.verify(CONVERSATION) is None
    assert store.resolve(KEY) is not None
    trial.reopen()
    store = trial.store
    assert recorded_in(store, PROJECT) == recorded
    assert store.conversation(CHILD) is not None


@promise("S32", is_between_people=True)
def it_reads_nothing_of_another_project(trial: Trial) -> None:
    store = trial.store
    store.commit(everything())
    assert recorded_in(store, PROJECT)
    assert [name for name, found in answers(store).items() if found in _NOTHING] == ["verify"]
    store.act_for(OTHER)
    assert recorded_in(store, PROJECT) == []
    for name, found in answers(store).items():
        assert found in _NOTHING, f"{name} of another project's: {found!r}"


@promise("S32", is_between_people=True)
def it_writes_nothing_to_another_project(trial: Trial) -> None:
    store = trial.store
    store.commit(everything())
    before = recorded_in(store, PROJECT)
    store.act_for(OTHER)
    refuses(trial, UpthreadError, _writes())
    trial.reopen()
    assert recorded_in(trial.store, PROJECT) == before


@promise("S32", is_between_people=True)
def it_is_kept_from_nothing_by_what_another_project_has(trial: Trial) -> None:
    """Two projects write at the same time, over stores of their own, with the same names."""
    ours, theirs = trial.store, trial.backend.make(trial.place)
    ours.act_for(PROJECT)
    theirs.act_for(OTHER)
    ours.commit([*home(), said(1)])
    key = replace(KEY, project_id=OTHER)
    opened = samples.conversation(OTHERS_CONVERSATION, key=key)
    turn = OpenTurn(turn_id=OTHERS_TURN, conversation_id=OTHERS_CONVERSATION, opened_at_ms=1)
    theirs.commit(
        [samples.workstream(project_id=OTHER), OpenConversation(conversation=opened), turn]
    )
    for seq in range(1, 4):
        theirs.commit([said(seq, owner=OTHERS_CONVERSATION, turn_id=OTHERS_TURN)])
        ours.commit([said(seq + 1)])
    assert theirs.message_count(OTHERS_CONVERSATION) == 3
    assert ours.message_count(CONVERSATION) == 4
    assert ours.conversation(OTHERS_CONVERSATION) is None
    theirs.close()


def _writes() -> Iterator[Write]:
    """Yield writes to what another project has, and to what it has not yet."""
    yield from everything()[3:-1]
    yield RecordProject(project_id=PROJECT, identity=ProjectIdentity(path="/srv/else"))
    yield samples.workstream("another", base_name="Nova")
    yield said(3)
    yield samples.happened(3)
    yield samples.moved(4)
