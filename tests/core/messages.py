"""A stored message, for tests that care about its parts and its speaker."""

from upthread.core.types import ConversationId, Message, Part, Speaker, TurnId, UpstreamSessionId


def stored(
    *parts: Part,
    speaker: Speaker = Speaker.ASSISTANT,
    seq: int = 1,
    turn: str = "trn_1",
    session: UpstreamSessionId | None = None,
    at_ms: int = 0,
) -> Message:
    """Return a message of one conversation, as a store gives it back."""
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=seq,
        speaker=speaker,
        turn_id=TurnId(turn),
        upstream_session_id=session,
        recorded_at_ms=at_ms,
        parts=parts,
    )
