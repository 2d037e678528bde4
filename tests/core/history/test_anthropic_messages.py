"""Each demand of the Messages API: a history that breaks it is found, one that keeps it is not."""

from __future__ import annotations

import pytest
from tests.testing.test_rehearsal_model_history_rules import (
    MESSAGES_EXAMPLES,
    REPLY,
    TOOLS,
    USER,
    assistant,
    result,
    text,
    thought,
    use,
    user,
)

from upthread.core.history.anthropic_messages import ANTHROPIC_MESSAGES_RULES
from upthread.core.history.rules import violations


def thinking(*messages: object):
    return {"messages": list(messages), "thinking": {"type": "enabled"}}


ANSWERED = [USER, assistant(use()), user(result())]

AS_THE_REHEARSAL_MODEL_HAS_IT = {
    "there_is_a_message": "there_is_a_message",
    "the_user_begins": "first_message_is_the_users",
    "results_come_first": "tool_results_come_first",
    "uses_are_answered_next": "each_tool_use_is_answered_next",
    "one_result_for_a_use": "each_tool_use_is_answered_once",
    "use_ids_differ": "tool_use_ids_are_unique",
    "use_ids_fit": "tool_use_ids_match_the_pattern",
    "input_is_an_object": "tool_input_is_an_object",
    "thinking_comes_before_uses": "thinking_comes_before_tool_use",
    "server_uses_are_answered": "server_tool_pairs_stay_together",
    "images_are_of_known_type": "images_have_a_known_type",
}
"""The rules that the rehearsal model has as well, with the same examples."""

# rule: (where, a request that breaks it, one that keeps it); `tools` are defined unless said.
EXAMPLES = {
    **{ours: MESSAGES_EXAMPLES[theirs] for ours, theirs in AS_THE_REHEARSAL_MODEL_HAS_IT.items()},
    "text_is_unicode": (0, [user(text("a\ud83dz"))], [USER]),
    "roles_are_known": (1, [USER, {"role": "system", "content": "x"}], [USER, REPLY]),
    "uses_come_last": (
        1,
        [USER, assistant(use(), text()), user(result())],
        [USER, assistant(text(), use()), user(result())],
    ),
    "results_have_their_use": (2, [USER, REPLY, user(result())], ANSWERED),
    "text_says_something": (0, [user(text(" \n"))], [user(text("x"))]),
    "content_is_there": (0, [user(), REPLY], [USER, assistant()]),
    "the_end_is_trimmed": (1, [USER, assistant(text("so "))], [USER, assistant(text("so")), USER]),
    "thinking_is_signed": (
        1,
        [USER, assistant(thought(signature=""))],
        [USER, assistant(thought())],
    ),
}
REQUESTS = {
    "tools_are_defined": (None, {"messages": ANSWERED}, {"messages": [USER]}),
    "the_user_ends": (1, thinking(USER, REPLY), thinking(USER, REPLY, USER)),
    **{
        name: (where, {"messages": broken, "tools": TOOLS}, {"messages": kept, "tools": TOOLS})
        for name, (where, broken, kept) in EXAMPLES.items()
    },
}


@pytest.mark.parametrize("rule", ANTHROPIC_MESSAGES_RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_what_breaks_it_and_nothing_else(rule):
    where, broken, kept = REQUESTS[rule.name]
    found = violations([rule], broken)
    assert found[0].message == where
    assert rule.name in found[0].in_words()
    assert rule.cure in found[0].in_words()
    assert violations(ANTHROPIC_MESSAGES_RULES, kept) == ()


def test_every_rule_names_its_source_and_its_cure():
    for rule in ANTHROPIC_MESSAGES_RULES:
        assert "https://" in rule.source
        assert rule.demand
        assert rule.cure


@pytest.mark.parametrize("body", [{}, {"messages": 3}, {"messages": [3, None, {"content": 7}]}])
def test_what_is_no_request_is_judged_and_does_not_crash(body):
    assert violations(ANTHROPIC_MESSAGES_RULES, body)
