"""The handshake's inputs beside the claim: what has changed, and what each way costs.

Blocking: reads the store, asks git, and looks at the files the session knows. Writes nothing, so
that a decision can be shown without being carried out.

The price of each way is told from what the record holds, and the account goes on while a turn's
prompts run. What an agent reads before our words was kept with the last turn of its session; of a
session that has none, a few of the project's other conversations are asked, never all. What a
briefing takes is known once it is made, which reads hundreds of messages: a turn whose decision
does not rest on it goes on with the figure that the turn before it kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, TypedDict

import msgspec
from msgspec import Struct, structs

from upthread.agents.base import PromptResult
from upthread.config import Settings
from upthread.core.codec import encode_json
from upthread.core.context.briefing import build_briefing
from upthread.core.decision.freshness import (
    NOTHING_KNOWN,
    Freshness,
    Surroundings,
    change_lines,
    freshness,
)
from upthread.core.decision.model import AgentLimit, HandshakeInputs, price_in
from upthread.core.decision.rules import RELAYED
from upthread.core.decision.words import (
    CHARACTERS_PER_TOKEN,
    NOTHING_PRICED,
    TOKENS_MAX,
    CacheState,
    Price,
    Spending,
    Tokens,
    cache_state,
    estimated,
    fixed_part,
    held,
    with_fixed,
)
from upthread.core.events import TurnEnded, TurnParked, Usage
from upthread.core.roles.role import Role
from upthread.core.runs.stops import LIMITS
from upthread.core.turns.prompt import role_block
from upthread.core.turns.recorder import Recorder
from upthread.core.turns.spent_tokens import (
    NOTHING_COUNTED,
    Counted,
    Reported,
    added,
    passes,
    spent_on_prompt,
    stopped_in_words,
    together,
    unfinished,
    usage_of_prompt,
)
from upthread.core.turns.turn import TurnView
from upthread.core.types import CHILD_SLOT, Conversation, Link, Outcome, Part, ToolCallPart, ready
from upthread.runtime.record.briefing import briefing_inputs
from upthread.runtime.record.turn_views import turn_view, views_newest_first
from upthread.runtime.turns.examination import look_again
from upthread.runtime.working_tree.repository import git_facts
from upthread.store.base import Store


def gathered(
    store: Store, inputs: HandshakeInputs, subject: Subject, *, is_counted: bool = True
) -> HandshakeInputs:
    """Return the inputs with limits, relays, freshness and price as they are now. Blocking.

    Without `is_counted` the price may be that of a turn before, where no decision rests on it.
    """
    inputs = structs.replace(inputs, limits=subject.settings.limits)
    link = subject.link
    if link is None:
        # Of no session nothing can have changed: no file and no git is looked at.
        price = price_without_session(store, subject, turns=inputs.turns)
        return structs.replace(inputs, price=price)
    worked = _last_worked(store, link)
    _, newest = next(views_newest_first(store, link.conversation_id), (None, None))
    was = _surroundings_of(worked, subject)
    here = surroundings(
        working_directory=subject.working_directory,
        agent=inputs.agent,
        # What it was, until the agent runs and says what it is.
        agent_version=was.agent_version if was else "",
        role=subject.role,
        at_ms=subject.now_ms,
    )
    known = store.examined(link.conversation_id, upstream_session_id=link.upstream_session_id)
    now = look_again(subject.working_directory, known)
    missing = [each.path for each in now if each.state == "missing"]
    # What git was told to leave out is there, and no prompt needs to say that it is gone.
    out = frozenset[str]()
    if missing:
        from upthread.runtime.working_tree.digest import left_out  # noqa: PLC0415  # starts git

        out = left_out(subject.working_directory, missing)
    found = freshness(
        known=known,
        now=[each for each in now if each.path not in out],
        was=was,
        here=here,
        critical=subject.settings.critical,
        places_gone=_places_gone(was),
    )
    # A session that was read back was used last when its agent wrote to it.
    read_back = newest.ended.session_written_at_ms if newest and newest.ended else None
    used_at_ms = read_back or (was.at_ms if was else None)
    idle_s = None if used_at_ms is None else (subject.now_ms - used_at_ms) / 1000
    # No provider's cache has a prefix that begins with other instructions or another model.
    is_same_prefix = not found.is_configuration_changed and found.model is None
    cache = cache_state(link.agent, idle_s=idle_s, is_same_prefix=is_same_prefix)
    is_counted = is_counted or _rests_on_count(inputs, cache)
    price = price_of(store, subject, found, newest, worked, is_counted=is_counted)
    return structs.replace(
        inputs,
        relays=_relays(store.links(link.conversation_id)),
        freshness=found,
        surroundings=here,
        price=structs.replace(price, cache=cache),
        agent_limit=_agent_limit(newest, inputs.agent, subject),
    )


def _rests_on_count(inputs: HandshakeInputs, cache: CacheState) -> bool:
    """Whether a decision may rest on what a briefing takes, or it was long not counted."""
    is_compared = cache == "cold" and inputs.limits.brief_if_times_cheaper is not None
    return is_compared or inputs.is_fresh_asked or inputs.turns % COUNTED_EVERY_TURNS == 0


def surroundings(
    *, working_directory: str, agent: str, agent_version: str, role: Role, at_ms: int
) -> Surroundings:
    """Return what a session works in now. Blocking: asks git."""
    # Runs nothing, so that no repository can keep a prompt waiting (ADR 58).
    git = git_facts(Path(working_directory))
    return Surroundings(
        working_directory=working_directory,
        agent=agent,
        agent_version=agent_version,
        configuration=role.configuration,
        repository=git.repository,
        branch=git.branch,
        commit=git.commit,
        git_fault=git.fault,
        at_ms=at_ms,
    )


def _last_worked(store: Store, link: Link) -> TurnView | None:
    """Return the newest turn that came to its end in this session, None before any."""
    for _, view in views_newest_first(store, link.conversation_id):
        is_same = view.attached and view.attached.upstream_session_id == link.upstream_session_id
        # One that was cancelled or cut off kept none: the end before it is what is compared with.
        if is_same and view.ended is not None and view.ended.surroundings is not None:
            return view
    return None


def _agent_limit(view: TurnView | None, agent: str, subject: Subject) -> AgentLimit | None:
    """Return the limit that parked the last turn, None where it has passed, or is another's."""
    if view is None or view.parked is None or view.parked.reason not in LIMITS:
        return None
    # Another agent is asked all the same: its provider's limit is another one.
    is_same_agent = view.attached is None or view.attached.agent == agent
    limit = AgentLimit(reason=Outcome(view.parked.reason), until_ms=view.parked.reset_at_ms)
    return limit if is_same_agent and limit.lasts(subject.now_ms) else None


