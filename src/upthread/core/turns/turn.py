"""A turn: one prompt and its reply, from intent to end, crashes included.

Theory of operation. A turn's state is the fold of its events through TRANSITIONS; each live state
has one command in NEXT_COMMAND, and the runtime does nothing else than carry that command out and
commit the event it led to. So whoever finds a turn after a crash does exactly what its first
holder would have done next, with one exception: a prompt may have left (SENT). Then the agent's
own history decides (core/turns/agent_history.py): reply complete → adopt it; prompt there, reply
incomplete → one continuation prompt; absent → send once more; cannot be told → park for a human.
A session that is gone for certain takes a sent prompt back to INTENDED, to be sent to a new one; so
does a person who lets another agent go on with it. An agent's own failure is answered by one more
prompt at most; a turn whose process was ended, for example by each of several deploys, is continued
until SENDS_MAX prompts have left. A turn whose prompt has not left is parked only where its session
and a new one were refused; otherwise it ends, and nothing has happened.

The prompt is put together from the role, the context and the task. A new upstream session is told
who it is and where things stand; a resumed one only hears what is new: with the decision
`resume_with_update`, what has changed since it last worked, said once. Everything is prose and
Markdown headings; nothing imitates a provider's roles.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.decision.freshness import NEW_INSTRUCTIONS_HOLD, Freshness, render_changes
from upthread.core.decision.words import FIRST, READ_BACK, RESUME_WITH_REPLAY, START_FRESH
from upthread.core.events import (
    AgentsCall,
    AttachFailed,
    PromptRecognised,
    PromptSent,
    RecoveryStarted,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.roles.role import Role
from upthread.core.text import item, quoted, unicode_text, without_mentions
from upthread.core.types import Outcome

SENDS_MAX = 10
"""The prompt itself, and after each interruption the same or a continuation."""


HELD_BACK = "held_back"
"""Why a turn is parked that was about to do an outward action again."""


RESTORED = "restored"
"""How a refused session is current again, after a new one was refused as well."""


UNDECIDABLE = "undecidable"
"""Why a turn is parked when nobody can tell whether its prompt arrived."""


_AGENTS_OWN_ENDS = frozenset(
    {Outcome.OK, Outcome.AUTH, Outcome.BUSY, Outcome.CREDIT_EXHAUSTED, Outcome.RATE_LIMITED}
)
"""The outcomes that an agent reports itself, and after which its session knows all that it did."""


REFUSES_TO_OPEN = frozenset({Outcome.UNKNOWN, Outcome.PROCESS_DIED, Outcome.TIMED_OUT})
"""How an agent refuses to open a session, for a reason that nobody knows."""


class TurnState(StrEnum):
    """Where a turn stands."""

    NEW = "new"
    INTENDED = "intended"
    ATTACHED = "attached"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    ENDED = "ended"
    PARKED = "parked"


class TurnCommand(StrEnum):
    """What to do next with a turn."""

    INTEND = "intend"
    ATTACH = "attach"
    SEND = "send"
    STREAM = "stream"
    RECOGNISE = "recognise"
    NOTHING = "nothing"


TRANSITIONS: Mapping[TurnState, Mapping[type[TurnEvent], TurnState]] = {
    TurnState.NEW: {TurnIntended: TurnState.INTENDED},
    TurnState.INTENDED: {
        TurnIntended: TurnState.INTENDED,
        AttachFailed: TurnState.INTENDED,
        SessionAttached: TurnState.ATTACHED,
        RecoveryStarted: TurnState.INTENDED,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.ATTACHED: {
        PromptSent: TurnState.SENT,
        RecoveryStarted: TurnState.INTENDED,
        TurnEnded: TurnState.ENDED,
    },
    TurnState.SENT: {
        SessionAttached: TurnState.SENT,
        AttachFailed: TurnState.INTENDED,
        RecoveryStarted: TurnState.UNCERTAIN,
        PromptRecognised: TurnState.SENT,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.UNCERTAIN: {
        TurnIntended: TurnState.INTENDED,
        SessionAttached: TurnState.UNCERTAIN,
        AttachFailed: TurnState.INTENDED,
        RecoveryStarted: TurnState.UNCERTAIN,
        PromptRecognised: TurnState.UNCERTAIN,
        PromptSent: TurnState.SENT,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.ENDED: {},
    TurnState.PARKED: {
        RecoveryStarted: TurnState.UNCERTAIN,
        PromptRecognised: TurnState.PARKED,
        TurnEnded: TurnState.ENDED,
    },
}

NEXT_COMMAND: Mapping[TurnState, TurnCommand] = {
    TurnState.NEW: TurnCommand.INTEND,
    TurnState.INTENDED: TurnCommand.ATTACH,
    TurnState.ATTACHED: TurnCommand.SEND,
    TurnState.SENT: TurnCommand.STREAM,
    TurnState.UNCERTAIN: TurnCommand.RECOGNISE,
    TurnState.ENDED: TurnCommand.NOTHING,
    TurnState.PARKED: TurnCommand.NOTHING,
}


class Recognition(StrEnum):
    """What an agent's history says of a prompt that may have been sent."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    ABSENT = "absent"
    UNDECIDABLE = "undecidable"


