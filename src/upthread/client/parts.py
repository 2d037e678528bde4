"""The parts of an open project that its larger calls stand on. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from upthread.config import Settings
from upthread.runtime.conversation import Conversations
from upthread.runtime.lease import Leases
from upthread.runtime.system import System
from upthread.store.base import Store


@dataclass(frozen=True, slots=True)
class ProjectParts:
    """What sessions are adopted, forked and looked into with, and working trees removed."""

    store: Store
    system: System
    settings: Settings
    leases: Leases
    conversations: Conversations
