"""What an open project is made of, and what a delegation is made of before it begins.

`ProjectParts` has what a project was opened with. It makes leases and working trees when they are
first needed, knows names and agents, and turns what a person asked into a TellRequest. It reads the
store and never writes; reads are blocking. The agent is, in this order: the one named in the call,
the role's, the one whose session the conversation holds, the project's, the only one installed. The
rehearsal agent is never chosen by itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.agent_stores.homes import agent_environment
from upthread.agents import registry, stored
from upthread.agents.base import AgentAdapter, OpenRequest
from upthread.boundary import own_files
from upthread.boundary.own_files import installed_path
from upthread.client.file_permissions import log_path
from upthread.client.stores import conversations_in
from upthread.config import Settings, instructions_in
from upthread.core.agents import ACP, AGENTS, Actor, in_profile, name_of, one_of
from upthread.core.context.briefing import EDIT_CHARACTERS_MAX
from upthread.core.decision.words import UNDECIDED_LINE
from upthread.core.events import AgentsCall
from upthread.core.names import (
    Address,
    callers_in,
    did_you_mean,
    key_of,
    parse_address,
    parse_role,
    shown,
)
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.role import Role
from upthread.core.states import MainSession, OwnInterface, of_link
from upthread.core.turns.agent_history import Lacked, UndecidedCall
from upthread.core.turns.turn import Task, TurnView, with_unverified
from upthread.core.types import (
    ConversationId,
    Environment,
    Link,
    ProjectId,
    RecordMode,
    RunId,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import NotFoundError, SeveralAgentsError, UsageError
from upthread.runtime.lease import Leases, LeaseTimes
from upthread.runtime.record.project_store import ProjectStore, RecordPolicy
from upthread.runtime.record.turn_views import last_attached, main_session_of, run_view
from upthread.runtime.system import System, host_name
from upthread.runtime.turns.delegation import (
    Conversations,
    Notice,
    OwnSessions,
    TellOptions,
    TellRequest,
)
from upthread.runtime.turns.recovery import look, look_at_all
from upthread.runtime.working_tree.digest import tree_digest, written
from upthread.runtime.working_tree.repository import Worktrees
from upthread.store.address import is_postgres
from upthread.store.reads import Resolved

if TYPE_CHECKING:
    from upthread.core.runs.pipeline import RunView
    from upthread.runtime.permissions import AskPerson
    from upthread.runtime.record.turn_views import WorkstreamEffects


Command: TypeAlias = tuple[str, ...]
"""The words of a command that a person types."""

Commands: TypeAlias = Mapping[Link, Command | None]
"""The commands that open sessions in their agents' own interfaces, None where there is none."""


