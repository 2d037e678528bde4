"""The beginning of a turn: what it finds, what is decided, and the intent that is committed.

The same for a prompt that upthread sends and for a call that an agent's own tool makes. Blocking:
reads the store, asks git, and looks at the files the session knows. What is gathered for a decision
writes nothing, so that a decision can be shown without being carried out.

The price of each way is told from what the record holds. What an agent reads before our words was
kept with the last turn of its session; of a session that has none, a few of the project's other
conversations are asked, never all. What a briefing takes is known once it is made, which reads
hundreds of messages: a turn whose decision does not rest on it goes on with the figure that the
turn before it kept.

What only the agent's session has is recorded first: as turns, in order, with what they did.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import replace

from upthread.config import Settings
from upthread.core.codec import encode_json
from upthread.core.commands import OpenTurn, RecordParts, Write
from upthread.core.context.briefing import build_briefing
from upthread.core.context.prior_context import has_prior_context
from upthread.core.decision.freshness import (
    NOTHING_KNOWN,
    Freshness,
    Surroundings,
    change_lines,
    freshness,
)
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import AgentLimit, HandshakeInputs, price_in
from upthread.core.decision.rules import RELAYED
from upthread.core.decision.words import (
    CHARACTERS_PER_TOKEN,
    FIRST,
    NOT_FOLLOWED,
    NOTHING_PRICED,
    READ_BACK,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    Price,
    Spending,
    Tokens,
    cache_state,
    estimated,
    fixed_part,
    with_fixed,
)
from upthread.core.events import PromptSent, SessionAttached, TurnEnded, TurnEvent, TurnIntended
from upthread.core.quotas import within_quota
from upthread.core.roles.role import Role
from upthread.core.runs.stops import LIMITS
from upthread.core.turns.agent_history import Lacked, StoredTurn, is_finished
from upthread.core.turns.recorder import Recorder
from upthread.core.turns.spent_tokens import cost_of
from upthread.core.turns.turn import (
    NEW_SESSION_DECISIONS,
    TurnState,
    TurnView,
    role_block,
    wants_fresh,
    without_fresh,
)
from upthread.core.types import (
    CHILD_SLOT,
    ContextPart,
    Conversation,
    Decision,
    Link,
    Message,
    Outcome,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    TurnId,
    UpstreamSessionId,
    ready,
)
from upthread.errors import StoreError
from upthread.runtime.record.briefing import briefing_inputs, keep_given
from upthread.runtime.record.turn_views import last_attached, totals_of, views_newest_first
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import Claim
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.recording import Examiner, look_again, surroundings
from upthread.runtime.turns.recovery import (
    NOTHING_RECOGNISED,
    look,
    other_profile,
    prior_of,
    recognised_in_store,
    record_tail,
    rest_of,
    sent_event,
)
from upthread.store.base import Store

RESUMING = frozenset({RESUME, RESUME_WITH_UPDATE})

# --- the session of a call: banked once known, or found in its agent's own store ---------------


ESTIMATED_MESSAGES_MAX = 256
"""How many of a session's messages an estimate of its tokens counts, the newest."""

COUNTED_EVERY_TURNS = 8
"""How many turns at most go on with a figure that was counted before them."""

WORKSTREAMS_ASKED_MAX = 4

CONVERSATIONS_ASKED_MAX = 16
"""How many others are asked what their agent reads before our words, the newest."""

TURNS_ASKED_MAX = 8
"""How many turns of each conversation are asked, the newest."""


def attach_external(
    live: LiveTurn, session: UpstreamSessionId, *, is_background: bool = False
) -> None:
    """Hold the events by which a turn has its session, and what opens a new link. Blocking.

    The next commit has them: the prompt left when the agent began the session.
    """
    view, agent = live.view, live.agent
    live.agent_version = live.agent_version or _version(live)
    is_new = not live.link or live.link.upstream_session_id != session
    was_new = view.attached is not None and view.attached.how == "new"
    if is_new:
        _link(live, session)
    live.hold(
        SessionAttached(
            upstream_session_id=session,
            how="new" if is_new or was_new else "resumed",
            agent=agent,
            agent_host=live.host,
            agent_profile=live.own_sessions.profile(agent, agent, {}),
            is_background=is_background,
        )
    )
    if live.view.state is TurnState.ATTACHED:
        prior = prior_of(live)
        seq = live.intended.prompt_seq
        told = (part.text for part in live.prompt().parts if isinstance(part, ContextPart))
        is_replay = live.intended.decision == RESUME_WITH_REPLAY
        is_injected = is_replay or any(map(has_prior_context, told))
        live.hold(sent_event(seq, prior, is_injected=is_injected))


