"""The overview: a workstream and its roles as they stand, truthful after a crash.

Blocking reads, put together into values that surfaces print. A role is running only while a living
process holds its lease; a turn without an end and without a holder is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias

from upthread.core import pipeline as pipelines
from upthread.core import turn as turns
from upthread.core.cut_off import CutOffTurn
from upthread.core.events import AnswerSuggested, Question
from upthread.core.pipeline import RunView
from upthread.core.reports import Report
from upthread.core.turn import TurnView
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    Holder,
    Link,
    ProjectId,
    TurnId,
)
from upthread.core.verdicts import holds
from upthread.runtime.cut_off import cut_off_turn
from upthread.runtime.lease import conversation_lease, workstream_lease
from upthread.store.base import Store, Workstream

TreeNow: TypeAlias = Callable[[str], str]

CUT_OFF_MESSAGES_MAX: Final = 256
"""How far back it is looked for what a turn did that was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """A verdict and whether what it judged is still the same.

    `tree_digest` is empty for a verdict on something else than the working tree.
    """

    outcome: str
    input_digest: str
    tree_digest: str
    is_current: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleView:
    """One conversation of a workstream. `state` is idle, running, interrupted or parked.

    `cut_off` is what is known of its last turn where that stopped before its end.
    """

    conversation: Conversation
    chain: tuple[Link, ...]
    state: str
    turns: int
    holder: Holder | None
    last_turn_id: TurnId | None
    last_turn: TurnView | None
    report: Report | None
    verdict: VerdictView | None
    cut_off: CutOffTurn | None = None

    @property
    def link(self) -> Link | None:
        """The open link, None when there is none."""
        return self.chain[-1] if self.chain and self.chain[-1].ended_because is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkstreamView:
    """A workstream as it stands; `roles` without children and closed generations."""

    workstream: Workstream
    status: str
    run: RunView | None
    open_questions: tuple[Question, ...]
    suggested: Mapping[str, AnswerSuggested]
    roles: tuple[RoleView, ...]
    children: tuple[Conversation, ...]


class Overview:
    """Reads workstreams. `is_dead` judges holders, as for leases.

    `tree_now` gives the digest of a workstream's working tree, blocking; without it verdicts are
    compared by what their roles were given alone. It is asked once a call, and only where a tree
    was judged.
    """

    def __init__(
        self, store: Store, is_dead: Callable[[Holder], bool], *, tree_now: TreeNow | None = None
    ) -> None:
        self._store = store
        self._is_dead = is_dead
        self._tree_now = tree_now

    def workstreams(self, project_id: ProjectId) -> tuple[WorkstreamView, ...]:
        """Return a project's workstreams, oldest first."""
        return tuple(
            view
            for known in self._store.workstreams(project_id)
            if (view := self.workstream(project_id, known.workstream)) is not None
        )

    def workstream(self, project_id: ProjectId, workstream: str) -> WorkstreamView | None:
        """Return one workstream, None if nothing was ever opened in it."""
        return self._workstream(project_id, workstream, self._looked_at_once(workstream))

    def _looked_at_once(self, workstream: str) -> Callable[[], str] | None:
        return cache(partial(self._tree_now, workstream)) if self._tree_now else None

    def _workstream(
        self, project_id: ProjectId, workstream: str, tree: Callable[[], str] | None
    ) -> WorkstreamView | None:
        known = self._store.workstream(project_id, workstream)
        run = self._run(project_id, workstream)
        if known is None:
            if run is None:
                return None
            known = Workstream(
                project_id=project_id, workstream=workstream, base_name="", opened_at_ms=0
            )
        conversations = self._store.conversations(project_id, workstream)
        current = _current_generations(conversations)
        roles = tuple(self._role(conversation, run, tree) for conversation in current)
        holder = self._holder(workstream_lease(project_id, workstream))
        return WorkstreamView(
            workstream=known,
            status=_status(run, roles, is_held=holder is not None),
            run=run,
            open_questions=run.open_questions if run else (),
            suggested=run.suggested if run else {},
            roles=roles,
            children=tuple(c for c in conversations if c.key.slot == CHILD_SLOT),
        )

    def role(self, conversation: Conversation, run: RunView | None) -> RoleView:
        """Return one conversation as it stands."""
        return self._role(conversation, run, self._looked_at_once(conversation.key.workstream))

    def _role(
        self, conversation: Conversation, run: RunView | None, tree: Callable[[], str] | None
    ) -> RoleView:
        conversation_id = conversation.conversation_id
        newest = self._store.turns(conversation_id, newest=1)
        last = turns.fold(self._store.turn_events(newest[0].turn_id)) if newest else None
        key = conversation.key
        holder = self._holder(conversation_lease(key.project_id, key.address))
        return RoleView(
            conversation=conversation,
            chain=self._store.links(conversation_id),
            state=_role_state(last, is_held=holder is not None),
            turns=self._store.turn_count(conversation_id),
            holder=holder,
            last_turn_id=newest[0].turn_id if newest else None,
            last_turn=last,
            report=run.report(key.role) if run else None,
            verdict=_verdict(run, key.role, tree),
            cut_off=self._cut_off(conversation_id, last) if holder is None else None,
        )

    def _cut_off(self, conversation_id: ConversationId, last: TurnView | None) -> CutOffTurn | None:
        if last is None or not last.was_cut_off:
            return None
        return cut_off_turn(
            self._store, self._store.messages(conversation_id, newest=CUT_OFF_MESSAGES_MAX)
        )

    def _run(self, project_id: ProjectId, workstream: str) -> RunView | None:
        runs = self._store.runs(project_id, workstream)
        return pipelines.fold(self._store.run_events(runs[-1].run_id)) if runs else None

    def _holder(self, lease_name: str) -> Holder | None:
        lease = self._store.lease(lease_name)
        if lease is None or lease.holder is None or self._is_dead(lease.holder):
            return None
        return lease.holder


def _current_generations(conversations: tuple[Conversation, ...]) -> tuple[Conversation, ...]:
    newest: dict[tuple[str, int], Conversation] = {}
    for conversation in conversations:
        if conversation.key.slot != CHILD_SLOT:
            newest[(conversation.key.role, conversation.key.slot)] = conversation
    return tuple(newest.values())


def _role_state(last: TurnView | None, *, is_held: bool) -> str:
    if is_held:
        return "running"
    if last is None or last.ended is not None:
        return "idle"
    return "parked" if last.parked is not None else "interrupted"


_RUN_STATUS: Mapping[str, str] = {
    "approved": "approved",
    "done": "idle",
    "forgotten": "idle",
    "running": "idle",
}


def _status(run: RunView | None, roles: tuple[RoleView, ...], *, is_held: bool) -> str:
    if is_held or any(role.state == "running" for role in roles):
        return "running"
    if run is None:
        return "parked" if any(role.state == "parked" for role in roles) else "idle"
    if run.parked is not None and run.parked.reason == "rejected_too_often":
        return "rejected"
    return _RUN_STATUS.get(run.status, run.status)


def _verdict(run: RunView | None, role: str, tree: Callable[[], str] | None) -> VerdictView | None:
    handed = run.handed.get(role) if run else None
    if run is None or handed is None or handed.report.verdict is None:
        return None
    is_tree_asked = tree is not None and bool(handed.tree_digest)
    tree_digest = tree() if tree is not None and is_tree_asked else handed.tree_digest
    return VerdictView(
        outcome=handed.report.verdict.result,
        input_digest=handed.input_digest,
        tree_digest=handed.tree_digest,
        is_current=holds(run, handed, tree_digest=tree_digest),
        evidence=handed.report.verdict.evidence,
    )