class ProjectParts(Struct, frozen=True, kw_only=True, dict=True):
    """One open project.

    `ask_person` is None where nobody is there to ask, `lease_times` None for the usual ones.
    `store` shows this project alone, and keeps what `policy` says; `notices_at_rest` are what was
    found and put right when it was opened. With `is_inside` an agent's own tool asks: the
    environment is the agent's already, and the session is on this host.
    """

    store: ProjectStore
    system: System
    settings: Settings
    project_id: ProjectId
    environment: Environment
    actor: Actor
    lease_times: LeaseTimes | None
    redactor: Redactor
    policy: RecordPolicy
    notices_at_rest: tuple[str, ...]
    ask_person: AskPerson | None = None
    is_inside: bool = False

    @cached_property
    def leases(self) -> Leases:
        """Who works on what."""
        return Leases(self.store, self.system, self.lease_times or LeaseTimes())

    @cached_property
    def conversations(self) -> Conversations:
        """How conversations are claimed."""
        return Conversations(self.store, self.system, self.leases)

    @cached_property
    def worktrees(self) -> Worktrees:
        """The working trees that workstreams have of their own, new ones under upthread's home."""
        folder = Path(self.settings.home) / "worktrees" / self.project_id
        return Worktrees(Path(self.settings.working_directory), folder)

    @property
    def host(self) -> str:
        """The name of this host if other hosts share the store, else empty."""
        is_shared = is_postgres(self.settings.database) and not self.is_inside
        return host_name() if is_shared else ""

    # --- names ----------------------------------------------------------------------------------

    def parsed(self, text: str) -> Address:
        """Return the address of `spec-42/planner` or `Kael-planner`. Raises UsageError."""
        base_name, dash, role = text.partition("-")
        # A name without its role is no address: it would stand for all of them.
        if "/" not in text and dash:
            for known in self.store.workstreams(self.project_id):
                if known.base_name == base_name:
                    return Address(workstream=known.workstream, role=parse_role(role))
        return parse_address(text)

    def workstreams(self) -> list[str]:
        """Return the names of all workstreams, oldest first. Blocking."""
        return [each.workstream for each in self.store.workstreams(self.project_id)]

    def found(self, address: Address) -> Resolved | None:
        """Return a conversation and its open link, None where there is none. Blocking."""
        return self.store.resolve(key_of(self.project_id, address))

    def resolved(self, text: str) -> Resolved:
        """Return a conversation and its open link by an address. Raises NotFoundError."""
        address = self.parsed(text)
        resolved = self.found(address)
        if resolved is None:
            name = f"{address.workstream}/{address.role}"
            known = (e.address for e in conversations_in(self.store, self.project_id))
            raise NotFoundError(
                f"{shown(name)} has no conversation yet{did_you_mean(name, known)}",
                hint=f'start one: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        return resolved

    def unknown(self, workstream: str) -> NotFoundError:
        """Return the error for a workstream that nothing was ever done on."""
        like = did_you_mean(workstream, self.workstreams())
        return NotFoundError(
            f"there is no workstream {shown(workstream)} in this project{like}",
            hint="see `upthread ls`",
            workstream=workstream,
        )

    def effects_of(self, workstream: str, *, apart_from: TurnId | None = None) -> WorkstreamEffects:
        """Return what a workstream's turns did, without one turn. A look at it is blocking."""
        from upthread.runtime.record.turn_views import WorkstreamEffects  # noqa: PLC0415

        return WorkstreamEffects(
            store=self.store,
            project_id=self.project_id,
            workstream=workstream,
            outward_patterns=self.settings.outward_patterns,
            apart_from=apart_from,
        )

    # --- agents ---------------------------------------------------------------------------------

    @property
    def callers(self) -> tuple[ConversationId, ...]:
        """The conversations this process was started inside of, outermost first."""
        return tuple(map(ConversationId, callers_in(self.environment)))

    def other_host(self, link: Link | None) -> str | None:
        """Return the host a session lives on, None where that is this one. Blocking."""
        host = last_attached(self.store, link).agent_host if self.host else None
        # Nothing is asked on a store of one machine: there every session is here.
        return None if host == self.host else host

    def agent_for(
        self, address: Address, *, named: str | None, otherwise: str | None = None
    ) -> str:
        """Return the agent's name. Blocking. Raises UsageError with the cure when none is clear.

        `otherwise` is what a run under way has used, for a role that comes for the first time.
        """
        resolved = self.found(address)
        # Also after its last session has ended: the agent that had it goes on.
        links = self.store.links(resolved.conversation.conversation_id) if resolved else ()
        held = links[-1].agent if links else None
        # A person's word, then the role's: a session follows them, and is rolled over if it must.
        known = named or self.settings.role(address.role).agent or held or otherwise
        chosen = known or self.settings.agent or self._only_installed()
        # Also by its program's name, unless somebody has configured one that is called so.
        return chosen if chosen in self.settings.agents else name_of(chosen)

    def _only_installed(self) -> str:
        names = registry.agents_on_path(self.environment.get("PATH"))
        if len(names) == 1:
            return names[0]
        if not names:
            programs = (row.program for row in AGENTS.values())
            raise UsageError(
                "no agent is installed that upthread can drive",
                hint=f"install {one_of(programs)}; or try without a model: --agent rehearsal",
            )
        raise SeveralAgentsError(
            f"several agents are installed: {', '.join(names)}",
            agents=names,
            hint='name one with --agent, or write agent = "…" into upthread.toml',
        )

    def _adapter_for(self, address: Address, agent: str) -> AgentAdapter:
        try:
            return self.adapter(agent)
        except UsageError as error:
            resolved = self.found(address)
            if resolved and resolved.link and resolved.link.agent == agent:
                which = f"{agent!r}, which has the session {resolved.link.upstream_session_id}"
                error.message = error.message.replace(repr(agent), which, 1)
                error.hint = f"go on with another one by --agent; {error.hint}"
            raise

    @property
    def own_sessions(self) -> OwnSessions:
        """How the sessions that agents have stored are looked into."""
        where = cache(self._where)
        return OwnSessions(
            is_read=stored.is_read,
            profile=lambda agent, store, seen: stored.profile_of(
                seen or where(agent), store or agent
            ),
            stamp=lambda agent, session: stored.stamp_of(where(agent, session), agent, session),
            profile_without=lambda agent, session, profile, seen: stored.profile_without(
                seen or where(agent, session), session, profile
            ),
            read=lambda agent, session, store: stored.read_session(
                where(agent, session), store, session
            ),
            version=lambda agent, session: stored.version_of(where(agent), agent, session),
            writer=lambda agent, session: stored.writers_of(
                where(agent, session), agent, (session,)
            ).get(session),
            of_call=lambda call: stored.read_stored(where(call.agent), call),
        )

    def undecided_calls(self, agent: str, since_ns: int) -> Iterator[UndecidedCall]:
        """Yield the calls that an agent's hooks could not record. Blocking. StoreError."""
        where = self._where(agent)
        return stored.undecided_calls(where, agent, mark=UNDECIDED_LINE, since_ns=since_ns)

    def lacked(self, role: str, link: Link | None, last: TurnView | None) -> Lacked:
        """Return what the record lacks of a role's session; `last` is its newest turn. Blocking."""
        return look(self.store, self.own_sessions, link, last, redactor=self._redactor_of(role))

    def all_of(self, role: str, agent: str, session: UpstreamSessionId) -> Lacked | None:
        """Return all that an agent's store holds of a session, for a role. Blocking. StoreError."""
        return look_at_all(self.own_sessions, agent, session, redactor=self._redactor_of(role))

    def _where(self, agent: str, session: UpstreamSessionId | None = None) -> Environment:
        """Return the environment that an agent is started with; with a session, where that is.

        The profile that the agent's own command chose is known by where it ran.
        """
        # What a person configured for the agent wins over what surrounds it.
        own = {} if self.is_inside else self.settings.of_agent(agent).environment
        where = agent_environment({**self.environment, **own})
        owner = self.store.owner(self.project_id, session) if session else None
        link = self.store.links(owner.conversation_id)[-1] if owner else None
        attached = last_attached(self.store, link)
        if attached.chose_profile:
            variable, _, place = attached.agent_profile.partition("=")
            where = stored.placed(where, variable, place)
        return where

    def _redactor_of(self, role: str) -> Redactor | None:
        # Compared as it is recorded: where nothing is taken
        # out of the one, nothing may be of the other.
        return None if self.policy.of_role(role) == "full" else self.redactor

    def has_hooks(self, agent: str) -> bool:
        """Return whether `upthread setup` was run for an agent. Blocking."""
        try:
            installed = own_files.read(installed_path(Path(self.settings.home))) or {}
        except own_files.UnreadableError:
            installed = {}
        row = AGENTS.get(agent)
        return row is not None and row.setup_name in installed.get("agents", {})

    def _version_notice(self, agent: str, calls_itself: str, version: str) -> Notice | None:
        """Return what a person is told of an agent in another version than was tested.

        What is started by a command line is known by what it calls itself, if at all.
        """
        command = self.settings.of_agent(agent).command
        is_command = command or agent not in registry.AGENTS_AND_REHEARSAL
        row = (
            registry.seen_way_called(calls_itself) if is_command else registry.seen_way_here(agent)
        )
        text = registry.version_warning(agent, row, version) if row else ""
        if row is None or not text:
            return None
        about = {"agent": agent, "version": version, "tested_with": row.version}
        return Notice(kind="agent_version", text=text, about=about)

    def tell_request(  # the one place where all that a delegation needs comes together
        self,
        address: Address,
        task: Task,
        chosen: TellOptions,
        *,
        agent: str,
    ) -> TellRequest:
        """Return the request for one delegation. Blocking."""
        role = self.settings.role(address.role, agent)
        place = self.place_of(address.workstream)
        mode = self.policy.of_role(role.name)
        if mode == "index" and chosen.briefing:
            raise UsageError(
                f"of {role.name} no text is recorded, so no briefing is kept",
                hint=f'say record = "redacted" under [roles.{role.name}], or put it in the prompt',
            )
        if len(chosen.briefing) > EDIT_CHARACTERS_MAX:
            text = f"the briefing has {len(chosen.briefing):,} characters"
            raise UsageError(text, hint=f"{EDIT_CHARACTERS_MAX:,} are the most: shorten it")
        opening = self.open_request(agent, place=place, mode=mode)
        if opening.ignores_project:
            task = with_unverified(task, *instructions_in(place, agent))
        request = self._request(address, task, chosen, agent=agent, role=role, opening=opening)
        return replace(request, adapter=self._adapter_for(address, agent))

    def call_request(
        self, address: Address, task: Task, *, role: Role, call: AgentsCall
    ) -> TellRequest:
        """Return the request for a call that an agent's own tool makes. Blocking."""
        opening = OpenRequest(working_directory=self.settings.working_directory, stderr_path=None)
        request = self._request(
            address, task, TellOptions(), agent=call.agent, role=role, opening=opening
        )
        # Nobody waits for a working tree here: the agent has its own word on who writes when.
        return replace(request, tree=None, opens_sub_agents=True, call=call)

    def _request(
        self,
        address: Address,
        task: Task,
        chosen: TellOptions,
        *,
        agent: str,
        role: Role,
        opening: OpenRequest,
    ) -> TellRequest:
        return TellRequest(
            project_id=self.project_id,
            address=address,
            role=role,
            agent=agent,
            tree=opening.working_directory if role.is_writing else None,
            is_waiting_for_tree=chosen.when_busy == "wait",
            callers=self.callers,
            host=self.host,
            opens_sub_agents=self.opens_sub_agents(agent),
            task=task,
            adapter=None,
            open=opening,
            redactor=self._redactor_of(role.name),
            ask_person=self.ask_person,
            options=chosen,
            is_handed_back=bool(chosen.key),
            condition=self.condition(address.workstream, role),
            settings=self.settings,
            own_sessions=self.own_sessions,
            version_notice=partial(self._version_notice, agent),
        )

    def condition(self, workstream: str, role: Role) -> str | None:
        """Return the digest that `resume_if` compares, None for a role without the condition."""
        if role.resume_if is None:
            return None
        _, run = self.newest_run(workstream)
        return run.report_digest(role.resume_if) if run else None

    def newest_run(self, workstream: str) -> tuple[RunId, RunView | None]:
        """Return a workstream's newest run, no view before the first. Blocking."""
        runs = self.store.runs(self.project_id, workstream)
        if not runs:
            return RunId(""), None
        return runs[-1].run_id, run_view(self.store, runs[-1].run_id)

    def place_of(self, workstream: str) -> str:
        """Return the directory a workstream is worked on in: its own working tree's, if it has one.

        Blocking. UsageError for one that is gone.
        """
        found = self.worktrees.require(workstream)
        return found.path if found else self.settings.working_directory

    def place_if_there(self, workstream: str) -> str:
        """Return the same for whoever only looks: also a directory that is gone. Blocking."""
        found = self.worktrees.find(workstream)
        return found.path if found else self.settings.working_directory

    def tree_digest(self, workstream: str) -> str:
        """Return what a verdict on a workstream's tree is compared with. Blocking."""
        return tree_digest(Path(self.place_if_there(workstream)), written(self.settings.home))

    def open_request(
        self, agent: str, *, place: str | None = None, mode: RecordMode | None = None
    ) -> OpenRequest:
        """Return how to start an agent; outside a turn nobody is there to allow anything.

        `mode` is what is recorded of the role. Where no role is known, the strictest of all holds.
        """
        place, mode = place or self.settings.working_directory, mode or self.policy.strictest
        log = log_path(Path(self.settings.home), agent, self.system.now_ms())
        return OpenRequest(
            working_directory=place,
            redactor=None if mode == "full" else self.redactor,
            # What an agent writes to stderr may quote the prompt, and of `index` no word is kept.
            stderr_path=None if mode == "index" else str(log),
            # All of it: an agent started by upthread sees what it sees when a person starts it.
            environment=self._where(agent),
            start_timeout_s=self.settings.start_timeout_s,
            prompt_timeout_s=self.settings.prompt_timeout_s,
            ignores_project=not self.settings.trusts(agent, place, self.environment),
        )

    # --- what an agent is driven with -----------------------------------------------------------

    def adapter(self, agent: str) -> AgentAdapter:
        """Return the adapter for an agent's name. Raises UsageError for an unknown name."""
        # Without a command, the configuration means the known agent of this name.
        try:
            return registry.adapter_for(agent, self.settings.of_agent(agent).command)
        except UsageError as error:
            if configured := ", ".join(self.settings.agents):
                error.hint = f"configured: {configured}; {error.hint}"
            raise

    def opens_sub_agents(self, agent: str) -> bool:
        """Return whether an agent, with its configured command, can open a sub-agent's session."""
        # A configured command speaks ACP, even under the name of a known agent.
        is_acp = bool(self.settings.of_agent(agent).command)
        return registry.opens_sub_agents(agent, kind=ACP if is_acp else None)

    def command_of(self, link: Link) -> Command | None:
        """Return the agent's own command for a link's session, None if there is no such command.

        None also if the configuration no longer names the agent. Blocking.
        """
        try:
            return self._command(link, link.upstream_session_id)
        except UsageError:
            return None

    def own_interface(self, link: Link) -> OwnInterface:
        """Return the command for a link's session, or why there is no command. Blocking."""
        try:
            command = self._command(link, link.upstream_session_id)
        except UsageError:
            return of_link(link, command=None, is_configured=False)
        if self.opens_sub_agents(link.agent):
            return of_link(link, command=command)
        main = UpstreamSessionId(main_session_of(self.store, link))
        row = AGENTS.get(link.agent)
        there = row.reached_from_main.format(session=link.upstream_session_id) if row else ""
        within = MainSession(
            upstream_session_id=main, command=self._command(link, main), there=there
        )
        return of_link(link, command=command, main=within if main else None)

    def _command(self, link: Link, session: UpstreamSessionId) -> Command | None:
        given = self.settings.of_agent(link.agent).command
        command = registry.resume_command(link.agent, session, given)
        if command is None:
            return None
        # Not the configured environment, because a person starts the agent from the shell.
        where = agent_environment(self.environment)
        profile = last_attached(self.store, link).agent_profile
        without = stored.profile_without(where, link.upstream_session_id, profile)
        # Where the session is here as well, the command alone opens it.
        return (*in_profile(profile), *command) if without else command