def _surroundings_of(worked: TurnView | None, subject: Subject) -> Surroundings | None:
    if worked is None or worked.ended is None:
        return None
    was = msgspec.convert(worked.ended.surroundings, ready(Surroundings))
    # A role's file as the agent reads it and as upthread sends it says the same to the session.
    is_alike = was.configuration in subject.settings.alike.get(subject.role.name, ())
    return structs.replace(was, configuration=subject.role.configuration) if is_alike else was


def _places_gone(was: Surroundings | None) -> frozenset[str]:
    places = (was.working_directory, was.repository) if was else ()
    return frozenset(place for place in places if place and not Path(place).exists())


def _relays(links: Iterable[Link]) -> int:
    """Count the links at the chain's end that relayed the one before, which was nearly full."""
    newest_first = reversed(tuple(links))
    return sum(1 for _ in takewhile(lambda link: link.opened_because == RELAYED, newest_first))


ESTIMATED_MESSAGES_MAX: Final = 256
"""How many of a session's messages an estimate of its tokens counts, the newest."""

COUNTED_EVERY_TURNS: Final = 8
"""How many turns at most go on with a figure that was counted before them."""

WORKSTREAMS_ASKED_MAX: Final = 4
CONVERSATIONS_ASKED_MAX: Final = 16
"""How many others are asked what their agent reads before our words, the newest."""


