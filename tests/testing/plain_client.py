"""A plain HTTP client for the protocols: what any agent's SDK does, without the SDK."""

import http.client
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"


@dataclass(frozen=True)
class Received:
    status: int
    headers: dict[str, str]
    raw: bytes
    events: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


def send(base_url, method, path, *, raw=None, headers=None, timeout_s=20.0) -> Received:
    connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=timeout_s)
    try:
        connection.request(method, path, body=raw, headers=headers or {})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        body = response.read()
    finally:
        connection.close()
    is_stream = found.get("content-type", "").startswith("text/event-stream")
    return Received(response.status, found, body, events_in(body) if is_stream else [])


def post(base_url, path, body, **more) -> Received:
    return send(base_url, "POST", path, raw=json.dumps(body).encode(), **more)


def events_in(raw: bytes) -> list[tuple[str, Any]]:
    """Server-sent events as (name, data); `[DONE]` stays text."""
    events = []
    for block in raw.decode().split("\n\n"):
        name, payload = "", ""
        for line in block.splitlines():
            if line.startswith("event: "):
                name = line[7:]
            if line.startswith("data: "):
                payload = line[6:]
        if payload:
            events.append((name, payload if payload == "[DONE]" else json.loads(payload)))
    return events


def chat(text: str, **more) -> dict[str, Any]:
    return {"model": "rehearsal-1", "messages": [{"role": "user", "content": text}], **more}


def anthropic(text: str, **more) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "rehearsal-1", "max_tokens": 100, "messages": messages, **more}


def responses(*items: Any, **more) -> dict[str, Any]:
    """A text is the user's; anything else an item as it is."""
    told = [{"role": "user", "content": i} if isinstance(i, str) else i for i in items]
    return {"model": "rehearsal-1", "input": told, **more}


def chat_text(received: Received) -> str:
    return received.json["choices"][0]["message"]["content"]


def anthropic_text(received: Received) -> str:
    return "".join(block.get("text", "") for block in received.json["content"])
