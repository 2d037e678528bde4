"""The server: recording, faults, limits, ends. Real sockets, a plain client."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from urllib.parse import urlsplit

import pytest
from tests.support.world import eventually
from tests.testing.plain_client import (
    CHAT,
    MESSAGES,
    anthropic,
    anthropic_text,
    chat,
    chat_text,
    post,
    send,
)

from upthread.testing.rehearsal_model import BODY_BYTES_MAX, MODEL_ID, RehearsalModel


@pytest.fixture
def model():
    with RehearsalModel() as model:
        yield model


def raw_connection(model):
    host, port = urlsplit(model.base_url).netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def raw_request(text):
    body = json.dumps(chat(text)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_every_request_is_recorded_with_the_agents_session_and_without_its_key(model):
    headers = {"x-session-id": "ses_1", "x-parent-session-id": "ses_0", "authorization": "Bearer k"}
    post(model.base_url, CHAT, chat("hello"), headers=headers)
    post(model.base_url, MESSAGES, anthropic("hi"), headers={"X-Claude-Code-Session-Id": "u-1"})

    first, second = model.requests
    assert (first.n, first.protocol, first.path) == (1, "chat_completions", CHAT)
    assert (first.session_id, first.parent_session_id) == ("ses_1", "ses_0")
    assert first.headers["authorization"] == "(hidden)"
    assert first.body["messages"][0]["content"] == "hello"
    assert first.response["text"].startswith("HIST n_user=1")
    assert first.status == 200
    assert (second.protocol, second.session_id) == ("messages", "u-1")


def test_the_log_file_is_the_owners_alone_and_holds_one_line_per_request(tmp_path):
    path = tmp_path / "log.jsonl"
    with RehearsalModel(log_path=path) as model:
        post(model.base_url, CHAT, chat("one"))
        post(model.base_url, CHAT, chat("two"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["n"] for line in lines] == [1, 2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_place_of_the_log_file_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RehearsalModel(log_path=tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_queued_failures_hit_the_next_requests_and_then_end(model):
    model.answer_next(2 * "[[FAIL 429 retry-after=1.5 slow down]]")
    answers = [post(model.base_url, CHAT, chat("x [[SAY fine]]")) for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "1.5"
    assert answers[0].json["error"]["message"] == "slow down"
    assert chat_text(answers[2]) == "fine"


def test_side_requests_do_not_use_up_a_queued_failure(model):
    model.answer_next("[[FAIL 500]]")
    title = {"role": "system", "content": "You are a title generator."}
    body = {"messages": [title, {"role": "user", "content": "[[SAY no title]]"}]}
    assert chat_text(post(model.base_url, CHAT, body)) == "Rehearsal"
    assert post(model.base_url, CHAT, chat("x")).status == 500
    assert [request.is_side_request for request in model.requests] == [True, False]
    assert [request.n for request in model.model_requests] == [2]


def test_a_full_context_is_worded_as_openai_words_it(model):
    model.answer_next("[[FAIL 400 context length]]")
    error = post(model.base_url, CHAT, chat("x")).json["error"]
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length" in error["message"]


def test_faults_are_given_out_once_each_under_parallel_requests(model):
    model.answer_next(10 * "[[FAIL 503]]")
    with ThreadPoolExecutor(max_workers=10) as pool:
        answers = list(pool.map(lambda n: post(model.base_url, CHAT, chat(f"{n}")), range(30)))
    assert sum(answer.status == 503 for answer in answers) == 10
    assert sorted(request.n for request in model.requests) == list(range(1, 31))


def test_a_refused_history_is_answered_as_the_provider_answers_and_recorded(model):
    body = {"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "x"}]}
    answer = post(model.base_url, CHAT, body)
    assert answer.status == 400
    assert "must be a response to a preceeding message" in answer.json["error"]["message"]
    assert [found.rule for found in model.violations] == ["each_answer_has_its_call"]
    assert model.requests[0].violations == tuple(model.violations)


def test_a_lenient_model_answers_a_refused_history_and_records_it():
    with RehearsalModel(strict=False) as model:
        body = {"messages": [{"role": "assistant", "content": "first"}]}
        assert anthropic_text(post(model.base_url, MESSAGES, body)).startswith("HIST n_user=0")
        assert [found.rule for found in model.violations] == ["first_message_is_the_users"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(model, raw):
    answer = send(model.base_url, "POST", CHAT, raw=raw)
    assert answer.status == 400
    assert "not a JSON object" in answer.json["error"]["message"]
    assert model.requests[0].status == 400


def test_a_body_over_the_limit_is_refused_unread(model):
    with raw_connection(model) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {BODY_BYTES_MAX + 1}\r\n\r\n"
        connection.sendall(head.encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 413")
    assert f"{BODY_BYTES_MAX} are allowed".encode() in answer
    assert model.requests[0].status == 413


def test_a_body_without_a_length_is_refused(model):
    with raw_connection(model) as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 411")


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
    assert chat_text(post(model.base_url, CHAT, chat("[[SLEEP 30]] [[SAY late]]"))) == "late"
    assert sum(waits) == pytest.approx(30)


def test_pace_stretches_a_stream(model, waits):
    body = chat(f"[[PACE 2]] [[SAY {'word ' * 40}]]", stream=True)
    frames = post(model.base_url, CHAT, body).events
    assert sum(waits) == pytest.approx(2 * len(frames))


def test_a_hanging_request_is_recorded_at_once_and_ends_with_the_server():
    model = RehearsalModel()
    model.start()
    outcome: list[Exception] = []

    def ask() -> None:
        try:
            post(model.base_url, CHAT, chat("[[HANG]]"), timeout_s=100)
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
        post(model.base_url, CHAT, chat("x"))
    with pytest.raises(ConnectionRefusedError):
        send(model.base_url, "GET", "/v1/models")
    assert len(model.requests) == 1


def test_closing_a_model_that_never_started_is_quiet():
    RehearsalModel().close()


@pytest.mark.parametrize("how", ["SIGTERM", "stdin"])
def test_the_command_prints_its_address_and_ends_when_told(tmp_path, how):
    command = [sys.executable, "-m", "upthread.testing.rehearsal_model", "--log", "log.jsonl"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        url = process.stdout.readline().strip()
        assert chat_text(post(url, CHAT, chat("[[SAY yes]]"))) == "yes"
        if how == "SIGTERM":
            os.kill(process.pid, signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(timeout=20) == 0
    assert json.loads((tmp_path / "log.jsonl").read_text())["response"]["text"] == "yes"
