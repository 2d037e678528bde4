"""Tags: the texts that streams are found by, and which of them an entry gives its stream.

All that is looked up by a name goes through tags, so that a backend has one index to keep. They
follow from the entries alone: a copy has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from upthread.core.codec import encode_plain_json
from upthread.core.types import MAIN_SLOT
from upthread.store import entries
from upthread.store.entries import StreamKind

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
    if kind in {"workstream", "once"}:
        return tag(kind, project_id, name)
    return tag(kind, name)


def tags_of(
    kind: StreamKind, name: str, project_id: str, seq: int, value: entries.Kept
) -> Iterator[Tag]:
    """Yield the tags that an entry gives its stream."""
    if seq == 1:
        yield Tag(own_tag(kind, name, project_id), 0, seq)
    for text, nth in _TAGS[type(value)](project_id, value) if gives_tags(value) else ():
        yield Tag(text, nth, seq)


def gives_tags(value: entries.Kept) -> bool:
    """Return whether an entry that opens no stream may give it tags; most do not."""
    return type(value) in _TAGS


_Tags = Iterable[tuple[str, int | None]]


def _of_conversation(project_id: str, value: entries.ConversationOpened) -> _Tags:
    new = value.conversation
    key = new.key
    yield tag("in", project_id, key.workstream), None
    # Children share their key, and are never found by it.
    if key.slot >= MAIN_SLOT:
        yield key_tag(key), new.generation


def key_tag(key: Any) -> str:
    """Return the tag of a conversation's key; its `nth` is the generation."""
    return tag("key", key.project_id, key.workstream, key.role, key.slot)


def _of_identity(_project_id: str, value: entries.Identified) -> _Tags:
    yield tag("path", value.identity.path), None
    if value.identity.root_commit is not None:
        yield tag("root_commit", value.identity.root_commit), None


def _of_attempt(_project_id: str, value: entries.Attempted) -> _Tags:
    receipt = value.receipt
    if isinstance(receipt, dict) and isinstance(receipt.get("conversation_id"), str):
        yield tag("receipt", str(receipt["conversation_id"])), None


_TAGS: Final[dict[type[Any], Callable[[str, Any], _Tags]]] = {
    entries.WorkstreamOpened: lambda project, value: (
        (tag("base_name", project, value.base_name), 0),
    ),
    entries.ConversationOpened: _of_conversation,
    entries.RunOpened: lambda project, value: ((tag("in", project, value.workstream), None),),
    entries.Identified: _of_identity,
    entries.LinkOpened: lambda project, value: (
        (tag("session", project, value.link.upstream_session_id), None),
    ),
    entries.TurnOpened: lambda _project, value: ((tag("turn", value.turn_id), 0),),
    entries.Attempted: _of_attempt,
}
