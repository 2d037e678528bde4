"""Our own messages as a history."""

from __future__ import annotations

from tests.core.history.histories import message, text

from upthread.core.history.model import history_of, place_of
from upthread.core.types import ConversationId, Message, Speaker, TurnId


def test_our_messages_keep_speaker_parts_and_place():
    stored = Message(
        conversation_id=ConversationId("con_1"),
        seq=7,
        speaker=Speaker.USER,
        turn_id=TurnId("trn_1"),
        upstream_session_id=None,
        recorded_at_ms=0,
        parts=(text("hi"),),
    )
    (said,) = history_of([stored]).messages
    assert (said.speaker, said.parts, said.place) == (Speaker.USER, (text("hi"),), "message 7")


def test_a_message_without_a_place_is_known_by_its_position():
    assert place_of([message("user"), message("user")], 1) == "message 2"
