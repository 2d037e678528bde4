"""Leases: the only rows that change. Who may take one is decided under the write lock."""

from __future__ import annotations

from upthread.core.types import Holder, Lease
from upthread.store.sqlite.database import Connection, Row, from_columns, to_column
from upthread.store.sqlite.queries import QUERIES


def lease_of(name: str, row: Row) -> Lease:
    """Return a lease from the columns of `-- lease`."""
    token, heartbeat, host, boot_id, pid, started_at_ticks, doing = from_columns(row)
    holder = (
        None
        if host is None
        else Holder(
            host=host, boot_id=boot_id, pid=pid, started_at_ticks=started_at_ticks, doing=doing
        )
    )
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)


def acquire(
    connection: Connection, name: str, holder: Holder, *, seen: Lease | None
) -> Lease | None:
    """Take a lease that is free, released, or has not moved since it was seen (S13)."""
    row = connection.execute(QUERIES["lease"], (to_column(name),)).fetchone()
    if row is not None:
        stands = lease_of(name, row)
        has_moved = seen is None or (seen.token, seen.heartbeat) != row[:2]
        if stands.holder is not None and has_moved:
            return None
    bindings = (
        to_column(name),
        to_column(holder.host),
        to_column(holder.boot_id),
        holder.pid,
        holder.started_at_ticks,
        to_column(holder.doing),
    )
    ((token, heartbeat),) = connection.execute(QUERIES["take_lease"], bindings).fetchall()
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)
