"""An open project: everything upthread does, as calls."""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from upthread.client import adoption
from upthread.client.agent_calls import AgentCalls, InUse
from upthread.client.consent import decide, refuse_models
from upthread.client.file_permissions import log_path
from upthread.client.fork import Fork, ForkPlan, make_fork, plan_fork
from upthread.client.once import DoOnce
from upthread.client.parts import Commands, ProjectParts
from upthread.client.runs import LiveRun
from upthread.client.why import Why, changes_now, lacked_now, why
from upthread.client.worktrees import WorktreesOfProject, notice_of
from upthread.core.agents import Actor, model_of
from upthread.core.commands import settlement
from upthread.core.decision.freshness import Reading
from upthread.core.decision.words import Tokens
from upthread.core.names import Address, parse_workstream, shown
from upthread.core.redaction.values import has_placeholder
from upthread.core.runs.pipeline import RunView
from upthread.core.states import LOOK, NO_SESSION, OwnInterface, effects_command
from upthread.core.trust import Item, ignored_notice
from upthread.core.turns.agent_history import Lacked
from upthread.core.turns.effects import Settlement
from upthread.core.turns.spent_tokens import NOTHING_SPENT
from upthread.core.turns.turn import Task, continuation
from upthread.core.types import Conversation, Link, Message, UpstreamSessionId
from upthread.errors import NoOpenTurnError, UsageError
from upthread.runtime.continuity_probe import Probed, probe
from upthread.runtime.lease import conversation_request, free
from upthread.runtime.record.briefing import Briefing, briefing_of, keep_edited
from upthread.runtime.record.erasure import Forgetting, HeldWorkstream, Selection
from upthread.runtime.record.timeline import Timeline, open_timeline
from upthread.runtime.record.turn_views import (
    RecordedEffect,
    Unseen,
    reading_in,
    recorded_effects,
    reply_in,
    spent_on_run,
    the_one_named,
    totals_of,
    unseen,
)
from upthread.runtime.record.workstream_views import Overview, RoleView, WorkstreamView
from upthread.runtime.system import user_name
from upthread.runtime.turns.delegation import RunOptions, TellOptions, TellRequest, TurnResult
from upthread.runtime.turns.turns import Turns
from upthread.runtime.working_tree.repository import use_workstream

Result = TypeVar("Result")


