"""What is promised of whose a path is, and of a store that acts for one project: S31, S32."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from upthread.core.commands import OpenConversation, OpenTurn, RecordProject, Write
from upthread.core.types import ConversationId, ProjectId, ProjectIdentity, TurnId
from upthread.errors import UpthreadError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refuses
from upthread.testing.store_conformance.copies import CHILD, answers, everything, recorded_in
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT

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
    assert found(structs.replace(mine, root_commit="abc")) == ["prj_clone", "prj_mine", "prj_old"]
    assert found(ProjectIdentity(path="/elsewhere", owner="ada@one")) == []
    (known,) = (each for each in trial.store.projects(mine) if each.project_id == "prj_mine")
    assert known.identity == mine


@promise("S32")
def a_store_that_acts_for_a_project_serves_it_as_before(trial: Trial) -> None:
    store = trial.store
    store.act_for(PROJECT)
    store.commit(everything())
    recorded = recorded_in(store, PROJECT)
    store.commit(samples.home())
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
    ours.commit([*samples.home(), samples.said(1)])
    key = structs.replace(KEY, project_id=OTHER)
    opened = samples.conversation(OTHERS_CONVERSATION, key=key)
    turn = OpenTurn(turn_id=OTHERS_TURN, conversation_id=OTHERS_CONVERSATION, opened_at_ms=1)
    theirs.commit(
        [samples.workstream(project_id=OTHER), OpenConversation(conversation=opened), turn]
    )
    for seq in range(1, 4):
        theirs.commit([samples.said(seq, owner=OTHERS_CONVERSATION, turn_id=OTHERS_TURN)])
        ours.commit([samples.said(seq + 1)])
    assert theirs.message_count(OTHERS_CONVERSATION) == 3
    assert ours.message_count(CONVERSATION) == 4
    assert ours.conversation(OTHERS_CONVERSATION) is None
    theirs.close()


def _writes() -> Iterator[Write]:
    """Yield writes to what another project has, and to what it has not yet."""
    yield from everything()[3:-1]
    yield RecordProject(project_id=PROJECT, identity=ProjectIdentity(path="/srv/else"))
    yield samples.workstream("another", base_name="Nova")
    yield samples.said(3)
    yield samples.happened(3)
    yield samples.moved(4)
