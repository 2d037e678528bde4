"""Each demand of the Responses API: a history that breaks it is found, one that keeps it is not."""

from __future__ import annotations

import pytest
from tests.testing.test_rehearsal_model_history_rules import REASONING as THOUGHT
from tests.testing.test_rehearsal_model_history_rules import USER, output
from tests.testing.test_rehearsal_model_history_rules import item as call

from upthread.core.history.openai_responses import OPENAI_RESPONSES_RULES, OUTPUT_OF
from upthread.core.history.rules import violations

REPLY = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
EXAMPLES = {
    "there_is_an_item": (None, {"input": []}),
    "text_is_unicode": (0, {"input": [{"role": "user", "content": "a\ud83dz"}]}),
    "calls_have_their_output": (1, {"input": [USER, call()]}),
    "outputs_have_their_call": (0, {"input": [output(), call()]}),
    "one_output_for_a_call": (None, {"input": [call(), output(), output()]}),
    "call_ids_differ": (None, {"input": [call(), call(), output()]}),
    "call_ids_fit": (0, {"input": [call(""), output("")]}),
    "item_ids_differ": (None, {"input": [{**USER, "id": "m"}, {**USER, "id": "m"}]}),
    "reasoning_is_followed": (1, {"input": [USER, THOUGHT, {**THOUGHT, "id": "rs_2"}, REPLY]}),
    "arguments_are_json_text": (0, {"input": [call(arguments="{"), output()]}),
    "names_fit": (0, {"input": [call(name="a b"), output()]}),
    "messages_say_something": (0, {"input": [{"role": "user", "content": ""}]}),
    "history_comes_once": (0, {"input": [REPLY], "previous_response_id": "resp_1"}),
}


@pytest.mark.parametrize("rule", OPENAI_RESPONSES_RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_what_breaks_it(rule):
    where, broken = EXAMPLES[rule.name]
    found = violations([rule], broken)
    assert found[0].message == where
    assert "https://" in rule.source


@pytest.mark.parametrize(
    "kept",
    [
        {"input": "hello"},
        {"input": [USER, THOUGHT, call("c1"), call("c2"), output("c2"), output("c1"), REPLY]},
        {"input": [USER, THOUGHT, REPLY]},
        {"input": [output()], "previous_response_id": "resp_1"},
        {"input": [{**USER, "id": "m1"}, {**USER, "id": "m2"}]},
    ],
)
def test_a_valid_history_breaks_no_rule(kept):
    assert violations(OPENAI_RESPONSES_RULES, kept) == ()


@pytest.mark.parametrize("kind", OUTPUT_OF)
def test_every_kind_of_call_wants_an_output_of_its_own_kind(kind):
    right = {"input": [call(kind=kind), output(kind=OUTPUT_OF[kind])]}
    wrong = {"input": [call(kind=kind), output(kind="mcp_call_output")]}
    assert violations(OPENAI_RESPONSES_RULES, right) == ()
    assert [v.rule for v in violations(OPENAI_RESPONSES_RULES, wrong)] == [
        "calls_have_their_output"
    ]


def test_reasoning_at_the_end_led_to_nothing():
    found = violations(OPENAI_RESPONSES_RULES, {"input": [USER, THOUGHT]})
    assert [each.rule for each in found] == ["reasoning_is_followed"]


def test_a_role_that_is_none_is_found():
    found = violations(OPENAI_RESPONSES_RULES, {"input": [{"role": "robot", "content": "x"}]})
    assert [each.rule for each in found] == ["messages_say_something"]
