"""The calls that agents' own tools make, as an open project records and decides them.

A hook or a plug-in is a process that asks one thing and ends, so everything here is blocking. What
is decided and recorded is the same as for `tell`: runtime/turns/external_turn.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.base import PermissionRequest
from upthread.client.parts import ProjectParts
from upthread.client.stores import conversations_in
from upthread.config import personal_role, unusable_role
from upthread.core.agents import WITH_A_STORE
from upthread.core.commands import RecordAct
from upthread.core.decision.words import (
    FOREIGN_SESSION,
    NO_ROLES,
    OTHER_REASONS,
    OTHER_ROLE,
    RECORDED_BESIDE,
    REFUSE,
    UNKNOWN_SESSION,
    UNSEEN,
)
from upthread.core.events import AgentsCall
from upthread.core.names import (
    NONE,
    ROLE_UNKNOWN,
    SESSION_PREFIX,
    WORKSTREAM_VARIABLE,
    Address,
    choose_workstream,
    named_workstream,
    session_workstream,
)
from upthread.core.roles.role import BUILT_IN_ROLES, Role
from upthread.core.text import visible_line
from upthread.core.turns.agent_history import UndecidedCall, is_finished, stored_turns
from upthread.core.turns.turn import Task, without_fresh
from upthread.core.types import CHILD_SLOT, Outcome
from upthread.errors import ConflictError, FencedError, StoreError
from upthread.runtime.record.turn_views import main_session_of
from upthread.runtime.system import process_holder, user_name
from upthread.runtime.turns.beginning import session_of
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.external_turn import (
    Begun,
    CallEnded,
    ExternalTurns,
    main_id_of,
    turn_id_of,
)
from upthread.runtime.working_tree.repository import default_branch, git_facts, used_workstream
from upthread.store.address import file_path, is_postgres
from upthread.store.sqlite.database import forget_missed, missed

if TYPE_CHECKING:
    from upthread.runtime.record.workstream_views import RoleView, WorkstreamView

PROMPT_CHARACTERS_MAX = 1_000_000
INTERRUPTED_AFTER_NS = 60 * 60 * 10**9
"""How long a sub-agent that no hook recorded is silent before its call counts as interrupted."""
UNDECIDED_READ_NS = 7 * 24 * 60 * 60 * 10**9
"""How long after its last word a main session is read for calls that no hook recorded."""
BUSY = "busy"
ELSEWHERE = "elsewhere"
"""What an agent says of a session that it was asked for, beside the words of an outcome: it is at
work in the session, or opens it only in another main session."""


class SubAgentCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent, as an agent's hook tells it.

    `pid` is the agent's process. `unusable` are sessions the agent was asked for, and what it said
    of each. `takes_session` is whether the agent's tool takes a session to go on in. `named` is a
    session that the model named and the agent does not have, empty for none. With `only_own` a main
    session can go on with nothing but what was started in it. `reach` words how the model writes to
    a sub-agent that it had before, None where it cannot. `by_sub_agent` is whether a sub-agent
    made the call, and not the main session itself.
    """

    agent: str
    main_session: str
    call_id: str
    role: str
    prompt: str
    pid: int
    takes_session: bool = False
    unusable: Mapping[str, str] = {}
    named: str = ""
    only_own: bool = False
    reach: Callable[[str], str] | None = None
    by_sub_agent: bool = False

    @property
    def session_lost(self) -> Outcome | None:
        """Why the agent cannot use the session that it was asked for last; None where it can."""
        lost = [why for why in self.unusable.values() if why not in {BUSY, ELSEWHERE}]
        if not lost:
            return None
        # The plug-in's word may be of a newer version; that the session cannot be used is certain.
        return Outcome(lost[-1]) if lost[-1] in set(Outcome) else Outcome.MISSING


class Answer(Struct, frozen=True, kw_only=True):
    """What a hook answers: a line for the person, the prompt, and the session to resume.

    `refusal` tells the model why the call is not made; `is_role` is whether the call is continued.
    """

    line: str = ""
    prompt: str = ""
    session: str = ""
    refusal: str = ""
    is_role: bool = False


