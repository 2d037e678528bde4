"""The store as one person sees it, in one project: its own rows, whoever else's are beside them.

Ids are found by chance by nobody, but they are written down: in logs, in bindings, in what an agent
was told. Here another project's id is an id that was never opened: it reads as nothing, and a write
that names it is refused (S21). One place, in front of every backend, so that no statement has to
know of it, and one that forgets it does no harm. What is written is kept as the record's policy has
it, and what the person does is kept with who it was.

What is recorded depends on the role that a write belongs to. A child is recorded no more fully than
the conversation that called it; what belongs to nobody we know, or to a run as a whole, as the
strictest of all roles is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack, cast

from msgspec import Struct, field

from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordParts,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
    acts_in,
)
from upthread.core.record_policy import kept, stays_as_it_is, strictest
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    ProjectId,
    RecordMode,
)
from upthread.errors import NotFoundError
from upthread.store.base import Leases, Store
from upthread.store.kinds import StreamKind, tag
from upthread.store.reads import Found, Resolved, Span, Turn
from upthread.store.streams import Entry, Head, Proof, SpokenRow

Result = TypeVar("Result")

OWN_MAX = 4096
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
        self.behind = store
        self._restored_at_ms = store.restored_at_ms(project_id)
        self._project_id = project_id
        self._by_user = by_user
        self._now_ms = now_ms
        self._own: set[str] = set()
        self._filter = (
            RecordFilter(policy, redactor, conversation_of=self.conversation)
            if policy and redactor
            else None
        )
        self._moment: dict[object, Any] | None = None

    # --- reads: every other read is made of these ------------------------------------------------

    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        found = self._once((text, newest), lambda: self.behind.found(text, newest=newest))
        return tuple(each for each in found if self._is_it(each.head.project_id))

    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        if project_id is not None and not self._is_it(project_id):
            return ()
        return self.behind.heads(self._project_id, kind)

    # A row is known from a head alone, and those are the project's own.
    def entries(self, span: Span) -> Sequence[Entry]:
        return self.behind.entries(span)

    def spoken(self, span: Span) -> Iterable[SpokenRow]:
        return self.behind.spoken(span)

    def _values(self, head: Head, span: Span) -> list[tuple[Entry, Any]]:
        return self._once((head.hash, span), lambda: super(ProjectStore, self)._values(head, span))

    @contextmanager
    def moment(self) -> Generator[None]:
        """Read each head and each span once while the block lasts, or until a commit.

        For one call off the event loop, during which a conversation's lease is held.
        """
        outer, self._moment = self._moment, self._moment if self._moment is not None else {}
        try:
            yield
        finally:
            self._moment = outer

    def _once(self, key: object, read: Callable[[], Result]) -> Result:
        if self._moment is None:
            return read()
        if key not in self._moment:
            self._moment[key] = read()
        return cast("Result", self._moment[key])

    def resolve(self, key: ConversationKey) -> Resolved | None:
        return self.behind.resolve(key) if self._is_it(key.project_id) else None

    def verify(self, conversation_id: ConversationId) -> int | None:
        if not self._owns("conversation", conversation_id):
            return None
        return self.behind.verify(conversation_id)

    def proofs(
        self, project_id: str | None = None, workstream: str | None = None
    ) -> Iterator[Proof]:
        return self.behind.proofs(project_id, workstream)

    # --- leases -----------------------------------------------------------------------------------

    def restored_at_ms(self, project_id: ProjectId) -> int | None:
        return self._restored_at_ms if self._is_it(project_id) else None

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

    def commit(self, writes: Sequence[Write], **leases: Unpack[Leases]) -> None:
        self._end_moment()
        batch = self._filter.kept(writes) if self._filter else writes
        opened: set[str] = set()
        for write in batch:
            self._check(write, opened)
        acts = acts_in(batch, by_user=self._by_user, now_ms=self._now_ms())
        try:
            self.behind.commit((*batch, *acts), **leases)
        finally:
            self._end_moment()
        # Only now: what could not be opened may be another's.
        self._learn(*opened)

    def _end_moment(self) -> None:
        if self._moment is not None:
            self._moment.clear()

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        found = super().turns(conversation_id, newest=newest)
        self._learn(*(turn.turn_id for turn in found))
        return found

    # --- below: whose it is ----------------------------------------------------------------------

    def _is_it(self, project_id: str) -> bool:
        return project_id == self._project_id

    def _owns(self, what: str, name: str) -> bool:
        """Return whether a conversation, turn or run is the project's."""
        if name not in self._own:
            if not self.found(tag(what, name)):
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
        named: object = write
        match write:
            case OpenConversation(conversation=new):
                named = new.key
                # Under another's conversation it would be read, and erased, with that one.
                self._must_own("conversation", new.parent_conversation_id, opened)
                opened.add(new.conversation_id)
            case OpenLink(link=link):
                named = link
            case OpenTurn(turn_id=minted) | OpenRun(run_id=minted):
                opened.add(minted)
            case _:
                pass
        project_id = getattr(named, "project_id", self._project_id)
        if not self._is_it(project_id):
            raise _never_opened("project", project_id)
        # By the names of fields, so that a write of a new kind is looked at as well.
        self._must_own("conversation", getattr(named, "conversation_id", None), opened)
        self._must_own("turn", getattr(named, "turn_id", None), opened)
        self._must_own("run", getattr(named, "run_id", None), opened)

    def _must_own(self, what: str, name: str | None, opened: set[str]) -> None:
        if name is not None and name not in opened and not self._owns(what, name):
            raise _never_opened(what, name)


