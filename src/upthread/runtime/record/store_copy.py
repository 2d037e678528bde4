"""A project's whole record from one store to another, and the proof that it is there.

Theory of operation. Streams are copied entry by entry, as they are, and so the copy's heads have
the same hash. Whatever was committed is whole, and is compared and not written when it is met
again: so a move that was killed continues by being made again. The source is only read. At the end
both are read anew and compared entry by entry, and each chain is computed from what arrived. A
project's own stream is the exception: other clones may be known there, so its identities are added.

Runs with a transition go last, when all else has been proved: from then on a worker may take them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest

from msgspec import Struct

from upthread.core.commands import EnqueueTransition, RecordProject
from upthread.core.types import Durability, Lease, ProjectId, ProjectIdentity, RunId
from upthread.errors import ConflictError, LeaseHeldError, StoreError
from upthread.runtime.lease import workstream_lease
from upthread.runtime.system import is_dead
from upthread.store.base import Store
from upthread.store.drafting import changed
from upthread.store.kinds import RunState
from upthread.store.log import LogStore, prove
from upthread.store.reads import Span
from upthread.store.streams import Head, new_head

PAGE_ENTRIES = 200
"""How many entries are read at once, and committed at once."""


class ToMove(Struct, frozen=True, kw_only=True):
    """A project as a move finds it.

    `entries` are those of the source by kind, `streams` their heads there, `there` how many entries
    are in the target already.
    """

    project_id: ProjectId
    identities: tuple[ProjectIdentity, ...]
    entries: Counter[str]
    streams: tuple[Head, ...]
    there: int

    @property
    def left(self) -> int:
        """How many entries are still to be written."""
        return self.entries.total() - self.there


class Move(Struct, frozen=True):
    """Moves projects from one store to another. Blocking; `on_entries` hears how many were written.

    `target` None is one that is still to be made: what would be moved there can be planned.
    """

    source: LogStore
    target: LogStore | None
    now_ms: Callable[[], int]
    on_entries: Callable[[int], None] = lambda _entries: None

    def plan(self, project_id: ProjectId) -> ToMove:
        """Compare what is there with what is to come, and write nothing.

        ConflictError when the target holds what the source does not. StoreError for a stream of the
        source that does not verify.
        """
        counted: Counter[str] = Counter()
        there = 0
        streams = tuple(self.source.streams(project_id))
        for head in streams:
            prove(self.source, head)
            counted.update(each.kind for each in self.source.all_entries(head.row))
            there += self._there(head)
        return ToMove(
            project_id=project_id,
            identities=self.source.identities(project_id),
            entries=counted,
            streams=streams,
            there=there,
        )

    def make(self, project: ToMove) -> None:
        """Write what is missing, and prove it. ConflictError and StoreError: it is not done."""
        restored_at_ms = self.source.restored_at_ms(project.project_id)
        if restored_at_ms is not None:
            self._made.mark_restored(restored_at_ms, project.project_id)
        for is_due in (False, True):
            heads = [head for head in project.streams if bool(_due(head)) is is_due]
            for head in heads:
                self._write(head)
            for head in heads:
                self._prove(head)

    # --- below: how ----------------------------------------------------------------------------

    @property
    def _made(self) -> LogStore:
        assert self.target, "nothing is written before there is a target"
        return self.target

    def _twin(self, head: Head) -> Head | None:
        """Return the head of the same stream in the target, None where there is none."""
        if not self.target:
            return None
        return self.target.head(head.kind, head.name, head.project_id)

    def _there(self, head: Head) -> int:
        """Return how many of a stream's entries are in the target.

        ConflictError when it has what the source has not, or has it in another order.
        """
        twin = self._twin(head)
        if not twin:
            return 0
        if head.kind == "project":
            all_known = self.source.identities(ProjectId(head.name))
            return 1 + len(all_known) - len(self._missing(head))
        # The last entry there covers all before it.
        last = self.source.entries(Span(head.row, after=twin.last - 1, first=1))
        if not last or last[0].hash != twin.hash:
            raise ConflictError(
                f"the target holds what the source does not: {head.kind} {head.name}. Nothing was "
                "overwritten",
                hint="it was worked on there, or comes from elsewhere: name an empty database, or "
                "continue with that one",
                stream=head.name,
            )
        return twin.last

    def _missing(self, head: Head) -> list[ProjectIdentity]:
        """Return the identities of a project that the target does not know."""
        project_id = ProjectId(head.name)
        known = self.target.identities(project_id) if self.target else ()
        return [each for each in self.source.identities(project_id) if each not in known]

    def _write(self, head: Head) -> None:
        after = self._there(head)
        if head.kind == "project":
            if missing := self._missing(head):
                project_id, durability = ProjectId(head.name), Durability.SYNCED
                self._made.commit(
                    [
                        RecordProject(project_id=project_id, identity=each, durability=durability)
                        for each in missing
                    ]
                )
                self.on_entries(len(missing) + (not after))
            return
        made = self._twin(head) or new_head(head.kind, head.name, head.project_id)
        while page := self.source.entries(Span(head.row, after=after, first=PAGE_ENTRIES)):
            change = changed(made)
            for entry in page:
                change.copy(entry)
            change.job = self._job(made)
            (made.row,) = self._made.append([change])
            after = page[-1].seq
            self.on_entries(len(page))

    def _job(self, made: Head) -> EnqueueTransition | None:
        """Return a run's transition as it is due from now on, by the target's clock, too."""
        due = _due(made)
        if due is None:
            return None
        due_at_ms, run_seq, _ = due
        # Its queue stays behind: it is of the source's hosts, and workers pass on what they must.
        # Delays are counted by the server, and its clock is another one (ADR 36).
        return EnqueueTransition(
            run_id=RunId(made.name),
            run_seq=run_seq,
            due_at_ms=due_at_ms,
            delay_ms=max(0, due_at_ms - self.now_ms()),
        )

    def _prove(self, head: Head) -> None:
        if head.kind == "project":
            if self._missing(head):
                raise _not_equal("the identities of the project")
            return
        twin = self._twin(head)
        if not twin:
            raise _not_equal(f"{head.kind} {head.name}")
        # Read anew from both: what was written is believed no more than what was there.
        both = zip_longest(self.source.all_entries(head.row), self._made.all_entries(twin.row))
        for number, (ours, theirs) in enumerate(both, start=1):
            if ours is None or theirs is None or ours.plain() != theirs.plain():
                raise _not_equal(f"entry {number} of {head.kind} {head.name}")
        prove(self._made, twin)
        if (twin.last, twin.hash) != (head.last, head.hash):
            raise _not_equal(f"the hash chain of {head.kind} {head.name}")


def leases_held(store: LogStore, project_id: ProjectId) -> Iterator[Lease]:
    """Yield the leases on a project's workstreams and conversations whose holders may live."""
    runs = (
        store.lease(workstream_lease(project_id, known.workstream))
        for known in store.workstreams(project_id)
    )
    for lease in (*store.held_leases(project_id), *runs):
        if lease and lease.holder and not is_dead(lease.holder):
            yield lease


def in_use(lease: Lease, what: str, *, then: str) -> LeaseHeldError:
    """Return the error for a database that a lease's holder works on."""
    holder = lease.holder.in_words() if lease.holder else "nobody any more"
    return LeaseHeldError(
        f"{lease.name} is held by {holder}: {what} is in use",
        holder=holder,
        hint=f"let it end, or end it, then {then}",
        lease=lease.name,
    )


def due_runs(store: Store, project_id: ProjectId, *, before_ms: int) -> list[RunId]:
    """Return a project's runs that were due at a time or before, by when they were (S15)."""
    found = [(_due(head), head.name) for head in store.heads(project_id, "run")]
    due = sorted((each[0], name) for each, name in found if each and each[0] <= before_ms)
    return [RunId(name) for _, name in due]


def _due(head: Head) -> tuple[int, int, str] | None:
    return head.state.due if isinstance(head.state, RunState) else None


def _not_equal(what: str) -> StoreError:
    return StoreError(
        f"{what} is not the same in the target: it is not moved",
        hint="has anybody worked on it meanwhile? Let them end, then do it again: what is there "
        "is kept and compared",
    )
