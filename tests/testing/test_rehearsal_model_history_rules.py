"""Each rule with a history that breaks it and one that keeps it; and valid histories stay valid."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.core.history.histories import Histories
from tests.core.history.requests import as_anthropic_messages, as_chat_messages, as_responses_input

from upthread.core.history.repair import repair
from upthread.testing.rehearsal_model.chat_completions import CHAT_COMPLETIONS_RULES
from upthread.testing.rehearsal_model.messages import MESSAGES_RULES, sign_thinking
from upthread.testing.rehearsal_model.protocol import apply_rules
from upthread.testing.rehearsal_model.responses import RESPONSES_RULES

USER = {"role": "user", "content": "hi"}
REPLY = {"role": "assistant", "content": "hello"}


def call(id_="c1", name="read", arguments="{}"):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: object, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(made)}


def answer(id_="c1"):
    return {"role": "tool", "tool_call_id": id_, "content": "ok"}


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


def image(kind):
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": ""}}


def picture(url):
    return user({"type": "image_url", "image_url": {"url": url}})


def item(call_id="c1", *, kind="function_call", arguments="{}", **more):
    return {"type": kind, "call_id": call_id, "name": "read", "arguments": arguments, **more}


def output(call_id="c1", kind="function_call_output", **more):
    return {"type": kind, "call_id": call_id, "output": "ok", **more}


SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}

CHAT_EXAMPLES = {
    # rule: (position of the fault, messages that break it, messages that keep it)
    "there_is_a_message": (None, [], [USER]),
    "text_is_unicode": (0, [{"role": "user", "content": "a\ud83dz"}], [USER]),
    "roles_are_known": (0, [{"role": "robot", "content": "x"}], [USER, REPLY]),
    "each_call_is_answered_next": (
        1,
        [USER, calls(call("c1"), call("c2")), answer("c1"), USER, answer("c2")],
        [USER, calls(call("c1"), call("c2")), answer("c2"), answer("c1"), USER],
    ),
    "each_answer_has_its_call": (2, [USER, REPLY, answer()], [USER, calls(call()), answer()]),
    "each_call_is_answered_once": (
        3,
        [USER, calls(call("c1")), answer("c1"), answer("c1")],
        [USER, calls(call("c1")), answer("c1"), calls(call("c1")), answer("c1")],
    ),
    "call_ids_differ": (
        1,
        [USER, calls(call("c1"), call("c1")), answer("c1")],
        [USER, calls(call("c1"), call("c2")), answer("c1"), answer("c2")],
    ),
    "arguments_are_json_text": (
        1,
        [USER, calls(call(arguments={"a": 1})), answer()],
        [USER, calls(call(arguments='{"a": 1}')), answer()],
    ),
    "names_match_the_pattern": (
        1,
        [USER, calls(call(name="read file")), answer()],
        [USER, calls(call(name="x" * 64)), answer()],
    ),
    "content_is_null_only_with_calls": (
        1,
        [USER, {"role": "assistant", "content": None}],
        [USER, calls(call(), content=None), answer()],
    ),
    "images_have_a_known_type": (
        0,
        [picture("data:image/bmp;base64,AA")],
        [picture("data:image/png;base64,AA"), picture("https://example.org/a.bmp")],
    ),
}

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
    "tool_use_ids_match_the_pattern": (
        1,
        [USER, assistant(use("t:1")), user(result("t:1"))],
        [USER, assistant(use("t-1_A")), user(result("t-1_A"))],
    ),
    "tool_input_is_an_object": (
        1,
        [USER, assistant(use(input="{}")), user(result())],
        [USER, assistant(use(input={"a": 1})), user(result())],
    ),
    "text_is_not_empty": (1, [USER, assistant(text("")), USER], [USER, assistant(text()), USER]),
    "content_is_not_empty": (1, [USER, assistant(), USER], [USER, assistant()]),
    "final_answer_has_no_trailing_space": (
        1,
        [USER, assistant(text("so "))],
        [USER, assistant(text("so ")), USER, assistant(text("so"))],
    ),
    "thinking_is_signed_and_unchanged": (
        1,
        [USER, assistant(thought("hm", signature="rehearsal-other"), text()), USER],
        [USER, assistant(thought("hm"), text()), USER],
    ),
    "thinking_comes_before_tool_use": (
        1,
        [USER, assistant(use(), thought()), user(result())],
        [USER, assistant(thought(), use()), user(result())],
    ),
    "server_tool_pairs_stay_together": (
        1,
        [USER, assistant(SERVER_USE, text()), USER],
        [USER, assistant(SERVER_USE, SERVER_RESULT, text()), USER],
    ),
    "images_have_a_known_type": (0, [user(image("image/bmp"))], [user(image("image/png"))]),
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
    "call_ids_have_a_length": (
        1,
        [USER, item("c" * 65), output("c" * 65)],
        [USER, item("c" * 64), output("c" * 64)],
    ),
    "reasoning_has_its_item": (
        1,
        [USER, REASONING, output("c1"), USER],
        [USER, REASONING, item(), output(), {**REASONING, "id": "rs_2"}, REPLY],
    ),
    "arguments_are_json_text": (
        1,
        [USER, item(arguments='{"path": "a'), output()],
        [USER, item(arguments='{"a": 1}'), output()],
    ),
    "names_match_the_pattern": (
        1,
        [USER, {**item(), "name": "read file"}, output()],
        [USER, {**item(), "name": "x" * 64}, output()],
    ),
    "messages_say_something": (1, [USER, {"role": "robot", "content": "x"}], [USER, REPLY]),
}
TOOLS = [{"name": "read"}]


PROTOCOLS = {
    "chat": (CHAT_COMPLETIONS_RULES, CHAT_EXAMPLES, lambda said: {"messages": said}),
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


def test_tools_must_be_offered_where_the_history_uses_them():
    body = {"messages": [USER, assistant(use()), user(result())]}
    assert rules_broken(MESSAGES_RULES, body) == [("tools_are_offered_where_used", None)]


@pytest.mark.parametrize("kind", ["enabled", "adaptive"])
def test_with_thinking_no_answer_may_be_begun(kind):
    body = {"messages": [USER, REPLY], "thinking": {"type": kind}}
    assert rules_broken(MESSAGES_RULES, body) == [("no_begun_answer_with_thinking", 1)]
    assert rules_broken(MESSAGES_RULES, {**body, "thinking": {"type": "disabled"}}) == []


CURRENT = "claude-sonnet-5-5"


def system(content: object = "be brief", **more: object):
    return {"role": "system", "content": content, **more}


DIRECTIVE = system([], output_config={"effort": "high"})
AFTER_THE_USER = "role 'system' must follow a 'user' message or an 'assistant' message ending in a"
BEFORE_THE_ANSWER = "role 'system' must precede an 'assistant' message or end the array"
WITH_CONTENT = "system content must contain at least one block"
SYSTEM_MESSAGES_REFUSED = {
    # what the API said of each to claude-opus-5-5, as published in 2026-10
    "first": ([system(), system(), USER], 0, "use the top-level 'system' parameter"),
    "after an answer": ([USER, REPLY, system(), USER], 2, AFTER_THE_USER),
    "a group after an answer": ([USER, REPLY, system(), system(), USER], 2, AFTER_THE_USER),
    "between two answers": ([USER, REPLY, system(), REPLY, USER], 2, AFTER_THE_USER),
    "before the user": ([USER, system(), USER], 1, BEFORE_THE_ANSWER),
    "a group before the user": ([USER, system(), system(), USER], 2, BEFORE_THE_ANSWER),
    "with a directive before the user": ([USER, system(), DIRECTIVE, USER], 2, BEFORE_THE_ANSWER),
    "between a call and its result": (
        [USER, assistant(use()), system(), user(result())],
        2,
        AFTER_THE_USER,
    ),
    "empty": ([USER, system([])], 1, WITH_CONTENT),
    "of empty text": ([USER, system("")], 1, WITH_CONTENT),
    "of an image": ([USER, system([image("image/png")])], 1, "role 'system' supports text, tool_"),
}
SYSTEM_MESSAGES_TAKEN = {
    "after the first prompt": [USER, system(output_config={"effort": "medium"})],
    "between the user and the answer": [USER, system([text()]), system(), REPLY, USER, system()],
    "after a result": [USER, assistant(use()), user(result()), system(), REPLY, USER],
    "after a server tool's result": [USER, assistant(SERVER_USE, SERVER_RESULT), system(), REPLY],
    "with a change of tools": [USER, system([{"type": "tool_removal", "tool": {}}])],
    "a directive first": [DIRECTIVE, USER],
    "a directive before the user": [USER, REPLY, DIRECTIVE, USER],
    "a directive between a call and its result": [
        *(USER, assistant(use()), DIRECTIVE, user(result())),
    ],
}


@pytest.mark.parametrize("case", SYSTEM_MESSAGES_REFUSED)
def test_a_current_model_refuses_a_system_message_as_anthropic_does(case):
    messages, index, words = SYSTEM_MESSAGES_REFUSED[case]
    body = {"model": CURRENT, "messages": messages, "tools": TOOLS}
    first = apply_rules(MESSAGES_RULES, body)[0]
    assert first.message_index == index
    assert first.what.startswith(f"messages.{index}: {words}")


@pytest.mark.parametrize("case", SYSTEM_MESSAGES_TAKEN)
def test_a_current_model_takes_a_system_message_between_user_and_answer(case):
    body = {"model": CURRENT, "messages": SYSTEM_MESSAGES_TAKEN[case], "tools": TOOLS}
    assert rules_broken(MESSAGES_RULES, body) == []


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        *[("claude-opus-4-8", True), ("claude-opus-5-20260724", True), ("claude-opus-5-5", True)],
        *[("claude-sonnet-5-5[1m]", True), ("claude-fable-5-1", True), ("claude-sonnet-5", False)],
        *[("claude-sonnet-4-5", False), ("claude-opus-4-7", False), ("claude-opus-4-80", False)],
        *[("claude-haiku-4-5-20251001", False), ("rehearsal-1", False), (None, False)],
    ],
)
def test_only_models_that_the_guide_names_take_system_messages(model, takes):
    found = apply_rules(MESSAGES_RULES, {"model": model, "messages": [USER, system()]})
    refusal = "role 'system' is not supported on this model"
    assert [each.what for each in found] == ([] if takes else [refusal])


@pytest.mark.parametrize(
    ("protocol", "last", "broken"),
    [
        ("chat", [calls(call(arguments='{"path": "a')), answer()], "arguments_are_json_text"),
        ("chat", [calls(call())], "each_call_is_answered_next"),
        ("messages", [assistant(use())], "each_tool_use_is_answered_next"),
    ],
    ids=["arguments cut off in a stream", "a call at the end", "a tool use at the end"],
)
def test_a_history_that_breaks_off_is_found(protocol, last, broken):
    rules, _, body_of = PROTOCOLS[protocol]
    assert rules_broken(rules, body_of([USER, *last])) == [(broken, 1)]


def test_every_rule_has_an_example():
    apart = {
        *("tools_are_offered_where_used", "no_begun_answer_with_thinking"),
        *("system_messages_have_content", "system_messages_follow_the_user"),
    }
    for rules, examples, _ in PROTOCOLS.values():
        assert {rule.__name__ for rule in rules} - apart == set(examples)


def is_of_a_tool(sent):
    blocks = sent.get("content") if isinstance(sent.get("content"), list) else [sent]
    of_chat = sent.get("role") == "tool"
    return of_chat or any(
        each.get("type", "").startswith(("tool_", "function_")) for each in blocks
    )


@pytest.mark.soak
@given(st.integers(), st.data())
def test_a_valid_history_is_valid_until_it_loses_one_tool_message(seed, data):
    history = repair(tuple(Histories(seed).valid())).history
    for protocol, rendered in (
        ("chat", as_chat_messages),
        ("messages", as_anthropic_messages),
        ("responses", as_responses_input),
    ):
        rules, _, body_of = PROTOCOLS[protocol]
        messages = json.loads(json.dumps(rendered(history)))
        assert apply_rules(rules, body_of(messages)) == ()
        if places := [place for place, each in enumerate(messages) if is_of_a_tool(each)]:
            del messages[data.draw(st.sampled_from(places))]
            assert apply_rules(rules, body_of(messages)) != ()


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
    apply_rules(CHAT_COMPLETIONS_RULES, body)
    apply_rules(MESSAGES_RULES, body)
    apply_rules(RESPONSES_RULES, body)
