"""Tags: the texts that streams are found by.

All that is looked up by a name goes through tags, so that a backend has one index to keep. They
follow from the entries alone (kinds.py): a copy has the same ones.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypeAlias

from upthread.core.codec import encode_plain_json
from upthread.core.types import ConversationKey

StreamKind: TypeAlias = Literal["project", "workstream", "conversation", "run", "once"]

NAMED_IN_A_PROJECT: Final = frozenset({"workstream", "once"})
"""Streams whose names are a project's own; the others' are ids."""

TAG_CHARACTERS_MAX: Final = 400
"""What is longer is found by its digest: PostgreSQL's indexes take no more than 2.7 kB."""


class Tag(NamedTuple):
    """A text that a stream is found by. `nth` 0 and above: only one stream has it; None: each may.

    `seq` is the entry that gave it.
    """

    text: str
    nth: int | None
    seq: int


def tag(kind: str, *names: str | int) -> str:
    """Return the text that streams are found by, for example `turn ["trn_1f2c"]`."""
    text = encode_plain_json(names).decode()
    if len(text) > TAG_CHARACTERS_MAX:
        text = f"sha256 {sha256(text.encode()).hexdigest()}"
    return f"{kind} {text}"


def own_tag(kind: StreamKind, name: str, project_id: str) -> str:
    """Return the tag of a stream's own name."""
    if kind in NAMED_IN_A_PROJECT:
        return tag(kind, project_id, name)
    return tag(kind, name)


def key_tag(key: ConversationKey) -> str:
    """Return the tag of a conversation's key; its `nth` is the generation."""
    return tag("key", key.project_id, key.workstream, key.role, key.slot)
