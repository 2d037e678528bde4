"""The turns of a conversation as the record has them: newest first, and what all of them came to.

How a turn ended, whose session it was in, who decided it, what was asked of one that was cut off,
where its agent's last words are; and what the agents of a workstream did to the world. Blocking
reads, nothing written.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice, takewhile
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.agents import AGENTS
from upthread.core.codec import text_at
from upthread.core.commands import gaps_in, settlements_in
from upthread.core.decision.freshness import Reading, reading_of
from upthread.core.decision.rollover import REFUSALS_MAX, says_not_started
from upthread.core.decision.words import Tokens
from upthread.core.events import RunEvent, SessionAttached, StepStarted, TurnEvent
from upthread.core.outward.calls import look_of
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView
from upthread.core.runs.stops import OURS, Source
from upthread.core.text import PARAGRAPH, command, one_line
from upthread.core.turns import turn as turns
from upthread.core.turns.agent_history import UNANSWERED
from upthread.core.turns.effects import Effect, effects_of, in_doubt, settled
from upthread.core.turns.spent_tokens import NO_TOTALS, Totals, added, spent_on_turn, totals_before
from upthread.core.turns.turn import Recognition, TurnView
from upthread.core.types import (
    NO_WORK,
    Conversation,
    ConversationId,
    ErasedPart,
    Link,
    Message,
    Part,
    ProjectId,
    RunId,
    Speaker,
    TextPart,
    ToolCallPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.lease import lease_name_of
from upthread.runtime.system import is_dead
from upthread.store.base import Store
from upthread.store.reads import Turn

LOOK_BACK_TURNS_MAX = 32
"""How many turns in a row may end before their prompt left, and the session still be known."""

_READ = frozenset({Recognition.COMPLETE, Recognition.INCOMPLETE, Recognition.ABSENT})
"""What is recognised where the agent's own store told what the turn did."""

LogOf: TypeAlias = Callable[[str, int], str]
"""Returns where an agent's stderr went at a moment, in epoch milliseconds."""

PROMPT_CHARACTERS_MAX = 300
"""How much of a prompt one line tells."""

COARSE_CLOCK_MS = 50
"""How far the time of a file may lie behind the clock that its turn was begun by."""


class CutOffTurn(Struct, frozen=True, kw_only=True):
    """A turn that stopped before its end, for a person and for whoever goes on.

    `actions` are what it did to the world, and how that ended, in words; `detail` is why it
    stopped, empty where nobody ended it yet. `prompt` is empty where it was not kept.
    """

    turn_id: TurnId
    prompt: str
    actions: tuple[str, ...]
    detail: str

    def lines(self, *, is_last: bool = True) -> tuple[str, str]:
        """One line for the interruption, one for the prompt; `actions` are lines as they are.

        `is_last` is whether no others have come after it.
        """
        which = "the last turn" if is_last else "an earlier turn"
        asked = one_line(self.prompt)[:PROMPT_CHARACTERS_MAX] or "not kept"
        why = f": {self.detail}" if self.detail else ""
        return f"{which} was cut off{why}", f"it was asked: {asked}"


def turn_count(store: Store, conversation_id: ConversationId, last: TurnView | None) -> int:
    """Return how many turns a conversation has, of which `last` is the newest. Blocking."""
    # The end of the newest turn tells the number, so that nobody reads all turns.
    before = last.ended.turns_before if last and last.ended else None
    return len(store.turns(conversation_id)) if before is None else before + 1


def views_newest_first(
    store: Store, conversation_id: ConversationId
) -> Iterator[tuple[TurnId, TurnView]]:
    """Read turns, newest first; nearly always only the first of them is asked for. Blocking."""
    for turn_id in islice(_ids_newest_first(store, conversation_id), LOOK_BACK_TURNS_MAX):
        yield turn_id, turn_view(store, conversation_id, turn_id)


