"""From a request to an answer, without a socket: check, fail if told to, decide, record.

Order: a body that cannot be read, then the provider's rules (when strict), then answers that
`answer_next` queued, then side requests, scripts, and what was shown. Every request is kept in
memory, and written to a log where there is one.
"""

import hashlib
import itertools
import json
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from msgspec import Struct, to_builtins

from upthread.testing.rehearsal_model.chat_completions import CHAT_COMPLETIONS
from upthread.testing.rehearsal_model.messages import COUNT_TOKENS_PATH, MESSAGES
from upthread.testing.rehearsal_model.protocol import (
    Answer,
    Conversation,
    Exchange,
    Failure,
    JsonObject,
    JsonValue,
    ModelProtocol,
    Reply,
    Silence,
    Violation,
    apply_rules,
    as_json,
)
from upthread.testing.rehearsal_model.responses import RESPONSES
from upthread.testing.rehearsal_model.script import ScriptError, script_of, step_for

SESSION_HEADERS = ("x-session-id", "x-claude-code-session-id")


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request and what it was answered with.

    `n` counts from 1 in order of arrival. Header names are lower case. `body` is empty where none
    came or none could be read. `session_id` is what the agent's headers say, None where they say
    nothing. `response` is the answer before a protocol gave it a form.
    """

    n: int
    protocol: str
    path: str
    headers: Mapping[str, str]
    body: JsonValue
    session_id: str | None
    is_side_request: bool
    status: int | None
    response: JsonObject
    violations: tuple[Violation, ...]


# --- from a request to an answer ------------------------------------------------------------------


MODEL_ID = "rehearsal-1"
NOT_JSON = "The body is not a JSON object."
MODELS_PATH = "/v1/models"
PROTOCOLS = {protocol.path: protocol for protocol in (MESSAGES, CHAT_COMPLETIONS, RESPONSES)}
"""One entry per protocol; a further one is a module with a `ModelProtocol` and its line here."""


SEEN_CHARACTERS = 60
TITLE = "Rehearsal"
SUMMARY = "## Summary\nA rehearsal; nothing of the conversation is kept in this summary."

SIDE_REQUESTS = (
    ("title generator", TITLE),  # OpenCode 1.18
    ("context summarization agent", SUMMARY),  # OpenCode 1.18, compaction
    ("tasked with summarizing conversations", SUMMARY),  # OpenCode before 1.18, Claude Code
    ("sentence-case title", TITLE),  # Claude Code 2.1
    ("write a 5-10 word title", TITLE),  # Claude Code 2.1
    ("naming a coding session", TITLE),  # claude-agent-acp 0.100
)
"""Words of a system prompt, and what answers it: requests an agent makes for itself."""

SIDE_PROMPTS = (
    ("your task is to generate a very short title", json.dumps({"title": TITLE})),  # codex-acp 2.6
)
"""Words a prompt begins with that an agent makes for itself, and what answers it."""


class Outgoing(Struct, frozen=True, kw_only=True):
    """An answer, sent after `delay_s`: bytes at once, frames with `pace_s` before each.

    Without a body nothing is sent.
    """

    body: bytes | Iterator[bytes] | None
    headers: Mapping[str, str]
    status: int = 200
    delay_s: float = 0.0
    pace_s: float = 0.0


class Engine:
    """The model behind the server; safe to use from several threads."""

    def __init__(self, *, strict: bool, log: BinaryIO | None) -> None:
        self._log = log
        self._recorded: list[RecordedRequest] = []
        self._strict = strict
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queued: deque[Answer] = deque()
        self._failures_by_turn: Counter[str] = Counter()

    def answer_next(self, *answers: Answer) -> None:
        """Answer the next model requests so, whatever they ask; side requests are spared."""
        with self._lock:
            self._queued.extend(answers)

    def forget_answers(self) -> None:
        """Drop the answers that no request has taken yet."""
        with self._lock:
            self._queued.clear()

    def recorded(self) -> list[RecordedRequest]:
        """Return the requests, oldest first."""
        with self._lock:
            return sorted(self._recorded, key=lambda request: request.n)

    def answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Outgoing:
        """Answer one request as it came, with header names in lower case, and record it."""
        path, body = target.partition("?")[0], _decoded(raw)
        exchange = Exchange(n=next(self._numbers), body=body or {})
        plain = _plain(method, path, headers, exchange)
        protocol = PROTOCOLS.get(path)
        violations = apply_rules(protocol.rules, exchange.body) if protocol and body else ()
        # What the agent's headers name.
        named = (headers[name] for name in SESSION_HEADERS if name in headers)
        session_id, side = next(named, None), None
        answer: Answer
        if plain is not None:
            answer = Reply()
        elif protocol is None or method != "POST":
            answer = Failure(status=404, message=f"Unknown request: {path}")
        elif body is None:
            answer = Failure(status=400, message=NOT_JSON)
        elif violations and self._strict:
            answer = Failure(status=400, message=violations[0].what)
        else:
            conversation = protocol.read(body)
            side = side_answer_for(conversation)
            answer = side or self._answer_to(conversation, session_id)
        recorded = RecordedRequest(
            n=exchange.n,
            protocol=protocol.name if protocol else "",
            path=target,
            headers=headers,
            body=exchange.body,
            session_id=session_id,
            is_side_request=side is not None,
            status=answer.status,
            response=as_json(answer),
            violations=violations,
        )
        self._record(recorded)
        if plain is not None:
            return Outgoing(body=plain, headers=_headers(exchange.n))
        return _formed(answer, protocol or MESSAGES, exchange)

    def _answer_to(self, conversation: Conversation, session_id: str | None) -> Answer:
        """One lock over look-up and count: two retries at once do not take the same step."""
        turn = _turn_key(conversation, session_id)
        with self._lock:
            if self._queued:
                return self._queued.popleft()
            answer = answer_to(conversation, failures_of_turn=self._failures_by_turn[turn])
            if not isinstance(answer, Reply):
                self._failures_by_turn[turn] += 1
            return answer

    def _record(self, recorded: RecordedRequest) -> None:
        with self._lock:
            self._recorded.append(recorded)
            if self._log is not None:
                self._log.write(json.dumps(to_builtins(recorded)).encode() + b"\n")


def _plain(method: str, path: str, headers: Mapping[str, str], exchange: Exchange) -> bytes | None:
    """Return the answer to what is no question to the model, None for any other request."""
    if method == "HEAD":
        return b""
    if path == MODELS_PATH and method == "GET":
        return json.dumps(_models(headers)).encode()
    if path == COUNT_TOKENS_PATH and method == "POST":
        return json.dumps({"input_tokens": exchange.tokens_in}).encode()
    return None


def answer_to(conversation: Conversation, *, failures_of_turn: int) -> Answer:
    """Return the answer; `failures_of_turn` counts the failures this turn has already met."""
    done = conversation.model_calls_of_turn + failures_of_turn
    try:
        script = script_of(conversation)
    except ScriptError as error:
        return Failure(status=400, message=f"rehearsal script: {error}")
    step = step_for(script, done=done)
    return step or what_was_shown(conversation)


def side_answer_for(conversation: Conversation) -> Reply | None:
    """Return the fixed answer to an agent's request for itself, None for any other."""
    system = conversation.system.lower()
    for words, text in SIDE_REQUESTS:
        if words in system:
            return Reply(text=text)
    prompt = "".join(conversation.user_texts[-1:]).lower()
    for words, text in SIDE_PROMPTS:
        if prompt.startswith(words):
            return Reply(text=text)
    return None


