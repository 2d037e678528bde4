"""Each demand of the Messages API: a history that breaks it is found, one that keeps it is not."""

from __future__ import annotations

import pytest
from tests.testing.test_rehearsal_model_history_rules import (
    REPLY,
    SERVER_RESULT,
    SERVER_USE,
    TOOLS,
    USER,
    assistant,
    image,
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

# rule: (where, a request that breaks it, one that keeps it); `tools` are defined unless said.
EXAMPLES = {
    "there_is_a_message": (None, [], [USER]),
    "text_is_unicode": (0, [user(text("a\ud83dz"))], [USER]),
    "roles_are_known": (1, [USER, {"role": "system", "content": "x"}], [USER, REPLY]),
    "the_user_begins": (0, [REPLY, USER], [USER, REPLY]),
    "results_come_first": (
        2,
        [USER, assistant(use()), user(text(), result())],
        [USER, assistant(use()), user(result(), text())],
    ),
    "uses_come_last": (
        1,
        [USER, assistant(use(), text()), user(result())],
        [USER, assistant(text(), use()), user(result())],
    ),
    "uses_are_answered_next": (
        1,
        [USER, assistant(use("t1"), use("t2")), user(result("t1"))],
        [USER, assistant(use("t1"), use("t2")), user(result("t2")), user(result("t1"))],
    ),
    "results_have_their_use": (2, [USER, REPLY, user(result())], ANSWERED),
    "one_result_for_a_use": (2, [USER, assistant(use()), user(result(), result())], ANSWERED),
    "use_ids_differ": (
        3,
        [USER, assistant(use()), user(result()), assistant(use()), user(result())],
        [USER, assistant(use()), user(result()), assistant(use("t2")), user(result("t2"))],
    ),
    "use_ids_fit": (
        1,
        [USER, assistant(use("a:b")), user(result("a:b"))],
        [USER, assistant(use("a_b")), user(result("a_b"))],
    ),
    "input_is_an_object": (
        1,
        [USER, assistant(use(input="{}")), user(result())],
        [USER, assistant(use(input={"a": 1})), user(result())],
    ),
    "text_says_something": (0, [user(text(" \n"))], [user(text("x"))]),
    "content_is_there": (0, [user(), REPLY], [USER, assistant()]),
    "the_end_is_trimmed": (1, [USER, assistant(text("so "))], [USER, assistant(text("so")), USER]),
    "thinking_is_signed": (
        1,
        [USER, assistant(thought(signature=""))],
        [USER, assistant(thought())],
    ),
    "thinking_comes_before_uses": (
        1,
        [USER, assistant(use(), thought()), user(result())],
        [USER, assistant(thought(), use()), user(result())],
    ),
    "server_uses_are_answered": (
        1,
        [USER, assistant(SERVER_USE)],
        [USER, assistant(SERVER_USE, SERVER_RESULT)],
    ),
    "images_are_of_known_type": (0, [user(image("image/bmp"))], [user(image("image/png"))]),
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


def test_a_final_answer_without_blocks_is_valid():
    assert violations(ANTHROPIC_MESSAGES_RULES, {"messages": [USER, assistant()]}) == ()
