"""What an open project is made of. A part is made when it is first needed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from upthread.client.agent_calls import AgentCalls
from upthread.client.briefing import Briefings
from upthread.client.delegation_setup import Preparing
from upthread.client.file_permissions import log_path
from upthread.client.fork import ForkConversation
from upthread.client.once import DoOnce
from upthread.client.parts import ProjectParts
from upthread.client.why import Whys
from upthread.client.worktrees import WorktreesOfProject
from upthread.core.decision.freshness import change_lines
from upthread.core.names import Address, did_you_mean, key_of, parse_address, parse_role, shown
from upthread.core.types import Conversation
from upthread.errors import NotFoundError
from upthread.runtime.lease import Leases
from upthread.runtime.record.effects import RecordedEffect, WorkstreamEffects
from upthread.runtime.record.erasure import Forgetting
from upthread.runtime.record.workstream_views import Overview, RoleView, WorkstreamView
from upthread.runtime.runs.runs import Runs
from upthread.runtime.system import host_name
from upthread.runtime.turns.conversation import Conversations
from upthread.runtime.turns.turns import Turns
from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.git_worktrees import Worktrees
from upthread.store.address import is_postgres
from upthread.store.reads import Resolved

Result = TypeVar("Result")


class Assembly:
    """The parts behind `Project`, which looks into them and gives them out under their names.

    A part that is called is a verb with more verbs of its own, which hold for what it does:
    `up.fork(…)` and `up.fork.plan(…)`, `up.brief(…)` and `up.brief.edit(…)`, `up.once(…)` and
    `up.once.confirm(…)`. A verb without any is a method of `Project`.
    """

    def __init__(self, parts: ProjectParts) -> None:
        self.store = parts.store
        self.settings = parts.settings
        self.project_id = parts.project_id
        self.redactor = parts.redactor
        self.notices_at_rest = parts.notices_at_rest
        self.now_ms = parts.system.now_ms
        self.unread: tuple[str, ...] = ()
        """Why calls whose agents died could not be read back, when the record was last read."""
        self._parts = parts
        self._system = parts.system
        self._environment = parts.environment
        self._actor = parts.actor

    # --- looking: a call whose agent died is read back before anything is read -----------------

    async def _recover(self) -> None:
        """Record what agents did that have died in a call of theirs, from their own stores."""
        self.unread = await self._system.in_thread(self.calls.read_back)

    async def read(self, look: Callable[[], Result]) -> Result:
        """Return what a blocking read of `store` returns, run off the event loop."""
        await self._recover()
        return await self._system.in_thread(look)

    async def workstreams(self) -> tuple[WorkstreamView, ...]:
        """Return all workstreams, oldest first."""
        return await self.read(lambda: self._overview.workstreams(self.project_id))

    async def role(self, address: str) -> RoleView:
        """Return how one conversation stands. Raises NotFoundError."""
        return await self.read(lambda: self._overview.role(self._found(address)))

    async def parse(self, text: str) -> Address:
        """Return the address a person meant: `spec-42/planner`, or an instance name."""
        return await self._system.in_thread(lambda: self._parsed(text))

    # --- names, blocking -----------------------------------------------------------------------

    def _parsed(self, text: str) -> Address:
        """Return the address of `spec-42/planner` or `Kael-planner`. Raises UsageError."""
        base_name, dash, role = text.partition("-")
        # A name without its role is no address: it would stand for all of them.
        if "/" not in text and dash:
            for known in self.store.workstreams(self.project_id):
                if known.base_name == base_name:
                    return Address(workstream=known.workstream, role=parse_role(role))
        return parse_address(text)

    def _found(self, text: str) -> Conversation:
        return self._resolved(text).conversation

    def _resolved(self, text: str) -> Resolved:
        """Return a conversation and its open link by an address. Raises NotFoundError."""
        address = self._parsed(text)
        resolved = self.store.resolve(key_of(self.project_id, address))
        if resolved is None:
            name = f"{address.workstream}/{address.role}"
            raise NotFoundError(
                f"{shown(name)} has no conversation yet{did_you_mean(name, self._all_addresses())}",
                hint=f'start one: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        return resolved

    def _all_addresses(self) -> Iterator[str]:
        for known in self.store.workstreams(self.project_id):
            for each in self.store.conversations(self.project_id, known.workstream):
                yield each.key.address

    def _unknown(self, workstream: str) -> NotFoundError:
        """Return the error for a workstream that nothing was ever done on."""
        known = (each.workstream for each in self.store.workstreams(self.project_id))
        like = did_you_mean(workstream, known)
        return NotFoundError(
            f"there is no workstream {shown(workstream)} in this project{like}",
            hint="see `upthread ls`",
            workstream=workstream,
        )

    # --- what is given out ----------------------------------------------------------------------

    @cached_property
    def calls(self) -> AgentCalls:
        """The calls that agents' own tools make. Blocking."""
        return AgentCalls(self._parts)

    @cached_property
    def once(self) -> DoOnce:
        """Does something once, however often it is asked for."""
        return DoOnce(self._parts, self._leases)

    @cached_property
    def brief(self) -> Briefings:
        """What a fresh session starts from."""
        return Briefings(
            self._parts,
            role=self.role,
            is_independent=self._is_independent,
            changes_now=self._changes_now,
        )

    @cached_property
    def worktrees(self) -> WorktreesOfProject:
        """The working trees that workstreams have of their own."""
        return WorktreesOfProject(
            self._worktrees, self._parts, self._leases, workstreams=self.workstreams
        )

    @cached_property
    def forgetting(self) -> Forgetting:
        """Erases text from the record; `Project.forget` erases it in the files of hooks as well."""
        return Forgetting(
            store=self.store,
            system=self._system,
            leases=self._leases,
            project_id=self.project_id,
        )

    @cached_property
    def why(self) -> Whys:
        """The last decision, and the one that would be taken now."""
        return Whys(self._parts, preparing=self._preparing, role=self.role)

    @cached_property
    def fork(self) -> ForkConversation:
        """Branches a conversation off."""
        return ForkConversation(
            self._parts,
            self._leases,
            preparing=self._preparing,
            parsed=self._parsed,
        )

    # --- what stands behind them ----------------------------------------------------------------

    @cached_property
    def _leases(self) -> Leases:
        return Leases(self.store, self._system, self._parts.lease_times)

    @cached_property
    def _conversations(self) -> Conversations:
        return Conversations(self.store, self._system, self._leases)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.store, self._system, self._conversations)

    @cached_property
    def _runs(self) -> Runs:
        return Runs(
            store=self.store,
            system=self._system,
            leases=self._leases,
            turns=self._turns,
            host=self._host,
        )

    @cached_property
    def _worktrees(self) -> Worktrees:
        # New ones under upthread's home.
        folder = Path(self.settings.home) / "worktrees" / self.project_id
        return Worktrees(Path(self.settings.working_directory), folder)

    @cached_property
    def _preparing(self) -> Preparing:
        return Preparing(self._parts, worktrees=self._worktrees, host=self._host)

    @cached_property
    def _overview(self) -> Overview:
        home = Path(self.settings.home)
        return Overview(
            self.store,
            self._system.is_dead,
            tree_now=self._tree_digest,
            doubts_now=lambda workstream: self._effects_of(workstream).in_doubt(),
            log_of=lambda agent, at_ms: str(log_path(home, agent, at_ms)),
        )

    def _effects_of(self, workstream: str) -> WorkstreamEffects:
        return WorkstreamEffects(
            store=self.store,
            project_id=self.project_id,
            workstream=workstream,
            outward_patterns=self.settings.outward_patterns,
        )

    def _held(self, workstream: str) -> tuple[RecordedEffect, ...]:
        """Return what is held back in a workstream. Raises NotFoundError. Blocking."""
        known = self.store.workstream(self.project_id, workstream)
        if not (known or self.store.conversations(self.project_id, workstream)):
            raise self._unknown(workstream)
        return self._effects_of(workstream).held()

    @property
    def _host(self) -> str:
        """What this host is called where others share the store, else nothing."""
        return host_name() if is_postgres(self.settings.database) else ""

    def _is_independent(self, role: str) -> bool:
        known = self.settings.roles.get(role)
        return known is not None and known.continuity == "fresh"

    def _changes_now(self, view: RoleView) -> tuple[str, ...] | None:
        """Return what has changed around a role's session, as a prompt that came now would find it.

        None where there is no session, or the role is nobody's to tell. Blocking.
        """
        if view.conversation.key.role not in self.settings.roles:
            return None

        inputs = self.why.inputs_now(view)
        return change_lines(inputs.freshness) if inputs.surroundings else None

    def _tree_digest(self, workstream: str) -> str:
        """Return the digest of the tree a workstream is worked on in. Blocking."""
        return tree_digest(Path(self._preparing.place_if_there(workstream)))
