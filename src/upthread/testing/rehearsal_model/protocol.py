"""The seam between the server and a provider's protocol: one value and one module per protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from upthread.testing.rehearsal_model._json import JsonObject
from upthread.testing.rehearsal_model.conversation import Conversation, Failure, Reply
from upthread.testing.rehearsal_model.history_rules import Rule

TEXT_CHUNK_CHARACTERS = 64
"""How much text one streamed frame carries."""


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and the number it was given. `salt` tells this request's ids from all others."""

    n: int
    body: JsonObject

    @property
    def salt(self) -> str:
        """A digest of the body: ids stay unique in a history that outlives the server."""
        written = json.dumps(self.body, sort_keys=True).encode()
        return f"{hashlib.sha256(written).hexdigest()[:10]}{self.n}"

    @property
    def tokens_in(self) -> int:
        """A rough count of the prompt's tokens, four characters each."""
        return max(1, len(json.dumps(self.body)) // 4)

    def tokens_read(self, reply: Reply) -> int:
        """What the provider says it has read for an answer: as it was told to say, or the count."""
        return self.tokens_in if reply.tokens_in is None else reply.tokens_in


class ModelProtocol(Struct, frozen=True, kw_only=True):
    """A provider's protocol.

    `read` never raises, whatever the body; the provider refuses what breaks one of its `rules`.
    `write` gives a whole answer, `stream` the frames of a streamed one, `write_failure` an error's
    body.
    """

    name: str
    path: str
    read: Callable[[JsonObject], Conversation]
    rules: Sequence[Rule]
    write: Callable[[Reply, Exchange], JsonObject]
    stream: Callable[[Reply, Exchange], Iterator[bytes]]
    write_failure: Callable[[Failure], JsonObject]


def in_chunks(text: str) -> Iterator[str]:
    """Return the text as a provider streams it."""
    for start in range(0, len(text), TEXT_CHUNK_CHARACTERS):
        yield text[start : start + TEXT_CHUNK_CHARACTERS]


def tokens_out(reply: Reply) -> int:
    """Return a rough count of the answer's tokens, four characters each."""
    return max(1, len(reply.text + reply.thinking) // 4)
