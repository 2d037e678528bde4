"""The store as one person sees it, in one project: its own rows, whoever else's are beside them.

Ids are found by chance by nobody, but they are written down: in logs, in bindings, in what an agent
was told. Here another project's id is an id that was never opened: it reads as nothing, and a write
that names it is refused (S21). One place, in front of every backend, so that no statement has to
know of it, and one that forgets it does no harm. What the person does is kept with who it was.

Each write passes `core.record_policy` before it is committed. What is kept of it depends on the
role it belongs to; a child is recorded no more fully than the conversation that called it, and what
belongs to nobody we know, or to a run as a whole, as the strictest of all roles is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from msgspec import Struct, field

from upthread.core.acts import acts_in
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
)
from upthread.core.record_policy import kept, stays_as_it_is, strictest
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    ProjectId,
    ProjectIdentity,
    RecordMode,
    RunId,
    TurnId,
)
from upthread.errors import NotFoundError
from upthread.store.base import Held, KnownProject, Resolved, Run, Store, Turn

KeyT = TypeVar("KeyT")
NameT = TypeVar("NameT", bound=str)
ValueT = TypeVar("ValueT")
Others = ParamSpec("Others")

OWN_MAX: Final = 4096
"""How many ids it knows to be the project's."""

REMEMBERED_MAX: Final = 4096
"""How many turns and conversations it knows the owner and the mode of."""

_NOTHING_HELD: Final = Held(parts=0, content_bytes=0, oldest_at_ms=None)


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
        self._filter = (
            None
            if policy is None or redactor is None
            else RecordFilter(policy, redactor, conversation_of=self.conversation)
        )
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
        self.message = _only(of_conversation, store.message, None)
        self.prior_messages = _only(of_conversation, store.prior_messages, ())
        self.message_count = _only(of_conversation, store.message_count, 0)
        self.turn_count = _only(of_conversation, store.turn_count, 0)
        self.refusals = _only(of_conversation, store.refusals, ())
        self.acts = _only(of_conversation, store.acts, ())
        self.held = _only(of_conversation, store.held, _NOTHING_HELD)
        self.examined = _only(of_conversation, store.examined, ())
        self.briefing_edit = _only(of_conversation, store.briefing_edit, None)
        self.verify = _only(of_conversation, store.verify, None)
        self.turn_events = _only(self._owns_turn, store.turn_events, ())
        self.turn_moved_at_ms = _only(self._owns_turn, store.turn_moved_at_ms, None)
        self.quarantined = _only(self._owns_turn, store.quarantined, ())
        self.examined_count = _only(self._owns_turn, store.examined_count, 0)
        self.run_acts = _only(self._owns_run, store.run_acts, ())
        self.run_events = _only(self._owns_run, store.run_events, ())
        self.run_moved_at_ms = _only(self._owns_run, store.run_moved_at_ms, None)
        self.scrub = store.scrub
        self.acquire_lease = store.acquire_lease
        self.heartbeat = store.heartbeat
        self.release_lease = store.release_lease
        self.lease = store.lease
        self.close = store.close

    def commit(self, writes: Sequence[Write], *, fences: Sequence[Fence] = ()) -> None:
        batch = writes if self._filter is None else self._filter.kept(writes)
        opened: set[str] = set()
        for write in batch:
            self._check(write, opened)
        acts = acts_in(
            batch, by_user=self._by_user, now_ms=self._now_ms(), owner_of=self.turn_owner
        )
        self.behind.commit((*batch, *acts), fences=fences)
        # Only now: what could not be opened may be another's.
        self._learn(*opened)

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
        if self._filter is not None:
            for turn in found:
                self._filter.learn(turn.turn_id, conversation_id)
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


# --- what is kept of a write -------------------------------------------------------------------


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
        self._owners: dict[TurnId, ConversationId] = {}

    def kept(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Return a batch as it is to be kept: the same object where nothing of it changes."""
        # Most batches hold no secret, and it is the looks that cost: one over all texts, then.
        if self._is_redacted_alike and stays_as_it_is(writes, self._redactor):
            return writes
        return [kept(write, self._mode_of(write), self._redactor) for write in writes]

    def learn(self, turn_id: TurnId, owner: ConversationId) -> None:
        """Remember whose turn it is: its events do not say."""
        _remember(self._owners, turn_id, owner)

    # --- below: how ----------------------------------------------------------------------------

    def _mode_of(self, write: Write) -> RecordMode:
        if isinstance(write, RecordRunEvent):
            # A run that keeps no reports and no answers could not go on.
            return "full" if self._policy.strictest == "full" else "redacted"
        if not self._policy.roles:
            return self._policy.mode
        if isinstance(write, OpenConversation):
            return self._learn(write.conversation)
        owner = self._owner_of(write)
        return self._policy.strictest if owner is None else self._mode(owner)

    def _owner_of(self, write: Write) -> ConversationId | None:
        match write:
            case OpenTurn(turn_id=turn_id, conversation_id=owner):
                self.learn(turn_id, owner)
                return owner
            case (
                RecordParts(conversation_id=owner)
                | RecordDecision(conversation_id=owner)
                | RecordExamined(conversation_id=owner)
                | RecordBriefingEdit(conversation_id=owner)
            ):
                return owner
            case RecordTurnEvent(turn_id=turn_id) | RecordQuarantine(turn_id=turn_id):
                # Of a turn that nobody here has opened or
                # read: the strictest mode is the safe guess.
                return self._owners.get(turn_id)
            case _:
                return None

    def _mode(self, conversation_id: ConversationId) -> RecordMode:
        known = self._modes.get(conversation_id)
        if known is not None:
            return known
        conversation = self._conversation_of(conversation_id)
        return self._policy.strictest if conversation is None else self._learn(conversation)

    def _learn(self, conversation: Conversation) -> RecordMode:
        mode = self._policy.of_role(conversation.key.role)
        parent = conversation.parent_conversation_id
        if parent is not None:
            inherited = self._mode(parent)
            is_said = conversation.key.role in self._policy.roles
            # Else a sub-agent would keep the words that its caller's role was told not to.
            mode = strictest(mode, inherited) if is_said else inherited
        _remember(self._modes, conversation.conversation_id, mode)
        return mode


def _remember(memory: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    if len(memory) >= REMEMBERED_MAX:
        memory.clear()
    memory[key] = value
