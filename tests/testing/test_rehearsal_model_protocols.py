"""The protocols, whole and streamed: the frames are what the providers' own clients expect."""

import json

import pytest
from tests.testing.plain_client import CHAT, MESSAGES, RESPONSES, anthropic, chat, post, responses

from upthread.testing.rehearsal_model import RehearsalModel

CALL = '[[CALL write {"path": "a", "text": "]] [[SAY x]]"}]]'
ARGUMENTS = {"path": "a", "text": "]] [[SAY x]]"}
LONG = "word " * 40


@pytest.fixture(scope="module")
def model():
    with RehearsalModel() as model:
        yield model


def test_chat_answers_whole_with_a_call_or_with_text(model):
    answer = post(model.base_url, CHAT, chat("[[THINK hm]] [[SAY hello]]")).json
    choice, usage = answer["choices"][0], answer["usage"]
    assert answer["object"] == "chat.completion"
    assert choice["message"]["content"] == "hello"
    assert choice["message"]["reasoning_content"] == "hm"
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "stop"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    choice = post(model.base_url, CHAT, chat(CALL)).json["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert (call["type"], call["function"]["name"]) == ("function", "write")
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS


def test_chat_streams_text_in_chunks_and_ends_with_done(model):
    body = chat(f"[[THINK hm]] [[SAY {LONG}]]", stream=True, stream_options={"include_usage": True})
    answer = post(model.base_url, CHAT, body)
    frames = [data for _name, data in answer.events]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert frames[-1] == "[DONE]"
    assert frames[-2]["choices"] == []
    assert frames[-2]["usage"]["completion_tokens"] > 1
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-2]]
    texts = [delta["content"] for delta in deltas if "content" in delta]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [d["reasoning_content"] for d in deltas if "reasoning_content" in d] == ["hm"]
    assert "".join(texts) == LONG
    assert len(texts) > 3
    assert [frame["choices"][0]["finish_reason"] for frame in frames[:-2]][-1] == "stop"
    assert len({frame["id"] for frame in frames[:-1]}) == 1