def _version(live: LiveTurn) -> str:
    call = live.view.call
    if not call:
        return ""
    try:
        main = UpstreamSessionId(call.main_session)
        return live.own_sessions.version(call.agent, main)
    except StoreError:
        return ""


def _link(live: LiveTurn, session: UpstreamSessionId) -> None:
    intended = live.intended
    is_begun = live.view.state is not TurnState.INTENDED
    if intended.decision in RESUMING and live.link and not is_begun:
        # The agent began a session of its own in place of the one that it was told of.
        live.hold(replace(intended, decision=FIRST, reasons=(NOT_FOLLOWED,)))
    because = live.intended.reasons[0]
    live.new_link(session, because=because, ended_because=because)


def find_child(live: LiveTurn) -> None:
    """Attach the sub-agent that nobody saw begin, where its agent's own store has one. Blocking.

    Does nothing for a turn that upthread drives.
    """
    try:
        is_found = found_child(live)
    except StoreError:
        return  # the turn stays one of which nobody knows whether its prompt arrived
    if is_found:
        live.commit_here()


def found_child(live: LiveTurn) -> bool:
    """As `find_child`, held for the next commit; returns whether there is one.

    Raises StoreError for a store that cannot be read.
    """
    call = live.view.call
    if not call or live.view.sent:
        return False
    found = live.own_sessions.of_call(call)
    session = found.upstream_session_id if found else session_of(live)
    if session:
        attach_external(live, session)
    return bool(session)


def session_of(live: LiveTurn) -> UpstreamSessionId | None:
    """Return the session that a call works in, or is to resume; None where nobody knows."""
    if live.view.attached:
        return live.view.attached.upstream_session_id
    is_resumed = live.intended.decision in RESUMING
    return live.current_session if is_resumed else None


# --- what it finds, and the intent ----------------------------------------------------------------


def end_open_turn(live: LiveTurn) -> bool:
    """Commit the end of a turn that another takes the place of. Blocking.

    Returns whether its prompt was answered to the end all the same, as its agent's store says.
    """
    # A call whose agent died within moments is known to the agent's own store alone.
    find_child(live)
    outcome = live.outcome_of_park if live.view.parked else Outcome.PROCESS_DIED
    ended = TurnEnded(outcome=outcome, detail="interrupted; a new prompt took its place")
    ended = rest_of(live, ended)
    live.commit_here(ended)
    return ended.outcome is Outcome.OK


def catch_up(live: LiveTurn) -> None:
    """Record what an agent did that outlived its cancelled turn. Blocking."""
    ended, link = live.view.ended, live.link
    if not ended or not link or not live.view.is_in(link.upstream_session_id):
        return  # another session has taken its place
    try:
        stamp = live.own_sessions.stamp(link.agent, link.upstream_session_id)
    except StoreError:
        return  # the person is told why once the record is compared with the session
    # While it is the same, nothing was added since the turn ended.
    if stamp and stamp == ended.session_stamp:
        return
    record_tail(live, recognised_in_store(live) or NOTHING_RECOGNISED)
    live.commit_here()


def looked_at(live: LiveTurn) -> tuple[Lacked, Decision | None]:
    """Return what the record lacks and, where it lacks nothing, what was decided."""
    found = lacked(live)
    return found, None if found.turns else decided_and_meant(live, found)


def lacked(live: LiveTurn) -> Lacked:
    """Return what the record lacks of the session."""
    request = live.request
    # The claim has the last turn as it was found; here it may have been ended since.
    newest = live.view if live.view.events else live.claim.last
    return look(live.store, request.own_sessions, live.link, newest, redactor=request.redactor)


def record_read_back(live: LiveTurn, found: Lacked) -> None:
    """Commit what only the agent's session has. Blocking."""
    live.add(*read_back(live.store, live.system, live.claim, found))
    live.commit_here()


def decided_and_meant(live: LiveTurn, found: Lacked) -> Decision:
    """Decide, and commit the intent of what is not refused. Blocking."""
    decision = decided(live, found)
    if decision.decision != REFUSE:
        _intend(live, decision)
    return decision


def decided_on_open(live: LiveTurn) -> Decision:
    """As `decided`, before the open turn is ended that the prompt takes the place of."""
    return decided(live, Lacked(other_profile=_elsewhere(live)))