class Subject(Struct, frozen=True, kw_only=True):
    """Whose next turn is decided and priced, and where the session would continue.

    `link` is None without an open one. `agent` is the agent of the next turn.
    """

    conversation: Conversation
    link: Link | None
    role: Role
    agent: str
    working_directory: str
    settings: Settings
    now_ms: int


def price_of(
    store: Store,
    subject: Subject,
    found: Freshness,
    newest: TurnView | None,
    worked: TurnView | None,
    *,
    is_counted: bool,
) -> Price:
    """Return what each way would cost, where a session is open; `found` is what has changed.

    `worked` is the newest turn that came to its end in the session, and `newest` is the
    conversation's newest turn. With `is_counted` nothing is taken over from the turn before.
    """
    link = subject.link
    assert link is not None
    last = worked.ended if worked else None
    # A turn that parked, or that was read back, has filled the session since.
    reported = _held_by(newest, link) or (last.tokens_used if last else None)
    is_same_agent = link.agent == subject.agent
    kept = None if is_counted or not is_same_agent else _kept(worked)
    briefing = kept.briefing if kept else _words_of_briefing(store, subject, found)
    fixed = _fixed(store, subject, link, found=found, last=last, kept=kept)
    return Price(
        resume=held(
            reported=reported,
            characters=_characters_held(store, link, worked, kept) if reported is None else 0,
            fixed=fixed if is_same_agent else None,
        ),
        briefing=with_fixed(briefing, fixed),
        fixed=fixed,
        window_tokens=(last and last.tokens_window) or subject.settings.window_tokens,
    )


class _Kept(Struct, frozen=True):
    """A price as a turn had it: what the session and a briefing took of our words alone."""

    resume: Tokens
    briefing: Tokens
    fixed: Tokens | None


def _kept(worked: TurnView | None) -> _Kept | None:
    """Return the price that a turn was decided with, None where it had none."""
    price = price_in(worked.intended.inputs) if worked and worked.intended else NOTHING_PRICED
    if price.resume is None or price.briefing is None:
        return None
    own = price.fixed.count if price.fixed else 0
    return _Kept(
        resume=Tokens(count=max(price.resume.count - own, 0), is_estimate=True),
        briefing=Tokens(count=max(price.briefing.count - own, 0), is_estimate=True),
        fixed=price.fixed,
    )


def _held_by(view: TurnView | None, link: Link) -> int | None:
    """Return what a session held when its newest turn stopped, None where that told nothing."""
    if view is None or view.attached is None:
        return None
    if view.attached.upstream_session_id != link.upstream_session_id:
        return None
    if view.parked is not None:
        return view.parked.tokens_held
    return view.ended.tokens_used if view.ended else None


def price_without_session(store: Store, subject: Subject, *, turns: int) -> Price:
    """Return what a new session costs where none is open; nothing while nobody knows."""
    fixed = _learned(store, subject)
    if fixed is None:
        return NOTHING_PRICED
    words = (
        _words_of_briefing(store, subject, NOTHING_KNOWN)
        if turns
        else estimated(len(role_block(subject.role)))
    )
    return Price(briefing=with_fixed(words, fixed), fixed=fixed)


# --- the agent's own ---------------------------------------------------------------------------


def _fixed(
    store: Store,
    subject: Subject,
    link: Link,
    *,
    found: Freshness,
    last: TurnEnded | None,
    kept: _Kept | None,
) -> Tokens | None:
    """Return what the agent reads before our words; as seen in this very session if it was."""
    if link.agent != subject.agent:
        return _learned(store, subject)
    has_moved = bool(found.is_configuration_changed or found.model or found.agent_version)
    if (known := _kept_in(last)) is not None:
        # Other instructions, another model or version: near what it reads now, and marked.
        return structs.replace(known, is_estimate=known.is_estimate or has_moved)
    if kept is not None:
        return kept.fixed
    if (known := _learned(store, subject)) is not None:
        return known
    reported = last.tokens_used if last else None
    if reported is None:
        return None
    return fixed_part(first_read=None, held=reported, characters=_characters_of(store, link))