def reply_in(said: Sequence[Message]) -> str:
    """Return the reply of a turn: what its messages say after its last prompt, empty for none."""
    last_prompt = max((each.seq for each in said if each.speaker is Speaker.USER), default=0)
    after = (each for each in said if each.seq > last_prompt)
    return PARAGRAPH.join(e.text for e in after if e.speaker is Speaker.ASSISTANT and e.text)


def refusals_in_row(
    store: Store, conversation_id: ConversationId, *, turn_id: TurnId | None = None, sends: int = 0
) -> tuple[str, ...]:
    """Return the words of the newest refusals in a row, the newest first. Blocking.

    `turn_id` is the turn that is sent or continued now. The row is empty if that attempt asked for
    a new session already, or if its prompt left more than `sends` times. A row ends at an attempt
    that asked for a new session; only an attempt that continues the same turn counts that one.
    """
    row: list[str] = []
    for turn in reversed(store.turns(conversation_id, newest=REFUSALS_MAX)):
        is_own = turn.turn_id == turn_id
        for attempt in turns.attempts(turn_events(store, conversation_id, turn.turn_id)):
            if is_own and not attempt.after.is_over:
                if attempt.asked_new or attempt.sends > sends:
                    return ()
                continue
            if says_not_started(attempt.after.stopped_by[1]):
                continue  # it would open no other session either
            is_counted = not attempt.asked_new or (is_own and not row)
            if not (is_counted and attempt.is_refused) or _was_worked_at(store, turn, attempt):
                return tuple(row)
            row.append(attempt.after.stopped_by[1])
            if attempt.asked_new:
                return tuple(row)
    return tuple(row)


_ASIDE = frozenset({"UsageReported", "TitleChanged", "UserTextReplayed", "UnknownReceived"})
"""Events in quarantine that are no work."""


def _was_worked_at(store: Store, turn: Turn, attempt: turns.Attempt) -> bool:
    """Whether the agent said or did something for a prompt that it then failed at. Blocking."""
    sent = attempt.after.sent if attempt.sends else None
    since = store.messages(turn.conversation_id, after_seq=sent.prompt_seq) if sent else ()
    own = (m for m in since if m.turn_id == turn.turn_id and m.speaker is not Speaker.USER)
    strayed = store.quarantined(turn.conversation_id, turn.turn_id) if sent else ()
    if any(text_at(each.raw, "event") not in _ASIDE for each in strayed):
        return True  # in a session that was not asked
    # An agent may name a session whose prompt it refuses, and say its error as a reply.
    return any(
        part.text.strip() not in attempt.after.stopped_by[1]
        if isinstance(part, TextPart)
        else not getattr(part, "kind", "").startswith(NO_WORK)
        for message in own
        for part in message.parts
    )


_NOT_KNOWN = SessionAttached(upstream_session_id=UpstreamSessionId(""), how="", agent="")


def last_attached(store: Store, link: Link | None) -> SessionAttached:
    """Return how a link's session was last attached, empty where that is not known. Blocking."""
    attached = _last_attached(store, link).attached or _NOT_KNOWN
    if not link or attached.agent_profile:
        return attached
    return replace(attached, agent_profile=link.agent_profile, chose_profile=link.chose_profile)


def main_session_of(store: Store, link: Link | None) -> str:
    """Return the main session that a sub-agent's was started in, empty for any other. Blocking."""
    call = _last_attached(store, link).call
    return call.main_session if call else ""


def stamp_at_end(last: TurnView | None, session: UpstreamSessionId) -> str:
    """Return what a session was known by at the end of its conversation's turn, else empty."""
    # What another session ended with says nothing of this one.
    if not last or not last.ended or not last.is_in(session):
        return ""
    # What the session said last may be written after the turn has ended.
    return last.ended.session_stamp.removesuffix(UNANSWERED)


def _last_attached(store: Store, link: Link | None) -> TurnView:
    """Return the newest turn that was in a link's session, an empty one where none is known."""
    for _, view in views_newest_first(store, link.conversation_id) if link else ():
        if link and view.is_in(link.upstream_session_id):
            return view
    return TurnView()


# --- what they came to -------------------------------------------------------------------------


