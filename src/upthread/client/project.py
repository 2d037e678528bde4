"""An open project: everything upthread does, as calls."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from upthread.client.adopting import AdoptSession
from upthread.client.at_rest import log_path
from upthread.client.briefing import Briefings
from upthread.client.forking import ForkConversation
from upthread.client.hooks import HookParts, hooks_of
from upthread.client.once import DoOnce
from upthread.client.parts import ProjectParts
from upthread.client.preparing import Preparing
from upthread.client.probing import ProbeAgent
from upthread.client.running import PipelineRuns, RunOptions, RunParts
from upthread.client.stores import is_postgres
from upthread.client.trusting import decide
from upthread.client.why import Whys
from upthread.client.worktrees import (
    WorktreesOfProject,
    notice_of,
    worktrees_of,
)
from upthread.config import Settings
from upthread.core.actors import PROGRAM, Actor, model_of
from upthread.core.names import Address, parse_address, parse_role, parse_workstream, shown
from upthread.core.own_interface import NO_SESSION, MainSession, OwnInterface, of_link
from upthread.core.pipeline import RunView
from upthread.core.price import Tokens
from upthread.core.prompt import Task
from upthread.core.redaction.redactor import Redactor
from upthread.core.spending import NOTHING_SPENT
from upthread.core.trust import Item, ignored_notice
from upthread.core.types import (
    Conversation,
    ConversationKey,
    Link,
    Message,
    ProjectId,
    UpstreamSessionId,
)
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.audit import Audit, read_audit
from upthread.runtime.conversation import Conversations, WhenBusy, main_session_of
from upthread.runtime.delegation import Listener, TellRequest, TurnResult
from upthread.runtime.effects import RecordedEffect, Unseen, recorded_effects, unseen
from upthread.runtime.forgetting import Forgetting, HeldWorkstream, Selection
from upthread.runtime.lease import LeaseRequest, Leases, LeaseTimes, conversation_lease
from upthread.runtime.overview import Overview, RoleView, WorkstreamView
from upthread.runtime.permissions import AskPerson, PermissionPolicy
from upthread.runtime.pipeline import Runs
from upthread.runtime.private_store import RecordPolicy
from upthread.runtime.spending import spent_in_conversation, spent_on_run
from upthread.runtime.system import System, host_name
from upthread.runtime.tree import tree_digest
from upthread.runtime.turn import Turns
from upthread.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOptions:
    """How to tell. `agent` None leaves the choice to client/preparing.py's order.

    A turn that would pass `tokens_max`, counted over all of the conversation, is refused.
    """

    agent: str | None = None
    when_busy: WhenBusy = "refuse"
    is_fresh: bool = False
    tokens_max: int | None = None
    listener: Listener = field(default_factory=Listener)


class Project:
    """An open project. Made by `open_project`; all calls are async."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        project_id: ProjectId,
        environment: Mapping[str, str],
        ask_person: AskPerson | None = None,
        actor: Actor = PROGRAM,
        lease_times: LeaseTimes | None = None,
        redactor: Redactor,
        policy: RecordPolicy,
        notices_at_rest: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.redactor = redactor
        self.notices_at_rest = notices_at_rest
        self.settings = settings
        self._actor = actor
        self.project_id = project_id
        self._environment = environment
        self._system = system
        self._worktrees = worktrees_of(settings, project_id)
        self._overview = self._overview_of(store, system)
        self._preparing = Preparing(
            store=store,
            settings=settings,
            project_id=project_id,
            environment=environment,
            permissions=PermissionPolicy(rules=settings.permissions, ask_person=ask_person),
            redactor=redactor,
            policy=policy,
            worktrees=self._worktrees,
            now_ms=system.now_ms,
            host=_host_of(settings),
        )
        leases = Leases(store, system, lease_times)
        self.hooks = hooks_of(
            HookParts(store, system, settings, leases, policy, redactor, environment),
            project_id=project_id,
            condition_of=self._preparing.condition,
            other_host=self._preparing.other_host,
        )
        self._leases = Leases(store, system, lease_times, occupying=self.hooks.occupying)
        self.once = DoOnce(store=store, system=system, leases=self._leases, project_id=project_id)
        self._conversations = Conversations(store, system, self._leases)
        parts = ProjectParts(store, system, settings, self._leases, self._conversations)
        self._turns = Turns(store, system, self._conversations)
        self._runs = _runs_of(parts, self._turns)
        self.brief = Briefings(store=store, system=system, role=self.role)
        self.worktrees = WorktreesOfProject(
            self._worktrees, parts, project_id=project_id, workstreams=self.workstreams
        )
        self.now_ms = system.now_ms
        self.forgetting = Forgetting(
            store=store, system=system, leases=self._leases, project_id=project_id
        )
        self.why = Whys(parts, preparing=self._preparing, role=self.role)
        self.runs = PipelineRuns(
            self._runs,
            RunParts(
                store,
                system,
                settings,
                self._preparing,
                self._overview,
                self._worktrees,
                self._tree_digest,
            ),
            project_id=project_id,
        )
        self.adopt = AdoptSession(parts, preparing=self._preparing, published=self.hooks.published)
        self.probe = ProbeAgent(self._preparing)
        self.fork = ForkConversation(parts, preparing=self._preparing, parse=self.parse)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what was put right at rest, and what is ignored here."""
        ignored = ignored_notice(self.settings.pending)
        return (*self.notices_at_rest, *filter(None, (ignored,)))

    # --- talking -------------------------------------------------------------------------------

    async def tell(self, address: str, text: str, options: TellOptions | None = None) -> TurnResult:
        """Send one prompt to one role; returns its reply with the decision that was taken.

        An agent's failure is an outcome of the result. Raises RefusedError, LeaseHeldError,
        NotFoundError for an unknown role, UsageError for an address that is none.
        """
        if not text.strip():
            raise UsageError("there is nothing to tell", hint="give the prompt as text")
        request = await self._request(address, text, options)
        await self._tell_place(request)
        return await self.hooks.published(self._turns.tell(request))

    async def go_on(self, address: str, options: TellOptions | None = None) -> TurnResult:
        """Go on with an interrupted or parked turn. Raises UsageError when there is none."""
        view = await self.role(address)
        if view.last_turn is None or view.last_turn.ended is not None:
            name = view.conversation.key.address
            raise UsageError(
                f"{name} has no turn to go on with: the last one has ended",
                hint=f'send a prompt: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        request = await self._request(address, "", options)
        await self._tell_place(request)
        return await self.hooks.published(self._turns.go_on(request))

    async def run(
        self, workstream: str, specification: str | None = None, options: RunOptions | None = None
    ) -> RunView:
        """Take the pipeline over a workstream as far as it goes by itself.

        Without a specification the newest run goes on. Raises as `runtime.pipeline.Runs.run` does.
        """
        return await self.hooks.published(self.runs.run(workstream, specification, options))

    async def answer(
        self,
        workstream: str,
        text: str,
        *,
        question_id: str | None = None,
        by: Actor | None = None,
    ) -> RunView:
        """Answer an open question; without an id the only open one.

        `by` is who answers, else whoever the project was opened for. A model's answer is kept as a
        suggestion, and the question stays open, unless the person's own configuration allows it.
        Raises NotFoundError when there is none, UsageError when it is unclear which is meant.
        """
        return await self.runs.answer(
            workstream, text, question_id=question_id, by=by or self._actor
        )

    # --- looking: what hooks saw is taken in before anything is read ---------------------------

    async def workstreams(self) -> tuple[WorkstreamView, ...]:
        """Return all workstreams, oldest first."""
        await self.hooks.take_in()
        return await self._system.in_thread(lambda: self._overview.workstreams(self.project_id))

    async def show(self, workstream: str) -> WorkstreamView:
        """Return how a workstream stands. Raises NotFoundError."""
        name = parse_workstream(workstream)
        await self.hooks.take_in()
        view = await self._system.in_thread(
            lambda: self._overview.workstream(self.project_id, name)
        )
        if view is None:
            raise NotFoundError(
                f"there is no workstream {shown(name)} in this project",
                hint="see `upthread ls`",
                workstream=name,
            )
        return view

    async def role(self, address: str) -> RoleView:
        """Return how one conversation stands. Raises NotFoundError."""
        await self.hooks.take_in()
        parsed = await self.parse(address)

        return await self._system.in_thread(lambda: self._overview.role(self._resolve(parsed)))

    async def conversation(self, address: str) -> tuple[Message, ...]:
        """Return a conversation's messages, oldest first. Raises NotFoundError."""
        await self.hooks.take_in()
        parsed = await self.parse(address)
        return await self._system.in_thread(
            lambda: self.store.messages(self._resolve(parsed).conversation_id)
        )

    async def effects(self, conversations: Sequence[Conversation]) -> tuple[RecordedEffect, ...]:
        """Return what was done to the world in conversations, one after the other."""
        patterns = self.settings.outward_patterns
        return await self._system.in_thread(
            lambda: recorded_effects(self.store, conversations, outward_patterns=patterns)
        )

    async def unseen(self, conversations: Sequence[Conversation]) -> Unseen:
        """Return what of conversations is not on record, so that its effects are not known."""
        return await self._system.in_thread(lambda: unseen(self.store, conversations))

    async def spent(self, conversation: Conversation) -> Tokens:
        """Return the tokens that a conversation's turns took, as its agents reported them."""
        conversation_id = conversation.conversation_id
        return await self._system.in_thread(
            lambda: spent_in_conversation(self.store, conversation_id)
        )

    async def spent_on_run(self, workstream: str) -> Tokens:
        """Return the tokens that the newest run on a workstream took, nothing without one."""
        name = parse_workstream(workstream)

        def count() -> Tokens:
            runs = self.store.runs(self.project_id, name)
            return spent_on_run(self.store, runs[-1].run_id) if runs else NOTHING_SPENT

        return await self._system.in_thread(count)

    async def audit(self, workstream: str) -> Audit:
        """Return all that is kept of a workstream. Raises NotFoundError."""
        view = await self.show(workstream)
        return await self._system.in_thread(lambda: read_audit(self.store, view))

    async def resume_command(self, address: str) -> tuple[str, ...] | None:
        """Return the agent's own command that opens the session, None where there is none."""
        link = (await self.role(address)).link
        return None if link is None else self.command_of(link)

    def command_of(self, link: Link) -> tuple[str, ...] | None:
        """Return the agent's own command that opens a link's session, None where there is none.

        None also for an agent that the configuration no longer names.
        """
        try:
            adapter = self._preparing.adapter(link.agent)
        except UsageError:
            return None
        return adapter.resume_command(link.upstream_session_id)

    async def own_interface(self, link: Link | None) -> OwnInterface:
        """Return how a link's session is opened in its agent's own interface."""
        if link is None:
            return NO_SESSION
        return await self._system.in_thread(lambda: self._own_interface(link))

    def _own_interface(self, link: Link) -> OwnInterface:
        try:
            adapter = self._preparing.adapter(link.agent)
        except UsageError:
            return of_link(link, command=None, is_configured=False)
        command = adapter.resume_command(link.upstream_session_id)
        if self._preparing.opens_sub_agents(link.agent):
            return of_link(link, command=command)
        main = UpstreamSessionId(main_session_of(self.store, link))
        within = MainSession(
            upstream_session_id=main,
            command=adapter.resume_command(main),
            there=self._preparing.reached_from_main(link),
        )
        return of_link(link, command=command, main=within if main else None)

    def _overview_of(self, store: Store, system: System) -> Overview:
        home = Path(self.settings.home)
        return Overview(
            store,
            system.is_dead,
            tree_now=self._tree_digest,
            calls_now=lambda: self.hooks.calls_under_way(),  # noqa: PLW0108  # made after it
            log_of=lambda agent, at_ms: str(log_path(home, agent, at_ms)),
        )

    def _tree_digest(self, workstream: str) -> str:
        """Return the digest of the tree a workstream is worked on in. Blocking."""
        return tree_digest(Path(self._preparing.place_if_there(workstream)))

    async def parse(self, text: str) -> Address:
        """Return the address a person meant: `spec-42/planner`, or an instance name."""
        if "/" in text:
            return parse_address(text)
        return await self._system.in_thread(lambda: self._by_instance_name(text))

    # --- changing ------------------------------------------------------------------------------

    async def forget(self, selection: Selection) -> tuple[HeldWorkstream, ...]:
        """Erase what was said, also where hooks read it; returns what was erased.

        Raises LeaseHeldError while a turn or a run is under way there.
        """
        return await self.hooks.forgetting(
            lambda: self.forgetting.forget(selection), selection.workstream
        )

    async def reset(self, address: str) -> Conversation:
        """Close a conversation and mint a new one under the same key; old rows stay.

        The only thing that ends a conversation. Raises LeaseHeldError while a turn is running.
        """
        parsed = await self.parse(address)
        old = await self._system.in_thread(lambda: self._resolve(parsed))
        async with self._leases.held(_lease_of(old.key, "reset")) as fence:
            minting = self._system.in_thread(
                lambda: self._conversations.mint(
                    old.key, fences=(fence,), generation=old.generation + 1
                )
            )
            return await self.hooks.published(minting)

    async def agree(self, items: Sequence[Item] | None = None) -> None:
        """Write down that a person agreed to what is pending, or to some of it.

        It counts from the next time the project is opened. Only for a person, and programs of
        theirs: UsageError where a model acts.
        """
        chosen = [each.item for each in self.settings.pending] if items is None else items
        now_ms = self.now_ms()
        await self._system.in_thread(
            lambda: decide(
                self.settings,
                chosen,
                is_given=True,
                by=model_of(self._environment) or self._actor,
                now_ms=now_ms,
            )
        )

    # --- below: how ----------------------------------------------------------------------------

    async def _request(self, address: str, text: str, options: TellOptions | None) -> TellRequest:
        chosen = options or TellOptions()
        parsed = await self.parse(address)
        self.settings.role(parsed.role)

        def prepare() -> TellRequest:
            agent = self._preparing.agent_for(parsed, named=chosen.agent)
            request = self._preparing.tell(
                parsed,
                Task(text=text),
                agent=agent,
                when_busy=chosen.when_busy,
                is_fresh=chosen.is_fresh,
                listener=chosen.listener,
            )
            return replace(request, tokens_max=chosen.tokens_max)

        return await self._system.in_thread(prepare)

    async def _tell_place(self, request: TellRequest) -> None:
        if request.open.working_directory == self.settings.working_directory:
            return
        workstream = request.claim.address.workstream
        own = await self.worktrees.find(workstream)
        if own is not None:
            request.listener.notice(notice_of(workstream, own))

    def _resolve(self, address: Address) -> Conversation:
        resolved = self.store.resolve(self._preparing.key(address))
        if resolved is None:
            name = f"{address.workstream}/{address.role}"
            raise NotFoundError(
                f"{shown(name)} has no conversation yet",
                hint=f'start one: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        return resolved.conversation

    def _by_instance_name(self, text: str) -> Address:
        base_name, dash, role = text.partition("-")
        matching = [
            known
            for known in self.store.workstreams(self.project_id)
            if dash and known.base_name == base_name
        ]
        if not matching:
            return parse_address(text)
        return Address(workstream=matching[0].workstream, role=parse_role(role))


def _runs_of(parts: ProjectParts, turns: Turns) -> Runs:
    return Runs(
        store=parts.store,
        system=parts.system,
        leases=parts.leases,
        conversations=parts.conversations,
        turns=turns,
        host=_host_of(parts.settings),
    )


def _host_of(settings: Settings) -> str:
    """Return what this host is called where others share the store, else nothing."""
    return host_name() if is_postgres(settings.database) else ""


def _lease_of(key: ConversationKey, doing: str) -> LeaseRequest:
    return LeaseRequest(
        name=conversation_lease(key.project_id, key.address),
        doing=f"{doing} {key.address}",
        occupies=key,
    )