def continued(live: LiveTurn) -> Decision:
    """Decide whether a turn may continue, by its session's profile and by tokens. Blocking."""
    # What a session holds is what the next request of it reads at the least.
    live.learn(price=gathered(live.store, live.inputs, subject_of(live)).price)
    if (tokens_max := live.request.options.tokens_max) is not None:
        how = RESUME if live.view.attached else live.intended.decision
        live.account.allowed = allowed(live, tokens_max, how)
    # The turn stays in its session, whatever the role wants of the next prompt.
    return decide(
        replace(
            live.inputs,
            other_profile=_elsewhere(live),
            spending=live.account.allowed,
            continuity="resume",
            condition_before=None,
        )
    )


def _elsewhere(live: LiveTurn) -> str:
    """Return the other profile that has the session, empty for none."""
    return other_profile(live.store, live.own_sessions, live.link)


def decided(live: LiveTurn, found: Lacked) -> Decision:
    """Return how the prompt is to be sent. What is refused leaves all as it was. Blocking."""
    request = live.request
    inputs = replace(
        live.claim.inputs(request),
        is_fresh_asked=wants_fresh(request.task.text) or request.options.is_fresh,
        **found.as_inputs,
    )
    subject = subject_of(live)
    live.inputs = gathered(live.store, inputs, subject, is_counted=False)
    decision = decide(live.inputs)
    # What a new session costs is told, and limited, by what its briefing really takes.
    if decision.decision in NEW_SESSION_DECISIONS:
        live.inputs = gathered(live.store, inputs, subject)
        decision = decide(live.inputs)
    tokens_max = request.options.tokens_max
    if tokens_max is not None and decision.decision != REFUSE:
        # Only now, and decided again: what a turn takes at least depends on how it attaches.
        live.account.allowed = allowed(live, tokens_max, decision.decision)
        live.learn(spending=live.account.allowed)
        decision = decide(live.inputs)
    return decision


def subject_of(live: LiveTurn) -> Subject:
    """Return whose next turn a turn is, and where it continues."""
    return Subject(
        conversation=live.conversation,
        link=live.link,
        role=live.request.role,
        working_directory=live.working_directory,
        agent=live.agent,
        settings=live.request.settings,
        now_ms=live.now_ms(),
    )


def _intend(live: LiveTurn, decision: Decision) -> None:
    """Commit what is meant, with the person's words."""
    intended, prompt = intent(live, decision, TurnId(live.system.new_id("trn")))
    live.commit_here(intended)
    # The store may have a redacted one by now; this process sends what it was told.
    live.keep_told(prompt)


def intent(live: LiveTurn, decision: Decision, turn_id: TurnId) -> tuple[TurnIntended, Message]:
    """Begin a turn; returns its first event and its prompt, for the next commit.

    What mints a new conversation is in that commit, too.
    """
    request = live.request
    live.take_up(turn_id, TurnView())
    # `fresh:` is said to upthread, and is no part of what is asked.
    prompt = live.next_prompt(TextPart(text=without_fresh(request.task.text)))
    intended = TurnIntended(
        decision=decision.decision,
        reasons=decision.reasons,
        prompt_seq=prompt.seq,
        inputs=decision.inputs,
        condition=request.condition,
        key=request.options.key,
        call=request.call,
    )
    opened = OpenTurn(
        turn_id=turn_id,
        conversation_id=live.conversation_id,
        opened_at_ms=live.now_ms(),
        run_id=request.run_id,
    )
    said = live.recorded(prompt)
    role, text = request.role, request.options.briefing
    given = keep_given(
        live.store, live.conversation, text, at_ms=live.now_ms(), is_independent=role.is_independent
    )
    live.add(*live.claim.opens, opened, said, *given, *request.at_intent(turn_id))
    return intended, prompt


def allowed(live: LiveTurn, tokens_max: int, decision: str) -> Spending:
    """Return what may be spent and was, and what a turn decided so would take at least."""
    count = live.request.spent
    return Spending(
        tokens_max=tokens_max,
        spent=count() if count else totals_of(live.store, live.conversation_id).spent,
        next_turn=cost_of(decision, live.inputs.price),
    )


# --- what the decision rests on -------------------------------------------------------------------