def totals_of(
    store: Store, conversation_id: ConversationId, *, before: TurnId | None = None
) -> Totals:
    """Return what the turns of a conversation came to; with `before`, those older than that one."""
    newer: list[tuple[TurnId, tuple[TurnEvent, ...]]] = []
    found = NO_TOTALS
    for turn_id in _ids_newest_first(store, conversation_id):
        if turn_id == before:
            newer.clear()  # what came after it was not asked for
            continue
        events = turn_events(store, conversation_id, turn_id)
        newer.append((turn_id, events))
        # What was added up at its end holds for all turns before: none of them is read.
        if known := totals_before(events):
            found = known
            break
    for turn_id, events in reversed(newer):
        found = found.and_one(turn_id, events)
    return found


def _ids_newest_first(store: Store, conversation_id: ConversationId) -> Iterator[TurnId]:
    """Read the ids of all turns, newest first; nearly always only the first few are asked for."""
    told: set[TurnId] = set()
    for newest in (2, LOOK_BACK_TURNS_MAX, None):
        found = store.turns(conversation_id, newest=newest)
        for turn in reversed(found):
            if turn.turn_id not in told:
                told.add(turn.turn_id)
                yield turn.turn_id
        if newest is not None and len(found) < newest:
            return


def spent_on_run(store: Store, project_id: ProjectId, run_id: RunId) -> Tokens:
    """Return what the turns of a run took."""
    steps = (each for each in run_events(store, run_id) if isinstance(each, StepStarted))
    turn_ids = dict.fromkeys(TurnId(step.turn_id) for step in steps)
    return added(spent_on_turn(events_by_turn(store, project_id, each)) for each in turn_ids)


# --- those that were cut off -------------------------------------------------------------------


def cut_off_turn(store: Store, messages: Sequence[Message], turn_id: TurnId) -> CutOffTurn | None:
    """Return what is known of a turn of these messages, None if it came to its end."""
    own = of_turn(messages, turn_id)
    view = turn_view(store, own[0].conversation_id, turn_id)
    if not view.was_cut_off:
        return None
    asked = [message.text for message in own if message.speaker is Speaker.USER]
    return CutOffTurn(
        turn_id=turn_id,
        prompt=next(filter(None, asked), ""),
        actions=tuple(effect.in_words for effect in effects_of(own)),
        detail=view.ended.detail if view.ended else "",
    )


def of_turn(messages: Sequence[Message], turn_id: TurnId) -> list[Message]:
    """Return the messages of one turn."""
    return [message for message in messages if message.turn_id == turn_id]


# --- who ran them, and what they read ----------------------------------------------------------


def source_of(view: TurnView, *, at_ms: tuple[int, ...], log_of: LogOf) -> Source:
    """Return who started the agent of a turn, and where its last words are.

    `at_ms` are moments of the turn, the first its beginning: a log has a file a day.
    """
    if view.call:
        return Source(is_persons_own=True)
    stored = view.intended.inputs if view.intended else None
    agent = stored.get("agent") if isinstance(stored, Mapping) else None
    if not isinstance(agent, str):
        return OURS
    # The newest file first: a turn over midnight has ended in that one.
    logs = dict.fromkeys(log_of(agent, each) for each in reversed(at_ms))
    return next(
        filter(lambda found: found.last_words, (wrote(log, at_ms[0]) for log in logs)), OURS
    )


def wrote(log: str | None, since_ms: int) -> Source:
    """Return an agent that upthread started, with its log if anything came into it since."""
    try:
        found = os.lstat(log) if log else None
    except OSError:
        return OURS
    if not found or not stat.S_ISREG(found.st_mode) or not found.st_size:
        return OURS
    is_newer = found.st_mtime_ns // 1_000_000 >= since_ms - COARSE_CLOCK_MS
    return Source(last_words=log or "") if is_newer else OURS