def _kept_in(ended: TurnEnded | None) -> Tokens | None:
    if ended is None or ended.tokens_fixed is None:
        return None
    return Tokens(count=ended.tokens_fixed, is_estimate=ended.is_fixed_estimated)


def _learned(store: Store, subject: Subject) -> Tokens | None:
    """Return what other sessions of this agent in the project read first, None if none tells.

    Those of the same role before others: with another role's instructions it is near, and marked.
    """
    nearest: Tokens | None = None
    for other in islice(_others(store, subject.conversation), CONVERSATIONS_ASKED_MAX):
        known = _seen_by(store, other, subject.agent)
        if known is None:
            continue
        if other.key.role == subject.role.name and not known.is_estimate:
            return known
        nearest = nearest or structs.replace(known, is_estimate=True)
    return nearest


def _others(store: Store, own: Conversation) -> Iterator[Conversation]:
    """Yield conversations of the project, those of the same workstream first, the newest first."""
    project_id, name = own.key.project_id, own.key.workstream
    newest = [each.workstream for each in store.workstreams(project_id)[-WORKSTREAMS_ASKED_MAX:]]
    for workstream in dict.fromkeys((name, *reversed(newest))):
        for other in reversed(store.conversations(project_id, workstream)):
            if other.key.slot != CHILD_SLOT:
                yield other


def _seen_by(store: Store, other: Conversation, agent: str) -> Tokens | None:
    """Return what a conversation's last turn knows, None for another agent's.

    Nor is a sub-agent's of any use, which hooks saw and no process of ours ran: it reads less.
    """
    for turn in store.turns(other.conversation_id, newest=1):
        view = turn_view(store, other.conversation_id, turn.turn_id)
        attached = view.attached
        if attached and attached.agent == agent and attached.agent_pid is not None:
            return _kept_in(view.ended)
    return None


# --- our words ---------------------------------------------------------------------------------


def _characters_held(store: Store, link: Link, worked: TurnView | None, kept: _Kept | None) -> int:
    """Return the characters of our words in a session; of one whose size is kept, with it."""
    if kept is None or worked is None or worked.intended is None:
        return _characters_of(store, link)
    since = _characters_of(store, link, after_seq=worked.intended.prompt_seq - 1)
    return kept.resume.count * CHARACTERS_PER_TOKEN + since


def _characters_of(store: Store, link: Link, *, after_seq: int = 0) -> int:
    messages = store.messages(
        link.conversation_id, after_seq=after_seq, newest=ESTIMATED_MESSAGES_MAX
    )
    said = (m.parts for m in messages if m.upstream_session_id == link.upstream_session_id)
    return sum(_characters(part) for parts in said for part in parts)


def _characters(part: Part) -> int:
    if isinstance(part, ToolCallPart):
        return len(part.title) + len(encode_json(part.arguments))
    return len(getattr(part, "text", ""))


def _words_of_briefing(store: Store, subject: Subject, found: Freshness) -> Tokens:
    inputs = briefing_inputs(
        store,
        subject.conversation,
        changes=change_lines(found),
        is_independent=subject.role.continuity == "fresh",
    )
    briefing = build_briefing(inputs)
    return estimated(len(briefing) + len(role_block(subject.role)))


class Spent(TypedDict):
    """What a turn's last event tells of its tokens."""

    tokens_spent: int | None
    is_spent_estimated: bool
    usage: Usage | None


class Fixed(TypedDict):
    """What a turn's end tells of what its agent reads before our words."""

    tokens_fixed: int | None
    is_fixed_estimated: bool