def gathered(
    store: Store, inputs: HandshakeInputs, subject: Subject, *, is_counted: bool = True
) -> HandshakeInputs:
    """Return the inputs with limits, relays, freshness and price as they are now. Blocking.

    Without `is_counted` the price may be that of a turn before, where no decision rests on it.
    """
    inputs = replace(inputs, limits=subject.settings.limits)
    link = subject.link
    if not link:
        # Of no session nothing can have changed: no file and no git is looked at.
        price = price_without_session(store, subject, turns=inputs.turns)
        return replace(inputs, price=price)
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
    now = tuple(look_again(subject.working_directory, known))
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
    read_back_at_ms = newest.ended.session_written_at_ms if newest and newest.ended else None
    used_at_ms = read_back_at_ms or (was.at_ms if was else None)
    idle_s = None if used_at_ms is None else (subject.now_ms - used_at_ms) / 1000
    # No provider's cache has a prefix that begins with other instructions or another model.
    is_same_prefix = not found.is_configuration_changed and not found.model
    cache = cache_state(link.agent, idle_s=idle_s, is_same_prefix=is_same_prefix)
    is_compared = cache == "cold" and inputs.limits.brief_if_times_cheaper is not None
    is_long_ago = inputs.turns % COUNTED_EVERY_TURNS == 0
    is_counted = is_counted or is_compared or inputs.is_fresh_asked or is_long_ago
    price = price_of(store, subject, found, worked, is_counted=is_counted)
    links = reversed(store.links(link.conversation_id))
    return replace(
        inputs,
        # The links at the chain's end that relayed the one before, which was nearly full.
        relays=sum(1 for _ in takewhile(lambda each: each.opened_because == RELAYED, links)),
        freshness=found,
        surroundings=here,
        price=replace(price, cache=cache),
        agent_limit=_agent_limit(newest, inputs.agent, subject),
    )


def _last_worked(store: Store, link: Link) -> TurnView | None:
    """Return the newest turn that came to its end in this session, None before any."""
    for _, view in views_newest_first(store, link.conversation_id):
        # One that was cancelled or cut off kept none: the end before it is what is compared with.
        is_same = view.is_in(link.upstream_session_id)
        if is_same and view.ended and view.ended.surroundings is not None:
            return view
    return None


def _agent_limit(view: TurnView | None, agent: str, subject: Subject) -> AgentLimit | None:
    """Return the limit that parked the last turn, None where it has passed, or is another's."""
    if not view or not view.parked or view.parked.reason not in LIMITS:
        return None
    # Another agent is asked all the same: its provider's limit is another one.
    is_same_agent = not view.attached or view.attached.agent == agent
    limit = AgentLimit(reason=Outcome(view.parked.reason), until_ms=view.parked.reset_at_ms)
    return limit if is_same_agent and limit.lasts(subject.now_ms) else None


def _surroundings_of(worked: TurnView | None, subject: Subject) -> Surroundings | None:
    if not worked or not worked.ended:
        return None
    was = convert(worked.ended.surroundings, ready(Surroundings))
    # A role's file as the agent reads it and as upthread sends it says the same to the session.
    is_alike = was.configuration in subject.settings.alike.get(subject.role.name, ())
    return replace(was, configuration=subject.role.configuration) if is_alike else was


def _places_gone(was: Surroundings | None) -> frozenset[str]:
    places = (was.working_directory, was.repository) if was else ()
    return frozenset(place for place in places if place and not Path(place).exists())


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
    store: Store, subject: Subject, found: Freshness, worked: TurnView | None, *, is_counted: bool
) -> Price:
    """Return what each way would cost, where a session is open; `found` is what has changed.

    `worked` is the newest turn that came to its end in the session. With `is_counted` nothing is
    taken over from the turn before.
    """
    link = subject.link
    assert link
    told, least, since, window = _reported(store, link)
    kept = None if is_counted else _kept(worked)
    briefing = (kept and kept.briefing) or _words_of_briefing(store, subject, found)
    fixed = _fixed(store, subject, found)
    if not fixed and (told or least) and link.agent == subject.agent:
        fixed = fixed_part(told or least, characters=_characters_of(store, link), is_estimate=True)
    if since is not None:
        words = _characters_of(store, link, since=since)
    else:
        words = 0 if told is not None else _characters_held(store, link, worked, kept)
    # What an agent reports has its own part in it already.
    before = told if told is not None else fixed.count if fixed else 0
    held = max(before + estimated(words).count, least)
    return Price(
        resume=Tokens(count=held, is_estimate=told is None or since is not None),
        briefing=with_fixed(briefing, fixed),
        fixed=fixed,
        window_tokens=window or subject.settings.window_tokens,
    )


