"""Addresses of one project: what somebody named is found, or an error offers what is like it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from upthread.core.names import Address, did_you_mean, key_of, parse_address, parse_role, shown
from upthread.core.types import ProjectId
from upthread.errors import NotFoundError
from upthread.store.base import Store
from upthread.store.reads import Resolved


class Addresses:
    """Finds conversations and workstreams by their names. Reads the store, and never writes."""

    def __init__(self, store: Store, project_id: ProjectId) -> None:
        self._store = store
        self._project_id = project_id

    def __iter__(self) -> Iterator[str]:
        """Yield the address of each conversation."""
        for known in self._store.workstreams(self._project_id):
            for each in self._store.conversations(self._project_id, known.workstream):
                yield each.key.address

    def resolved(self, address: Address) -> Resolved:
        """Return a conversation and its open link. Raises NotFoundError."""
        resolved = self._store.resolve(key_of(self._project_id, address))
        if resolved is None:
            name = f"{address.workstream}/{address.role}"
            raise NotFoundError(
                f"{shown(name)} has no conversation yet{did_you_mean(name, self)}",
                hint=f'start one: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        return resolved

    def require(self, workstream: str) -> None:
        """Raise NotFoundError for a workstream that nothing was ever done on."""
        known = self._store.workstream(self._project_id, workstream)
        if not (known or self._store.conversations(self._project_id, workstream)):
            raise self.unknown(workstream)

    def unknown(self, workstream: str) -> NotFoundError:
        """Return the error for a workstream that is not there."""
        known = (each.workstream for each in self._store.workstreams(self._project_id))
        like = did_you_mean(workstream, known)
        return NotFoundError(
            f"there is no workstream {shown(workstream)} in this project{like}",
            hint="see `upthread ls`",
            workstream=workstream,
        )

    def by_instance_name(self, text: str) -> Address:
        """Return the address of `Kael-planner`. Raises UsageError for a text that is no name."""
        base_name, dash, role = text.partition("-")
        matching = [
            known
            for known in self._store.workstreams(self._project_id)
            # A name without its role is no address: it would stand for all of them.
            if dash and known.base_name == base_name
        ]
        if not matching:
            return parse_address(text)
        return Address(workstream=matching[0].workstream, role=parse_role(role))
