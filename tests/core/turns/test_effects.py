"""Effects: what counts as one, when two calls mean the same, what is held back."""

from collections.abc import Sequence

import pytest
from msgspec import structs
from tests.core.messages import stored

from upthread.core.outward.calls import actions_of_call
from upthread.core.shell.expected_call import foreseen
from upthread.core.turns.effects import (
    Effect,
    EffectState,
    Settlement,
    effects_of,
    held,
    in_doubt,
    must_hold_back,
    settled,
)
from upthread.core.types import (
    PERMISSION,
    ContextPart,
    ConversationId,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)


def message(
    seq: int, *parts: Part, speaker: Speaker = Speaker.ASSISTANT, turn: str = "trn_1"
) -> Message:
    return stored(*parts, seq=seq, speaker=speaker, turn=turn)


ENDED = (TextPart(text="So it went."),)
"""What an agent says when it has seen how all ended."""


def asked(seq: int) -> Message:
    return message(seq, ContextPart(text="Go on."), speaker=Speaker.USER)


def call(call_id: str, kind: str = "execute", command: str = "git push") -> ToolCallPart:
    return ToolCallPart(
        call_id=call_id, title=command, tool_kind=kind, arguments={"command": command}
    )


def result(call_id: str, status: str = "completed") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, status=status, text="")


def answered(call_id: object, answer: object) -> UnknownPart:
    return UnknownPart(kind=PERMISSION, raw={"call_id": call_id, "answer": answer})


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("allow_once", EffectState.UNKNOWN),
        ("allow_always", EffectState.UNKNOWN),
        ("reject_once", EffectState.FAILED),
        ("cancelled", EffectState.FAILED),
    ],
)
def test_what_was_asked_for_and_not_allowed_has_not_been_done(answer, state):
    (effect,) = effects_of(
        [message(1, call("c1"), answered("c1", answer), result("c1", "unknown"))]
    )
    assert (effect.state, effect.was_asked) == (state, True)


@pytest.mark.parametrize(
    "note",
    [
        UnknownPart(kind="plan", raw={"call_id": "c1", "answer": "cancelled"}),
        UnknownPart(kind=PERMISSION, raw=None),
        answered(None, "cancelled"),
        answered("c1", None),
        answered("another", "cancelled"),
    ],
)
def test_a_note_that_answers_nothing_changes_no_effect(note):
    (effect,) = effects_of([message(1, call("c1"), note, result("c1"))])
    assert (effect.state, effect.was_asked) == (EffectState.DONE, False)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (None, EffectState.INTENT),
        ("completed", EffectState.DONE),
        ("failed", EffectState.FAILED),
        ("unknown", EffectState.UNKNOWN),
    ],
)
def test_a_call_is_an_intent_until_its_result_is_known(status, state):
    parts = [call("c1")] + ([result("c1", status)] if status else [])
    (effect,) = effects_of([message(1, *parts), message(2, *ENDED)])
    assert effect.state is state
    assert bool(effect.actions)


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ((), EffectState.UNKNOWN),
        ((message(3, UnknownPart(kind="plan", raw=None)),), EffectState.UNKNOWN),
        ((asked(3), message(4, TextPart(text="Again."))), EffectState.UNKNOWN),
        ((message(3, TextPart(text="Next."), turn="trn_2"),), EffectState.UNKNOWN),
        ((message(3, ReasoningPart(text="It failed.")), asked(4)), EffectState.FAILED),
        ((message(3, call("d1")), asked(4)), EffectState.FAILED),
    ],
)
def test_a_failure_that_the_agent_did_not_live_to_see_may_be_the_kill_itself(after, state):
    messages = [message(1, call("c1")), message(2, result("c1", "failed")), *after]
    assert effects_of(messages)[0].state is state


def test_what_was_held_back_has_not_been_done_though_nobody_went_on_from_it():
    parts = (call("c1"), answered("c1", "cancelled"), result("c1", "failed"))
    assert effects_of([message(1, *parts)])[0].state is EffectState.FAILED


def test_reading_and_thinking_change_nothing():
    kinds = ("read", "search", "think", "fetch")
    assert effects_of([message(1, *(call(kind, kind, "cat a.txt") for kind in kinds))]) == ()