def what_was_shown(conversation: Conversation) -> Reply:
    """Return how many user messages there are, and how each begins, as a JSON list."""
    seen = [text[:SEEN_CHARACTERS] for text in conversation.user_texts]
    return Reply(text=f"HIST n_user={len(seen)} seen={json.dumps(seen)}")


def _decoded(raw: bytes) -> JsonObject | None:
    try:
        loaded: JsonValue = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _turn_key(conversation: Conversation, session_id: str | None) -> str:
    """What stays the same while a client retries a turn: its session, and all up to its prompt."""
    end = len(conversation.said) - len(conversation.since_last_user)
    told = [(item.speaker, item.text) for item in conversation.said[:end]]
    return hashlib.sha256(json.dumps([session_id, told]).encode()).hexdigest()


def _formed(answer: Answer, protocol: ModelProtocol, exchange: Exchange) -> Outgoing:
    headers = _headers(exchange.n)
    match answer:
        case Failure():
            if answer.retry_after_s is not None:
                headers["retry-after"] = f"{answer.retry_after_s:g}"
            body = json.dumps(protocol.write_failure(answer)).encode()
            status, delay_s = answer.status, answer.delay_s
            return Outgoing(status=status, body=body, headers=headers, delay_s=delay_s)
        case Silence():
            return Outgoing(body=None, headers=headers)
        case Reply(delay_s=delay_s, pace_s=pace_s) if exchange.body.get("stream") is True:
            frames = protocol.stream(answer, exchange)
            return Outgoing(body=frames, headers=headers, delay_s=delay_s, pace_s=pace_s)
        case Reply():
            written = json.dumps(protocol.write(answer, exchange)).encode()
            return Outgoing(body=written, headers=headers, delay_s=answer.delay_s)


def _headers(n: int) -> dict[str, str]:
    """Both providers name the request: `x-request-id` is OpenAI's, `request-id` Anthropic's."""
    return {"x-request-id": f"req_{n}", "request-id": f"req_{n}"}


def _models(headers: Mapping[str, str]) -> JsonObject:
    """Both providers list their models under one path; Anthropic's clients name its version."""
    if "anthropic-version" in headers:
        listed: JsonObject = {"type": "model", "id": MODEL_ID, "display_name": "Rehearsal"}
        return {"data": [listed], "has_more": False, "first_id": MODEL_ID, "last_id": MODEL_ID}
    return {
        "object": "list",
        "data": [{"id": MODEL_ID, "object": "model", "created": 0, "owned_by": "rehearsal"}],
    }