def test_chat_streams_a_tool_call_by_index(model):
    frames = [data for _, data in post(model.base_url, CHAT, chat(CALL, stream=True)).events]
    assert all(frame["choices"] for frame in frames[:-1]), "no usage, which was not asked for"
    parts = [
        part for frame in frames[:-1] for part in frame["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert {part["index"] for part in parts} == {0}
    assert parts[0]["function"] == {"name": "write", "arguments": ""}
    assert parts[0]["id"]
    assert all("id" not in part for part in parts[1:])
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == ARGUMENTS
    assert frames[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_messages_answers_whole_with_a_call_or_with_text(model):
    answer = post(model.base_url, MESSAGES, anthropic("[[SAY hello]]")).json
    assert (answer["type"], answer["role"]) == ("message", "assistant")
    assert answer["content"] == [{"type": "text", "text": "hello"}]
    assert answer["stop_reason"] == "end_turn"
    assert answer["usage"]["output_tokens"] >= 1
    answer = post(model.base_url, f"{MESSAGES}?beta=true", anthropic(CALL)).json
    (block,) = answer["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "write", ARGUMENTS)
    assert answer["stop_reason"] == "tool_use"


def test_messages_streams_named_events_in_order(model):
    body = anthropic(f"[[THINK hm]] [[SAY {LONG}]]", stream=True)
    events = post(model.base_url, MESSAGES, body).events
    names = [name for name, _ in events]
    assert all(data["type"] == name for name, data in events)
    assert (names[0], names[-2], names[-1]) == ("message_start", "message_delta", "message_stop")
    assert events[0][1]["message"]["content"] == []
    blocks = [data for name, data in events if name == "content_block_start"]
    assert [(b["index"], b["content_block"]["type"]) for b in blocks] == [
        (0, "thinking"),
        (1, "text"),
    ]
    deltas = [data["delta"] for name, data in events if name == "content_block_delta"]
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta") == LONG
    assert [d["type"] for d in deltas][:2] == ["thinking_delta", "signature_delta"]
    assert names.count("content_block_stop") == 2
    assert events[-2][1]["delta"]["stop_reason"] == "end_turn"


def test_messages_streams_a_tool_use_as_partial_json(model):
    events = post(model.base_url, MESSAGES, anthropic(CALL, stream=True)).events
    start = next(data for name, data in events if name == "content_block_start")
    partial = [
        data["delta"]["partial_json"] for name, data in events if name == "content_block_delta"
    ]
    assert start["content_block"]["input"] == {}
    assert json.loads("".join(partial)) == ARGUMENTS
    assert events[-2][1]["delta"]["stop_reason"] == "tool_use"


def test_responses_answers_whole(model):
    answer = post(model.base_url, RESPONSES, responses("[[THINK hm]] [[SAY hello]]")).json
    assert (answer["object"], answer["status"]) == ("response", "completed")
    thought, message = answer["output"]
    assert (thought["type"], thought["summary"][0]["text"]) == ("reasoning", "hm")
    assert message["content"] == [{"type": "output_text", "text": "hello", "annotations": []}]
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_responses_calls_a_tool_as_it_was_offered(model):
    """A function by JSON, one of a namespace by both names, a free-form tool by plain text."""
    function = {"type": "function", "name": "write", "parameters": {}}
    inside = {"type": "namespace", "name": "agents", "tools": [{**function, "name": "spawn"}]}
    tools = [function, inside, {"type": "custom", "name": "patch"}]

    def called(text):
        return post(model.base_url, RESPONSES, responses(text, tools=tools)).json["output"][0]

    assert json.loads(called(CALL)["arguments"]) == ARGUMENTS
    assert "namespace" not in called(CALL)
    spawned = called('[[CALL spawn {"message": "go"}]]')
    assert (spawned["namespace"], spawned["name"]) == ("agents", "spawn")
    patched = called('[[CALL patch {"input": "*** Begin"}]]')
    assert (patched["type"], patched["input"]) == ("custom_tool_call", "*** Begin")


def test_responses_streams_named_events_in_order(model):
    body = responses(f"[[THINK hm]] [[SAY {LONG}]]", stream=True)
    events = post(model.base_url, RESPONSES, body).events
    names = [name for name, _ in events]
    assert all(data["type"] == name for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert (names[0], names[-1]) == ("response.created", "response.completed")
    texts = [data["delta"] for name, data in events if name == "response.output_text.delta"]
    assert "".join(texts) == LONG
    assert len(texts) > 3
    assert "response.reasoning_summary_text.delta" in names
    done = [data["item"]["type"] for name, data in events if name == "response.output_item.done"]
    assert done == ["reasoning", "message"]
    assert [item["type"] for item in events[-1][1]["response"]["output"]] == done


@pytest.mark.parametrize(
    ("offered", "script", "delta"),
    [
        ({"type": "function", "name": "write"}, CALL, "response.function_call_arguments.delta"),
        (
            {"type": "custom", "name": "patch"},
            '[[CALL patch {"input": "x"}]]',
            "response.custom_tool_call_input.delta",
        ),
    ],
)
def test_responses_streams_a_call(model, offered, script, delta):
    body = responses(script, tools=[offered], stream=True)
    events = post(model.base_url, RESPONSES, body).events
    done = next(data["item"] for name, data in events if name == "response.output_item.done")
    pieces = "".join(data["delta"] for name, data in events if name == delta)
    assert pieces == done.get("arguments", done.get("input"))


def test_responses_counts_an_answer_of_several_items_once_and_leaves_out_the_clients_words(model):
    """So that a script goes on with its next step, and what was shown is what people said."""
    script = f"Do it. {CALL} [[SAY done]]"
    body = responses("<environment_context>here</environment_context>", script)
    called = post(model.base_url, RESPONSES, body).json["output"]
    result = {"type": "function_call_output", "call_id": called[0]["call_id"], "output": "ok"}
    body["input"] += [*called, result]
    assert post(model.base_url, RESPONSES, body).json["output"][0]["content"][0]["text"] == "done"
    shown = responses("<turn_aborted>\nby the user\n</turn_aborted>", "first", "second")
    text = post(model.base_url, RESPONSES, shown).json["output"][0]["content"][0]["text"]
    assert text == 'HIST n_user=2 seen=["first", "second"]'


def test_responses_reads_plain_input_and_refuses_a_broken_history(model):
    plain = {"model": "rehearsal-1", "input": "[[SAY hello]]"}
    assert post(model.base_url, RESPONSES, plain).json["output"][0]["content"][0]["text"] == "hello"
    call = {"type": "function_call", "call_id": "c", "name": "write", "arguments": "{}"}
    refused = post(model.base_url, RESPONSES, responses("x", call, "y"))
    assert refused.status == 400
    assert "No tool output found" in refused.json["error"]["message"]


def test_responses_words_its_failures(model):
    full = post(model.base_url, RESPONSES, responses("[[FAIL 400 context length]]"))
    assert full.json["error"]["code"] == "context_length_exceeded"
    limited = post(model.base_url, RESPONSES, responses("[[FAIL 429 retry-after=7 slow down]]"))
    assert (limited.status, limited.headers["retry-after"]) == (429, "7")
    assert limited.json["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        (CHAT, chat, "prompt_tokens"),
        (MESSAGES, anthropic, "input_tokens"),
        (RESPONSES, responses, "input_tokens"),
    ],
)
def test_the_tokens_that_a_script_names_are_what_the_provider_says_it_has_read(
    model, path, body, member, is_streamed
):
    more = {"stream_options": {"include_usage": True}} if path == CHAT else {}
    asked = body("[[USAGE 95000]] [[SAY hello]]", stream=is_streamed, **more)
    answer = post(model.base_url, path, asked)
    told = json.dumps([data for _name, data in answer.events] if is_streamed else answer.json)
    assert f'"{member}": 95000' in told


def test_an_empty_reply_is_empty_in_every_protocol(model):
    assert post(model.base_url, CHAT, chat("[[SAY]]")).json["choices"][0]["message"] == {
        "role": "assistant",
        "content": "",
    }
    assert post(model.base_url, MESSAGES, anthropic("[[SAY]]")).json["content"] == []
    (message,) = post(model.base_url, RESPONSES, responses("[[SAY]]")).json["output"]
    assert message["content"][0]["text"] == ""


def test_a_thinking_block_of_ours_comes_back_valid_and_an_edited_one_does_not(model):
    body = anthropic("[[THINK hm]] [[SAY hello]]")
    answer = post(model.base_url, MESSAGES, body).json
    body["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": "next"},
    ]
    assert post(model.base_url, MESSAGES, body).status == 200
    body["messages"][1]["content"][0]["thinking"] = "hm!"
    refused = post(model.base_url, MESSAGES, body)
    assert refused.status == 400
    assert "Invalid `signature`" in refused.json["error"]["message"]