def _never_opened(what: str, name: str) -> NotFoundError:
    return NotFoundError(
        f"no {what} {name!r} was ever opened in this project",
        hint=f"open the {what} first",
        name=name,
    )


# --- what is recorded of a batch -----------------------------------------------------------------

REMEMBERED_MAX = 4096
"""How many conversations it knows the mode of."""


_OF_A_ROLE = (
    OpenTurn,
    RecordParts,
    RecordTurnEvent,
    RecordQuarantine,
    RecordDecision,
    RecordExamined,
    RecordBriefingEdit,
)
"""What is recorded as the role of its conversation is."""


class RecordPolicy(Struct, frozen=True, kw_only=True):
    """What is recorded: of the project, and of roles for which something else was said."""

    mode: RecordMode = "redacted"
    roles: Mapping[str, RecordMode] = field(default_factory=dict[str, RecordMode])

    def of_role(self, role: str) -> RecordMode:
        """Return what is recorded of a role."""
        return self.roles.get(role, self.mode)

    @property
    def strictest(self) -> RecordMode:
        """What is recorded of whatever may belong to any role."""
        return strictest(self.mode, *self.roles.values())


class RecordFilter:
    """Writes as they are to be kept. `conversation_of` reads the conversation behind an id."""

    def __init__(
        self,
        policy: RecordPolicy,
        redactor: Redactor,
        *,
        conversation_of: Callable[[ConversationId], Conversation | None],
    ) -> None:
        self._policy = policy
        self._redactor = redactor
        self._conversation_of = conversation_of
        self._is_redacted_alike = policy.mode == "redacted" and not policy.roles
        self._modes: dict[ConversationId, RecordMode] = {}

    def kept(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Return a batch as it is to be kept: the same object where nothing of it changes."""
        # Most batches hold no secret, and it is the looks that cost: one over all texts, then.
        if self._is_redacted_alike and stays_as_it_is(writes, self._redactor):
            return writes
        return [kept(write, self._mode_of(write), self._redactor) for write in writes]

    # --- below: how ----------------------------------------------------------------------------

    def _mode_of(self, write: Write) -> RecordMode:
        if isinstance(write, RecordRunEvent):
            # A run that keeps no reports and no answers could not go on.
            return "full" if self._policy.strictest == "full" else "redacted"
        if not self._policy.roles:
            return self._policy.mode
        if isinstance(write, OpenConversation):
            return self._learn(write.conversation)
        owner = write.conversation_id if isinstance(write, _OF_A_ROLE) else None
        return self._policy.strictest if owner is None else self._mode(owner)

    def _mode(self, conversation_id: ConversationId) -> RecordMode:
        known = self._modes.get(conversation_id)
        if known is not None:
            return known
        conversation = self._conversation_of(conversation_id)
        return self._learn(conversation) if conversation else self._policy.strictest

    def _learn(self, conversation: Conversation) -> RecordMode:
        mode = self._policy.of_role(conversation.key.role)
        parent = conversation.parent_conversation_id
        if parent is not None:
            inherited = self._mode(parent)
            is_said = conversation.key.role in self._policy.roles
            # Else a sub-agent would keep the words that its caller's role was told not to.
            mode = strictest(mode, inherited) if is_said else inherited
        if len(self._modes) >= REMEMBERED_MAX:
            self._modes.clear()
        self._modes[conversation.conversation_id] = mode
        return mode
