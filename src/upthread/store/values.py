"""What a store returns beside the nouns of the core."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from upthread.core.commands import OnceState
from upthread.core.types import (
    Conversation,
    ConversationId,
    JsonValue,
    Link,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.errors import StoreError
from upthread.store.streams import Head


class Resolved(Struct, frozen=True):
    """An address as it stands. `link` is the newest one that has not ended, None without one.

    `messages` is the number of the last message, 0 for none.
    """

    conversation: Conversation
    link: Link | None
    messages: int = 0


class Turn(Struct, frozen=True, kw_only=True):
    """A turn's identity. Its state is the fold of its events."""

    turn_id: TurnId
    conversation_id: ConversationId
    opened_at_ms: int
    run_id: RunId | None


class Run(Struct, frozen=True):
    """A run's identity. Its state is the fold of its events."""

    run_id: RunId
    project_id: ProjectId
    workstream: str
    opened_at_ms: int


class Workstream(Struct, frozen=True):
    """A workstream and the base name its instances share."""

    project_id: ProjectId
    workstream: str
    base_name: str
    opened_at_ms: int


class KnownProject(Struct, frozen=True, kw_only=True):
    """One identity under which a project is known; a project may have several."""

    project_id: ProjectId
    identity: ProjectIdentity


class Quarantined(Struct, frozen=True, kw_only=True):
    """An event whose owner is unknown."""

    turn_id: TurnId
    ordinal: int
    reason: str
    raw: JsonValue


class Once(Struct, frozen=True, kw_only=True):
    """An action that is to be done once, as its last attempt stands.

    `receipt` is what the caller gave, None included: before `done` what the action is about.
    """

    key: str
    attempt_id: str
    state: OnceState
    receipt: JsonValue
    recorded_at_ms: int


class Proof(NamedTuple):
    """A stream of a store, and its damage, None where all of it is what was recorded.

    `head` is None where it is damaged or gone. A damaged message is `seq` of its ids.
    """

    name: str
    head: Head | None
    damage: StoreError | None


class StoredEdit(Struct, frozen=True, kw_only=True):
    """What a person made of a briefing, and its number."""

    seq: int
    edit: JsonValue
    recorded_at_ms: int
