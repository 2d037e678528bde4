"""The audit holds every conversation, child and refusal; a record that was changed is named."""

import tracemalloc

import apsw
import pytest
from tests.support.default_turn import open_place
from tests.support.sets import EXTENDED

from upthread import TellOptions
from upthread.core.states import Standing, State
from upthread.core.types import Speaker, TextPart, TurnId
from upthread.errors import StoreError
from upthread.runtime.record.timeline import open_timeline
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.sqlite import SqliteStore
from upthread.surfaces.formats import json as shape
from upthread.surfaces.formats import md as markdown
from upthread.testing.store_conformance import samples

REHEARSAL = TellOptions(agent="rehearsal")


MEGABYTES = 1024 * 1024


@pytest.fixture
def long_record(tmp_path):
    """A conversation of 600 messages and 24 MB of text in a hundred turns, of three sessions."""
    store = SqliteStore(tmp_path / "long.db")
    place = open_place(store, "spec-42")
    store.act_for(place.conversation.key.project_id)
    owner = place.conversation.conversation_id
    for number in range(100):
        turn_id = TurnId(f"trn_{number}")
        messages = [
            samples.said(
                6 * number + at,
                TextPart(text=f"{number}.{at} " + "word " * 8_000),
                speaker=Speaker.USER if at == 1 else Speaker.ASSISTANT,
                owner=owner,
                turn_id=turn_id,
            )
            for at in range(1, 7)
        ]
        store.commit([samples.turn(turn_id, owner=owner), *messages])
    yield store, _view(store, place.conversation)
    store.close()


def _view(store, conversation):
    workstream = store.workstream(conversation.key.project_id, conversation.key.workstream)
    return WorkstreamView(
        workstream=workstream,
        standing=Standing(state=State.IDLE, reason=""),
        run_standing=None,
        run=None,
        open_questions=(),
        suggested={},
        roles=(),
        children=(),
    )


def _peak_bytes(work):
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.soak
def test_an_audit_in_any_form_is_written_in_little_memory(long_record):
    store, view = long_record

    def write():
        for _ in markdown.in_pieces(open_timeline(store, view)):
            pass
        for _ in shape.in_pieces(shape.whole(open_timeline(store, view)), dict):
            pass

    assert _peak_bytes(write) < 12 * MEGABYTES


@EXTENDED
def test_an_audit_says_the_same_gone_through_and_as_a_value(long_record):
    store, view = long_record
    value, opened = open_timeline(store, view, is_whole=True), open_timeline(store, view)
    assert [*markdown.in_pieces(value)] == [*markdown.in_pieces(opened)]
    told = [[*shape.in_pieces(shape.whole(each), dict)] for each in (value, opened)]
    assert told[0] == told[1]
    (conversation,) = opened.conversations
    assert [turn.number for turn in conversation.turns[-2:]] == [99, 100]
    assert conversation.turns[0].messages == value.conversations[0].turns[0].messages


def test_a_name_that_is_redacted_keeps_its_place():
    told = shape.in_pieces(
        {"one": 1, "many": iter([{"two": 2}, {}]), "three": "\x7f"},
        lambda one: {name.replace("t", "[]"): value for name, value in one.items()},
    )
    assert "".join(told) == '{"one": 1, "many": [{"[]wo": 2}, {}], "[]hree": "\\u007f"}'


@EXTENDED
def test_a_page_that_is_gone_is_named_and_not_passed_over(long_record, tmp_path):
    store, view = long_record
    database = apsw.Connection(str(tmp_path / "long.db"))
    database.execute(
        "DELETE FROM entry WHERE kind IN ('said', 'done') AND kept ->> 'seq' BETWEEN 101 AND 320"
    )
    database.close()
    with pytest.raises(StoreError, match=r"entry \d+ of conversation .* is damaged"):
        open_timeline(store, view)
