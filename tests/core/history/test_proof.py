"""Proof: what every provider would say, before any of them is asked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.core.history.histories import Histories, call, history, message, result, text

from upthread.core.history.proof import (
    PROVIDERS,
    as_anthropic_messages,
    as_chat_messages,
    as_responses_input,
    proof,
    tool_name,
    tool_names,
    wire_id,
)
from upthread.core.history.repair import repair
from upthread.core.types import ContextPart, ErasedPart, FilePart, ReasoningPart, UnknownPart


@pytest.mark.extended
def test_a_repaired_history_is_valid_for_every_provider():
    for seed in range(50):
        proved = proof(repair(Histories(seed).damaged()).history)
        assert proved == dict.fromkeys(PROVIDERS, ())


def test_an_open_call_is_refused_by_every_provider():
    proved = proof(history(message("user", text("a")), message("assistant", call("c"))))
    assert all(proved[provider] for provider in PROVIDERS)


def test_a_history_without_words_is_valid():
    notes = history(message("user", UnknownPart(kind="plan", raw=None)))
    assert proof(notes) == dict.fromkeys(PROVIDERS, ())


# --- rendering: the same history in the form of each provider -------------------------------------


HISTORY = history(
    message("user", ContextPart(text="[prior]"), text("go")),
    message("assistant", ReasoningPart(text="hm"), text("I look."), call("c1", "ls -l", ["a"])),
    message("tool", result("c1", "", "failed")),
    message("assistant", ErasedPart(kind="text")),
    message("user", FilePart(uri="file:///x.png", mime_type="image/png"), FilePart(uri="y")),
    message("user", UnknownPart(kind="plan", raw=None)),
    message("assistant", text("done \n")),
)


NO_OUTPUT = {"content": "(no output)"}


def test_anthropic_gets_results_first_and_joined_neighbours():
    assert as_anthropic_messages(HISTORY) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "[prior]"}, {"type": "text", "text": "go"}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "ls_-l", "input": {"arguments": ["a"]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {**NO_OUTPUT, "type": "tool_result", "tool_use_id": "c1", "is_error": True},
                {"type": "text", "text": "[file: file:///x.png (image/png)]"},
                {"type": "text", "text": "[file: y]"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]


def test_chat_gets_a_message_for_each_result():
    function = {"name": "ls_-l", "arguments": '{"arguments":["a"]}'}
    assert as_chat_messages(HISTORY) == [
        {"role": "user", "content": "[prior]\n\ngo"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {**NO_OUTPUT, "role": "tool", "tool_call_id": "c1"},
        {"role": "user", "content": "[file: file:///x.png (image/png)]\n\n[file: y]"},
        {"role": "assistant", "content": "done \n"},
    ]


def test_responses_gets_calls_and_outputs_as_items():
    items = as_responses_input(HISTORY)
    kinds = ["message"] * 2 + ["function_call", "function_call_output"] + ["message"] * 2
    assert [item["type"] for item in items] == kinds
    assert items[2]["arguments"] == '{"arguments":["a"]}'


def test_a_message_with_calls_alone_has_no_text():
    made = history(message("user", text("a")), message("assistant", call("c")))
    assert as_chat_messages(made)[1]["content"] is None


def test_neighbours_that_a_message_without_words_parts_are_joined():
    said = history(
        message("user", text("a")),
        message("assistant", ReasoningPart(text="hm")),
        message("user", text("b")),
    )
    assert as_chat_messages(said) == [{"role": "user", "content": "a\n\nb"}]


def test_an_unfinished_step_ends_with_its_calls():
    made = history(message("user", text("a")), message("assistant", call("c", "read", {"x": 1})))
    assert as_anthropic_messages(made)[-1]["content"][0]["input"] == {"x": 1}


def test_an_empty_history_is_no_message():
    assert as_anthropic_messages(history()) == as_chat_messages(history()) == []
    assert as_responses_input(history()) == []


@pytest.mark.parametrize(
    ("title", "name"),
    [("read", "read"), ("git push!", "git_push_"), ("", "other"), ("x" * 70, "x" * 64)],
)
def test_a_name_takes_the_pattern_of_the_providers(title, name):
    assert tool_name(call("c", title)) == name


def test_a_call_of_no_name_and_no_kind_has_one_all_the_same():
    assert tool_name(replace(call("c", ""), tool_kind="")) == "tool"


def test_an_id_that_fits_stays_and_others_become_ones_that_differ():
    assert wire_id("call_1-A") == "call_1-A"
    others = [wire_id(each) for each in ("", "a b", "a:b", "x" * 41, "\ud800")]
    assert len(set(others)) == len(others)
    assert all(len(each) <= 40 for each in others)


def test_the_tools_a_history_names_are_listed_once():
    made = history(
        message("assistant", call("a", "read"), call("b", "ls")), message("assistant", call("c"))
    )
    assert tool_names(made) == ("read", "ls")