class Project:
    """An open project. Made by `open_project`; all calls are async.

    `up.once` is an object that is called, because `up.once.confirm` and `up.once.forget` are calls
    as well. Every other verb is a method.
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

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what was put right at rest, and what is ignored here."""
        return (*self.notices_at_rest, *filter(None, (ignored_notice(self.settings.pending),)))

    # --- talking -------------------------------------------------------------------------------

    async def tell(self, address: str, text: str, options: TellOptions | None = None) -> TurnResult:
        """Send one prompt to one role; returns its reply with the decision that was taken.

        An agent's failure is an outcome of the result. Raises RefusedError, LeaseHeldError,
        NotFoundError for an unknown role, UsageError for an address that is none.
        """
        if not text.strip():
            raise UsageError("there is nothing to tell", hint="give the prompt as text")
        return await self._take_turn(self._turns.tell, address, text, options)

    async def go_on(self, address: str, options: TellOptions | None = None) -> TurnResult:
        """Go on with an interrupted or parked turn. Raises UsageError when there is none.

        A turn that was stopped and has ended, for example by Ctrl-C, is gone on with in a new one.
        """
        view = await self.role(address)
        last = view.last_turn
        if last and last.ended and not (options and options.key) and (again := _again(view)):
            return await self.tell(address, again, options)
        if last is None or last.ended is not None:
            name = view.conversation.address
            raise NoOpenTurnError(
                f"{name} has no turn to go on with: the last one has ended",
                hint=f'send a prompt: upthread tell {shlex.quote(name)} "…"',
                address=name,
            )
        return await self._take_turn(self._turns.go_on, address, "", options)

    async def run(
        self, workstream: str, specification: str | None = None, options: RunOptions | None = None
    ) -> RunView:
        """Take the pipeline over a workstream as far as it goes by itself.

        Without a specification the newest run goes on. Raises LeaseHeldError while another process
        runs the workstream, NotFoundError without a run to go on with, UsageError for a new
        specification while a run is under way.
        """
        return await self.live_run(workstream, options or RunOptions()).run(specification)

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
        live = self.live_run(workstream, RunOptions())
        return await live.answer(text, question_id=question_id, by=by or self._parts.actor)

    def live_run(self, workstream: str, options: RunOptions) -> LiveRun:
        """Return a workstream's run, as a worker takes it on."""
        return LiveRun(self._parts, self._turns, parse_workstream(workstream), options)

    @cached_property
    def once(self) -> DoOnce:
        """Does something once, however often it is asked for."""
        return DoOnce(self._parts)

    # --- the working tree ------------------------------------------------------------------------

    @cached_property
    def worktrees(self) -> WorktreesOfProject:
        """The working trees that workstreams have of their own."""
        return WorktreesOfProject(self._parts, self.workstreams)

    async def use(self, workstream: str | None) -> InUse:
        """Say what this working tree works on, None for no longer anything."""
        name = None if workstream is None else parse_workstream(workstream)

        def keep() -> InUse:
            settings = self.settings
            use_workstream(Path(settings.home), settings.working_directory, name)
            return self._calls.in_use()

        return await self._system.in_thread(keep)

    async def in_use(self) -> InUse:
        """Return which workstream this working tree is on, and why."""
        return await self.read(self._calls.in_use)

    # --- looking: a call whose agent died is read back before anything is read -----------------

    async def read(self, look: Callable[[], Result]) -> Result:
        """Return what a blocking read of `store` returns, run off the event loop."""
        await self._recover()
        return await self._system.in_thread(look)

    async def parse(self, text: str) -> Address:
        """Return the address a person meant: `spec-42/planner`, or an instance name."""
        return await self._system.in_thread(lambda: self._parts.parsed(text))

    async def workstreams(self) -> tuple[WorkstreamView, ...]:
        """Return all workstreams, the one that moved last first."""
        return await self.read(lambda: self._overview.workstreams(self.project_id))

    async def names(self) -> list[str]:
        """Return the names of all workstreams, oldest first."""
        return await self.read(self._parts.workstreams)

    async def role(self, address: str) -> RoleView:
        """Return how one conversation stands. Raises NotFoundError."""
        return await self.read(
            lambda: self._overview.role(self._parts.resolved(address).conversation)
        )

    async def why(self, address: str, *, agent: str | None = None) -> Why:
        """Return the last decision and what would be decided now. Raises NotFoundError."""
        view = await self.role(address)
        return await self._system.in_thread(lambda: why(self._parts, view, agent))

    async def lacked(self, view: RoleView) -> Lacked:
        """Return what the record lacks of a role's session, as its agent has stored it."""
        return await self._system.in_thread(lambda: lacked_now(self._parts, view))

    async def brief(self, address: str) -> Briefing:
        """Return what a fresh session of a role would be told. Raises NotFoundError."""
        view = await self.role(address)
        known = self.settings.roles.get(view.conversation.key.role)
        is_independent = known is not None and known.is_independent
        return await self._system.in_thread(
            lambda: briefing_of(
                self.store,
                view.conversation,
                changes_now(self._parts, view),
                is_independent=is_independent,
            )
        )

    async def plan_fork(
        self, address: str, into: str, *, at_message: int | None = None
    ) -> ForkPlan:
        """Return what `fork` would do, and do nothing. Raises as it does."""
        return await self._system.in_thread(
            lambda: plan_fork(self._parts, address, into, at_message)
        )

    async def show(self, workstream: str) -> WorkstreamView:
        """Return how a workstream stands. Raises NotFoundError."""
        name = parse_workstream(workstream)

        def look() -> WorkstreamView:
            view = self._overview.workstream(self.project_id, name)
            if view is None:
                raise self._parts.unknown(name)
            return view

        return await self.read(look)

    async def session(self, address: str) -> tuple[Conversation, Link | None]:
        """Return a conversation and its open link, None without one. Raises NotFoundError.

        The one look that scripts take before each of their own: nothing else is read.
        """

        def look() -> tuple[Conversation, Link | None]:
            found = self._parts.resolved(address)
            # By their seals, which finding them does not look at: what is damaged is refused.
            self.store.links(found.conversation.conversation_id)
            return found.conversation, found.link

        return await self.read(look)

    async def conversation(self, address: str) -> tuple[Message, ...]:
        """Return a conversation's messages, oldest first. Raises NotFoundError."""
        return await self.read(
            lambda: self.store.messages(self._parts.resolved(address).conversation.conversation_id)
        )

    async def effects(self, conversations: Sequence[Conversation]) -> tuple[RecordedEffect, ...]:
        """Return what was done to the world in conversations, one after the other."""
        return await self._system.in_thread(
            lambda: recorded_effects(
                self.store, conversations, outward_patterns=self.settings.outward_patterns
            )
        )

    async def effects_in_doubt(self, workstream: str) -> tuple[RecordedEffect, ...]:
        """Return what may have been done beyond this machine, and nobody has looked.

        By any role of the workstream, in the order of each; nothing of it is done again before.
        """
        name = parse_workstream(workstream)
        return await self.read(lambda: self._parts.effects_of(name).in_doubt())

    async def effects_held(self, workstream: str) -> tuple[RecordedEffect, ...]:
        """Return what nobody does again before a person has said something of it.

        That is what is in doubt, and then what was done by turns that were cut off. Raises
        NotFoundError for a workstream that is not there.
        """
        name = parse_workstream(workstream)
        return await self.read(lambda: self._held(name))

    async def settle_effect(
        self,
        workstream: str,
        said: Settlement,
        effect_id: str | None = None,
    ) -> RecordedEffect:
        """Keep what a person who has looked says of an action; without an id of the only one.

        Raises UsageError where a model says it or it is unclear which is meant, NotFoundError where
        nothing of that id is held back.
        """
        name, actor = parse_workstream(workstream), self._parts.actor

        # Before anything is looked up: with its own word a model could have its push done again.
        refuse_models(
            actor,
            what="what came of an action nobody says from inside an agent's turn",
            hint=f"look yourself, at your own terminal: {effects_command(name)}",
        )

        def settle() -> RecordedEffect:
            meant = the_one_named(self._held(name), name, effect_id)
            act = settlement(
                meant.conversation.conversation_id,
                meant.effect.call_id,
                said,
                by_user=actor.for_user(user_name(self._parts.environment)),
                at_ms=self.now_ms(),
            )
            self.store.commit([act])
            return meant

        return await self.read(settle)

    async def unseen(self, conversations: Sequence[Conversation]) -> Unseen:
        """Return what of conversations is not on record, so that its effects are not known."""
        return await self._system.in_thread(lambda: unseen(self.store, conversations))

    async def spent(self, conversation: Conversation) -> Tokens:
        """Return the tokens that a conversation's turns took, as its agents reported them."""
        return await self._system.in_thread(
            lambda: totals_of(self.store, conversation.conversation_id).spent
        )

    async def spent_on_run(self, workstream: str) -> Tokens:
        """Return the tokens that the newest run on a workstream took, nothing without one."""
        name = parse_workstream(workstream)

        def count() -> Tokens:
            run_id, run = self._parts.newest_run(name)
            return spent_on_run(self.store, self.project_id, run_id) if run else NOTHING_SPENT

        return await self._system.in_thread(count)

    async def audit(self, workstream: str) -> Timeline:
        """Return all that is kept of a workstream. Raises NotFoundError."""
        return await self.with_audit(workstream, lambda timeline: timeline, is_whole=True)

    async def with_audit(
        self, workstream: str, use: Callable[[Timeline], Result], *, is_whole: bool = False
    ) -> Result:
        """Let `use` go through all that is kept of a workstream, however long that is.

        Turns and messages are read when `use` asks for them, and anew each time, unless `is_whole`:
        what it returns must not hold on to them. `use` runs in the store's thread.
        """
        view, patterns = await self.show(workstream), self.settings.outward_patterns

        def look() -> Result:
            timeline = open_timeline(self.store, view, outward_patterns=patterns, is_whole=is_whole)
            return use(timeline)

        return await self._system.in_thread(look)

    async def resume_commands(self, roles: Iterable[RoleView]) -> Commands:
        """Return the agents' own commands that open the sessions of roles, by their links.

        None where there is none, and for an agent that the configuration no longer names.
        """
        links = [role.link for role in roles if role.link]
        return await self._system.in_thread(
            lambda: {link: self._parts.command_of(link) for link in links}
        )

    async def last_reply(self, view: RoleView) -> str:
        """Return what the role replied in its last turn; empty before any, and where it is gone."""
        last = view.last_turn
        if last is None or last.intended is None:
            return ""
        own, after = view.conversation.conversation_id, last.intended.prompt_seq - 1
        said = await self.read(lambda: self.store.messages(own, after_seq=after))
        return reply_in([each for each in said if each.turn_id == view.last_turn_id])

    async def reading(self, link: Link | None) -> Reading | None:
        """Return how much is known of what a link's session read; None without one."""
        if link is None:
            return None
        return await self._system.in_thread(lambda: reading_in(self.store, link))

    async def own_interface(self, link: Link | None) -> OwnInterface:
        """Return how a link's session is opened in its agent's own interface."""
        if link is None:
            return NO_SESSION
        return await self._system.in_thread(lambda: self._parts.own_interface(link))

    async def agent_for(self, address: str, *, named: str | None = None) -> str:
        """Return the agent that would be told. Raises UsageError where none is clear."""
        parsed = await self.parse(address)
        return await self._system.in_thread(lambda: self._parts.agent_for(parsed, named=named))

    # --- changing ------------------------------------------------------------------------------

    async def adopt(
        self, address: str, upstream_session_id: str, *, agent: str | None = None
    ) -> Link:
        """Take an existing session of an agent in as the conversation's current one.

        The agent is asked whether it has the session. Raises UpstreamError when it has not,
        UsageError when another conversation holds it.
        """
        session = UpstreamSessionId(upstream_session_id)
        return await adoption.adopt(self._parts, address, session, named=agent)

    async def keep(self, address: str, upstream_session_id: str, *, agent: str) -> Link:
        """Copy what was said in an agent's session into a new conversation, redacted as all is.

        From then on it is there whatever the agent deletes; while the session is there, it is gone
        on in. Raises UsageError for an address that has a past, NotFoundError for no such session.
        """
        session = UpstreamSessionId(upstream_session_id)
        return await adoption.keep(self._parts, address, session, agent=agent)

    async def catch_up(self, upstream_session_id: str) -> int:
        """Take in what a session on record has by now and the record lacks.

        Returns how many turns that were. What was forgotten stays so. Raises NotFoundError for a
        session that no conversation has.
        """
        return await adoption.catch_up(self._parts, UpstreamSessionId(upstream_session_id))

    async def fork(self, address: str, into: str, *, at_message: int | None = None) -> Fork:
        """Branch a conversation off after a message, into an address that has none yet.

        Without `at_message`, after the newest one where no turn and no call is open. Raises
        NotFoundError, UsageError for a place that cannot be cut, LeaseHeldError while a turn runs.
        """
        return await make_fork(self._parts, address, into, at_message)

    async def edit_briefing(self, shown: Briefing, text: str) -> tuple[Briefing, tuple[str, ...]]:
        """Keep what a person made of a briefing; returns it as it is now, and what went amiss.

        Text that changes nothing, and an empty one, change nothing. Raises ConflictError when
        somebody else has edited it since it was shown.
        """
        return await self._system.in_thread(
            lambda: keep_edited(self.store, shown, text, at_ms=self.now_ms())
        )

    @cached_property
    def forgetting(self) -> Forgetting:
        """Erases text from the record; `forget` erases it in the files of hooks as well."""
        return Forgetting(
            store=self.store,
            system=self._system,
            leases=self._parts.leases,
            project_id=self.project_id,
        )

    async def forget(self, selection: Selection) -> tuple[HeldWorkstream, ...]:
        """Erase what was said; returns what was erased.

        Raises LeaseHeldError while a turn or a run is under way there; UsageError where a model
        asks for it, and while an action is held back that would be forgotten with it.
        """
        # Before anything is looked up: what is forgotten nobody brings back.
        refuse_models(
            self._parts.actor,
            what="what was said nobody erases from inside an agent's turn",
            hint="do it yourself, at your own terminal",
        )
        # Erased, the action would no longer be held back, and whoever goes on would do it again.
        for name in await self.forgotten_in_doubt(selection):
            raise UsageError(
                f"{shown(name)}: what is known of an action that is held back would be forgotten",
                hint=f"{LOOK}: {effects_command(name)}",
                workstream=name,
            )
        await self._recover()
        from upthread.client.database_files import remove_daily_backups  # noqa: PLC0415  # seldom

        forgotten = await self.forgetting.forget(selection)
        await self._system.in_thread(lambda: remove_daily_backups(self.settings))
        return forgotten

    async def forgotten_in_doubt(self, selection: Selection) -> tuple[str, ...]:
        """Return the workstreams of a selection that would forget an action held back."""
        found: list[str] = []
        for each in await self.forgetting.held(selection):
            erased = [one.conversation for one in each.conversations if one.held.parts]
            doubts = await self.effects_held(each.workstream)
            if any(doubt.conversation in erased for doubt in doubts):
                found.append(each.workstream)
        return tuple(found)

    async def probe(self, agent: str, *, rate_limit_prompt: str | None = None) -> Probed:
        """Try an agent out in a directory of its own: two prompts to its model, three starts.

        Its sessions stay with it. Raises UsageError for an agent nobody knows, UpstreamError for
        one that does not start.
        """
        opening = self._parts.open_request(agent)
        return await probe(self._parts.adapter(agent), opening, rate_limit_prompt=rate_limit_prompt)

    async def reset(self, address: str) -> Conversation:
        """Close a conversation and mint a new one under the same key; old rows stay.

        The only thing that ends a conversation. Raises LeaseHeldError while a turn is running.
        """
        old = await self._system.in_thread(lambda: self._parts.resolved(address).conversation)
        async with self._parts.leases.held(conversation_request(old.key, "reset")) as fence:
            return await self._system.in_thread(
                lambda: self._parts.conversations.mint(
                    old.key, fences=(fence,), generation=old.generation + 1
                )
            )

    async def free(self, address: str) -> None:
        """Free a conversation from an agent on another host that is gone. It continues here.

        Raises UsageError where no such agent holds it.
        """
        user = user_name(self._parts.environment)
        await self._system.in_thread(
            lambda: free(
                self.store, self._system, self._parts.resolved(address).conversation, by_user=user
            )
        )

    async def agree(self, items: Sequence[Item] | None = None) -> None:
        """Write down that a person agreed to what is pending, or to some of it.

        It counts from the next time the project is opened. Only for a person, and programs of
        theirs: UsageError where a model acts.
        """
        # As they were read when the project was opened, which is what the person was shown.
        chosen = [each.item for each in self.settings.pending] if items is None else items
        # Marks of an agent count more than what a caller says of itself.
        by = model_of(self._parts.environment) or self._parts.actor
        await self._system.in_thread(
            lambda: decide(self.settings, chosen, is_given=True, by=by, now_ms=self.now_ms())
        )

    # --- below: how ----------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Record what agents did that have died in a call of theirs, from their own stores."""
        self.unread = await self._system.in_thread(self._calls.read_back)

    @cached_property
    def _calls(self) -> AgentCalls:
        return AgentCalls(self._parts)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.store, self._system, self._parts.conversations)

    @cached_property
    def _overview(self) -> Overview:
        parts, home = self._parts, Path(self.settings.home)
        return Overview(
            self.store,
            self._system.is_dead,
            tree_now=parts.tree_digest,
            doubts_now=lambda workstream: parts.effects_of(workstream).in_doubt(),
            log_of=lambda agent, at_ms: str(log_path(home, agent, at_ms)),
        )

    def _held(self, workstream: str) -> tuple[RecordedEffect, ...]:
        """Return what is held back in a workstream. Raises NotFoundError. Blocking."""
        known = self.store.workstream(self.project_id, workstream)
        if not (known or self.store.conversations(self.project_id, workstream)):
            raise self._parts.unknown(workstream)
        return self._parts.effects_of(workstream).held()

    async def _request(self, address: str, text: str, options: TellOptions | None) -> TellRequest:
        chosen = options or TellOptions()
        parsed = await self.parse(address)
        # Before an agent is chosen: a role nobody knows is the clearer fault of the two.
        self.settings.role(parsed.role)

        def prepare() -> TellRequest:
            agent = self._parts.agent_for(parsed, named=chosen.agent)
            return self._parts.tell_request(parsed, Task(text=text), chosen, agent=agent)

        return await self._system.in_thread(prepare)

    async def _take_turn(
        self,
        take: Callable[[TellRequest], Awaitable[TurnResult]],
        address: str,
        text: str,
        options: TellOptions | None,
    ) -> TurnResult:
        """Take a turn. Wait for each limit to pass that has an end, where that was asked for."""
        request = await self._request(address, text, options)
        # In the project's own tree nobody has to be told where.
        if request.open.working_directory != self.settings.working_directory:
            workstream = request.address.workstream
            if (own := await self.worktrees.find(workstream)) is not None:
                request.listener.notice(notice_of(workstream, own))
        result = await take(request)
        while options and options.is_waiting and result.parked:
            # No end is known: to wait would be for ever, and a person is told at once instead.
            if result.parked.reset_at_ms is None:
                break
            request = await self._request(result.conversation.address, "", options)
            request.listener.limited(result)
            await self._system.wait_until(result.parked.reset_at_ms)
            result = await self._turns.go_on(request, result.turn_id)
        return result


def _again(view: RoleView) -> str:
    """Return the prompt that continues a turn which was stopped and has ended; empty for none."""
    last, stopped = view.last_turn, view.cut_off
    if last is None or stopped is None or not stopped.prompt:
        return ""
    if not last.was_unheard:
        return continuation(stopped.prompt, stopped.actions)
    # Without what redaction took from it, it would be another prompt than the person's.
    return "" if has_placeholder(stopped.prompt) else stopped.prompt