class TurnView(Struct, frozen=True, kw_only=True):
    """A turn as its events tell it.

    `was_absent` is whether its session did not hold the prompt when the prompt was sent again.
    `sends` counts how often a prompt left; `parked` is None again once somebody took the turn on.
    `is_prompted` is whether a prompt left for the session that is attached now; `is_person_asked`
    whether a person told the parked turn to go on and no prompt has left since. `recoveries` counts
    how often it was continued since a person did. `was_interrupted` is whether it was taken on
    after it had stopped without an end: what it did until then stays what an interrupted turn did.
    """

    state: TurnState = TurnState.NEW
    events: int = 0
    sends: int = 0
    recoveries: int = 0
    is_prompted: bool = False
    is_person_asked: bool = False
    was_interrupted: bool = False
    intended: TurnIntended | None = None
    attach_failed: AttachFailed | None = None
    attached: SessionAttached | None = None
    sent: PromptSent | None = None
    recognised: Recognition | None = None
    was_absent: bool = False
    ended: TurnEnded | None = None
    parked: TurnParked | None = None

    @property
    def command(self) -> TurnCommand:
        """What to do next with it."""
        return NEXT_COMMAND[self.state]

    @property
    def call(self) -> AgentsCall | None:
        """The call of an agent's own tool that began it, None for any other turn."""
        return self.intended.call if self.intended else None

    def is_in(self, session: str | None) -> bool:
        """Return whether it is attached to this session."""
        return self.attached is not None and self.attached.upstream_session_id == session

    @property
    def may_send(self) -> bool:
        """Whether the prompt or a continuation may leave after an interruption."""
        # Bounded, because a prompt may end the process that sends it, for example out of memory.
        return self.sends < SENDS_MAX

    @property
    def may_be_continued(self) -> bool:
        """Whether another attempt of its durable step may continue it."""
        # Recoveries count too, because an attempt may fail before its prompt leaves.
        return self.may_send and self.recoveries < SENDS_MAX - 1

    @property
    def was_sent_again(self) -> bool:
        """Whether more than one prompt left. Then a failure of the agent's ends or parks it."""
        return self.sends > 1

    @property
    def is_over(self) -> bool:
        """Whether no command is left for it."""
        return self.command is TurnCommand.NOTHING

    @property
    def was_cut_off(self) -> bool:
        """Whether it has no end of its own: still open, killed or cancelled."""
        if self.ended:
            return self.ended.outcome in {Outcome.PROCESS_DIED, Outcome.CANCELLED}
        return not self.is_over

    @property
    def was_left_open(self) -> bool:
        """Whether the turn has no end of the agent's own, however it was stopped.

        For example killed, cancelled, timed out, or given up for another prompt.
        """
        return not self.ended or self.ended.outcome not in _AGENTS_OWN_ENDS

    @property
    def stopped_by(self) -> tuple[str, str]:
        """Why it ended or is parked: outcome or reason, and detail; both empty while it runs."""
        if self.ended:
            return self.ended.outcome, self.ended.detail
        return (self.parked.reason, self.parked.detail) if self.parked else ("", "")

    @property
    def was_refused(self) -> bool:
        """Whether it stopped and no session took its prompt."""
        return self.is_over and (not self.attached or self.attached.how == RESTORED)

    @property
    def was_read_back(self) -> bool:
        """Whether the agent's own session alone had it, so that its role may not know of it."""
        return self.intended is not None and READ_BACK in self.intended.reasons

    @property
    def was_unheard(self) -> bool:
        """Whether it stopped before a session got its prompt."""
        if not self.sends:
            return self.was_cut_off or self.was_refused
        return self.was_cut_off and self.recognised is Recognition.ABSENT

    @property
    def may_be_unheard(self) -> bool:
        """Whether it failed for a moment, and its session had not kept the prompt before."""
        return self.stopped_by[0] == Outcome.TRANSIENT and self.was_absent


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt at a turn's prompt, from a person's prompt or `--continue` until it stops.

    `before` and `after` are the turn's views. An attempt under way is not over `after`. `sends` is
    how often a prompt left in it.
    """

    before: TurnView
    after: TurnView
    sends: int

    @property
    def asked_new(self) -> bool:
        """Whether the attempt decided for a new session."""
        was, now = self.before, self.after
        decided = now.intended if now.intended is not was.intended else None
        is_new = decided is not None and decided.decision in NEW_SESSION_DECISIONS
        return is_new or now.attach_failed is not was.attach_failed

    @property
    def is_refused(self) -> bool:
        """Whether it stopped because the agent refused the session or the prompt."""
        reason = self.after.stopped_by[0]
        # A prompt that ends its agent may have been carried out.
        return reason == Outcome.UNKNOWN or (not self.sends and reason in REFUSES_TO_OPEN)


def attempts(events: Iterable[TurnEvent]) -> tuple[Attempt, ...]:
    """Return the attempts at a turn, the newest first, with the one under way."""
    found: list[Attempt] = []
    before, sends_before, view = TurnView(), 0, TurnView()
    for event in events:
        stop: TurnView | None = None
        was_parked, sends = view.state is TurnState.PARKED, view.sends
        if isinstance(event, RecoveryStarted) and event.refused_as is not None:
            stop = apply(view, TurnParked(reason=event.refused_as, detail=event.detail))
        elif isinstance(event, RecoveryStarted) and view.state is TurnState.SENT:
            # Killed after its prompt left. A refusal of the next attempt counts by itself, whatever
            # the agent did before.
            stop = apply(view, TurnParked(reason=Outcome.PROCESS_DIED, detail=""))
        view = apply(view, event)
        # A parked turn that a new prompt ends had stopped before.
        if view.is_over and not was_parked:
            # A person's word lets it leave as after the first send.
            stop, sends = view, min(view.sends, 1)
        if stop:
            found.append(Attempt(before=before, after=stop, sends=stop.sends - sends_before))
            before, sends_before = view, sends
    if not view.is_over:
        found.append(Attempt(before=before, after=view, sends=view.sends - sends_before))
    return tuple(reversed(found))


def fold(events: Iterable[TurnEvent]) -> TurnView:
    """Return the view of a turn's events, in order."""
    view = TurnView()
    for event in events:
        view = apply(view, event)
    return view


