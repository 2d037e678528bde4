"""The store as one person sees it, in one project: its own rows, whoever else's are beside them.

Ids are found by chance by nobody, but they are written down: in logs, in bindings, in what an agent
was told. Here another project's id is an id that was never opened: it reads as nothing, and a write
that names it is refused (S21). One place, in front of every backend, so that no statement has to
know of it, and one that forgets it does no harm. What is written is kept as the record's policy has
it (record_filter.py), and what the person does is kept with who it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

from upthread.core.acts import acts_in
from upthread.core.commands import OpenConversation, OpenLink, OpenRun, OpenTurn, Write
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    ProjectId,
    RunId,
    TurnId,
)
from upthread.errors import NotFoundError
from upthread.runtime.record.record_filter import RecordFilter, RecordPolicy
from upthread.store.base import Resolved, Store, Turn, Verified
from upthread.store.entries import Entry, SpokenRow, StreamKind
from upthread.store.stream_reads import Found
from upthread.store.streams import Head
from upthread.store.tags import tag

OWN_MAX: Final = 4096
"""How many ids it knows to be the project's."""


class ProjectStore(Store):
    """One project of a store; `behind` is the whole of it. One call at a time, as the port has it.

    What is written passes the `policy` first; None records all as it is. Leases are named by
    whoever takes them, project and all, and pass as they are.
    """

    def __init__(
        self,
        store: Store,
        project_id: ProjectId,
        *,
        by_user: str,
        now_ms: Callable[[], int],
        policy: RecordPolicy | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__()
        self.behind = store
        self._project_id = project_id
        self._by_user = by_user
        self._now_ms = now_ms
        self._own: set[str] = set()
        self._policy, self._redactor = policy, redactor

    # --- reads: every other read is made of these ------------------------------------------------

    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        found = self.behind.found(text, newest=newest)
        return tuple(each for each in found if self._is_it(each.head.project_id))

    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        if project_id is not None and not self._is_it(project_id):
            return ()
        return self.behind.heads(self._project_id, kind)

    def entries(
        self,
        row: int,
        kinds: Sequence[str] = (),
        *,
        after: int = 0,
        before: int | None = None,
        first: int | None = None,
        newest: int | None = None,
        only: Sequence[int] | None = None,
    ) -> Sequence[Entry]:
        # A row is known from a head alone, and those are the project's own.
        return self.behind.entries(
            row, kinds, after=after, before=before, first=first, newest=newest, only=only
        )

    def spoken(
        self,
        row: int,
        *,
        after: int = 0,
        before: int | None = None,
        first: int | None = None,
        newest: int | None = None,
        is_said: bool = False,
    ) -> Iterable[SpokenRow]:
        return self.behind.spoken(
            row, after=after, before=before, first=first, newest=newest, is_said=is_said
        )

    def resolve(self, key: ConversationKey) -> Resolved | None:
        return self.behind.resolve(key) if self._is_it(key.project_id) else None

    def verify(self, conversation_id: ConversationId) -> Verified:
        is_own = self._owns(conversation_id)
        return self.behind.verify(conversation_id) if is_own else Verified(None, None)

    # --- leases -----------------------------------------------------------------------------------

    def scrub(self) -> None:
        self.behind.scrub()

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        return self.behind.acquire_lease(name, holder, seen=seen)

    def heartbeat(self, fence: Fence) -> None:
        self.behind.heartbeat(fence)

    def release_lease(self, fence: Fence) -> None:
        self.behind.release_lease(fence)

    def lease(self, name: str) -> Lease | None:
        return self.behind.lease(name)

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        return self.behind.held_leases(project_id) if self._is_it(project_id) else ()

    def close(self) -> None:
        self.behind.close()

    # --- writes -----------------------------------------------------------------------------------

    def commit(
        self,
        writes: Sequence[Write],
        *,
        fences: Sequence[Fence] = (),
        take: Sequence[LeaseClaim] = (),
        give: Sequence[Fence] = (),
    ) -> None:
        batch = writes if self._filter is None else self._filter.kept(writes)
        opened: set[str] = set()
        for write in batch:
            self._check(write, opened)
        acts = acts_in(batch, by_user=self._by_user, now_ms=self._now_ms())
        self.behind.commit((*batch, *acts), fences=fences, take=take, give=give)
        # Only now: what could not be opened may be another's.
        self._learn(*opened)

    @cached_property
    def _filter(self) -> RecordFilter | None:
        if self._policy is None or self._redactor is None:
            return None
        return RecordFilter(self._policy, self._redactor, conversation_of=self.conversation)

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        found = super().turns(conversation_id, newest=newest)
        self._learn(*(turn.turn_id for turn in found))
        return found

    # --- below: whose it is ----------------------------------------------------------------------

    def _is_it(self, project_id: str) -> bool:
        return project_id == self._project_id

    def _owns(self, conversation_id: ConversationId) -> bool:
        return self._is_known(conversation_id, lambda: self.head("conversation", conversation_id))

    def _owns_turn(self, turn_id: TurnId) -> bool:
        return self._is_known(turn_id, lambda: self.found(tag("turn", turn_id)) or None)

    def _owns_run(self, run_id: RunId) -> bool:
        return self._is_known(run_id, lambda: self.head("run", run_id))

    def _is_known(self, name: str, find: Callable[[], object]) -> bool:
        if name in self._own:
            return True
        if find() is None:
            return False
        self._learn(name)
        return True

    def _learn(self, *names: str) -> None:
        # Forgotten whole: it only saves looks, and a worker may live for weeks.
        if len(self._own) + len(names) > OWN_MAX:
            self._own.clear()
        self._own.update(names)

    def _check(self, write: Write, opened: set[str]) -> None:
        """Raise NotFoundError for a write that names what is another's; note what it opens."""
        match write:
            case OpenConversation(conversation=new):
                named: object = new.key
                # Under another's conversation it would be read, and erased, with that one.
                self._must_own("conversation", new.parent_conversation_id, opened)
                opened.add(new.conversation_id)
            case OpenLink(link=link):
                named = link
            case OpenTurn(turn_id=minted) | OpenRun(run_id=minted):
                opened.add(minted)
                named = write
            case _:
                named = write
        project_id = getattr(named, "project_id", self._project_id)
        if not self._is_it(project_id):
            raise _never_opened("project", project_id)
        # By the names of fields, so that a write of a new kind is looked at as well.
        self._must_own("conversation", getattr(named, "conversation_id", None), opened)
        self._must_own("turn", getattr(named, "turn_id", None), opened)
        self._must_own("run", getattr(named, "run_id", None), opened)

    def _must_own(self, what: str, name: str | None, opened: set[str]) -> None:
        if name is None or name in opened or name in self._own:
            return
        is_own = (
            self._owns(ConversationId(name))
            if what == "conversation"
            else self._owns_turn(TurnId(name))
            if what == "turn"
            else self._owns_run(RunId(name))
        )
        if not is_own:
            raise _never_opened(what, name)


def _never_opened(what: str, name: str) -> NotFoundError:
    return NotFoundError(
        f"no {what} {name!r} was ever opened in this project",
        hint=f"open the {what} first",
        name=name,
    )
