"""The overview: a workstream and its roles as they stand, truthful after a crash.

Blocking reads, put together into values that surfaces print. A role is running only while a living
process holds its lease; a turn without an end and without a holder is interrupted. Which word that
comes to, and why, is decided in core/states.py.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.codec import text_at
from upthread.core.events import AnswerSuggested, Question
from upthread.core.roles.reports import Report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import Handed, RunView, VerdictView, holds
from upthread.core.runs.stops import OURS, Ending, Source, ending_of
from upthread.core.states import (
    RoleFacts,
    RunFacts,
    Standing,
    of_role,
    of_run,
    of_workstream,
    status_of,
    with_doubts,
)
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import TurnView
from upthread.core.types import (
    CHILD_SLOT,
    RETRY,
    Conversation,
    ConversationId,
    Holder,
    Link,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
    UnknownPart,
)
from upthread.runtime.lease import lease_name_of, workstream_lease
from upthread.runtime.record.turn_views import (
    CutOffTurn,
    LogOf,
    RecordedEffect,
    cut_off_turn,
    source_of,
    turn_count,
)
from upthread.store.base import Store
from upthread.store.reads import Workstream
from upthread.store.streams import not_whole

CUT_OFF_MESSAGES_MAX = 256
"""How far back it is looked for what a turn did that was cut off."""


class RoleView(Struct, frozen=True, kw_only=True):
    """One conversation of a workstream. `standing` is how it stands, in a word of core/states.py.

    `ending` is what became of its last turn; `cut_off` what is known of that turn where it stopped
    before its end; `is_step` whether it was a step of the newest run, and is over. `in_doubt` are
    the actions of this conversation, and of its children, that may have been done or not.
    """

    conversation: Conversation
    chain: tuple[Link, ...]
    standing: Standing
    turns: int
    holder: Holder | None
    last_turn_id: TurnId | None
    last_turn: TurnView | None
    report: Report | None
    verdict: VerdictView | None
    ending: Ending
    cut_off: CutOffTurn | None
    is_step: bool
    in_doubt: tuple[RecordedEffect, ...] = ()

    @property
    def link(self) -> Link | None:
        """The open link, None when there is none."""
        return self.chain[-1] if self.chain and self.chain[-1].ended_because is None else None

    @property
    def state(self) -> str:
        """The word for how it stands."""
        return str(self.standing.state)


class WorkstreamView(Struct, frozen=True, kw_only=True):
    """A workstream as it stands; `roles` without children and closed generations.

    `run_standing` is how its newest run stands, None without one and for one that was forgotten.
    `in_doubt` are the actions beyond this machine that may have been done or not.
    """

    workstream: Workstream
    standing: Standing
    run_standing: Standing | None
    run: RunView | None
    open_questions: tuple[Question, ...]
    suggested: Mapping[str, AnswerSuggested]
    roles: tuple[RoleView, ...]
    children: tuple[Conversation, ...]
    in_doubt: tuple[RecordedEffect, ...] = ()

    @property
    def state(self) -> str:
        """The word for how it stands."""
        return str(self.standing.state)

    @property
    def status(self) -> str:
        """The coarser word: running, waiting_for_human, parked, rejected, approved or idle."""
        return status_of(self.standing, self.run)


class NewestRun(Struct, frozen=True, kw_only=True):
    """The newest run of a workstream, and when it last moved."""

    run_id: RunId
    view: RunView
    moved_at_ms: int | None


class Overview(Struct, frozen=True):
    """Reads workstreams. `is_dead` judges holders, as for leases.

    `tree_now` gives the digest of a workstream's working tree, blocking; without it verdicts are
    compared by what their roles were given alone. It is asked once a call, and only where a tree
    was judged. `doubts_now` gives what of a workstream may have been done or not, blocking.
    `log_of` tells where an agent's stderr went.
    """

    store: Store
    is_dead: Callable[[Holder], bool]
    tree_now: Callable[[str], str] | None = None
    doubts_now: Callable[[str], Sequence[RecordedEffect]] = lambda _: ()
    log_of: LogOf = lambda _agent, _at_ms: ""

    def workstreams(self, project_id: ProjectId) -> tuple[WorkstreamView, ...]:
        """Return a project's workstreams, the one that moved last first."""
        views = (
            self.workstream(project_id, known.workstream)
            for known in self.store.workstreams(project_id)
        )
        return tuple(sorted(filter(None, views), key=lambda view: -(view.standing.since_ms or 0)))

    def workstream(self, project_id: ProjectId, workstream: str) -> WorkstreamView | None:
        """Return one workstream, None if nothing was ever opened in it."""
        tree = self._looked_at_once(workstream)
        known = self.store.workstream(project_id, workstream)
        newest = self._newest(project_id, workstream)
        if not known:
            if not newest:
                return None
            known = Workstream(
                project_id=project_id, workstream=workstream, base_name="", opened_at_ms=0
            )
        conversations = self.store.conversations(project_id, workstream)
        current = _current_generations(conversations)
        roles = tuple(self._role(each, newest, tree) for each in current)
        run = newest.view if newest else None
        stands = self._run_stands(known, newest, tree) if newest else None
        standing = of_workstream(
            stands,
            (role.standing for role in roles),
            steps=frozenset(role.standing.role for role in roles if role.is_step),
        )
        doubts = tuple(self.doubts_now(workstream))
        actions = titles_of(doubts)
        return WorkstreamView(
            workstream=known,
            standing=with_doubts(standing, actions, workstream=workstream),
            run_standing=with_doubts(stands, actions, workstream=workstream) if stands else None,
            run=run,
            open_questions=run.open_questions if run else (),
            suggested=run.suggested if run else {},
            roles=tuple(self._doubting_role(role, doubts) for role in roles),
            children=tuple(c for c in conversations if c.key.slot == CHILD_SLOT),
            in_doubt=doubts,
        )

    def _looked_at_once(self, workstream: str) -> Callable[[], str] | None:
        # Several verdicts may be on one tree, and its digest costs a `git status` each time.
        return cache(partial(self.tree_now, workstream)) if self.tree_now else None

    def role(self, conversation: Conversation) -> RoleView:
        """Return one conversation as it stands."""
        key = conversation.key
        newest = self._newest(key.project_id, key.workstream)
        view = self._role(conversation, newest, self._looked_at_once(key.workstream))
        return self._doubting_role(view, tuple(self.doubts_now(key.workstream)))

    def _doubting_role(self, view: RoleView, doubts: tuple[RecordedEffect, ...]) -> RoleView:
        """A role's own are those of its conversation and of its children; its verdict's are all."""
        conversation = view.conversation
        own = tuple(each for each in doubts if self._owner(each) == conversation.conversation_id)
        name = conversation.key.workstream
        ids = tuple(each.effect_id for each in doubts)
        return replace(
            view,
            standing=with_doubts(view.standing, titles_of(own), workstream=name),
            # All of the workstream's: what was done beyond this machine no judge could see.
            verdict=replace(view.verdict, in_doubt=ids) if view.verdict else None,
            in_doubt=own,
        )

    def _owner(self, doubt: RecordedEffect) -> ConversationId:
        """Return whose action it was: a child's is that of the conversation that called it."""
        found: Conversation | None = doubt.conversation
        owner = doubt.conversation.conversation_id
        while found and found.parent_conversation_id is not None:
            owner = found.parent_conversation_id
            found = self.store.conversation(owner)
        return owner

    def _role(
        self, conversation: Conversation, newest: NewestRun | None, tree: Callable[[], str] | None
    ) -> RoleView:
        conversation_id, key = conversation.conversation_id, conversation.key
        turn = next(iter(self.store.turns(conversation_id, newest=1)), None)
        events = self.store.turn_events(conversation_id, turn.turn_id) if turn else ()
        last = turns.fold(each.event for each in events) if turn else None
        holder = self._holder(lease_name_of(conversation))
        run = newest.view if newest else None
        is_step = newest is not None and turn is not None and turn.run_id == newest.run_id
        handed = run.handed.get(key.role) if run else None
        verdict = _verdict(run, handed, tree)
        chain = self.store.links(conversation_id)
        call = last.call if last else None
        call_agent = call.agent if call else ""
        moved_at_ms = events[-1].recorded_at_ms if events else None
        facts = RoleFacts(
            workstream=key.workstream,
            address=key.address,
            role=key.address.rpartition("/")[2],
            is_held=holder is not None,
            held_since_ms=turn.opened_at_ms if holder and holder.call and turn else None,
            agent=chain[-1].agent if chain else call_agent,
            waits=self._waits(conversation_id) if holder else "",
            turn=last,
            opened_at_ms=turn.opened_at_ms if turn else None,
            moved_at_ms=moved_at_ms,
            run=run if is_step else None,
            # Of that very turn: a later prompt to the role passes none.
            verdict=verdict if turn and handed and handed.turn_id == turn.turn_id else None,
            source=self._source(last, (turn.opened_at_ms, moved_at_ms)) if turn else OURS,
        )
        return RoleView(
            conversation=conversation,
            chain=chain,
            standing=of_role(facts),
            ending=ending_of(last, is_held=holder is not None),
            turns=turn_count(self.store, conversation_id, last),
            holder=holder,
            is_step=is_step and last is not None and last.is_over,
            last_turn_id=turn.turn_id if turn else None,
            last_turn=last,
            report=run.report(key.role) if run else None,
            verdict=verdict,
            # While somebody holds it, a turn without an end is under way.
            cut_off=None if holder else self._cut_off(conversation_id, last),
        )

    def _waits(self, conversation_id: ConversationId) -> str:
        """Return what the agent says of its connection, empty once it has said anything else."""
        for message in self.store.messages(conversation_id, newest=1):
            for part in message.parts[-1:]:
                if isinstance(part, UnknownPart) and part.kind == RETRY:
                    return text_at(part.raw, "progress")
        return ""

    def _source(self, last: TurnView | None, at_ms: tuple[int, int | None]) -> Source:
        """Return who started the agent of a turn, where that matters: where it did not end well."""
        if not last or not last.ended or last.ended.outcome is Outcome.OK:
            return OURS
        moments = tuple(each for each in at_ms if each is not None)
        return source_of(last, at_ms=moments, log_of=self.log_of)

    def _cut_off(self, conversation_id: ConversationId, last: TurnView | None) -> CutOffTurn | None:
        if not last or not last.was_cut_off:
            return None
        messages = self.store.messages(conversation_id, newest=CUT_OFF_MESSAGES_MAX)
        return cut_off_turn(self.store, messages, messages[-1].turn_id) if messages else None

    def _newest(self, project_id: ProjectId, workstream: str) -> NewestRun | None:
        runs = self.store.runs(project_id, workstream)
        if not runs:
            return None
        run_id = runs[-1].run_id
        events = self.store.run_events(run_id)
        if not events and not self.store.run(run_id):
            raise not_whole(f"the name of run {run_id}, which leads nowhere,")
        return NewestRun(
            run_id=run_id,
            view=pipelines.fold(each.event for each in events),
            moved_at_ms=events[-1].recorded_at_ms if events else None,
        )

    def _run_stands(
        self, known: Workstream, newest: NewestRun, tree: Callable[[], str] | None
    ) -> Standing | None:
        run = newest.view
        lease = workstream_lease(known.project_id, known.workstream)
        facts = RunFacts(
            workstream=known.workstream,
            run=run,
            is_held=self._holder(lease) is not None,
            moved_at_ms=newest.moved_at_ms,
            verdict=_verdict(run, run.handed.get(run.last.role), tree) if run.last else None,
        )
        return of_run(facts)

    def _holder(self, lease_name: str) -> Holder | None:
        lease = self.store.lease(lease_name)
        # A lease outlives its holder: read alone it would call a killed role running for ever.
        if not lease or not lease.holder or self.is_dead(lease.holder):
            return None
        return lease.holder


def titles_of(doubts: Sequence[RecordedEffect]) -> tuple[str, ...]:
    """Return the actions as they were called, in order."""
    return tuple(each.effect.title for each in doubts)


def _current_generations(conversations: tuple[Conversation, ...]) -> tuple[Conversation, ...]:
    newest: dict[tuple[str, int], Conversation] = {}
    for conversation in conversations:
        # Children share a key: by it, one would stand in another's place.
        if conversation.key.slot != CHILD_SLOT:
            newest[(conversation.key.role, conversation.key.slot)] = conversation
    return tuple(newest.values())


def _verdict(
    run: RunView | None, handed: Handed | None, tree: Callable[[], str] | None
) -> VerdictView | None:
    if not run or not handed or not handed.report.verdict:
        return None
    # A verdict on reports alone holds whatever the tree is, and asks no git.
    tree_digest = tree() if tree and handed.tree_digest else handed.tree_digest
    return VerdictView(
        outcome=handed.report.verdict.result,
        input_digest=handed.input_digest,
        tree_digest=handed.tree_digest,
        is_current=holds(run, handed, tree_digest=tree_digest),
        evidence=handed.report.verdict.evidence,
    )
