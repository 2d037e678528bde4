import pytest
from msgspec import structs

from upthread.core.commands import RecordParts
from upthread.core.events import TextReceived, ToolCallAnnounced, ToolCallUpdated
from upthread.core.redaction.running_text import HELD_CHARACTERS_MAX
from upthread.core.text import PARAGRAPH
from upthread.core.turns.recorder import TEXT_CHARACTERS_BUFFERED_MAX, Sheet, Stream, calls_open
from upthread.core.types import (
    ConversationId,
    Durability,
    Part,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)

CALL = ToolCallPart(call_id="c1", title="Run", tool_kind="execute", arguments={"command": "ls"})


def opened(durability: Durability = Durability.PROCESS) -> tuple[Sheet, Stream]:
    sheet = Sheet(
        conversation_id=ConversationId("con"),
        turn_id=TurnId("trn"),
        call_durability=durability,
        now_ms=7,
    )
    stream = Stream(
        sheet,
        conversation_id=ConversationId("con"),
        upstream_session_id=UpstreamSessionId("ses"),
        next_seq=2,
    )
    return sheet, stream


def text(said: str, message_id: str | None = None) -> TextReceived:
    return TextReceived(upstream_session_id=None, text=said, message_id=message_id)


def announced(call_id: str = "c1", **changes: object) -> ToolCallAnnounced:
    usual: dict[str, object] = {"title": "Run", "tool_kind": "execute", **changes}
    return ToolCallAnnounced(upstream_session_id=None, call_id=call_id, **usual)  # type: ignore[arg-type]


def updated(call_id: str = "c1", **changes: object) -> ToolCallUpdated:
    return ToolCallUpdated(upstream_session_id=None, call_id=call_id, **changes)  # type: ignore[arg-type]


def two_running(stream: Stream) -> None:
    for call_id in ("c1", "c2"):
        stream.announce(announced(call_id, arguments={"n": call_id}))
    for call_id in ("c1", "c2"):
        stream.update(updated(call_id, status="in_progress"))


def written(sheet: Sheet) -> list[tuple[int, int, str, Part]]:
    """(message, position, speaker, part) of every write."""
    found = []
    for write in sheet.writes:
        assert isinstance(write, RecordParts)
        (part,) = write.parts
        found.append((write.seq, write.first_ordinal, write.speaker.value, part))
    return found


def test_a_long_run_of_text_is_recorded_in_pieces():
    sheet, stream = opened()
    stream.say(text("x" * (TEXT_CHARACTERS_BUFFERED_MAX - 2) + " y"))
    stream.say(text("z"))
    stream.close()
    pieces = [part.text for *_, part in written(sheet)]  # type: ignore[union-attr]
    assert pieces == ["x" * (TEXT_CHARACTERS_BUFFERED_MAX - 2) + " ", "yz"]


@pytest.mark.extended
def test_a_long_word_does_not_wait_for_ever():
    sheet, stream = opened()
    for _ in range(4):
        stream.say(text("x" * TEXT_CHARACTERS_BUFFERED_MAX))
    kept = sum(len(part.text) for *_, part in written(sheet))  # type: ignore[union-attr]
    assert kept == 4 * TEXT_CHARACTERS_BUFFERED_MAX - HELD_CHARACTERS_MAX


def test_a_paragraph_waits_for_its_end_because_a_secret_may_need_the_lines_before_it():
    sheet, stream = opened()
    stream.say(text("first\n\nname,password\n"))
    stream.settle_text()
    stream.say(text("x,Ember%Cobalt57\n"))
    stream.settle_text()
    stream.close()
    assert [part.text for *_, part in written(sheet)] == [  # type: ignore[union-attr]
        "first\n\n",
        "name,password\nx,Ember%Cobalt57\n",
    ]


def test_a_call_is_recorded_when_it_runs_with_all_that_was_learned_of_it_by_then():
    sheet, stream = opened()
    stream.announce(announced(arguments={"command": "l"}))
    stream.update(updated(arguments={"command": "ls"}, title="List", tool_kind="read"))
    assert not sheet.writes
    stream.update(updated(status="in_progress", locations=("a.py",)))
    stream.update(updated(status="in_progress", locations=("late.py",)))
    ((*_, part),) = written(sheet)
    assert part == structs.replace(CALL, title="List", tool_kind="read", locations=("a.py",))


def test_a_call_nobody_announced_is_recorded_from_its_updates():
    sheet, stream = opened()
    stream.update(updated(status="completed", text="done"))
    assert [part for *_, part in written(sheet)] == [
        ToolCallPart(call_id="c1", title="", tool_kind="other"),
        ToolResultPart(call_id="c1", status="completed", text="done"),
    ]


