"""What a store returns beside the nouns of the core.

Most of it is the write that recorded it, as it was given: only its durability is not kept.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from upthread.core import commands
from upthread.core.types import Conversation, Link
from upthread.errors import StoreError
from upthread.store.streams import Head

Turn: TypeAlias = commands.OpenTurn
"""A turn's identity. Its state is the fold of its events."""

Run: TypeAlias = commands.OpenRun
"""A run's identity. Its state is the fold of its events."""

Workstream: TypeAlias = commands.OpenWorkstream
"""A workstream and the base name its instances share."""

KnownProject: TypeAlias = commands.RecordProject
"""One identity under which a project is known; a project may have several."""

Quarantined: TypeAlias = commands.RecordQuarantine
"""An event whose owner is unknown."""

Once: TypeAlias = commands.RecordOnce
"""An action that is to be done once, as its last attempt stands.

`receipt` is what the caller gave, None included: before `done` what the action is about.
"""

StoredEdit: TypeAlias = commands.RecordBriefingEdit
"""What a person made of a briefing, and its number."""


class Resolved(Struct, frozen=True):
    """An address as it stands. `link` is the newest one that has not ended, None without one.

    `messages` is the number of the last message, 0 for none.
    """

    conversation: Conversation
    link: Link | None
    messages: int = 0


class Proof(NamedTuple):
    """A stream of a store, and its damage, None where all of it is what was recorded.

    `head` is None where it is damaged or gone. A damaged message is `seq` of its ids.
    """

    name: str
    head: Head | None
    damage: StoreError | None
