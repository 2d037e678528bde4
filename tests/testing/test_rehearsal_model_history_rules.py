"""Each rule with a history that breaks it and one that keeps it; and valid histories stay valid."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upthread.testing.rehearsal_model.messages import MESSAGES_RULES, sign_thinking
from upthread.testing.rehearsal_model.protocol import apply_rules
from upthread.testing.rehearsal_model.responses import RESPONSES_RULES

USER = {"role": "user", "content": "hi"}
REPLY = {"role": "assistant", "content": "hello"}


def use(id_="t1", **more):
    return {"type": "tool_use", "id": id_, "name": "read", "input": {}, **more}


def result(id_="t1"):
    return {"type": "tool_result", "tool_use_id": id_, "content": "ok"}


def text(words="hello"):
    return {"type": "text", "text": words}


def thought(words="hm", signature=None):
    signature = sign_thinking(words) if signature is None else signature
    return {"type": "thinking", "thinking": words, "signature": signature}


def assistant(*blocks: object):
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: object):
    return {"role": "user", "content": list(blocks)}


def item(call_id="c1", *, kind="function_call", arguments="{}", **more):
    return {"type": kind, "call_id": call_id, "name": "read", "arguments": arguments, **more}


def output(call_id="c1", kind="function_call_output", **more):
    return {"type": kind, "call_id": call_id, "output": "ok", **more}


MESSAGES_EXAMPLES = {
    "there_is_a_message": (None, [], [USER]),
    "text_is_unicode": (0, [{"role": "user", "content": "a\udc00"}], [USER]),
    "roles_are_known": (1, [USER, {"role": "robot", "content": "x"}], [USER, REPLY]),
    "first_message_is_the_users": (0, [REPLY, USER], [USER, REPLY]),
    "tool_results_come_first": (
        2,
        [USER, assistant(use()), user(text(), result())],
        [USER, assistant(use()), user(result(), text())],
    ),
    "each_tool_use_is_answered_next": (
        1,
        [USER, assistant(use("t1"), use("t2")), user(result("t1")), REPLY],
        [USER, assistant(use("t1"), use("t2")), user(result("t2")), user(result("t1")), USER],
    ),
    "each_tool_result_has_its_use": (
        4,
        [USER, assistant(use("t1")), user(result("t1")), REPLY, user(result("t1"))],
        [USER, assistant(use("t1")), user(result("t1")), REPLY, USER],
    ),
    "each_tool_use_is_answered_once": (
        2,
        [USER, assistant(use()), user(result(), result())],
        [USER, assistant(use()), user(result())],
    ),
    "tool_use_ids_are_unique": (
        3,
        [USER, assistant(use()), user(result()), assistant(use()), user(result())],
        [USER, assistant(use()), user(result()), assistant(use("t2")), user(result("t2"))],
    ),
    "text_is_not_empty": (1, [USER, assistant(text("")), USER], [USER, assistant(text()), USER]),
    "content_is_not_empty": (1, [USER, assistant(), USER], [USER, assistant()]),
    "thinking_is_signed_and_unchanged": (
        1,
        [USER, assistant(thought("hm", signature="rehearsal-other"), text()), USER],
        [USER, assistant(thought("hm"), text()), USER],
    ),
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
PATCH = item("p1", kind="apply_patch_call")
RESPONSES_EXAMPLES = {
    "there_is_an_item": (None, [], [USER]),
    "text_is_unicode": (0, [{"role": "user", "content": "a\ud83dz"}], [USER]),
    "each_call_has_its_output": (
        1,
        [USER, item(), output("c1", kind="apply_patch_call_output")],
        [USER, item(), PATCH, output(), output("p1", kind="apply_patch_call_output")],
    ),
    "each_output_has_its_call": (1, [USER, output(), item()], [USER, item(), output()]),
    "ids_are_used_once": (
        3,
        [USER, item(), output(), output()],
        [USER, item("c1", id="fc_1"), output("c1", id="fo_1"), item("c2"), output("c2")],
    ),
    "reasoning_has_its_item": (
        1,
        [USER, REASONING, output("c1"), USER],
        [USER, REASONING, item(), output(), {**REASONING, "id": "rs_2"}, REPLY],
    ),
}
TOOLS = [{"name": "read"}]


PROTOCOLS = {
    "messages": (MESSAGES_RULES, MESSAGES_EXAMPLES, lambda m: {"messages": m, "tools": TOOLS}),
    "responses": (RESPONSES_RULES, RESPONSES_EXAMPLES, lambda said: {"input": said}),
}
"""The rules of a protocol, their examples, and how it sends a history."""


def rules_broken(rules, body):
    return [(found.rule, found.message_index) for found in apply_rules(rules, body)]


@pytest.mark.parametrize(
    ("protocol", "rule"),
    [(name, rule) for name, (_, examples, _) in PROTOCOLS.items() for rule in examples],
)
def test_a_rule_finds_its_fault_and_passes_what_is_right(protocol, rule):
    rules, examples, body_of = PROTOCOLS[protocol]
    index, broken, kept = examples[rule]
    assert (rule, index) in rules_broken(rules, body_of(broken))
    assert rules_broken(rules, body_of(kept)) == []


def test_an_output_may_answer_a_call_of_the_response_before():
    body = {"input": [output()], "previous_response_id": "resp_1"}
    assert rules_broken(RESPONSES_RULES, body) == []


def system(content: object = "be brief", **more: object):
    return {"role": "system", "content": content, **more}


DIRECTIVE = system([], output_config={"effort": "high"})
SYSTEM_MESSAGES_TAKEN = {
    "after the first prompt": [USER, system(output_config={"effort": "medium"})],
    "between the user and the answer": [USER, system([text()]), system(), REPLY, USER, system()],
    "after a result": [USER, assistant(use()), user(result()), system(), REPLY, USER],
    "a directive first": [DIRECTIVE, USER],
    "a directive before the user": [USER, REPLY, DIRECTIVE, USER],
    "a directive between a call and its result": [
        *(USER, assistant(use()), DIRECTIVE, user(result())),
    ],
}


@pytest.mark.parametrize("case", SYSTEM_MESSAGES_TAKEN)
def test_a_system_message_is_taken_where_claude_code_puts_one(case):
    body = {"messages": SYSTEM_MESSAGES_TAKEN[case], "tools": TOOLS}
    assert rules_broken(MESSAGES_RULES, body) == []


@pytest.mark.parametrize(
    ("protocol", "last", "broken"),
    [
        ("responses", item(), "each_call_has_its_output"),
        ("messages", assistant(use()), "each_tool_use_is_answered_next"),
    ],
)
def test_a_history_that_breaks_off_is_found(protocol, last, broken):
    rules, _, body_of = PROTOCOLS[protocol]
    assert rules_broken(rules, body_of([USER, last])) == [(broken, 1)]


def test_every_rule_has_an_example():
    for rules, examples, _ in PROTOCOLS.values():
        assert {rule.__name__ for rule in rules} == set(examples)


TOOL_BLOCKS = ("tool_use", "tool_result")
WORDS = st.text('aß漢🙂 \n\x00"{}[]', min_size=1, max_size=20).filter(str.strip)
ARGUMENTS = st.dictionaries(WORDS, st.one_of(WORDS, st.integers()), max_size=2)


@st.composite
def dialogues(draw):
    """Turns as (user's words, rounds of calls by argument, whether it thought, answer's words)."""
    rounds = st.lists(st.lists(ARGUMENTS, min_size=1, max_size=3), max_size=3)
    turn = st.tuples(WORDS, rounds, st.booleans(), WORDS)
    return draw(st.lists(turn, min_size=1, max_size=5)), draw(WORDS)


def anthropic_turn(turn, numbers):
    words, rounds, is_thoughtful, reply = turn
    yield user(text(words))
    for arguments in rounds:
        uses = [use(f"t{next(numbers)}", input=each) for each in arguments]
        yield assistant(*([thought(words)] if is_thoughtful else []), *uses)
        yield user(*(result(each["id"]) for each in reversed(uses)), text(words))
    yield assistant(text(reply))


@pytest.mark.soak
@given(dialogues(), st.data())
def test_a_valid_history_is_valid_until_it_loses_one_tool_message(dialogue, data):
    turns, question = dialogue
    numbers = itertools.count()
    messages = [each for turn in turns for each in anthropic_turn(turn, numbers)]
    body = {"messages": [*messages, user(text(question))], "tools": TOOLS}
    assert apply_rules(MESSAGES_RULES, body) == ()
    places = [n for n, m in enumerate(messages) if m["content"][0]["type"] in TOOL_BLOCKS]
    if places:
        del body["messages"][data.draw(st.sampled_from(places))]
        assert apply_rules(MESSAGES_RULES, body) != ()


KEYS = st.sampled_from(
    ["role", "content", "type", "text", "id", "tool_calls", "function", "input", "tool_use_id"]
)
TEXTS = ["", " ", "user", "assistant", "tool", "tool_use", "tool_result", "thinking", "text", "{"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


BODIES = st.sampled_from(["messages", "input", "tools", "thinking"])


@given(st.dictionaries(BODIES, JSON, max_size=3))
@example({"input": [{"role": []}]})
def test_no_shape_of_body_breaks_a_rule(body):
    apply_rules(MESSAGES_RULES, body)
    apply_rules(RESPONSES_RULES, body)
