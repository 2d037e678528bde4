"""Each demand of Chat Completions: a history that breaks it is found, one that keeps it is not."""

from __future__ import annotations

import pytest
from tests.testing.test_rehearsal_model_history_rules import (
    REPLY,
    USER,
    answer,
    call,
    calls,
    picture,
)

from upthread.core.history.openai_chat import OPENAI_CHAT_RULES, is_json_object
from upthread.core.history.rules import violations

KEPT = [USER, calls(call("c1"), call("c2")), answer("c2"), answer("c1"), REPLY]
EXAMPLES = {
    "there_is_a_message": (None, []),
    "text_is_unicode": (0, [{"role": "user", "content": "a\ud83dz"}]),
    "roles_are_known": (0, [{"role": "robot", "content": "x"}]),
    "calls_are_answered_next": (1, [USER, calls(call("c1"), call("c2")), answer("c1"), USER]),
    "answers_have_their_call": (2, [USER, REPLY, answer()]),
    "one_answer_for_a_call": (2, [USER, calls(call()), answer(), answer()]),
    "call_ids_differ": (1, [USER, calls(call(), call()), answer()]),
    "call_ids_fit": (1, [USER, calls(call("x" * 41)), answer("x" * 41)]),
    "arguments_are_json_text": (1, [USER, calls(call(arguments='{"a": ')), answer()]),
    "names_fit": (1, [USER, calls(call(name="a b")), answer()]),
    "content_is_there": (0, [{"role": "user", "content": None}]),
    "images_are_of_known_type": (0, [picture("data:image/bmp;base64,AA==")]),
}


@pytest.mark.parametrize("rule", OPENAI_CHAT_RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_what_breaks_it(rule):
    where, broken = EXAMPLES[rule.name]
    found = violations([rule], {"messages": broken})
    assert found[0].message == where
    assert "https://" in rule.source


@pytest.mark.parametrize(
    "kept", [KEPT, [picture("data:image/png;base64,AA==")], [picture("https://x/y")]]
)
def test_a_valid_history_breaks_no_rule(kept):
    assert violations(OPENAI_CHAT_RULES, {"messages": kept}) == ()


@pytest.mark.parametrize(
    ("messages", "where", "rule"),
    [
        ([answer(), USER], 0, "answers_have_their_call"),
        ([USER, calls(call(arguments={})), answer()], 1, "arguments_are_json_text"),
    ],
)
def test_what_stands_at_the_beginning_or_is_no_text_is_found_too(messages, where, rule):
    found = violations(OPENAI_CHAT_RULES, {"messages": messages})
    assert [(each.message, each.rule) for each in found] == [(where, rule)]


@pytest.mark.parametrize(
    ("words", "is_object"), [("{}", True), ("[]", False), ("", False), ("[" * 20_000, False)]
)
def test_only_a_json_object_is_one(words, is_object):
    assert is_json_object(words) is is_object
