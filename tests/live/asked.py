"""What reached the model server: the texts, the sessions, the tokens."""

import json
from collections.abc import Sequence

from upthread.testing.rehearsal_model import RecordedRequest, RehearsalModel
from upthread.testing.rehearsal_model.engine import PROTOCOLS

CHARACTERS_PER_TOKEN = 4
"""As the rehearsal model counts what it was sent."""


def last_request(model: RehearsalModel) -> str:
    """Return the whole last request that a session sent, as JSON."""
    return json.dumps(model.model_requests[-1].body)


def user_texts(model: RehearsalModel) -> tuple[str, ...]:
    """Return the user's texts in the last request, whichever protocol it used."""
    request = model.model_requests[-1]
    return PROTOCOLS[request.path.partition("?")[0]].read(request.body).user_texts


def session_of(request: RecordedRequest) -> str | None:
    """Return the session that sent a request; Codex names it in the body."""
    return request.body.get("client_metadata", {}).get("thread_id") or request.session_id


def answered(requests: Sequence[RecordedRequest]) -> list[RecordedRequest]:
    """Return the requests that the model answered, in order."""
    return [
        each for each in requests if each.response.get("kind") == "reply" and each.status == 200
    ]


def tokens_in(request: RecordedRequest) -> int:
    """Return how many tokens the model counts in a request."""
    return max(1, len(json.dumps(request.body)) // CHARACTERS_PER_TOKEN)


def tokens_out(request: RecordedRequest) -> int:
    """Return how many tokens the model counts in its answer."""
    text = f"{request.response.get('text', '')}{request.response.get('thinking', '')}"
    return max(1, len(text) // CHARACTERS_PER_TOKEN)
