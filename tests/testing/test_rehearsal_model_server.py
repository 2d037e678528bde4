"""The server: recording, faults, limits, ends. Real sockets, a plain client."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from urllib.parse import urlsplit

import pytest
from tests.support.world import eventually
from tests.testing.plain_client import (
    MESSAGES,
    RESPONSES,
    anthropic,
    anthropic_text,
    post,
    responses,
    send,
)

from upthread.testing.rehearsal_model import MODEL_ID, RehearsalModel


@pytest.fixture
def model():
    with RehearsalModel() as model:
        yield model


def raw_connection(model):
    host, port = urlsplit(model.base_url).netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def raw_request(text):
    body = json.dumps(anthropic(text)).encode()
    head = f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_every_request_is_recorded_with_the_agents_session(model):
    post(model.base_url, MESSAGES, anthropic("hello"), headers={"x-session-id": "ses_1"})
    post(model.base_url, RESPONSES, responses("hi"), headers={"X-Claude-Code-Session-Id": "u-1"})

    first, second = model.requests
    assert (first.n, first.protocol, first.path) == (1, "messages", MESSAGES)
    assert first.session_id == "ses_1"
    assert first.body["messages"][0]["content"] == "hello"
    assert first.response["text"].startswith("HIST n_user=1")
    assert first.status == 200
    assert (second.protocol, second.session_id) == ("responses", "u-1")


def test_queued_failures_hit_the_next_requests_and_then_end(model):
    model.answer_next(2 * "[[FAIL 429 retry-after=1.5 slow down]]")
    answers = [post(model.base_url, MESSAGES, anthropic("x [[SAY fine]]")) for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "1.5"
    assert answers[0].json["error"]["message"] == "slow down"
    assert anthropic_text(answers[2]) == "fine"


def test_side_requests_do_not_use_up_a_queued_failure(model):
    model.answer_next("[[FAIL 500]]")
    body = anthropic("[[SAY no title]]", system="You are a title generator.")
    assert anthropic_text(post(model.base_url, MESSAGES, body)) == "Rehearsal"
    assert post(model.base_url, MESSAGES, anthropic("x")).status == 500
    assert [request.is_side_request for request in model.requests] == [True, False]
    assert [request.n for request in model.model_requests] == [2]


def test_a_full_context_is_worded_as_anthropic_words_it(model):
    model.answer_next("[[FAIL 400 context length]]")
    error = post(model.base_url, MESSAGES, anthropic("x")).json["error"]
    assert error["type"] == "invalid_request_error"
    assert "prompt is too long" in error["message"]


def test_faults_are_given_out_once_each_under_parallel_requests(model):
    model.answer_next(10 * "[[FAIL 503]]")
    with ThreadPoolExecutor(max_workers=10) as pool:
        answers = list(
            pool.map(lambda n: post(model.base_url, MESSAGES, anthropic(f"{n}")), range(30))
        )
    assert sum(answer.status == 503 for answer in answers) == 10
    assert sorted(request.n for request in model.requests) == list(range(1, 31))


def test_a_refused_history_is_answered_as_the_provider_answers_and_recorded(model):
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    body = {"messages": [{"role": "user", "content": [result]}], "tools": [{"name": "read"}]}
    answer = post(model.base_url, MESSAGES, body)
    assert answer.status == 400
    assert "unexpected `tool_use_id` found" in answer.json["error"]["message"]
    assert [found.rule for found in model.violations] == ["each_tool_result_has_its_use"]
    assert model.requests[0].violations == tuple(model.violations)


def test_a_lenient_model_answers_a_refused_history_and_records_it():
    with RehearsalModel(strict=False) as model:
        body = {"messages": [{"role": "assistant", "content": "first"}]}
        assert anthropic_text(post(model.base_url, MESSAGES, body)).startswith("HIST n_user=0")
        assert [found.rule for found in model.violations] == ["first_message_is_the_users"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(model, raw):
    answer = send(model.base_url, "POST", MESSAGES, raw=raw)
    assert answer.status == 400
    assert "not a JSON object" in answer.json["error"]["message"]
    assert model.requests[0].status == 400


def test_an_unknown_path_is_recorded_and_not_found(model):
    assert post(model.base_url, "/v1/embeddings", {"input": "x"}).status == 404
    assert model.requests[0].path == "/v1/embeddings"


def test_models_are_listed_in_the_words_of_who_asks(model):
    openai = send(model.base_url, "GET", "/v1/models").json
    assert (openai["object"], openai["data"][0]["id"]) == ("list", MODEL_ID)
    headers = {"anthropic-version": "2023-06-01"}
    listed = send(model.base_url, "GET", "/v1/models", headers=headers).json
    assert (listed["data"][0]["type"], listed["first_id"]) == ("model", MODEL_ID)


def test_tokens_are_counted(model):
    path = "/v1/messages/count_tokens?beta=true"
    short = post(model.base_url, path, anthropic("x")).json["input_tokens"]
    long = post(model.base_url, path, anthropic("x" * 4000)).json["input_tokens"]
    assert 0 < short < 100
    assert long > short + 900


def test_a_connection_is_kept_for_further_requests(model):
    with raw_connection(model) as connection:
        for _ in range(2):
            connection.sendall(raw_request("x"))
            answer = connection.recv(65536)
            while b"HIST" not in answer:
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")


@pytest.fixture
def waits(model, monkeypatch):
    """Seconds that the server meant to wait; it did not."""
    waits = []
    monkeypatch.setattr(model._server.is_stopping, "wait", waits.append)
    return waits


def test_sleep_delays_the_answer_it_stands_before(model, waits):
    assert (
        anthropic_text(post(model.base_url, MESSAGES, anthropic("[[SLEEP 30]] [[SAY late]]")))
        == "late"
    )
    assert sum(waits) == pytest.approx(30)


def test_pace_stretches_a_stream(model, waits):
    body = anthropic(f"[[PACE 2]] [[SAY {'word ' * 40}]]", stream=True)
    frames = post(model.base_url, MESSAGES, body).events
    assert sum(waits) == pytest.approx(2 * len(frames))


def test_a_hanging_request_is_recorded_at_once_and_ends_with_the_server():
    model = RehearsalModel()
    model.start()
    outcome: list[Exception] = []

    def ask() -> None:
        try:
            post(model.base_url, MESSAGES, anthropic("[[HANG]]"), timeout_s=100)
        except (OSError, HTTPException) as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    eventually(lambda: model.requests)
    assert model.requests[0].response["kind"] == "silence"
    assert model.requests[0].status is None
    model.close()
    thread.join()
    assert len(outcome) == 1


def test_a_client_that_goes_while_the_model_hangs_leaves_no_thread(model):
    before = set(threading.enumerate())

    def added() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    with raw_connection(model) as connection:
        connection.sendall(raw_request("[[HANG]]"))
        eventually(lambda: model.requests)
        assert added()
    eventually(lambda: not added())


def test_closing_leaves_no_port_and_keeps_the_requests():
    with RehearsalModel() as model:
        post(model.base_url, MESSAGES, anthropic("x"))
    with pytest.raises(ConnectionRefusedError):
        send(model.base_url, "GET", "/v1/models")
    assert len(model.requests) == 1


def test_closing_a_model_that_never_started_is_quiet():
    RehearsalModel().close()
