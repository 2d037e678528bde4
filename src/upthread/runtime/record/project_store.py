"""The store as one person sees it, in one project: its own rows, whoever else's are beside them.

Ids are found by chance by nobody, but they are written down: in logs, in bindings, in what an agent
was told. Here another project's id is an id that was never opened: it reads as nothing, and a write
that names it is refused (S21). One place, in front of every backend, so that no statement has to
know of it, and one that forgets it does no harm. What is written is kept as the record's policy has
it (record_filter.py), and what the person does is kept with who it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Concatenate, Final, ParamSpec, TypeVar

from upthread.core.acts import acts_in
from upthread.core.commands import OpenConversation, OpenLink, OpenRun, OpenTurn, Write
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    LeaseClaim,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.errors import NotFoundError
from upthread.runtime.record.record_filter import RecordFilter, RecordPolicy
from upthread.store.base import KnownProject, Resolved, Run, Store, Turn

NameT = TypeVar("NameT", bound=str)
ValueT = TypeVar("ValueT")
Others = ParamSpec("Others")

OWN_MAX: Final = 4096
"""How many ids it knows to be the project's."""


class ProjectStore:
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
        self._project_id = project_id
        self._by_user = by_user
        self._now_ms = now_ms
        self._own: set[str] = set()
        self._turns_read: dict[TurnId, ConversationId] = {}
        self._policy, self._redactor = policy, redactor
        # As attributes, each read once: what the store answers where the id is the project's, and
        # nothing where it is not. A new read of the port is one row here.
        of_project, of_conversation = self._is_it, self._owns
        self.conversations = _only(of_project, store.conversations, ())
        self.workstream = _only(of_project, store.workstream, None)
        self.workstreams = _only(of_project, store.workstreams, ())
        self.runs = _only(of_project, store.runs, ())
        self.once = _only(of_project, store.once, None)
        self.link_owner = _only(of_project, store.link_owner, None)
        self.links = _only(of_conversation, store.links, ())
        self.messages = _only(of_conversation, store.messages, ())
        self.part_contents = _only(of_conversation, store.part_contents, ())
        self.prior_messages = _only(of_conversation, store.prior_messages, ())
        self.message_count = _only(of_conversation, store.message_count, 0)
        self.refusals = _only(of_conversation, store.refusals, ())
        self.acts = _only(self._owns_either, store.acts, ())
        self.examined = _only(of_conversation, store.examined, ())
        self.briefing_edit = _only(of_conversation, store.briefing_edit, None)
        self.verify = _only(of_conversation, store.verify, None)
        self.turn_events = _only(self._owns_turn, store.turn_events, ())
        self.turn_moved_at_ms = _only(self._owns_turn, store.turn_moved_at_ms, None)
        self.quarantined = _only(self._owns_turn, store.quarantined, ())
        self.run_events = _only(self._owns_run, store.run_events, ())
        self.run_moved_at_ms = _only(self._owns_run, store.run_moved_at_ms, None)
        self.scrub = store.scrub
        self.acquire_lease = store.acquire_lease
        self.heartbeat = store.heartbeat
        self.release_lease = store.release_lease
        self.lease = store.lease
        self.held_leases = _only(of_project, store.held_leases, ())
        self.close = store.close

    def commit(
        self,
        writes: Sequence[Write],
        *,
        fences: Sequence[Fence] = (),
        take: Sequence[LeaseClaim] = (),
        give: Sequence[Fence] = (),
    ) -> None:
        batch = writes if self._filter is None else self._kept(self._filter, writes)
        opened: set[str] = set()
        for write in batch:
            self._check(write, opened)
        acts = acts_in(
            batch, by_user=self._by_user, now_ms=self._now_ms(), owner_of=self.turn_owner
        )
        self.behind.commit((*batch, *acts), fences=fences, take=take, give=give)
        # Only now: what could not be opened may be another's.
        self._learn(*opened)

    @cached_property
    def _filter(self) -> RecordFilter | None:
        if self._policy is None or self._redactor is None:
            return None
        return RecordFilter(self._policy, self._redactor, conversation_of=self.conversation)

    def _kept(self, record_filter: RecordFilter, writes: Sequence[Write]) -> Sequence[Write]:
        for turn_id, conversation_id in self._turns_read.items():
            record_filter.learn(turn_id, conversation_id)
        self._turns_read.clear()
        return record_filter.kept(writes)

    # --- what tells by itself whose it is --------------------------------------------------------

    def resolve(self, key: ConversationKey) -> Resolved | None:
        return self.behind.resolve(key) if key.project_id == self._project_id else None

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        found = self.behind.conversation(conversation_id)
        return found if found is not None and self._is_it(found.key.project_id) else None

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        return tuple(e for e in self.behind.projects(identity) if self._is_it(e.project_id))

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        if not self._owns(conversation_id):
            return ()
        found = self.behind.turns(conversation_id, newest=newest)
        self._learn(*(turn.turn_id for turn in found))
        # A turn's events do not name their conversation, and what is kept follows from its role.
        if len(self._turns_read) + len(found) > OWN_MAX:
            self._turns_read.clear()
        self._turns_read.update((turn.turn_id, conversation_id) for turn in found)
        return found

    def turn_owner(self, turn_id: TurnId) -> ConversationId | None:
        owner = self.behind.turn_owner(turn_id)
        return owner if owner is not None and self._owns(owner) else None

    def run(self, run_id: RunId) -> Run | None:
        found = self.behind.run(run_id)
        return found if found is not None and self._is_it(found.project_id) else None

    def pending_transitions(self, *, due_before_ms: int) -> tuple[RunId, ...]:
        pending = self.behind.pending_transitions(due_before_ms=due_before_ms)
        return tuple(run_id for run_id in pending if self._owns_run(run_id))

    # --- below: whose it is ----------------------------------------------------------------------

    def _is_it(self, project_id: str) -> bool:
        return project_id == self._project_id

    def _owns(self, conversation_id: ConversationId) -> bool:
        return self._is_known(conversation_id, lambda: self.conversation(conversation_id))

    def _owns_turn(self, turn_id: TurnId) -> bool:
        return self._is_known(turn_id, lambda: self.turn_owner(turn_id))

    def _owns_either(self, name: ConversationId | RunId) -> bool:
        return self._owns(ConversationId(name)) or self._owns_run(RunId(name))

    def _owns_run(self, run_id: RunId) -> bool:
        return self._is_known(run_id, lambda: self.run(run_id))

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


def _only(
    is_own: Callable[[NameT], bool],
    read: Callable[Concatenate[NameT, Others], ValueT],
    nothing: ValueT,
) -> Callable[Concatenate[NameT, Others], ValueT]:
    """Return a read of what is one's own; all else reads as what is not there."""

    def own(name: NameT, /, *others: Others.args, **named: Others.kwargs) -> ValueT:
        return read(name, *others, **named) if is_own(name) else nothing

    return own


def _never_opened(what: str, name: str) -> NotFoundError:
    return NotFoundError(
        f"no {what} {name!r} was ever opened in this project",
        hint=f"open the {what} first",
        name=name,
    )