def reading_in(store: Store, link: Link) -> Reading:
    """Return how much is known of what a link's session read, by its calls and its files."""
    session, agent = link.upstream_session_id, AGENTS.get(link.agent)
    known = store.examined(link.conversation_id, upstream_session_id=session)
    parts: dict[str, list[Part]] = {}
    for each in store.messages(link.conversation_id):
        if each.upstream_session_id == session:
            parts.setdefault(each.turn_id, []).extend(each.parts)
    keeps = agent is not None and agent.keeps_directory
    return reading_of(parts.values(), known, root=link.working_directory, keeps_directory=keeps)


# --- what is not on record ----------------------------------------------------------------------


class Unseen(Struct, frozen=True, kw_only=True):
    """What of conversations is not on record, so that nobody says that nothing was done.

    `turns` were delegated inside of `agents`, whose own stores did not tell what they did, and no
    call of theirs is on record; `calls` are on record without what they were.
    """

    turns: int
    agents: tuple[str, ...]
    calls: int

    @property
    def in_words(self) -> str:
        """Why what was done is not all known; empty where it is."""
        told: list[str] = []
        if self.turns:
            number = "one turn was" if self.turns == 1 else f"{self.turns} turns were"
            agents = ", ".join(self.agents)
            told.append(
                f"{number} delegated inside {agents}, of which no call is on record here: "
                "the agent's own session has them"
            )
        if self.calls:
            number = "one call is" if self.calls == 1 else f"{self.calls} calls are"
            told.append(f"of {number} no more on record than the outline")
        return "; ".join(told)


def unseen(store: Store, conversations: Sequence[Conversation]) -> Unseen:
    """Return what of conversations is not on record. Blocking."""
    found = Counter[str]()
    calls = 0
    for conversation in conversations:
        called = set[TurnId]()
        for message in store.messages(conversation.conversation_id):
            for part in message.parts:
                is_outline = isinstance(part, ErasedPart) and part.kind == "tool_call"
                calls += is_outline
                if is_outline or isinstance(part, ToolCallPart):
                    called.add(message.turn_id)
        for turn in store.turns(conversation.conversation_id):
            view = turn_view(store, turn.conversation_id, turn.turn_id)
            call = view.call
            # A turn of ours has each of its calls on record; so has one that was read back.
            is_stamped = view.ended is not None and bool(view.ended.session_stamp)
            began_none = view.ended is not None and not view.sent
            if not call or is_stamped or began_none or view.recognised in _READ:
                continue
            if turn.turn_id not in called:
                found[call.agent] += 1
    return Unseen(turns=found.total(), agents=tuple(sorted(found)), calls=calls)


def turn_events(
    store: Store, conversation_id: ConversationId, turn_id: TurnId
) -> tuple[TurnEvent, ...]:
    """Return the events of a conversation's turn in order; empty for an unknown turn."""
    return tuple([each.event for each in store.turn_events(conversation_id, turn_id)])


def turn_view(store: Store, conversation_id: ConversationId, turn_id: TurnId) -> TurnView:
    """Return the view of a conversation's turn."""
    return turns.fold(turn_events(store, conversation_id, turn_id))


def events_by_turn(store: Store, project_id: ProjectId, turn_id: TurnId) -> tuple[TurnEvent, ...]:
    """Return a turn's events as `turn_events` does, whatever conversation of a project has it."""
    owner = store.owner(project_id, turn_id=turn_id)
    return turn_events(store, owner.conversation_id, turn_id) if owner else ()


def run_events(store: Store, run_id: RunId) -> tuple[RunEvent, ...]:
    """Return a run's events in order; empty for an unknown run."""
    return tuple([each.event for each in store.run_events(run_id)])


def run_view(store: Store, run_id: RunId) -> RunView:
    """Return the view of a run."""
    return pipelines.fold(run_events(store, run_id))


# --- what they did to the world -----------------------------------------------------------------


ID_DIGITS = 10


class RecordedEffect(Struct, frozen=True, kw_only=True):
    """An effect and the conversation it belongs to, a child's own one included."""

    conversation: Conversation
    effect: Effect

    @property
    def effect_id(self) -> str:
        """What a person calls it by: the same wherever it is shown."""
        # A call's id alone is unique only as far as the model made it so.
        named = f"{self.conversation.conversation_id}\0{self.effect.call_id}"
        return f"eff_{hashlib.sha256(named.encode()).hexdigest()[:ID_DIGITS]}"

    @property
    def looks(self) -> tuple[str, ...]:
        """Commands that show what became of it and change nothing, for a person to type."""
        found = (look_of(action) for action in self.effect.actions)
        return tuple(dict.fromkeys(filter(None, found)))