def test_a_result_without_its_call_is_no_effect():
    assert effects_of([message(1, result("c9"))]) == ()


def test_effects_are_listed_in_order_and_in_words():
    effects = effects_of(
        [message(1, call("a", "edit", "Write a.txt"), result("a")), message(2, call("b"))]
    )
    assert [effect.in_words for effect in effects] == [
        "Write a.txt: done",
        "git push: outcome unknown",
    ]
    assert [effect.seq for effect in effects] == [1, 2]


def test_an_outward_call_that_was_done_or_may_have_been_is_held_back():
    known = effects_of(
        [
            message(1, call("a")),
            message(2, call("b", command="gh pr create"), result("b", "failed"), *ENDED),
        ]
    )

    assert holding("git push", known) == "a"
    assert holding("git push --quiet origin main", known) == "a"
    assert holding("gh pr create", known) == "a", "nothing runs that is not repeatable"
    assert holding("python x.py", known) == "a"
    assert holding("pytest", known) is None
    assert holding("gh pr create", settled(known, {"a": Settlement.DONE})) is None, "it failed"


def holding(command: str, known: Sequence[Effect]) -> str | None:
    """Return the call because of which a command must not run."""
    (meant,) = effects_of([message(9, call("asked", command=command))]) or (None,)
    will_happen = meant.will_happen if meant else foreseen([])
    effect = must_hold_back(
        will_happen,
        known,
        actions=actions_of_call("", {"command": command}),
        is_repeatable=will_happen.changed_if_repeatable() is not None,
    )
    return effect.call_id if effect else None


@pytest.mark.parametrize(
    ("command", "status", "is_held"),
    [
        ("python x.py", None, True),
        ("python x.py", "completed", True),
        ("python x.py", "failed", True),
        ("git push && false", "failed", True),
        ("git push", "failed", False),
        ("pytest", None, False),
        ("pytest", "completed", False),
    ],
)
def test_what_an_interrupted_turn_did_holds_unless_it_is_repeatable_or_failed(
    command, status, is_held
):
    parts = [call("a", command=command)] + ([result("a", status)] if status else [])
    effects = effects_of([message(1, *parts), message(2, *ENDED)])
    assert [each.call_id for each in held(effects)] == (["a"] if is_held else [])


def test_a_call_that_is_not_understood_is_the_same_by_its_words():
    known = settled(
        effects_of([message(1, call("a", command="python x.py"))]), {"a": Settlement.DONE}
    )
    assert holding("python  x.py", known) == "a"
    assert holding("python y.py", known) is None


def test_what_was_done_before_its_turn_was_prompted_again_is_told_apart():
    prompt = message(2, TextPart(text="Go on."), speaker=Speaker.USER)
    found = effects_of([message(1, call("a")), prompt, message(3, call("b"))])
    assert [(each.call_id, each.was_followed) for each in found] == [("a", True), ("b", False)]


def test_a_person_lets_one_call_be_made_while_another_action_is_in_doubt():
    effects = effects_of([message(1, call("a")), message(2, call("b", command="./x.sh"))])
    for said in (Settlement.AGAIN, Settlement.NOT_DONE):
        known = settled(effects, {"b": said})
        assert holding("./x.sh", known) is None
        assert holding("./x.sh && ./y.sh", known) == "a"
        assert holding("git push", known) == "a"


def test_a_tool_that_is_no_command_is_the_same_by_its_title_and_arguments():
    tool = ToolCallPart(call_id="a", title="mcp__x__y", tool_kind="other", arguments={"a": 1})
    (effect,) = effects_of([message(1, tool)])
    other = structs.replace(tool, call_id="b", arguments={"a": 2})
    found = settled([effect], {"a": Settlement.DONE})
    for asked, is_same in ((tool, True), (other, False)):
        (meant,) = effects_of([message(2, asked)])
        same = must_hold_back(meant.will_happen, found, actions=(), is_repeatable=False)
        assert (same is not None) is is_same


def test_an_edit_does_not_count_whatever_file_it_is_of():
    (effect,) = effects_of([message(1, ToolCallPart(call_id="a", title="x", tool_kind="edit"))])
    assert not effect.counts


