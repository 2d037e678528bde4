"""Host affinity: on which hosts the sessions of a run's roles live, so that its steps go there."""

from __future__ import annotations

from collections.abc import Mapping

from upthread.core.runs.pipeline import RunView
from upthread.core.types import MAIN_SLOT, ConversationKey, ProjectId
from upthread.runtime.record.turn_views import last_attached
from upthread.store.base import Store


class Placing:
    """Knows where sessions live. `host` is this one's name, empty where all of them are here."""

    def __init__(self, store: Store, host: str) -> None:
        self._store = store
        self._host = host

    def hosts(self, project_id: ProjectId, workstream: str, view: RunView) -> Mapping[str, str]:
        """Return the host of each role's session, by role, where it has one. Blocking."""
        if not self._host:
            return {}
        roles = (step.role for step in view.pipeline.steps)
        found = {role: self._host_of(project_id, workstream, role) for role in roles}
        return {role: host for role, host in found.items() if host}

    def after_step(self, hosts: Mapping[str, str], role: str) -> Mapping[str, str]:
        """Return the hosts as they are once a role was asked here."""
        # Said beforehand: what ends a turn is put together
        # on the event loop, where nothing is read.
        return {**hosts, role: self._host} if self._host else hosts

    def _host_of(self, project_id: ProjectId, workstream: str, role: str) -> str | None:
        key = ConversationKey(
            project_id=project_id, workstream=workstream, role=role, slot=MAIN_SLOT
        )
        resolved = self._store.resolve(key)
        return last_attached(self._store, resolved.link).agent_host if resolved else None
