"""The store as one person sees it, in one project: its own rows, whoever else's are beside them.

Ids are found by chance by nobody, but they are written down: in logs, in bindings, in what an agent
was told. Here another project's id is an id that was never opened: it reads as nothing, and a write
that names it is refused (S21). One place, in front of every backend, so that no statement has to
know of it, and one that forgets it does no harm. What the person does is kept with who it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from upthread.core.acts import acts_in
from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    RecordAct,
    RecordDecision,
    Write,
)
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Link,
    Message,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.errors import NotFoundError
from upthread.store.base import (
    Held,
    KnownProject,
    Once,
    Quarantined,
    Resolved,
    Run,
    Store,
    StoredEdit,
    Turn,
    Workstream,
)

OWN_MAX: Final = 4096
"""How many ids it knows to be the project's."""

_NOTHING_HELD: Final = Held(parts=0, content_bytes=0, oldest_at_ms=None)


class ProjectStore:
    """One project of a store; `behind` is the whole of it. One call at a time, as the port has it.

    Leases are named by whoever takes them, project and all, and pass as they are.
    """

    def __init__(
        self, store: Store, project_id: ProjectId, *, by_user: str, now_ms: Callable[[], int]
    ) -> None:
        self.behind = store
        self._project_id = project_id
        self._by_user = by_user
        self._now_ms = now_ms
        self._own: set[str] = set()
        self.scrub = store.scrub
        self.acquire_lease = store.acquire_lease
        self.heartbeat = store.heartbeat
        self.release_lease = store.release_lease
        self.lease = store.lease
        self.close = store.close

    def commit(self, writes: Sequence[Write], *, fences: Sequence[Fence] = ()) -> None:
        opened: set[str] = set()
        for write in writes:
            self._check(write, opened)
        acts = acts_in(
            writes, by_user=self._by_user, now_ms=self._now_ms(), owner_of=self.turn_owner
        )
        self.behind.commit((*writes, *acts), fences=fences)
        # Only now: what could not be opened may be another's.
        self._learn(*opened)

    # --- what is found by the project ------------------------------------------------------------

    def resolve(self, key: ConversationKey) -> Resolved | None:
        return self.behind.resolve(key) if key.project_id == self._project_id else None

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        return self.behind.conversations(project_id, workstream) if self._is_it(project_id) else ()

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        return self.behind.workstream(project_id, workstream) if self._is_it(project_id) else None

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        return self.behind.workstreams(project_id) if self._is_it(project_id) else ()

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        return tuple(e for e in self.behind.projects(identity) if self._is_it(e.project_id))

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        return self.behind.runs(project_id, workstream) if self._is_it(project_id) else ()

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        return self.behind.once(project_id, key) if self._is_it(project_id) else None

    def link_owner(self, project_id: ProjectId, upstream_session_id: str) -> Conversation | None:
        if not self._is_it(project_id):
            return None
        return self.behind.link_owner(project_id, upstream_session_id)

    def pending_transitions(self, *, due_before_ms: int) -> tuple[RunId, ...]:
        pending = self.behind.pending_transitions(due_before_ms=due_before_ms)
        return tuple(run_id for run_id in pending if self._owns_run(run_id))

    # --- what is found by a conversation ---------------------------------------------------------

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        found = self.behind.conversation(conversation_id)
        return found if found is not None and self._is_it(found.key.project_id) else None

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        return self.behind.links(conversation_id) if self._owns(conversation_id) else ()

    def messages(
        self, conversation_id: ConversationId, *, after_seq: int = 0, newest: int | None = None
    ) -> tuple[Message, ...]:
        if not self._owns(conversation_id):
            return ()
        return self.behind.messages(conversation_id, after_seq=after_seq, newest=newest)

    def message(self, conversation_id: ConversationId, seq: int) -> Message | None:
        return self.behind.message(conversation_id, seq) if self._owns(conversation_id) else None

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        if not self._owns(conversation_id):
            return ()
        return self.behind.prior_messages(
            conversation_id, upstream_session_ids=upstream_session_ids, newest=newest
        )

    def message_count(self, conversation_id: ConversationId) -> int:
        return self.behind.message_count(conversation_id) if self._owns(conversation_id) else 0

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        if not self._owns(conversation_id):
            return ()
        found = self.behind.turns(conversation_id, newest=newest)
        self._learn(*(turn.turn_id for turn in found))
        return found

    def turn_count(self, conversation_id: ConversationId) -> int:
        return self.behind.turn_count(conversation_id) if self._owns(conversation_id) else 0

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        return self.behind.refusals(conversation_id) if self._owns(conversation_id) else ()

    def acts(self, conversation_id: ConversationId) -> tuple[RecordAct, ...]:
        return self.behind.acts(conversation_id) if self._owns(conversation_id) else ()

    def held(self, conversation_id: ConversationId, *, before_ms: int | None = None) -> Held:
        if not self._owns(conversation_id):
            return _NOTHING_HELD
        return self.behind.held(conversation_id, before_ms=before_ms)

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        if not self._owns(conversation_id):
            return ()
        return self.behind.examined(conversation_id, upstream_session_id=upstream_session_id)

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        return self.behind.briefing_edit(conversation_id) if self._owns(conversation_id) else None

    def verify(self, conversation_id: ConversationId) -> int | None:
        return self.behind.verify(conversation_id) if self._owns(conversation_id) else None

    # --- what is found by a turn or a run --------------------------------------------------------

    def turn_owner(self, turn_id: TurnId) -> ConversationId | None:
        owner = self.behind.turn_owner(turn_id)
        return owner if owner is not None and self._owns(owner) else None

    def turn_events(self, turn_id: TurnId) -> tuple[TurnEvent, ...]:
        return self.behind.turn_events(turn_id) if self._owns_turn(turn_id) else ()

    def turn_moved_at_ms(self, turn_id: TurnId) -> int | None:
        return self.behind.turn_moved_at_ms(turn_id) if self._owns_turn(turn_id) else None

    def quarantined(self, turn_id: TurnId) -> tuple[Quarantined, ...]:
        return self.behind.quarantined(turn_id) if self._owns_turn(turn_id) else ()

    def examined_count(self, turn_id: TurnId) -> int:
        return self.behind.examined_count(turn_id) if self._owns_turn(turn_id) else 0

    def run(self, run_id: RunId) -> Run | None:
        found = self.behind.run(run_id)
        return found if found is not None and self._is_it(found.project_id) else None

    def run_acts(self, run_id: RunId) -> tuple[RecordAct, ...]:
        return self.behind.run_acts(run_id) if self._owns_run(run_id) else ()

    def run_events(self, run_id: RunId) -> tuple[RunEvent, ...]:
        return self.behind.run_events(run_id) if self._owns_run(run_id) else ()

    def run_moved_at_ms(self, run_id: RunId) -> int | None:
        return self.behind.run_moved_at_ms(run_id) if self._owns_run(run_id) else None

    # --- below: whose it is ----------------------------------------------------------------------

    def _is_it(self, project_id: str) -> bool:
        return project_id == self._project_id

    def _owns(self, conversation_id: ConversationId) -> bool:
        return self._is_known(conversation_id, lambda: self.conversation(conversation_id))

    def _owns_turn(self, turn_id: TurnId) -> bool:
        return self._is_known(turn_id, lambda: self.turn_owner(turn_id))

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
        if len(self._own) + len(names) > OWN_MAX:
            self._own.clear()
        self._own.update(names)

    def _check(self, write: Write, opened: set[str]) -> None:
        """Raise NotFoundError for a write that names what is another's; note what it opens."""
        match write:
            case OpenConversation(conversation=new):
                named: object = new.key
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
