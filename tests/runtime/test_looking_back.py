"""What a turn knows before it records: a child that is called again is the same child."""

import pytest
from tests.core.turns.test_recorder import DEEP, LINK, OWN, ROOT

from upthread.core.commands import OpenConversation, OpenLink, OpenTurn
from upthread.core.events import AgentEvent, ChildStarted, TextReceived
from upthread.core.turns.recorder import Recorder
from upthread.core.types import ConversationId, ConversationKey, TurnId, UpstreamSessionId
from upthread.runtime.turns.recovery import known_children
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

CHILD = UpstreamSessionId("ses_child")
KEY = ROOT.key


def record(store: SqliteStore, turn: str, at_ms: int) -> None:
    """One turn in which a child and a child of it speak."""
    turn_id = TurnId(turn)
    children = known_children(store, ROOT)
    recorder = Recorder(
        conversation=ROOT, turn_id=turn_id, link=LINK, next_seq=1, children=children
    )
    events: list[AgentEvent] = [
        ChildStarted(upstream_session_id=OWN, child_upstream_session_id=CHILD, role="explore"),
        ChildStarted(upstream_session_id=CHILD, child_upstream_session_id=DEEP, role="explore"),
        TextReceived(upstream_session_id=CHILD, text=f"in {turn}"),
        TextReceived(upstream_session_id=DEEP, text=f"deep in {turn}"),
    ]
    for event in events:
        recorder.record(event, at_ms=at_ms)
    conversation_id = ROOT.conversation_id
    writes = [
        write
        for write in recorder.finish(at_ms=at_ms)
        if getattr(write, "conversation_id", None) != conversation_id  # its notes: not asked here
    ]
    opened = OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms)
    store.commit([opened, *writes])


@pytest.fixture
def store(tmp_path) -> SqliteStore:
    opened = SqliteStore(tmp_path / "store.db")
    workstream = samples.workstream(project_id=ROOT.key.project_id)
    opened.commit([workstream, OpenConversation(conversation=ROOT), OpenLink(link=LINK)])
    return opened


def test_a_child_called_again_in_a_later_turn_goes_on_in_its_conversation(store: SqliteStore):
    record(store, "trn_1", 10)
    record(store, "trn_2", 20)
    children = known_children(store, ROOT)
    assert [child.upstream_session_id for child in children] == [CHILD, DEEP]
    said = [[m.text for m in store.messages(child.conversation_id)] for child in children]
    assert said[0] == ["in trn_1", "in trn_2"]
    assert said[1] == ["deep in trn_1", "deep in trn_2"]
    assert len(store.conversations(KEY.project_id, KEY.workstream)) == 3


def test_children_of_other_conversations_are_not_ours(store: SqliteStore):
    record(store, "trn_1", 10)
    other = ConversationKey(project_id=KEY.project_id, workstream="spec-42", role="auditor")
    stranger = samples.conversation(ConversationId("con_other"), key=other)
    store.commit([OpenConversation(conversation=stranger)])
    assert known_children(store, stranger) == ()