def apply(view: TurnView, event: TurnEvent) -> TurnView:
    """Return the view after one more event. An event out of place is a bug of ours."""
    following = TRANSITIONS[view.state].get(type(event))
    # Stopped here and not stored: a turn that is folded wrongly would send its prompt again.
    assert following, f"{type(event).__name__} cannot follow {view.state}"
    parked = view.parked if view.state is TurnState.PARKED else None
    view = replace(view, state=following, events=view.events + 1)
    match event:
        case PromptSent():
            assert view.may_send, f"a prompt left {SENDS_MAX} times already"
            sends = view.sends + 1
            return replace(
                view,
                sent=event,
                sends=sends,
                is_prompted=True,
                is_person_asked=False,
                recognised=None,
                was_absent=view.recognised is Recognition.ABSENT,
            )
        case PromptRecognised():
            return replace(view, recognised=Recognition(event.recognition))
        # Another session has not got the prompt that left for the one before.
        case SessionAttached():
            is_prompted = view.is_prompted and view.is_in(event.upstream_session_id)
            return replace(view, attached=event, is_prompted=is_prompted)
        case RecoveryStarted() if parked is not None:
            # After a person's word it may leave as after the first send.
            sends = min(view.sends, 1)
            # A prompt that never left is in no history.
            state = following if view.sent else TurnState.INTENDED
            return replace(
                view, state=state, parked=None, sends=sends, recoveries=0, is_person_asked=True
            )
        case RecoveryStarted():
            was_interrupted = view.was_interrupted or view.sends > 0
            recoveries = view.recoveries + (event.refused_as is None)
            return replace(view, was_interrupted=was_interrupted, recoveries=recoveries)
        case _:
            kept = _KEPT.get(type(event))
            changes: dict[str, Any] = {kept: event} if kept else {}
            return replace(view, **changes)


_KEPT: Mapping[type[TurnEvent], str] = {
    TurnIntended: "intended",
    AttachFailed: "attach_failed",
    TurnEnded: "ended",
    TurnParked: "parked",
}
"""Where the newest event of a kind is kept in the view."""


# --- the prompt -----------------------------------------------------------------------------------


FRESH_PREFIX = "fresh:"

