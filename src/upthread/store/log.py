"""A store that is one log: what a backend appends, and how a commit is made of it.

Theory of operation. A commit is drafted before any lock, on the heads that the last commits of
this store have left, or as they are read. The backend then appends all of it at once, and only
where each head is still the one that was drafted on, and every lease is held. If some head has
moved, the commit is drafted again on what is there now. The same algorithm on every backend.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Unpack

from upthread.core.commands import Write
from upthread.core.types import Durability, Fence, LeaseClaim, ProjectId
from upthread.errors import ConflictError, UpthreadError
from upthread.store.base import Leases, Store
from upthread.store.drafting import Change, Drafts, StreamKey, joined
from upthread.store.stream_reads import Rows
from upthread.store.streams import Head
from upthread.store.values import Proof
from upthread.store.writes import apply

RACES_MAX: Final = 50
"""How often a commit is drafted again because another writer was there first."""

REMEMBERED_MAX: Final = 1_000
"""Heads. Whoever writes to more reads them again."""


class Terms(NamedTuple):
    """Leases of a commit, as `Leases` has them."""

    fences: Sequence[Fence] = ()
    take: Sequence[LeaseClaim] = ()
    give: Sequence[Fence] = ()


NO_LEASES: Final = Terms()


class StreamMovedError(Exception):
    """A head is not the one that was drafted on, or a name is taken: draft again."""


class LogStore(Store):
    """What a backend has in common with the others. No open project is given the whole of one."""

    def __init__(self) -> None:
        self._heads: dict[StreamKey, Head] = {}

    # --- what a backend does ----------------------------------------------------------------------

    @abstractmethod
    def append(
        self, changes: Sequence[Change], leases: Terms = NO_LEASES, *, is_synced: bool = True
    ) -> Sequence[int]:
        """Append to streams, all or nothing, and return their rows, in the order of `changes`.

        StreamMovedError where a head is not as drafted or a tag is taken; FencedError and
        ConflictError for leases, as `commit`.
        """

    @abstractmethod
    def rows(self) -> Rows:
        """Return all tags, streams and heads. A damaged row is returned as well."""

    def proofs(
        self, project_id: str | None = None, workstream: str | None = None
    ) -> Iterator[Proof]:
        # Late: a proof is asked for seldom, and reads everything there is.
        from upthread.store.proof import proofs  # noqa: PLC0415

        return proofs(self, self.rows(), project_id, workstream)

    @abstractmethod
    def act_for(self, project_id: ProjectId) -> None:
        """Serve this one project from now on (S32). For the whole of the store, open it anew."""

    # --- a commit ---------------------------------------------------------------------------------

    def commit(self, writes: Sequence[Write], **leases: Unpack[Leases]) -> None:
        terms = Terms(**leases)
        if not (writes or any(terms)):
            return
        is_synced = any(write.durability >= Durability.SYNCED for write in writes)
        is_careful = False
        for _ in range(RACES_MAX):
            try:
                drafts = self._drafted(writes, is_careful=is_careful)
            except UpthreadError:
                if is_careful:
                    # A writer that has lost its lease is told that, whatever else is wrong.
                    self.append((), Terms(terms.fences))
                    raise
                # What was remembered may be out of date, and the error with it.
                is_careful = True
                continue
            changes = [change for change in drafts.changes.values() if not change.is_empty]
            try:
                rows = self.append(changes, terms, is_synced=is_synced)
            except StreamMovedError:
                is_careful = True
                continue
            except BaseException:
                self._heads.clear()
                raise
            self._learn(drafts, changes, rows)
            return
        raise ConflictError("other writers were first each time", hint="do it again later")

    def _drafted(self, writes: Sequence[Write], *, is_careful: bool) -> Drafts:
        if is_careful:
            self._heads.clear()
        drafts = Drafts(self, self._heads, is_careful=is_careful)
        for write in joined(writes):
            apply(drafts, write)
        return drafts

    def _learn(self, drafts: Drafts, changes: Sequence[Change], rows: Sequence[int]) -> None:
        for change, row in zip(changes, rows, strict=True):
            change.head.row = row
        # All at once: to drop the oldest alone, each commit would have to keep an order.
        if len(self._heads) > REMEMBERED_MAX:
            self._heads.clear()
        for key, change in drafts.changes.items():
            self._heads[key] = change.head
