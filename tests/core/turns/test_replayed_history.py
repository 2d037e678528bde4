"""A replayed history as it would have been recorded."""

from upthread.core.events import (
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.redaction.redactor import Redactor
from upthread.core.turns.replayed_history import joined, redacted_history
from upthread.core.types import UpstreamSessionId

REDACTOR = Redactor(b"k" * 32)
SECRET = "ghp_" + "a1B2" * 9
HIDDEN = REDACTOR.redact(SECRET)
OWN, CHILD = UpstreamSessionId("ses"), UpstreamSessionId("child")


def said(text, session=OWN, message_id=None):
    return TextReceived(upstream_session_id=session, text=text, message_id=message_id)


def test_pieces_of_one_text_are_joined_and_nothing_else():
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    thought = ReasoningReceived(upstream_session_id=OWN, text="hm")
    history = [
        *(said("a"), said("b"), thought, thought, said("c", message_id="m1")),
        *(said("d", message_id="m1"), said("e", message_id="m2"), said("f", CHILD)),
        *(usage, usage),
    ]
    assert list(joined(history)) == [
        said("ab"),
        ReasoningReceived(upstream_session_id=OWN, text="hmhm"),
        *(said("cd", message_id="m1"), said("e", message_id="m2"), said("f", CHILD)),
        *(usage, usage),
    ]


def test_a_secret_in_two_pieces_is_found():
    asked = UserTextReplayed(upstream_session_id=OWN, text=SECRET[:10])
    history = [asked, UserTextReplayed(upstream_session_id=OWN, text=SECRET[10:] + " is it")]
    (told,) = redacted_history(history, REDACTOR)
    assert told == UserTextReplayed(upstream_session_id=OWN, text=f"{HIDDEN} is it")


def test_every_text_of_an_event_is_redacted():
    announced = ToolCallAnnounced(
        upstream_session_id=OWN,
        call_id="c1",
        title=SECRET,
        arguments={"command": SECRET},
        locations=(SECRET,),
    )
    updated = ToolCallUpdated(
        upstream_session_id=OWN,
        call_id="c1",
        title=SECRET,
        text=SECRET,
        arguments={"command": SECRET},
        locations=(SECRET,),
    )
    bare = ToolCallUpdated(upstream_session_id=OWN, call_id="c1", status="completed")
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    history = [
        *(said(SECRET), ReasoningReceived(upstream_session_id=OWN, text=SECRET), announced),
        *(updated, bare, PlanChanged(upstream_session_id=OWN, entries=((SECRET, "pending"),))),
        *(UnknownReceived(upstream_session_id=OWN, kind="x", raw={"a": [SECRET]}), usage),
    ]
    told = redacted_history(history, REDACTOR)
    assert SECRET not in repr(told)
    assert repr(told).count(HIDDEN) == 11
    assert (told[4], told[7]) == (bare, usage)