def _reported(store: Store, link: Link) -> tuple[int | None, int, int | None, int | None]:
    """Return what a session held after its last whole turn, holds at least, and can hold at most.

    One that was cut off told nothing, or nothing of what came last: the third figure is the prompt
    from which on all is estimated, None for nothing.
    """
    least, since, window = 0, None, None
    for _, view in views_newest_first(store, link.conversation_id):
        ended, parked, intended = view.ended, view.parked, view.intended
        if not intended or not view.is_in(link.upstream_session_id):
            continue
        held = parked.tokens_held if parked else ended.tokens_used if ended else None
        window = window or (ended.tokens_window if ended else None)
        if ended and not ended.adopted and (ended.outcome is Outcome.OK or ended.was_compacted):
            return held, least, None if held is None else since, window
        least, since = max(least, held or 0), intended.prompt_seq
    return None, least, since, window


def _kept(worked: TurnView | None) -> Price | None:
    """Return what the session and a briefing took of our words alone, as a turn was decided.

    None where the turn had no price.
    """
    price = price_in(worked.intended.inputs) if worked and worked.intended else NOTHING_PRICED
    if not (price.resume and price.briefing):
        return None
    own = price.fixed.count if price.fixed else 0
    return replace(
        price,
        resume=Tokens(count=max(price.resume.count - own, 0), is_estimate=True),
        briefing=Tokens(count=max(price.briefing.count - own, 0), is_estimate=True),
    )


def price_without_session(store: Store, subject: Subject, *, turns: int) -> Price:
    """Return what a new session costs where none is open; nothing while nobody knows."""
    fixed = _fixed(store, subject, NOTHING_KNOWN)
    if not fixed:
        return NOTHING_PRICED
    words = (
        _words_of_briefing(store, subject, NOTHING_KNOWN)
        if turns
        else estimated(len(role_block(subject.role)))
    )
    return Price(briefing=with_fixed(words, fixed), fixed=fixed)


# --- the agent's own ---------------------------------------------------------------------------


def _fixed(store: Store, subject: Subject, found: Freshness) -> Tokens | None:
    """Return what the agent reads before our words, None if no conversation of the project knows.

    This conversation is asked first. Then others of the same role before others: with another
    role's instructions it is near, and marked.
    """
    nearest = _known_in(store, subject.conversation, subject.agent, is_own=True)
    if nearest:
        # Other instructions, another model or version: near what it reads now, and marked.
        moved = nearest.is_estimate or found.is_configuration_changed or found.agent_version
        return replace(nearest, is_estimate=bool(moved or found.model))
    for other in islice(_others(store, subject.conversation), CONVERSATIONS_ASKED_MAX):
        known = _known_in(store, other, subject.agent)
        if known and other.key.role == subject.role.name and not known.is_estimate:
            return known
        nearest = nearest or (known and replace(known, is_estimate=True))
    return nearest


def _known_in(store: Store, of: Conversation, agent: str, *, is_own: bool = False) -> Tokens | None:
    """Return the agent's own part as the newest of a conversation's turns that knows it.

    A turn that failed or was interrupted takes nothing away.
    """
    for _, view in islice(views_newest_first(store, of.conversation_id), TURNS_ASKED_MAX):
        attached, intended, ended = view.attached, view.intended, view.ended
        if not attached or attached.agent != agent or not intended:
            continue
        # A sub-agent that only hooks saw reads less: no process of ours ran it.
        if not (is_own or attached.agent_pid):
            continue
        if ended and ended.tokens_fixed is not None:
            return Tokens(count=ended.tokens_fixed, is_estimate=ended.is_fixed_estimated)
        stop = (ended or view.parked) if attached.how == "new" and view.sends == 1 else None
        if stop and stop.usage and stop.usage.first_read is not None:
            # A turn that was interrupted in a new session: its first request tells all the same.
            first = store.messages(of.conversation_id, after_seq=intended.prompt_seq - 1, first=1)
            characters = sum(_characters(part) for prompt in first for part in prompt.parts)
            return fixed_part(stop.usage.first_read, characters=characters)
        if known := price_in(intended.inputs).fixed:
            return known
    return None


def _others(store: Store, own: Conversation) -> Iterator[Conversation]:
    """Yield conversations of the project, those of the same workstream first, the newest first."""
    project_id, name = own.key.project_id, own.key.workstream
    newest = [each.workstream for each in store.workstreams(project_id)[-WORKSTREAMS_ASKED_MAX:]]
    for workstream in dict.fromkeys((name, *reversed(newest))):
        for other in reversed(store.conversations(project_id, workstream)):
            if other.key.slot != CHILD_SLOT:
                yield other


# --- our words ---------------------------------------------------------------------------------


