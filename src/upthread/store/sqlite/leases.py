"""Leases: the only rows that change. Who may take one is decided under the write lock."""

from __future__ import annotations

from upthread.core.types import Holder, Lease
from upthread.store.sql.rows import lease_of
from upthread.store.sqlite.database import Connection, to_columns
from upthread.store.sqlite.queries import QUERIES


def acquire(
    connection: Connection, name: str, holder: Holder, *, seen: Lease | None
) -> Lease | None:
    """Take a lease that is free, released, or has not moved since it was seen (S13)."""
    row = connection.execute(QUERIES["lease"], to_columns(name)).fetchone()
    if row is not None:
        stands = lease_of(name, row)
        # No time is compared: clocks differ. How long it has stood still, who asks has measured
        # with a clock of its own (ADR 10).
        has_moved = seen is None or (seen.token, seen.heartbeat) != row[:2]
        if stands.holder is not None and has_moved:
            return None
    bindings = to_columns(
        name, holder.host, holder.boot_id, holder.pid, holder.started_at_ticks, holder.doing
    )
    ((token, heartbeat),) = connection.execute(QUERIES["take_lease"], bindings).fetchall()
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)
