"""A delegation before it begins: which role, which agent, under which settings.

Turns what a person asked into a TellRequest. The agent is, in this order: the one named in the
call, the role's, the one whose session the conversation holds, the project's, the only one
installed. The rehearsal agent is never chosen by itself. At the end is what an agent is driven
with: its adapter, and the command that opens a session in its own interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from msgspec import structs

from upthread.agent_stores.homes import agent_environment
from upthread.agents import registry, stored
from upthread.agents.base import AgentAdapter, OpenRequest
from upthread.boundary import own_files
from upthread.boundary.own_files import installed_path
from upthread.client.file_permissions import log_path
from upthread.client.parts import ProjectParts
from upthread.config import Settings, instructions_in
from upthread.core.agents import ACP, AGENTS, name_of, one_of
from upthread.core.decision.words import UNDECIDED_LINE
from upthread.core.events import AgentsCall
from upthread.core.names import Address, key_of
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.role import Role
from upthread.core.runs import pipeline as pipelines
from upthread.core.sessions import MainSession, OwnInterface, of_link
from upthread.core.trust import AgentSettings
from upthread.core.turns.prompt import Task, with_unverified
from upthread.core.turns.recognition import UndecidedCall
from upthread.core.turns.replayed_history import Lacked
from upthread.core.turns.turn import TurnView
from upthread.core.types import (
    ConversationId,
    Link,
    RecordMode,
    UpstreamSessionId,
)
from upthread.core.workstreams import callers_in
from upthread.errors import ConfigError, SeveralAgentsError, UsageError
from upthread.runtime.options import RunOptions, TellOptions
from upthread.runtime.record.turn_views import last_attached, main_session_of, run_view
from upthread.runtime.turns.conversation import ClaimRequest
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.older_record import OwnSessions, look, look_at_all
from upthread.runtime.turns.progress import SILENT, Notice
from upthread.runtime.working_tree.git_worktrees import Worktrees


class Preparing:
    """Knows roles and agents of one project. Reads the store, never writes."""

    def __init__(
        self, parts: ProjectParts, *, worktrees: Worktrees, host: str, is_inside: bool = False
    ) -> None:
        # Inside an agent its environment is the agent's already, whoever started it.
        self._agents: Mapping[str, AgentSettings] = {} if is_inside else parts.settings.agents
        self._store = parts.store
        self._settings = parts.settings
        self._project_id = parts.project_id
        self._environment = parts.environment
        self._ask_person = parts.ask_person
        self._redactor = parts.redactor
        self._policy = parts.policy
        self._worktrees = worktrees
        self._now_ms = parts.system.now_ms
        self._host = host

    @property
    def callers(self) -> tuple[ConversationId, ...]:
        """The conversations this process was started inside of, outermost first."""
        return tuple(map(ConversationId, callers_in(self._environment)))

    def other_host(self, link: Link | None) -> str | None:
        """Return the host a session lives on, None where that is this one. Blocking."""
        host = last_attached(self._store, link).agent_host if self._host else None
        # Nothing is asked on a store of one machine: there every session is here.
        return None if host == self._host else host

    def agent_for(
        self, address: Address, *, named: str | None, otherwise: str | None = None
    ) -> str:
        """Return the agent's name. Blocking. Raises UsageError with the cure when none is clear.

        `otherwise` is what a run under way has used, for a role that comes for the first time.
        """
        resolved = self._store.resolve(key_of(self._project_id, address))
        # Also after its last session has ended: the agent that had it goes on.
        links = self._store.links(resolved.conversation.conversation_id) if resolved else ()
        held = links[-1].agent if links else None
        # A person's word, then the role's: a session follows them, and is rolled over if it must.
        known = named or self._settings.role(address.role).agent or held or otherwise
        chosen = known or self._settings.agent or self._only_installed()
        # Also by its program's name, unless somebody has configured one that is called so.
        return chosen if chosen in self._settings.agents else name_of(chosen)

    def _only_installed(self) -> str:
        names = registry.agents_on_path(self._environment.get("PATH"))
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
            return adapter_for(self._settings, agent)
        except UsageError as error:
            resolved = self._store.resolve(key_of(self._project_id, address))
            if resolved and resolved.link and resolved.link.agent == agent:
                error.message += f", which has the session {resolved.link.upstream_session_id}"
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
            writer=lambda agent, session: stored.writer_of(where(agent, session), agent, session),
            of_call=lambda call: stored.read_stored(where(call.agent), call),
        )

    def undecided_calls(self, agent: str, since_ns: int) -> Iterator[UndecidedCall]:
        """Yield the calls that an agent's hooks could not record. Blocking. StoreError."""
        where = self._where(agent)
        return stored.undecided_calls(where, agent, mark=UNDECIDED_LINE, since_ns=since_ns)

    def lacked(self, role: str, link: Link | None, last: TurnView | None) -> Lacked:
        """Return what the record lacks of a role's session; `last` is its newest turn. Blocking."""
        redactor = self._redactor_of(role)
        return look(self._store, self.own_sessions, link, last, redactor=redactor)

    def all_of(self, role: str, agent: str, session: UpstreamSessionId) -> Lacked | None:
        """Return all that an agent's store holds of a session, for a role. Blocking. StoreError."""
        return look_at_all(self.own_sessions, agent, session, redactor=self._redactor_of(role))

    def _where(self, agent: str, session: UpstreamSessionId | None = None) -> Mapping[str, str]:
        """Return the environment that an agent is started with; with a session, where that is.

        The profile that the agent's own command chose is known by where it ran.
        """
        # What a person configured for the agent wins over what surrounds it.
        own = self._agents[agent].environment if agent in self._agents else {}
        where = agent_environment({**self._environment, **own})
        owner = self._store.owner(self._project_id, session) if session else None
        link = self._store.links(owner.conversation_id)[-1] if owner else None
        attached = last_attached(self._store, link)
        if attached.chose_profile:
            variable, _, place = attached.agent_profile.partition("=")
            where = stored.placed(where, variable, place)
        return where

    def _redactor_of(self, role: str) -> Redactor | None:
        # Compared as it is recorded: where nothing is taken
        # out of the one, nothing may be of the other.
        return None if self._policy.of_role(role) == "full" else self._redactor

    def has_hooks(self, agent: str) -> bool:
        """Return whether `upthread setup` was run for an agent. Blocking."""
        try:
            installed = own_files.read(installed_path(Path(self._settings.home))) or {}
        except own_files.UnreadableError:
            installed = {}
        row = AGENTS.get(agent)
        return row is not None and row.setup_name in installed.get("agents", {})

    def _version_notice(self, agent: str, calls_itself: str, version: str) -> Notice | None:
        """Return what a person is told of an agent in another version than was tested.

        What is started by a command line is known by what it calls itself, if at all.
        """
        configured = self._settings.agents.get(agent)
        is_command = (
            configured and configured.command
        ) or agent not in registry.AGENTS_AND_REHEARSAL
        row = (
            registry.seen_way_called(calls_itself) if is_command else registry.seen_way_here(agent)
        )
        text = registry.version_warning(agent, row, version) if row else ""
        if row is None or not text:
            return None
        about = {"agent": agent, "version": version, "tested_with": row.version}
        return Notice(kind="agent_version", text=text, about=about)

    def tell(  # the one place where all that a delegation needs comes together
        self,
        address: Address,
        task: Task,
        chosen: TellOptions,
        *,
        agent: str,
    ) -> TellRequest:
        """Return the request for one delegation. Blocking."""
        role = self._settings.role(address.role, agent)
        place = self.place_of(address.workstream)
        opening = self._open_request(agent, self._policy.of_role(role.name), place)
        if opening.ignores_project:
            task = with_unverified(task, *instructions_in(place, agent))
        request = self._request(address, task, chosen, agent=agent, role=role, opening=opening)
        return structs.replace(request, adapter=self._adapter_for(address, agent))

    def called(self, address: Address, task: Task, *, role: Role, call: AgentsCall) -> TellRequest:
        """Return the request for a call that an agent's own tool makes. Blocking."""
        place = self._settings.working_directory
        opening = OpenRequest(working_directory=place, stderr_path=None)
        request = self._request(
            address, task, TellOptions(), agent=call.agent, role=role, opening=opening
        )
        # Nobody waits for a working tree here: the agent has its own word on who writes when.
        claim = structs.replace(request.claim, tree=None, opens_sub_agents=True)
        return structs.replace(request, claim=claim, call=call)

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
        claim = ClaimRequest(
            project_id=self._project_id,
            address=address,
            role=role,
            agent=agent,
            doing=f"tell {address.workstream}/{address.role}",
            when_busy=chosen.when_busy,
            tree=opening.working_directory if role.is_writing else None,
            is_waiting_for_tree=chosen.when_busy == "wait",
            callers=self.callers,
            depth_max=self._settings.depth_max,
            host=self._host,
            opens_sub_agents=opens_sub_agents(self._settings, agent),
            on_wait=(chosen.listener or SILENT).waiting,
        )
        return TellRequest(
            claim=claim,
            task=task,
            adapter=None,
            open=opening,
            redactor=self._redactor_of(role.name),
            ask_person=self._ask_person,
            options=chosen,
            is_handed_back=bool(chosen.key),
            condition=self.condition(address.workstream, role),
            settings=self._settings,
            own_sessions=self.own_sessions,
            version_notice=partial(self._version_notice, agent),
        )

    def step(
        self,
        workstream: str,
        view: pipelines.RunView,
        command: pipelines.RunStep,
        chosen: RunOptions,
        *,
        agent: str,
    ) -> TellRequest:
        """Return the request for one step of a run. Blocking, reads a few rows."""
        step = command.step
        request = self.tell(
            Address(workstream=workstream, role=step.role),
            command.task,
            TellOptions(when_busy="wait", tokens_max=chosen.tokens_max, listener=chosen.listener),
            agent=agent,
        )
        role = request.claim.role
        if chosen.continuity is not None:
            # What was said for this run holds: the role's condition would overrule it.
            role = structs.replace(role, continuity=chosen.continuity, resume_if=None)
        # The report is missing in that very session: another one would have to do the work again.
        if command.asked_again:
            role = structs.replace(role, continuity="resume")
        judged = step.on_rejected
        return structs.replace(
            request,
            claim=structs.replace(request.claim, role=role, is_waiting_for_tree=chosen.is_waiting),
            condition=view.report_digest(role.resume_if) if role.resume_if else None,
            is_handed_back=chosen.is_handed_back,
            # A step that judges the work of a role that writes judges the working tree.
            is_tree_judged=judged is not None and self._settings.role(judged).is_writing,
        )

    def require_recorded(self, pipeline: pipelines.Pipeline) -> None:
        """Refuse a run that could not go on: each role reads what the one before it reported."""
        for step in pipeline.steps:
            if self._policy.of_role(step.role) == "index":
                raise ConfigError(
                    f"a run needs reports and answers, and of {step.role} no text is recorded",
                    hint=f'say record = "redacted" under [roles.{step.role}], or use upthread tell',
                )

    def condition(self, workstream: str, role: Role) -> str | None:
        """Return the digest that `resume_if` compares, None for a role without the condition."""
        runs = self._store.runs(self._project_id, workstream) if role.resume_if else ()
        if not runs or role.resume_if is None:
            return None
        return run_view(self._store, runs[-1].run_id).report_digest(role.resume_if)

    def place_of(self, workstream: str) -> str:
        """Return the directory a workstream is worked on in: its own working tree's, if it has one.

        Blocking. UsageError for one that is gone.
        """
        found = self._worktrees.require(workstream)
        return found.path if found else self._settings.working_directory

    def place_if_there(self, workstream: str) -> str:
        """Return the same for whoever only looks: also a directory that is gone. Blocking."""
        found = self._worktrees.find(workstream)
        return found.path if found else self._settings.working_directory

    def open_request(self, agent: str, *, place: str | None = None) -> OpenRequest:
        """Return how to start an agent outside a turn: nobody is there to allow anything."""
        # No role is known here, so the strictest of all holds.
        mode = self._policy.strictest
        return self._open_request(agent, mode, place or self._settings.working_directory)

    def _open_request(self, agent: str, mode: RecordMode, place: str) -> OpenRequest:
        log = log_path(Path(self._settings.home), agent, self._now_ms())
        return OpenRequest(
            working_directory=place,
            redactor=None if mode == "full" else self._redactor,
            # What an agent writes to stderr may quote the prompt, and of `index` no word is kept.
            stderr_path=None if mode == "index" else str(log),
            # All of it: an agent started by upthread sees what it sees when a person starts it.
            environment=self._where(agent),
            start_timeout_s=self._settings.start_timeout_s,
            prompt_timeout_s=self._settings.prompt_timeout_s,
            ignores_project=not self._settings.trusts(agent, place, self._environment),
        )