def _characters_held(store: Store, link: Link, worked: TurnView | None, kept: Price | None) -> int:
    """Return the characters of our words in a session; of one whose size is kept, with it."""
    if not kept or not kept.resume or not worked or not worked.intended:
        return _characters_of(store, link)
    since = _characters_of(store, link, since=worked.intended.prompt_seq)
    return kept.resume.count * CHARACTERS_PER_TOKEN + since


def _characters_of(store: Store, link: Link, *, since: int | None = None) -> int:
    """Return the characters of a session's messages; with `since`, from a prompt of its own on."""
    messages = store.messages(
        link.conversation_id, after_seq=(since or 1) - 1, newest=ESTIMATED_MESSAGES_MAX
    )
    # A prompt that began a session was recorded before that had an id.
    said = (
        each.parts
        for each in messages
        if each.upstream_session_id == link.upstream_session_id
        or (since is not None and each.speaker is Speaker.USER)
    )
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
        is_independent=subject.role.is_independent,
    )
    return estimated(len(build_briefing(inputs)) + len(role_block(subject.role)))


# --- what only the agent's session has, put on record -------------------------------------------


UNFINISHED = "the agent's own session has no end of it"


def read_back(store: Store, system: System, claim: Claim, found: Lacked) -> tuple[Write, ...]:
    """Return the writes that put what was lacking on record, for one commit. Blocking."""
    conversation_id, link = claim.conversation.conversation_id, claim.link
    assert link
    session, at_ms = link.upstream_session_id, system.now_ms()
    known = store.examined(conversation_id, upstream_session_id=session)
    writes: list[Write] = []
    prompt_seq = claim.messages + 1
    for turn in found.turns:
        turn_id = TurnId(system.new_id("trn"))
        recorder = Recorder(
            conversation=claim.conversation,
            turn_id=turn_id,
            link=link,
            next_seq=prompt_seq + 1,
            # What was read is of the one session: what names none is its own.
            guarantees_owner=True,
        )
        for event in within_quota(turn.events):
            recorder.record(event, at_ms=at_ms)
        examiner = Examiner(
            root=link.working_directory,
            link=link,
            turn_id=turn_id,
            known=known,
            unseen_after_ns=found.written_at_ns,
            environment={},
        )
        prompt = RecordParts(
            conversation_id=conversation_id,
            seq=prompt_seq,
            first_ordinal=0,
            speaker=Speaker.USER,
            turn_id=turn_id,
            upstream_session_id=session,
            recorded_at_ms=at_ms,
            parts=(TextPart(text=turn.prompt),),
        )
        opened = OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms)
        life = _life(store, claim, turn, found, prompt_seq)
        writes += (
            opened,
            prompt,
            *examiner.with_files(recorder.finish(at_ms=at_ms), at_ms=at_ms),
            *opened.with_events(*life),
        )
        prompt_seq = recorder.own.next_seq
    return tuple(writes)


def _life(
    store: Store, claim: Claim, turn: StoredTurn, found: Lacked, prompt_seq: int
) -> tuple[TurnEvent, ...]:
    """Return the events of a turn as if it had been driven here."""
    link, last = claim.link, turn.told[-1] if turn.told else None
    assert link
    before = last_attached(store, link)
    # The session's first request tells what its agent reads before all words.
    is_first = turn is found.turns[0] and not before.agent
    first = turn.told[0].tokens_read if is_first and turn.told else None
    fixed = fixed_part(first, characters=len(turn.prompt)) if first else None
    # The person may have closed the agent in the middle of it: its end is then not known.
    is_whole = is_finished(turn)
    return (
        TurnIntended(decision=RESUME, reasons=(READ_BACK,), prompt_seq=prompt_seq),
        SessionAttached(
            upstream_session_id=link.upstream_session_id,
            how="resumed",
            agent=link.agent,
            agent_host=claim.session_host,
            agent_profile=before.agent_profile,
        ),
        PromptSent(prompt_seq=prompt_seq),
        TurnEnded(
            outcome=Outcome.OK if is_whole else Outcome.UNKNOWN,
            detail="" if is_whole else UNFINISHED,
            tokens_used=last.tokens_used if last else None,
            tokens_window=last.tokens_window if last else None,
            tokens_fixed=fixed.count if fixed else None,
            # That of the whole session as it was read: it holds at the end of the last turn.
            session_stamp=found.stamp if turn is found.turns[-1] else "",
            session_written_at_ms=found.written_at_ns // 1_000_000,
        ),
    )
