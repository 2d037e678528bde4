"""Values made from columns are those their classes would make."""

import pytest
from msgspec import Struct, structs
from tests.core.messages import stored as message

from upthread.core import types
from upthread.core.types import (
    ContextPart,
    ConversationKey,
    Holder,
    Outcome,
    ProjectId,
    ReasoningPart,
    TextPart,
    UnknownPart,
)

# --- core/types -----------------------------------------------------------------------------------


def test_a_messages_text_is_what_was_said_and_nothing_else():
    parts = (
        ContextPart(text="context"),
        TextPart(text="one "),
        ReasoningPart(text="thought"),
        TextPart(text="two"),
        UnknownPart(kind="plan", raw=[]),
    )
    assert message(*parts).text == "one two"


def test_the_context_was_sent_before_the_text_wherever_it_is_recorded():
    said, context = TextPart(text="do it"), ContextPart(text="who you are")
    assert message(said, context).sent_text == "who you are\n\ndo it"
    assert message(said).sent_text == "do it"
    assert message(context).sent_text == "who you are"
    assert message().sent_text == ""


def test_an_outcome_has_one_word_everywhere():
    words = """ok missing expired busy rate_limited credit_exhausted context_full auth corrupted
    process_died poisoned timed_out cancelled workspace_changed transient unknown""".split()
    assert [outcome.value for outcome in Outcome] == words


def test_a_holder_is_told_in_words():
    holder = Holder(host="build-3", boot_id="b", pid=4711, started_at_ticks=1)
    assert holder.in_words() == "pid 4711 on build-3"
    doing = structs.replace(holder, doing="run spec-42")
    assert doing.in_words() == "pid 4711 on build-3 (run spec-42)"


def test_parts_erased_are_equal_where_what_is_known_of_them_is():
    one, other = (types.ErasedPart(kind="tool_call", call_id="c", size_bytes=n) for n in (1, 2))
    assert len({one, other}) == 1


def test_only_siblings_show_their_slot():
    key = ConversationKey(project_id=ProjectId("prj"), workstream="s", role="r")
    assert key.address == "s/r"
    assert structs.replace(key, slot=3).address == "s/r~3"


VALUES = [
    found
    for found in vars(types).values()
    if isinstance(found, type) and issubclass(found, Struct) and found is not Struct
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_every_value_is_frozen(value: type):
    assert value.__struct_config__.frozen  # type: ignore[attr-defined]


def test_a_lease_that_is_taken_has_the_token_after_the_one_that_was_seen():
    holder = Holder(host="h", boot_id="b", pid=1, started_at_ticks=2, doing="tell")
    seen = types.Lease(name="one", token=4, heartbeat=9, holder=None)
    assert seen.fence.token == 4
    assert types.LeaseClaim(name="one", holder=holder, seen=seen).fence.token == 5
    assert types.LeaseClaim(name="one", holder=holder).fence == types.Fence(name="one", token=1)
