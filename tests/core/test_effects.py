"""Effects: what counts as one, when two calls mean the same, what is held back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.effects import (
    EffectState,
    command_of,
    digest_of,
    effects_of,
    is_outward,
    must_hold_back,
    without_released,
)
from upthread.core.types import (
    PERMISSION,
    ConversationId,
    Message,
    Speaker,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
)


def message(seq: int, *parts: ToolCallPart | ToolResultPart | UnknownPart) -> Message:
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=seq,
        speaker=Speaker.ASSISTANT,
        turn_id=TurnId("trn_1"),
        upstream_session_id=None,
        recorded_at_ms=0,
        parts=parts,
    )


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
    (effect,) = effects_of([message(1, *parts)])
    assert effect.state is state
    assert effect.is_outward


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
            message(2, call("b", command="gh pr create"), result("b", "failed")),
        ]
    )

    def held(command: str) -> bool:
        return must_hold_back({digest_of(command, {"command": command})}, known) is not None

    assert held("git push")
    assert not held("git push --tags")
    assert not held("gh pr create")  # it is known to have failed
    assert not held("pytest")


@given(
    st.dictionaries(st.text(min_size=1), st.text() | st.integers(), min_size=1).filter(
        lambda arguments: not {"description", "cwd", "timeout"} & set(arguments)
    )
)
def test_the_order_of_arguments_and_what_is_said_about_a_call_do_not_matter(arguments):
    turned = {"description": "again", **dict(reversed(arguments.items()))}
    assert digest_of("t", arguments) == digest_of("t", turned)


def test_a_call_without_arguments_is_known_by_its_title():
    assert digest_of("Send mail", None) == digest_of("Send mail", {})
    assert digest_of("Send mail", None) != digest_of("Send more", None)


def test_a_command_is_the_same_action_whatever_else_is_said_of_it():
    assert digest_of("look", {"command": "git push", "why": "x"}) == digest_of("git push", None)


def intent(call_id, **more):
    raw = {"call_id": call_id, "title": "git push", "tool_kind": "execute", "arguments": None}
    return UnknownPart(kind="intent", raw={**raw, **more})


def test_an_action_that_was_asked_for_later_is_known_as_what_was_asked():
    announced = ToolCallPart(call_id="a", title="Read README", tool_kind="read")
    (effect,) = effects_of([message(1, announced, intent("a"))])
    assert (effect.title, effect.is_outward, effect.tool_kind) == ("git push", True, "execute")


def test_a_push_that_calls_itself_reading_is_an_effect():
    lying = ToolCallPart(
        call_id="a", title="Read", tool_kind="read", arguments={"command": "git push"}
    )
    (effect,) = effects_of([message(1, lying)])
    assert effect.is_outward


@pytest.mark.parametrize("raw", [{"call_id": "a"}, {"call_id": "a", "title": "t"}, None, 7])
def test_an_intent_of_an_earlier_version_says_nothing_of_its_own(raw):
    assert effects_of([message(1, UnknownPart(kind="intent", raw=raw))]) == ()


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "git push"}, "git push"),
        ({"command": ["git", "push"]}, "git push"),
        ({"command": 3}, ""),
        ({}, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_the_command_is_found_where_there_is_one(arguments, command):
    assert command_of(arguments) == command


def test_patterns_look_at_the_title_too():
    assert is_outward("deploy to production", None, ("*deploy*",))
    assert not is_outward("", None, ("*",))


def test_a_release_frees_one_action_by_its_words_and_leaves_the_others():
    def calls(*titles: str) -> list[Message]:
        parts = [
            ToolCallPart(call_id=f"c{i}", title=t, tool_kind="execute")
            for i, t in enumerate(titles)
        ]
        return [message(1, *parts)]

    effects = effects_of(calls("git push", "gh pr create", "git push"))
    words = effects[0].in_words
    assert [each.title for each in without_released(effects, [words])] == [
        "gh pr create",
        "git push",
    ]
    assert [each.title for each in without_released(effects, [words] * 3)] == ["gh pr create"]
    assert without_released(effects, []) == effects