def recorded_effects(
    store: Store,
    conversations: Sequence[Conversation],
    *,
    outward_patterns: Sequence[str],
    is_asked: Callable[[TurnId], bool] = lambda _: True,
) -> tuple[RecordedEffect, ...]:
    """Return the effects of conversations, one after the other, each in order. Blocking.

    They have what a person said of them; `is_asked` says of a turn whether its effects are wanted.
    """
    found: list[RecordedEffect] = []
    for conversation in conversations:
        messages = store.messages(conversation.conversation_id)
        asked = [message for message in messages if is_asked(message.turn_id)]
        acts = store.acts(conversation.conversation_id)
        known = (*effects_of(asked, outward_patterns=outward_patterns), *gaps_in(acts))
        effects = settled(known, settlements_in(acts))
        found += [RecordedEffect(conversation=conversation, effect=each) for each in effects]
    return tuple(found)


class WorkstreamEffects(Struct, frozen=True, kw_only=True):
    """What the turns of a workstream did that may have to be settled. Blocking.

    `apart_from` is the turn that asks, None where no turn does: it is not among them.
    """

    store: Store
    project_id: ProjectId
    workstream: str
    outward_patterns: Sequence[str]
    apart_from: TurnId | None = None

    def in_doubt(self) -> tuple[RecordedEffect, ...]:
        """Return what may have reached beyond this machine, and nobody has looked.

        Whichever role it was. Only turns that did not end well, or before a call of theirs had,
        leave such a thing behind: only conversations with one are read.
        """
        found: list[RecordedEffect] = []
        totals_in = cache(partial(totals_of, self.store))
        for conversation in self._conversations():
            # A sub-agent's turns are read where they are, once.
            owner = _owner(self.store, conversation)
            if not {*totals_in(owner).failed} - {self.apart_from}:
                found += _gaps_of(self.store, conversation)
                continue
            done = self._done(conversation, lambda turn: turn != self.apart_from)
            doubted = in_doubt(each.effect for each in done)
            found += [
                each
                for each in done
                if each.effect in doubted
                # In a turn that its agent ended, a call that is not understood puts nothing in
                # doubt.
                and (each.effect.actions or self._was_cut_off(each, owner))
            ]
        return tuple(found)

    def left_open(self) -> tuple[RecordedEffect, ...]:
        """Return what turns did of which nobody knows the end.

        Whoever was cut off did not say what it had done: the next one, of whatever role, may well
        begin it again. What somebody is at work at is not cut off, but where the turn that asks is
        that work: then the turns before it are.
        """
        open_in = cache(partial(_left_open_in, self.store))
        found: list[RecordedEffect] = []
        for conversation in self._conversations():
            owner = _owner(self.store, conversation)
            left, own = open_in(owner), self.apart_from
            asked = left.keys() - {own}
            is_own = own is not None and bool(self.store.turn_events(owner, own))
            if asked and (is_own or not _is_at_work(self.store, conversation)):
                done = self._done(conversation, asked.__contains__)
                # The gap of a restore is of no turn.
                of_turns = (each for each in done if each.effect.turn_id in left)
                found += [e for e in of_turns if _was_cut_off(e, left[e.effect.turn_id])]
        return tuple(found)

    def held(self) -> tuple[RecordedEffect, ...]:
        """Return what is in doubt, and what was done by turns that were cut off.

        Both are held back from whoever goes on, until a person says something of them.
        """
        found = self.in_doubt()
        known = {each.effect_id for each in found}
        done = (each for each in self.left_open() if each.effect.holds and not each.effect.settled)
        return (*found, *(each for each in done if each.effect_id not in known))

    def _conversations(self) -> Sequence[Conversation]:
        return self.store.conversations(self.project_id, self.workstream)

    def _done(
        self, conversation: Conversation, is_asked: Callable[[TurnId], bool]
    ) -> tuple[RecordedEffect, ...]:
        patterns = self.outward_patterns
        return recorded_effects(
            self.store, [conversation], outward_patterns=patterns, is_asked=is_asked
        )

    def _was_cut_off(self, done: RecordedEffect, owner: ConversationId) -> bool:
        view = turn_view(self.store, owner, done.effect.turn_id)
        # A turn that is under way is not cut off.
        is_over = view.ended is not None or not _is_at_work(self.store, done.conversation)
        return is_over and _was_cut_off(done, view)