def test_a_delegation_does_not_count_because_its_sub_agents_calls_do():
    task = ToolCallPart(call_id="a", title="look", tool_kind="other")
    child = ToolResultPart(
        call_id="a", status="unknown", text="", child_conversation_id=ConversationId("con_b")
    )
    (effect,) = effects_of([message(1, task, child)])
    assert not effect.counts


def test_what_is_called_reading_and_is_not_understood_is_an_effect():
    (effect,) = effects_of([message(1, call("a", "read", "nc host 80"))])
    assert effect.is_in_doubt
    assert not bool(effect.actions)


def intent(call_id, **more):
    raw = {"call_id": call_id, "title": "git push", "tool_kind": "execute", "arguments": None}
    return UnknownPart(kind="intent", raw={**raw, **more})


def test_an_action_that_was_asked_for_later_is_known_as_what_was_asked():
    announced = ToolCallPart(call_id="a", title="Read README", tool_kind="read")
    (effect,) = effects_of([message(1, announced, intent("a"))])
    assert (effect.title, bool(effect.actions), effect.tool_kind) == ("git push", True, "execute")


def test_a_push_that_calls_itself_reading_is_an_effect():
    lying = ToolCallPart(
        call_id="a", title="Read", tool_kind="read", arguments={"command": "git push"}
    )
    (effect,) = effects_of([message(1, lying)])
    assert bool(effect.actions)


@pytest.mark.parametrize("raw", [{"call_id": "a"}, {"call_id": "a", "title": "t"}, None, 7])
def test_an_intent_of_an_earlier_version_says_nothing_of_its_own(raw):
    assert effects_of([message(1, UnknownPart(kind="intent", raw=raw))]) == ()


def test_what_nobody_looked_at_is_in_doubt_until_the_same_is_known_to_have_been_done():
    pushes = [message(1, call("a")), message(2, call("b", command="pytest"))]
    other = call("c", command="git push origin dev")
    assert [each.call_id for each in in_doubt(effects_of([*pushes, message(3, other)]))] == [
        "a",
        "c",
    ]
    again = message(4, call("d", command="git push -q"), result("d"))
    assert in_doubt(effects_of([*pushes, message(3, other), again])) == ()
    elsewhere = message(4, call("d", command="git push backup"), result("d"))
    assert [each.call_id for each in in_doubt(effects_of([message(3, other), elsewhere]))] == ["c"]
    failed = message(4, call("d"), result("d", "failed"), *ENDED)
    assert [each.call_id for each in in_doubt(effects_of([*pushes, failed]))] == ["a"]


@pytest.mark.parametrize(
    ("said", "state", "is_held"),
    [
        (Settlement.DONE, EffectState.DONE, True),
        (Settlement.NOT_DONE, EffectState.FAILED, False),
        (Settlement.AGAIN, EffectState.INTENT, False),
    ],
)
def test_after_a_person_looked_it_is_as_they_say(said, state, is_held):
    found = effects_of([message(1, call("a")), message(2, call("b", command="gh pr create"))])
    first, second = settled(found, {"a": said})
    assert (first.state, first.settled, first.is_in_doubt) == (state, said, False)
    assert second.is_in_doubt
    assert (holding("git push", [first]) is not None) == is_held


def test_what_was_done_and_what_may_have_been_is_held_until_somebody_has_spoken_of_it():
    done = [message(1, call("a"), result("a")), message(2, call("b", command="gh pr create"))]
    local = message(3, call("c", command="pytest"), call("d"), result("d", "failed"), *ENDED)
    effects = effects_of([*done, local])
    assert [each.call_id for each in held(effects)] == ["a", "b"]
    assert [each.call_id for each in held(settled(effects, {"a": Settlement.AGAIN}))] == ["b"]


def test_an_outcome_that_somebody_else_knows_is_told_where_it_is_not_known_here():
    (unknown,) = effects_of([message(1, call("a"))])
    (done,) = effects_of([message(1, call("a"), result("a"))])
    assert (unknown.outcome_in_words, done.outcome_in_words) == ("outcome unknown", "done")
    assert unknown.with_outcome("completed") == "git push: completed"
    assert unknown.with_outcome("unknown") == "git push: outcome unknown"
    assert done.with_outcome("failed") == "git push: done"
