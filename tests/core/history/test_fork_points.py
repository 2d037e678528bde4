"""Forking: a cut only where the history is whole, children not shared by accident."""

import pytest
from msgspec.structs import replace
from tests.core.history.histories import call, result, text
from tests.core.messages import stored

from upthread.core.history.model import (
    CHILD_ELSEWHERE,
    ERASED,
    branch_note,
    children_in,
    cut,
    fork_points,
    without_children,
)
from upthread.core.turns.effects import effects_of
from upthread.core.types import ConversationId, ErasedPart, Speaker, UnknownPart
from upthread.errors import UsageError


def messages(*spoken: tuple):
    return tuple(
        stored(part, seq=seq, speaker=Speaker(speaker))
        for seq, (speaker, part) in enumerate(spoken, start=1)
    )


HISTORY = messages(
    ("user", text("a")),
    ("assistant", call("c1")),
    ("tool", result("c1")),
    ("assistant", text("b")),
    ("user", text("c")),
    ("assistant", call("c2")),
    ("user", text("d")),
    ("tool", result("c2")),
    ("assistant", text("e")),
)


def test_a_history_may_be_cut_before_a_user_and_at_its_end_when_no_call_is_open():
    assert fork_points(HISTORY) == (4, 9)
    assert fork_points(()) == ()


def test_a_cut_keeps_all_up_to_it():
    assert cut(HISTORY, 4) == HISTORY[:4]


@pytest.mark.parametrize(("at", "nearest"), [(1, 4), (6, 4), (7, 9), (99, 9)])
def test_a_cut_elsewhere_is_refused_and_names_the_nearest_point(at, nearest):
    with pytest.raises(UsageError) as refused:
        cut(HISTORY, at)
    assert refused.value.hint == f"cut at message {nearest}"


def test_a_history_with_no_point_says_so():
    with pytest.raises(UsageError) as refused:
        cut(HISTORY[:1], 1)
    assert refused.value.hint == "nothing here may be cut yet"


def test_a_child_stays_with_the_first_branch_and_a_note_says_which():
    left = ConversationId("con_left")
    given = messages(
        ("user", text("a")),
        ("tool", replace(result("y"), child_conversation_id=left)),
        ("tool", result("z")),
    )
    forked = without_children(given)
    assert [m.parts[0].child_conversation_id for m in forked[1:]] == [None, None]
    elsewhere = {"call_id": "y", "conversation_id": left}
    note = UnknownPart(kind=CHILD_ELSEWHERE, raw=elsewhere)
    assert [m.parts[1:] for m in forked] == [(), (note,), ()]
    assert children_in(given) == (left,)


def test_what_was_forgotten_is_a_note_in_the_other_branch():
    (forked,) = without_children(messages(("user", ErasedPart(kind="text"))))
    assert forked.parts == (UnknownPart(kind=ERASED, raw="text"),)


def test_the_other_branch_is_told_what_is_done_and_what_was_repaired():
    effects = effects_of(HISTORY[:4])
    note = branch_note("spec/planner", 4, effects, "The record was damaged.")
    assert note.startswith("[This conversation was branched off from spec/planner after message 4")
    assert "- read: done" in note
    assert note.endswith("The record was damaged.")
    assert branch_note("spec/planner", 4, (), "").count("\n") == 0