class Account:
    """Of one turn in this process.

    `spent` is what its prompts took that are over, None before the first; `usage` what of it its
    agent counted. `allowed` is what may be spent in all, and was before this process took the turn
    up; None where nothing limits it.
    `stopped` says why the running prompt was cancelled that would have passed that.
    """

    def __init__(self) -> None:
        self.spent: Tokens | None = None
        self.usage: Usage | None = None
        self.allowed: Spending | None = None
        self.stopped: TurnParked | None = None
        self._recorder: Recorder | None = None
        self._prompt_characters = 0
        self._is_noted = False
        self._in_flight: Tokens | None = None

    def begin(self, recorder: Recorder) -> None:
        """Count what the next prompt takes, as its recorder hears it."""
        self._recorder, self.stopped, self._is_noted = recorder, None, False
        self._in_flight = None

    def note(self, result: PromptResult, *, prompt_characters: int, reply_characters: int) -> None:
        """Add what a prompt took, as its agent told it: once for each prompt."""
        if self._is_noted:
            return
        reported = Reported(
            read=result.tokens_in, written=result.tokens_out, held=result.tokens_used
        )
        characters = prompt_characters + reply_characters
        self._add(spent_on_prompt(reported, characters=characters, counted=self._counted))
        told = usage_of_prompt(
            self._counted.usage, read=result.tokens_in, written=result.tokens_out
        )
        self._use(told)
        self._add_in_flight()
        self._prompt_characters, self._is_noted = prompt_characters, True

    def note_cut_off(self) -> None:
        """Add what a prompt took that was left without an answer, as far as it was told."""
        # Not once more what an answer has told already.
        if self._counted.requests and not self._is_noted:
            self._add(Tokens(count=self._counted.tokens, is_estimate=True))
            # The request that was cut off is in no figure: what it took nobody has told.
            self._use(unfinished(self._counted.usage))
            self._add_in_flight()

    def _add_in_flight(self) -> None:
        """Add the request that had left when the prompt was stopped: no agent tells of it."""
        if self._in_flight is not None:
            self._add(self._in_flight)
            self._in_flight = None

    def _add(self, took: Tokens) -> None:
        self.spent = added((self.spent, took)) if self.spent else took

    def _use(self, usage: Usage | None) -> None:
        self.usage = together(self.usage, usage)

    @property
    def _counted(self) -> Counted:
        return self._recorder.counted if self._recorder else NOTHING_COUNTED

    def is_passing(self) -> bool:
        """Whether the running prompt would pass what may be spent; `stopped` then says so. Once."""
        recorder, allowed = self._recorder, self.allowed
        if recorder is None or allowed is None or self.stopped is not None:
            return False
        taken = recorder.counted.tokens + (self.spent.count if self.spent else 0)
        next_read = recorder.next_read
        if next_read is None or not passes(allowed, taken=taken, next_read=next_read):
            return False
        detail = stopped_in_words(allowed, taken=taken, next_read=next_read)
        self.stopped = TurnParked(reason=TOKENS_MAX, detail=detail)
        self._in_flight = Tokens(count=next_read, is_estimate=True)
        return True

    def told(self) -> Spent:
        """Return what the turn's last event tells of its tokens."""
        if self.spent is None:
            return {"tokens_spent": None, "is_spent_estimated": False, "usage": None}
        return {
            "tokens_spent": self.spent.count,
            "is_spent_estimated": self.spent.is_estimate,
            "usage": self.usage,
        }

    def fixed(self, *, known: Tokens | None, is_new: bool, reply_characters: int) -> Fixed:
        """Return what the agent reads before our words.

        It is seen in a session that `is_new`, and as it was `known` in one that is not.
        """
        recorder, first_read = self._recorder, self._counted.first_read
        if is_new and recorder is not None:
            # What a session holds has its reply in it; what its first request read has not.
            reply = 0 if first_read is not None else reply_characters
            known = fixed_part(
                first_read=first_read,
                # A summary is shorter than what was read at first, and tells nothing of it.
                held=None if recorder.own.was_compacted else recorder.own.tokens_used,
                characters=self._prompt_characters + reply,
            )
        return {
            "tokens_fixed": known.count if known else None,
            "is_fixed_estimated": known.is_estimate if known else False,
        }