INTERRUPTED = " was interrupted before its end was recorded. Its prompt was:\n\n"

WHICH_TURN = ("An earlier turn of yours", "Your last turn")
"""How a continuation names a turn that others came after, and the newest one."""

CONTINUATION = """\
{prompt}

Go on from where you stopped. Do not do again what is already done; if your reply was complete, \
give it again in full."""

UNATTENDED = """\
Nobody was there any more to allow anything. Try again first what failed for that; a reply that \
rests on it is not complete."""

EFFECTS_HEADING = "These actions of the interrupted turn are known:"

EFFECTS_DONE_HEADING = "These actions were done, or may have been; do not repeat them:"

STARTS = frozenset({FIRST, START_FRESH})
"""The new session is told no prior context; a briefing is what it has."""
NEW_SESSION_DECISIONS = STARTS | {RESUME_WITH_REPLAY}


class Task(Struct, frozen=True, kw_only=True):
    """What is asked of a role.

    `news` is told to a session that heard the rest before, `everything` to a new one.
    """

    text: str
    news: str = ""
    everything: str = ""


UNVERIFIED = """\
This directory has a file {name}. The person has not trusted the directory, so the file is only \
quoted here:

{text}"""


def with_unverified(task: Task, name: str, text: str) -> Task:
    """Return a task that quotes a directory's instructions to a new session, if there are any."""
    instructions = UNVERIFIED.format(name=name, text=quoted(text)) if text else ""
    told = (instructions, task.everything or task.news)
    return replace(task, everything="\n\n".join(filter(None, told)))


def wants_fresh(text: str) -> bool:
    """Return whether the prompt asks for a fresh session by its first word."""
    return text.lstrip().lower().startswith(FRESH_PREFIX)


def without_fresh(text: str) -> str:
    """Return the prompt without its `fresh:` prefix."""
    return text.lstrip()[len(FRESH_PREFIX) :].lstrip() if wants_fresh(text) else text


def context_for(*, role: Role, task: Task, decision: str, past: str) -> str:
    """Return what goes before the task's text; the role block only with a new upstream session.

    It is valid Unicode, whatever was said earlier: no provider takes half of a character. It
    mentions no file, because others than the person wrote most of it.
    """
    is_new = decision in NEW_SESSION_DECISIONS
    # A resumed session is told the news alone: the rest it would read twice, and pay for twice.
    told = task.everything or task.news if is_new else task.news
    pieces = (role_block(role) if is_new else "", past, told)
    return without_mentions(unicode_text("\n\n".join(filter(None, pieces))))


def effects_block(effects: Sequence[str], heading: str = EFFECTS_DONE_HEADING) -> str:
    """Return the actions that must not be done again, in words; empty for none."""
    return "\n".join([heading, *map(item, effects)]) if effects else ""


def role_block(role: Role) -> str:
    """Return the role's instructions as a block; empty for a role without any."""
    if not role.instructions:
        return ""
    return f'<role name="{role.name}">\n{role.instructions.strip()}\n</role>'


def continuation(
    sent_text: str, effects: Sequence[str], *, was_unattended: bool = False, is_last: bool = True
) -> str:
    """Return the prompt that continues an interrupted turn, with the actions known of that turn.

    `was_unattended` is whether some of them may have failed because nobody allowed them, `is_last`
    whether the session has no later turn.
    """
    text = WHICH_TURN[is_last] + INTERRUPTED + CONTINUATION.format(prompt=quoted(sent_text))
    known = effects_block(effects, EFFECTS_HEADING)
    pieces = (text, UNATTENDED if was_unattended else "", known)
    return without_mentions("\n\n".join(filter(None, pieces)))


def is_continuation(text: str) -> bool:
    """Return whether a prompt takes an interrupted turn on."""
    return text.startswith(tuple(each + INTERRUPTED for each in WHICH_TURN))


# --- what a resumed session is told has changed ---------------------------------------------------


NEW_INSTRUCTIONS = "Your instructions have changed. From now on these hold:"


def render_update(found: Freshness, *, role: Role, is_role_told: bool = False) -> str:
    """Return the block that goes before the prompt of a resumed session; empty for nothing new.

    With `is_role_told` the agent tells the role's instructions itself.
    """
    changes = render_changes(found)
    pieces = [changes] if changes else []
    if found.is_configuration_changed and is_role_told:
        pieces.append(NEW_INSTRUCTIONS_HOLD)
    elif found.is_configuration_changed and role.instructions:
        pieces += [NEW_INSTRUCTIONS, role_block(role)]
    return "\n\n".join(pieces)