def _gaps_of(store: Store, conversation: Conversation) -> Iterator[RecordedEffect]:
    """Yield the gaps of restores that nobody has settled. Blocking."""
    if store.restored_at_ms(conversation.key.project_id) is not None:
        acts = store.acts(conversation.conversation_id)
        for each in in_doubt(settled(gaps_in(acts), settlements_in(acts))):
            yield RecordedEffect(conversation=conversation, effect=each)


def the_one_named(
    listed: Sequence[RecordedEffect], workstream: str, effect_id: str | None
) -> RecordedEffect:
    """Return one of the effects that are held back; without an id the only one.

    Raises NotFoundError where nothing of that id is held back, UsageError for several.
    """
    found = [each for each in listed if effect_id in {None, each.effect_id}]
    see = command("upthread", "effects", workstream)
    if not found:
        which = "nothing" if effect_id is None else f"no effect {effect_id}"
        raise NotFoundError(f"{which} of {workstream} is held back", hint=f"see {see}")
    if len(found) > 1:
        ids = ", ".join(each.effect_id for each in found)
        raise UsageError(f"which one: {ids}?", hint=f"name it: {see} SAID EFFECT")
    return found[0]


def _left_open_in(store: Store, owner: ConversationId) -> Mapping[TurnId | None, TurnView]:
    """Return the turns that were left open or taken on since, and those nobody was told of."""
    newest = takewhile(
        lambda each: each[1].was_read_back or not each[1].ended, views_newest_first(store, owner)
    )
    found: dict[TurnId | None, TurnView] = dict(each for each in newest if each[1].was_read_back)
    for turn_id in totals_of(store, owner).failed:
        view = turn_view(store, owner, turn_id)
        if view.was_left_open or view.was_interrupted:
            found[turn_id] = view
    return found


def _was_cut_off(done: RecordedEffect, turn: TurnView) -> bool:
    """Whether its turn stopped after it without an end, or its role was never told of the turn.

    A sub-agent is not prompted again. What a person settled in a turn that has ended is over.
    """
    is_before = done.effect.was_followed or done.conversation.parent_conversation_id
    is_open = turn.was_interrupted and is_before and not done.effect.settled
    return turn.was_left_open or turn.was_read_back or bool(is_open)


def _is_at_work(store: Store, conversation: Conversation) -> bool:
    """Whether somebody who lives holds a conversation, or the one a sub-agent's belongs to.

    After a reset the lease is the next generation's: nobody works at the one before.
    """
    owner = store.conversation(_owner(store, conversation)) or conversation
    newest = store.resolve(owner.key)
    if newest and newest.conversation.generation > owner.generation:
        return False
    # A call that is kept and not continued holds its own, and not its main session's.
    names = {lease_name_of(conversation), lease_name_of(owner)}
    leases = (store.lease(name) for name in names)
    return any(each and each.holder and not is_dead(each.holder) for each in leases)


def _owner(store: Store, conversation: Conversation) -> ConversationId:
    """Return the conversation that has the turns of these messages: this one, or one above it.

    A sub-agent's messages are of the turn that called it. A call that is only recorded has a turn.
    """
    owner = conversation
    while owner.parent_conversation_id and not store.turns(owner.conversation_id, newest=1):
        above = store.conversation(owner.parent_conversation_id)
        if not above:
            return owner.parent_conversation_id
        owner = above
    return owner.conversation_id