def command_of(parts: ProjectParts, link: Link) -> tuple[str, ...] | None:
    """Return the agent's own command for a link's session, None if the agent has no such command.

    None also if the configuration no longer names the agent. Blocking.
    """
    try:
        return _command(parts, link, link.upstream_session_id)
    except UsageError:
        return None


def own_interface_of(parts: ProjectParts, link: Link) -> OwnInterface:
    """Return the command for a link's session, or the reason why there is no command. Blocking."""
    try:
        command = _command(parts, link, link.upstream_session_id)
    except UsageError:
        return of_link(link, command=None, is_configured=False)
    if opens_sub_agents(parts.settings, link.agent):
        return of_link(link, command=command)
    main = UpstreamSessionId(main_session_of(parts.store, link))
    within = MainSession(
        upstream_session_id=main,
        command=_command(parts, link, main),
        there=_reached_from_main(link),
    )
    return of_link(link, command=command, main=within if main else None)


def _command(parts: ProjectParts, link: Link, session: UpstreamSessionId) -> tuple[str, ...] | None:
    configured = parts.settings.agents.get(link.agent)
    given = configured.command if configured else ()
    command = registry.resume_command(link.agent, session, given)
    return (*_words_before(parts, link), *command) if command else None


def _words_before(parts: ProjectParts, link: Link) -> tuple[str, ...]:
    """Return the prefix that sets a session's profile, empty if the session is here as well.

    For example `env CODEX_HOME=/home/ada/work`.
    """
    # Not the configured environment, because a person starts the agent from the shell.
    where = agent_environment(parts.environment)
    profile = last_attached(parts.store, link).agent_profile
    without = stored.profile_without(where, link.upstream_session_id, profile)
    return ("env", profile) if without else ()


def adapter_for(settings: Settings, agent: str) -> AgentAdapter:
    """Return the adapter for an agent's name. Raises UsageError for an unknown name."""
    configured = settings.agents.get(agent)
    # Without a command, the configuration means the known agent of this name.
    return registry.adapter_for(agent, configured.command if configured else ())


def opens_sub_agents(settings: Settings, agent: str) -> bool:
    """Return whether an agent, with its configured command, can open a sub-agent's session."""
    configured = settings.agents.get(agent)
    # A configured command speaks ACP, even under the name of a known agent.
    is_acp = bool(configured and configured.command)
    return registry.opens_sub_agents(agent, kind=ACP if is_acp else None)


def _reached_from_main(link: Link) -> str:
    """Return how a person reaches a sub-agent from its main session."""
    row = AGENTS.get(link.agent)
    return row.reached_from_main.format(session=link.upstream_session_id) if row else ""