def agents_call(call: SubAgentCall, because: str = "") -> AgentsCall:
    """Return what the record keeps of a call; `because` is why it belongs to its workstream."""
    return AgentsCall(
        agent=call.agent,
        main_session=call.main_session,
        call_id=call.call_id,
        because=because or NONE,
    )


class InUse(Struct, frozen=True, kw_only=True):
    """Which workstream this working tree is on. `workstream` is None when nothing names one.

    `because` is a code of core/names.py. `last` is the workstream of the newest turn, with
    its time in epoch milliseconds; None before the first. `underway` are the addresses that
    sub-agents are working on now.
    """

    workstream: str | None
    because: str
    branch: str | None
    last: tuple[str, int] | None
    underway: tuple[str, ...]


class AgentCalls:
    """One project's calls. `environment` is the agent's."""

    def __init__(self, parts: ProjectParts) -> None:
        self._parts = parts = replace(parts, is_inside=True)
        self._store = parts.store
        self._system = parts.system
        self._settings = parts.settings
        self._project_id = parts.project_id
        self._environment = parts.environment
        self._root = parts.settings.working_directory
        self.hands_over = parts.settings.handover
        """Whether a person wants sub-agents of other main sessions to be handed over."""
        self._turns = ExternalTurns(
            store=parts.store,
            system=parts.system,
            conversations=parts.conversations,
            project_id=parts.project_id,
            request_of=self._known_request,
        )

    def read_back(self) -> tuple[str, ...]:
        """Record what only the agents' own stores have of their calls; returns what failed."""
        named = self._settings.database
        file = None if is_postgres(named) else file_path(named)
        seen = missed(file) if file else 1
        left = list(self._left_undecided()) if seen else []
        if file and not left:
            forget_missed(file, seen)
        return (*filter(None, left), *self._turns.recover_dead())

    def _left_undecided(self) -> Iterator[str]:
        """Record the calls that no hook could; yields what failed, "" for one that is open."""
        now_ns = self._system.now_ms() * 10**6
        for agent in filter(self._parts.has_hooks, WITH_A_STORE):
            try:
                for each in self._parts.undecided_calls(agent, now_ns - UNDECIDED_READ_NS):
                    is_here = Path(each.directory).is_relative_to(self._root)
                    if is_here and not self._record_undecided(agent, each, now_ns):
                        yield ""
            except StoreError as error:
                yield error.message
            except (ConflictError, FencedError):
                yield ""  # another process was quicker

    def _record_undecided(self, agent: str, undecided: UndecidedCall, now_ns: int) -> bool:
        """Return whether a call is on record now."""
        call = SubAgentCall(
            agent=agent,
            main_session=undecided.main_session,
            call_id=undecided.call_id,
            role=undecided.role.lower(),
            prompt=undecided.prompt,
            pid=os.getpid(),
        )
        made = agents_call(call)
        if self._turns.is_known(made):
            return True
        found = self._parts.own_sessions.of_call(made)
        turns = stored_turns(found.events) if found else ()
        if found and turns and is_finished(turns[-1]):
            self.ended(call, CallEnded(session=found.upstream_session_id))
        elif found and turns and found.written_at_ns < now_ns - INTERRUPTED_AFTER_NS:
            # No process has this number, so the call is read back as that of a dead agent.
            self.started(replace(call, pid=0), found.upstream_session_id)
        else:
            return False
        return True

    # --- where a call belongs -------------------------------------------------------------------

    def workstream_of(self, agent: str, session: str) -> tuple[str, str]:
        """Return the workstream of a main session's calls, and why.

        Where nothing names one the main session has a workstream of its own, so that a role goes on
        within the session.
        """
        branch = git_facts(Path(self._root)).branch
        name, because = self._chosen(self._named_in(agent, session), branch)
        return name or session_workstream(session), because

    def in_use(self) -> InUse:
        """Return which workstream this working tree is on, and why."""
        git = git_facts(Path(self._root))
        workstream, because = self._chosen(None, git.branch)
        last = max(self._newest_moves(), default=None)
        return InUse(
            workstream=workstream,
            because=because,
            branch=git.branch,
            last=(last[1], last[0]) if last else None,
            underway=tuple(sorted(address for *_, address in self._open_calls())),
        )

    def _newest_moves(self) -> Iterator[tuple[int, str]]:
        """Yield when each conversation's newest turn moved last, with its workstream."""
        for each in conversations_in(self._store, self._project_id):
            name = each.key.workstream
            turns = self._store.turns(each.conversation_id, newest=1)
            for turn in () if name.startswith(SESSION_PREFIX) else turns:
                events = self._store.turn_events(turn.conversation_id, turn.turn_id)
                yield from ((event.recorded_at_ms, name) for event in events[-1:])

    def _chosen(self, named: str | None, branch: str | None) -> tuple[str | None, str]:
        return choose_workstream(
            environment=self._environment.get(WORKSTREAM_VARIABLE),
            named=named,
            used=used_workstream(Path(self._settings.home), self._root),
            branch=branch,
            default_branch=lambda: default_branch(Path(self._root)),
        )

    def _named_in(self, agent: str, session: str) -> str | None:
        acts = self._store.acts(main_id_of(agent, session)) if session else ()
        return next((act.detail for act in reversed(acts) if act.what == "named"), None)

    def role_of(self, name: str, agent: str) -> Role | None:
        """Return a role that calls go on with, None for one that nobody configured.

        A person's own role file counts wherever its agent finds it.
        """
        known = self._settings.continued_roles.get(name)
        if known is not None or name in BUILT_IN_ROLES or name in self._settings.native_roles:
            return known
        return personal_role(agent, name, self._environment)

    def hear_prompt(self, agent: str, session: str, prompt: str) -> None:
        """Keep which workstream a person's prompt names."""
        # Only names that are known: a prompt must not make a workstream by mentioning something.
        name = named_workstream(prompt[:PROMPT_CHARACTERS_MAX], self._parts.workstreams())
        if name is None or name == self._named_in(agent, session):
            return
        main, opens = self._turns.main_of(agent, session, name)
        act = RecordAct(
            what="named",  # a person's prompt named the workstream of a main session
            by_user=user_name(self._environment),
            recorded_at_ms=self._system.now_ms(),
            conversation_id=main.conversation_id,
            detail=name,
        )
        self._store.commit((*opens, act))

    # --- a call ---------------------------------------------------------------------------------

    def before(self, call: SubAgentCall) -> Answer:
        """Decide how a call attaches, and keep what was decided."""
        role = self.role_of(call.role, call.agent)
        misnamed = (UNKNOWN_SESSION,) if call.named else ()
        if role is None:
            self._begin_beside(call, *misnamed)
            why = unusable_role(call.agent, call.role, Path(self._root), self._environment)
            line = f"upthread: not continued, only recorded: {why}" if why else ""
            return Answer(line=visible_line(line), prompt=call.prompt)
        request = replace(
            self._own_request(call, role),
            busy=frozenset(each for each, why in call.unusable.items() if why == BUSY),
            reach=call.reach,
            further=misnamed,
        )
        begun = self._turns.begin(request)
        if begun is None:
            return Answer(prompt=call.prompt, is_role=True)
        line = _line(begun)
        if call.named:
            line += f"; the call named {visible_line(call.named)}, which the agent does not have"
        text = without_fresh(call.prompt)
        refusal = begun.told or (f"{line}. {begun.hint}" if begun.hint else line)
        return Answer(
            line="" if begun.told else line,  # the model continues the sub-agent, with its own line
            prompt=f"{begun.context}\n\n{text}" if begun.context else text,
            session=begun.started.upstream_session_id,
            refusal=refusal if begun.started.decision == REFUSE else "",
            is_role=True,
        )

    def named(self, call: SubAgentCall, session: str, *, is_unseen: bool = False) -> Answer:
        """Keep that a main session continues a sub-agent that it named itself.

        With `is_unseen` no hook saw the call begin.
        """
        owner = self._turns.owner_of(session)
        call = replace(call, takes_session=True)  # the tool that was called continues it
        what = NO_ROLES
        if owner is not None and owner.key.slot != CHILD_SLOT:
            role = self.role_of(owner.key.role, call.agent) or Role(name=owner.key.role)
            request = self._request(call, role, owner.key.workstream, "session")
            begun = self._turns.begin_named(
                request, session, reasons=(UNSEEN,) if is_unseen else ()
            )
            if begun is not None:
                line = _line(begun)
                if call.role and call.role != owner.key.role:
                    line += f": {OTHER_REASONS[OTHER_ROLE]}: {visible_line(call.role)}"
                return Answer(line=line, prompt=call.prompt, session=session, is_role=True)
            what = f"in use by {self._turns.user_of(owner) or call.agent}"
        self._begin_beside(call, FOREIGN_SESSION)
        # What was never a role's is left alone without a word.
        is_silent = owner is None or owner.key.slot == CHILD_SLOT
        line = f"upthread: {call.role or ROLE_UNKNOWN}: {RECORDED_BESIDE.format(what=what)}"
        return Answer(line="" if is_silent else line, prompt=call.prompt, session=session)

    def started(self, call: SubAgentCall, session: str, *, is_background: bool = False) -> None:
        """Keep which session a call's sub-agent works in."""
        self._require_begun(call, session)
        self._turns.started(agents_call(call), session, is_background=is_background)

    def ended(self, call: SubAgentCall, told: CallEnded) -> None:
        """Keep what a call's sub-agent did, and how it ended."""
        self._require_begun(call, told.session)
        self._turns.end(agents_call(call), told)

    def _require_begun(self, call: SubAgentCall, session: str) -> None:
        """Begin a call that no hook saw begin: its agent has gone on alone."""
        if not call.call_id or self._turns.is_known(agents_call(call)):
            return
        role = self.role_of(call.role, call.agent)
        if not call.role:
            self.named(call, session, is_unseen=True)
        elif role is None:
            self._begin_beside(call)
        else:
            self._turns.begin_unseen(self._own_request(call, role), session)

    def _begin_beside(self, call: SubAgentCall, *reasons: str) -> None:
        """Record a call that is not continued.

        Nothing for a call of a sub-agent, or of a session that upthread drives: the turn of that
        session records the call with everything else that it did.
        """
        if call.by_sub_agent or self._turns.owner_of(call.main_session) is not None:
            return
        request = self._own_request(call, Role(name=call.role or ROLE_UNKNOWN))
        self._turns.begin_beside(request, reasons=reasons)

    def open_call(
        self, agent: str, main_session: str, session: str, role: str, *, call_id: str = ""
    ) -> AgentsCall | None:
        """Return the open call that a sub-agent works for, by its session or by the call's id.

        Otherwise the only call of the main session that has the role and no session yet. None for
        several such calls, because sub-agents that begin at once begin in any order.
        """
        unseen: list[AgentsCall] = []
        for call, child, whose, _ in self._open_calls():
            if call.agent != agent:
                continue
            if child == session or call.call_id == call_id:
                return call
            if call.main_session == main_session and whose == role and not child:
                unseen.append(call)
        return unseen[0] if len(unseen) == 1 and not call_id else None

    def _open_calls(self) -> Iterator[tuple[AgentsCall, str, str, str]]:
        """Yield each open call, the session that it is known to work in, its role and address."""
        for _, live, call in self._turns.open_calls():
            key = live.conversation.key
            yield call, session_of(live) or "", key.role, key.address

    def is_background(self, call: AgentsCall) -> bool:
        """Return whether a call's sub-agent is known to work on after the call."""
        live = self._turns.open_turn(turn_id_of(call))
        attached = live.view.attached if live else None
        return attached is not None and attached.is_background

    def held(self, agent: str, session: str, request: PermissionRequest) -> str:
        """Return why a call must not run, by the guard that `tell` has; empty where it may."""
        from upthread.runtime.permissions import Gate  # noqa: PLC0415  # other events need none

        self._turns.recover_dead()
        workstream, because = self.workstream_of(agent, session)
        # Where none is named, another main session may have been at it.
        others = self._parts.workstreams() if because == NONE else []
        own = [each for each in others if each.startswith(SESSION_PREFIX)]
        asking = (turn_id_of(call) for call, child, *_ in self._open_calls() if child == session)
        own_turn = next(asking, None)
        gate = Gate(
            tree=self._root,
            outward_patterns=self._settings.outward_patterns,
            redactor=self._parts.redactor,
        )
        was_done, in_doubt = dict[str, str](), dict[str, str]()
        for name in dict.fromkeys((workstream, *own)):
            effects = self._parts.effects_of(name, apart_from=own_turn)
            found = (*effects.in_doubt(), *effects.left_open())
            gate.expect(known=tuple(each.effect for each in found))
            answer, _ = gate.refused(request)
            if answer and gate.parked:
                in_doubt[name] = f"{answer.why}: {gate.parked.detail}"
            elif answer:
                was_done[name] = answer.why
        cures = ", ".join(f"upthread effects {name}" for name in in_doubt)
        whys = [f"{why}; to settle it: {cures}" for why in in_doubt.values()]
        return next(iter((*whys, *was_done.values())), "")

    # --- a main session -------------------------------------------------------------------------

    def taken_back(self, session: str, pid: int, *, has_ended: bool = False) -> None:
        """End the calls that a person broke off: a person who writes has taken the turn back."""
        self._turns.cancel_open(process_holder(pid, ""), session, has_ended=has_ended)

    def interrupted(self, workstream: str) -> Iterator[RoleView]:
        """Yield the roles that were interrupted, of all main sessions' own workstreams if empty."""
        for name in [workstream] if workstream else self._parts.workstreams():
            view = self.standing(name) if workstream or name.startswith(SESSION_PREFIX) else None
            yield from (each for each in view.roles if each.cut_off) if view else ()

    def standing(self, workstream: str) -> WorkstreamView | None:
        """Return how a workstream stands."""
        from upthread.runtime.record.workstream_views import Overview  # noqa: PLC0415  # as above

        return Overview(self._store, self._system.is_dead).workstream(self._project_id, workstream)

    def to_continue(
        self, agent: str, session: str, workstream: str
    ) -> Iterator[tuple[str, str, str]]:
        """Yield what a main session can continue: address, session, and the main session of that.

        Those that the handshake would not resume are left out, and those that somebody uses.
        """
        for conversation in self._store.conversations(self._project_id, workstream):
            key = conversation.key
            resolved = self._store.resolve(key) if key.slot != CHILD_SLOT else None
            if resolved is None or resolved.conversation != conversation or resolved.link is None:
                continue
            link, role = resolved.link, self.role_of(key.role, agent)
            if role is None or link.agent != agent:
                continue
            call = SubAgentCall(
                agent=agent, main_session=session, call_id="", role=key.role, prompt="", pid=0
            )
            request = self._request(
                replace(call, takes_session=True), role, workstream, "", slot=key.slot
            )
            if self._turns.would_resume(request, conversation, link):
                yield key.address, link.upstream_session_id, main_session_of(self._store, link)

    # --- below ----------------------------------------------------------------------------------

    def _is_elsewhere(self, call: SubAgentCall, role: Role, workstream: str, slot: int) -> bool:
        """Whether the session is one that the agent opens in another main session alone."""
        if not call.only_own or not call.takes_session:
            return False
        address = Address(workstream=workstream, role=role.name, slot=slot)
        found = self._parts.found(address)
        main = main_session_of(self._store, found.link) if found and found.link else ""
        return main not in {"", call.main_session}

    def _own_request(self, call: SubAgentCall, role: Role) -> TellRequest:
        """Return the request for a call in the workstream that its main session is on."""
        workstream, because = self.workstream_of(call.agent, call.main_session)
        return self._request(call, role, workstream, because)

    def _request(
        self, call: SubAgentCall, role: Role, workstream: str, because: str, *, slot: int = 1
    ) -> TellRequest:
        request = self._parts.call_request(
            Address(workstream=workstream, role=role.name, slot=slot),
            Task(text=call.prompt),
            role=role,
            call=agents_call(call, because),
        )
        return replace(
            request,
            takes_no_session=not call.takes_session,
            opens_only_within=ELSEWHERE in call.unusable.values()
            or self._is_elsewhere(call, role, workstream, slot),
            session_lost=call.session_lost,
            # The lease is held for the agent's process.
            holder=process_holder(call.pid, f"a call in {call.agent}"),
        )

    def _known_request(self, address: Address, task: Task, call: AgentsCall) -> TellRequest:
        role = self.role_of(address.role, call.agent) or Role(name=address.role)
        return self._parts.call_request(address, task, role=role, call=call)


def _line(begun: Begun) -> str:
    return f"upthread: {begun.started.line}" + (f"; {begun.in_use}" if begun.in_use else "")
