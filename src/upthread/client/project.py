"""An open project: everything upthread does, as calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from upthread.agents.base import ListedSession
from upthread.client.briefing import Briefings
from upthread.client.forking import ForkConversation
from upthread.client.hooks import HookParts, hooks_of
from upthread.client.once import DoOnce
from upthread.client.preparing import Preparing
from upthread.client.probing import ProbeAgent
from upthread.client.why import Whys
from upthread.config import Settings
from upthread.core.commands import EndLink, OpenLink, Write
from upthread.core.events import RunEvent
from upthread.core.handshake import Continuity
from upthread.core.names import Address, parse_address, parse_role, parse_workstream, shown
from upthread.core.pipeline import RunView
from upthread.core.prompt import Task
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    Conversation,
    ConversationKey,
    Fence,
    Link,
    Message,
    Outcome,
    ProjectId,
    UpstreamSessionId,
)
from upthread.errors import NotFoundError, UpstreamError, UsageError
from upthread.runtime.audit import Audit, read_audit
from upthread.runtime.conversation import Conversations, WhenBusy
from upthread.runtime.effects import RecordedEffect, recorded_effects
from upthread.runtime.forgetting import Forgetting, HeldWorkstream, Selection
from upthread.runtime.forking import Forks
from upthread.runtime.lease import LeaseRequest, Leases, LeaseTimes, conversation_lease
from upthread.runtime.live_turn import Listener, TellRequest, TurnResult
from upthread.runtime.overview import Overview, RoleView, WorkstreamView
from upthread.runtime.permissions import AskPerson, PermissionPolicy
from upthread.runtime.pipeline import RunRequest, Runs
from upthread.runtime.private_store import RecordPolicy
from upthread.runtime.system import System
from upthread.runtime.turn import Turns
from upthread.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOptions:
    """How to tell. `agent` None leaves the choice to client/preparing.py's order."""

    agent: str | None = None
    when_busy: WhenBusy = "refuse"
    is_fresh: bool = False
    listener: Listener = field(default_factory=Listener)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run. `agents` overrides by role, `agent` for all others; so does `continuity`.

    `steps_max` stops after so many steps; None runs to the end.
    """

    agent: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    continuity: Continuity | None = None
    steps_max: int | None = None
    is_waiting: bool = False
    listener: Listener = field(default_factory=Listener)
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None


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
        lease_times: LeaseTimes | None = None,
        redactor: Redactor,
        policy: RecordPolicy,
        notices: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.redactor = redactor
        self.notices = notices
        self.settings = settings
        self.project_id = project_id
        self._system = system
        self._leases = Leases(store, system, lease_times)
        self.once = DoOnce(store=store, system=system, leases=self._leases, project_id=project_id)
        self._conversations = Conversations(store, system, self._leases)
        self._turns = Turns(store, system, self._conversations)
        self._runs = Runs(
            store=store,
            system=system,
            leases=self._leases,
            conversations=self._conversations,
            turns=self._turns,
        )
        self.brief = Briefings(store=store, system=system, role=self.role)
        self._overview = Overview(store, system.is_dead)
        self.now_ms = system.now_ms
        self.forgetting = Forgetting(
            store=store, system=system, leases=self._leases, project_id=project_id
        )
        self._preparing = Preparing(
            store=store,
            settings=settings,
            project_id=project_id,
            environment=environment,
            permissions=PermissionPolicy(rules=settings.permissions, ask_person=ask_person),
            redactor=redactor,
            policy=policy,
            now_ms=system.now_ms,
        )
        self.why = Whys(
            store=store,
            system=system,
            settings=settings,
            preparing=self._preparing,
            role=self.role,
        )
        self.hooks = hooks_of(
            HookParts(store, system, settings, self._leases, self._conversations, self._overview),
            project_id=project_id,
            condition_of=self._preparing.condition,
        )
        self.probe = ProbeAgent(self._preparing)
        self.fork = ForkConversation(
            Forks(store, system, self._leases, self._conversations),
            preparing=self._preparing,
            settings=settings,
            parse=self.parse,
        )

    # --- talking -------------------------------------------------------------------------------

    async def tell(self, address: str, text: str, options: TellOptions | None = None) -> TurnResult:
        """Send one prompt to one role; returns its reply with the decision that was taken.

        An agent's failure is an outcome of the result. Raises RefusedError, LeaseHeldError,
        NotFoundError for an unknown role, UsageError for an address that is none.
        """
        if not text.strip():
            raise UsageError("there is nothing to tell", hint="give the prompt as text")
        request = await self._request(address, text, options)
        return await self.hooks.published(self._turns.tell(request))

    async def go_on(self, address: str, options: TellOptions | None = None) -> TurnResult:
        """Go on with an interrupted or parked turn. Raises UsageError when there is none."""
        view = await self.role(address)
        if view.last_turn is None or view.last_turn.ended is not None:
            name = view.conversation.key.address
            raise UsageError(
                f"{name} has no turn to go on with: the last one has ended",
                hint=f'send a prompt: upthread tell {name} "…"',
                address=name,
            )
        request = await self._request(address, "", options)
        return await self.hooks.published(self._turns.go_on(request))

    async def run(
        self, workstream: str, specification: str | None = None, options: RunOptions | None = None
    ) -> RunView:
        """Take the pipeline over a workstream as far as it goes by itself.

        Without a specification the newest run goes on. Raises as `runtime.pipeline.Runs.run` does.
        """
        chosen = options or RunOptions()
        name = parse_workstream(workstream)
        if specification is not None:
            _check_text(specification, "the specification")
        self._preparing.require_recorded(self.settings.pipeline)
        agents = await self._system.in_thread(lambda: self._agents_of_run(name, chosen))
        request = RunRequest(
            project_id=self.project_id,
            workstream=name,
            pipeline=self.settings.pipeline,
            prepare_step=lambda step: self._preparing.step(
                name,
                step,
                agent=agents[step.role],
                listener=chosen.listener,
                continuity=chosen.continuity,
            ),
            specification=specification,
            agents=agents,
            steps_max=chosen.steps_max,
            wait_s=None if chosen.is_waiting else 0.0,
            is_elsewhere=chosen.agent is not None or bool(chosen.agents),
            on_wait=chosen.listener.waiting,
            on_event=chosen.on_event,
            on_result=chosen.on_result,
        )
        return await self.hooks.published(self._runs.run(request))

    async def answer(
        self, workstream: str, text: str, *, question_id: str | None = None
    ) -> RunView:
        """Answer an open question; without an id the only open one.

        Raises NotFoundError when there is none, UsageError when it is unclear which is meant.
        """
        _check_text(text, "the answer")
        return await self._runs.answer(
            project_id=self.project_id,
            workstream=parse_workstream(workstream),
            question_id=question_id,
            text=text,
        )

    # --- looking -------------------------------------------------------------------------------

    async def workstreams(self) -> tuple[WorkstreamView, ...]:
        """Return all workstreams, oldest first."""
        return await self._system.in_thread(lambda: self._overview.workstreams(self.project_id))

    async def show(self, workstream: str) -> WorkstreamView:
        """Return how a workstream stands. Raises NotFoundError."""
        name = parse_workstream(workstream)
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
        parsed = await self.parse(address)

        def read() -> RoleView:
            run = self._runs.view(self.project_id, parsed.workstream)
            return self._overview.role(self._resolve(parsed), run)

        return await self._system.in_thread(read)

    async def conversation(self, address: str) -> tuple[Message, ...]:
        """Return a conversation's messages, oldest first. Raises NotFoundError."""
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
        if self.hooks.is_installed:  # else what they saw would come in after it
            await self.hooks.drain()
        return await self.hooks.published(self.forgetting.forget(selection))

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

    async def adopt(
        self, address: str, upstream_session_id: str, *, agent: str | None = None
    ) -> Link:
        """Take an existing session in as the conversation's current one.

        The agent is asked whether it has the session. Raises UpstreamError when it has not,
        UsageError when another conversation holds it.
        """
        parsed = parse_address(address)
        key = self._preparing.key(parsed)
        upstream = UpstreamSessionId(upstream_session_id)
        owner = await self._system.in_thread(lambda: self.store.link_owner(upstream))
        if owner is not None and owner.key != key:
            raise UsageError(
                f"the session {shown(upstream)} belongs to {owner.key.address}",
                hint="an upstream session has one conversation",
                upstream_session_id=upstream,
            )
        name = await self._system.in_thread(lambda: self._preparing.agent_for(parsed, named=agent))
        version = await self._confirm(name, upstream)
        async with self._leases.held(_lease_of(key, "adopt")) as fence:
            banking = self._system.in_thread(
                lambda: self._bank_adopted(key, fence, (name, version), upstream)
            )
            return await self.hooks.published(banking)

    # --- below: how ----------------------------------------------------------------------------

    async def _request(self, address: str, text: str, options: TellOptions | None) -> TellRequest:
        chosen = options or TellOptions()
        parsed = await self.parse(address)
        self.settings.role(parsed.role)

        def prepare() -> TellRequest:
            agent = self._preparing.agent_for(parsed, named=chosen.agent)
            return self._preparing.tell(
                parsed,
                Task(text=text),
                agent=agent,
                when_busy=chosen.when_busy,
                is_fresh=chosen.is_fresh,
                listener=chosen.listener,
            )

        return await self._system.in_thread(prepare)

    def _agents_of_run(self, workstream: str, options: RunOptions) -> Mapping[str, str]:
        """Choose every role's agent before the first one is started."""
        run = self._runs.view(self.project_id, workstream)
        steps = run.pipeline.steps if run and run.ended is None else self.settings.pipeline.steps
        roles = {step.role for step in (*steps, *self.settings.pipeline.steps)}
        for role in options.agents:
            if role not in roles:
                listed = ", ".join(sorted(roles))
                raise UsageError(f"no step for the role {shown(role)}", hint=f"roles: {listed}")
        is_under_way = run is not None and run.ended is None
        before = self._agent_before(workstream) if is_under_way else None
        began_with = run.agents if run and is_under_way else dict[str, str]()
        return {
            role: self._preparing.agent_for(
                Address(workstream=workstream, role=role),
                named=options.agents.get(role, options.agent),
                otherwise=began_with.get(role, before),
            )
            for role in sorted(roles)
        }

    def _agent_before(self, workstream: str) -> str | None:
        """Return the one agent that a run under way has used so far, None when there were more."""
        view = self._overview.workstream(self.project_id, workstream)
        links = [role.link for role in view.roles if role.link] if view else []
        agents = {link.agent for link in links}
        return agents.pop() if len(agents) == 1 else None

    def _resolve(self, address: Address) -> Conversation:
        resolved = self.store.resolve(self._preparing.key(address))
        if resolved is None:
            name = f"{address.workstream}/{address.role}"
            raise NotFoundError(
                f"{shown(name)} has no conversation yet",
                hint=f'start one: upthread tell {name} "…"',
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

    async def _confirm(self, agent: str, upstream: UpstreamSessionId) -> str:
        """Ask the agent for the session; returns its version."""
        request = self._preparing.open_request(agent)
        async with self._preparing.adapter(agent).open(request) as connection:
            capabilities = connection.capabilities
            if capabilities.can_list and not _is_listed(await connection.list_sessions(), upstream):
                raise UpstreamError(
                    f"{agent} has no session {shown(upstream)}",
                    outcome=Outcome.MISSING,
                    hint="list the agent's sessions with its own command",
                    upstream_session_id=upstream,
                )
            if capabilities.can_resume:
                await connection.resume_session(upstream)
            else:
                await connection.load_session(upstream)
            return capabilities.version

    def _bank_adopted(
        self,
        key: ConversationKey,
        fence: Fence,
        agent: tuple[str, str],
        upstream: UpstreamSessionId,
    ) -> Link:
        resolved = self.store.resolve(key)
        now_ms = self._system.now_ms()
        conversation = (
            resolved.conversation if resolved else self._conversations.mint(key, fences=(fence,))
        )
        held = resolved.link if resolved else None
        if held is not None and held.upstream_session_id == upstream:
            return held
        links = self.store.links(conversation.conversation_id)
        link = Link(
            conversation_id=conversation.conversation_id,
            seq=len(links) + 1,
            upstream_session_id=upstream,
            agent=agent[0],
            agent_version=agent[1],
            working_directory=self.settings.working_directory,
            opened_because="adopted",
            opened_at_ms=now_ms,
        )
        writes: list[Write] = [OpenLink(link=link)]
        if held is not None:
            end = EndLink(
                conversation_id=held.conversation_id,
                seq=held.seq,
                ended_because="adopted_another",
                ended_at_ms=now_ms,
            )
            writes.insert(0, end)
        self.store.commit(writes, fences=(fence,))
        return link


def _lease_of(key: ConversationKey, doing: str) -> LeaseRequest:
    return LeaseRequest(
        name=conversation_lease(key.project_id, key.address), doing=f"{doing} {key.address}"
    )


def _is_listed(sessions: tuple[ListedSession, ...], upstream: UpstreamSessionId) -> bool:
    return any(session.upstream_session_id == upstream for session in sessions)


def _check_text(text: str, what: str) -> None:
    """Refuse what is no text for a person to read."""
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    if "\0" in text:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