def test_a_call_that_is_announced_twice_is_one_call():
    sheet, stream = opened()
    stream.announce(announced(title="…"))
    stream.announce(announced(title="Run ls", arguments={"command": "ls"}))
    stream.close()
    assert [type(part) for *_, part in written(sheet)] == [ToolCallPart, ToolResultPart]
    assert written(sheet)[0][3].title == "Run ls"  # type: ignore[union-attr]


def test_an_id_that_is_used_again_is_a_call_of_its_own():
    sheet, stream = opened()
    for said in ("one", "two"):
        stream.announce(announced(arguments={"n": said}))
        stream.update(updated(status="completed", text=said))
    results = [part for *_, part in written(sheet) if isinstance(part, ToolResultPart)]
    assert [part.text for part in results] == ["one", "two"]


def test_what_is_open_at_the_end_is_counted():
    sheet, stream = opened()
    stream.announce(announced())
    stream.update(updated(status="failed"))
    stream.announce(announced("c2"))
    assert calls_open(sheet.writes) == 0
    stream.close()
    assert calls_open(sheet.writes) == 1


def test_a_note_joins_the_message_that_is_open():
    sheet, stream = opened()
    plan = UnknownPart(kind="plan", raw=[])
    stream.note(plan)
    two_running(stream)
    stream.update(updated("c1", status="completed"))
    stream.note(plan)
    stream.update(updated("c2", status="completed"))
    told = [(seq, speaker) for seq, _, speaker, _ in written(sheet)]
    assert told == [(2, "assistant")] * 3 + [(3, "tool")] * 3


@pytest.mark.parametrize("durability", list(Durability))
def test_calls_have_the_durability_that_was_asked_for(durability: Durability):
    sheet, stream = opened(durability)
    stream.say(text("x"))
    stream.announce(announced(arguments={"n": 1}))
    stream.close()
    found = [write.durability for write in sheet.writes]
    assert found == [Durability.PROCESS, durability, Durability.PROCESS]


def test_an_intent_is_recorded_synced_as_what_will_happen_before_its_result():
    sheet, stream = opened()
    stream.say(text("now"))
    stream.announce(announced(arguments={"n": 1}))
    stream.intend(CALL)
    stream.update(updated(status="completed", text="done"))
    said, call, result = (write for write in sheet.writes if isinstance(write, RecordParts))
    assert (said.durability, call.durability) == (Durability.PROCESS, Durability.SYNCED)
    assert call.parts == (CALL,)
    assert result.parts == (ToolResultPart(call_id="c1", status="completed", text="done"),)


def test_an_intent_that_adds_nothing_to_a_recorded_call_is_the_same_write_synced():
    sheet, stream = opened()
    stream.announce(announced(arguments=CALL.arguments))
    stream.update(updated(status="in_progress"))
    stream.intend(CALL)
    first, again = sheet.writes
    assert again == structs.replace(first, durability=Durability.SYNCED)


def test_an_intent_of_a_call_that_is_recorded_is_a_synced_note():
    sheet, stream = opened()
    stream.announce(announced())
    stream.update(updated(status="in_progress"))
    stream.intend(CALL)
    raw = {name: getattr(CALL, name) for name in ("call_id", "title", "tool_kind", "arguments")}
    assert written(sheet)[-1][3] == UnknownPart(kind="intent", raw=raw)
    assert sheet.writes[-1].durability is Durability.SYNCED


@pytest.mark.parametrize(
    ("held", "was_compacted"),
    [
        ((), False),
        ((900,), False),
        ((900, 1200, 1300), False),
        ((900, 450), False),
        ((900, 449), True),
        ((900, None, 100), True),
        ((900, 100, 800), True),
    ],
)
def test_a_session_that_suddenly_holds_far_less_was_compacted(held, was_compacted):
    _, stream = opened()
    for tokens in held:
        stream.hold(tokens)
    assert stream.was_compacted is was_compacted


def test_a_reply_has_paragraphs_only_where_something_came_between():
    _, stream = opened()
    stream.announce(announced())
    stream.say(text("a"))
    stream.close_text()
    stream.say(text("b", "m1"))
    stream.say(text("c", "m1"))
    stream.say(text("d"))
    stream.say(text("e", "m2"))
    stream.think("hm")
    stream.say(text(""))
    stream.say(text("f", "m2"))
    assert stream.reply == f"abcd{PARAGRAPH}e{PARAGRAPH}f"
