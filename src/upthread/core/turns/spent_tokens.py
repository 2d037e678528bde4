"""The tokens that turns took, as their agents reported them, beside what is allowed.

What a turn took is all that the model read and wrote, request by request: a turn with five calls
reads its session six times. Agents that tell of each request are added up here; of others the sum
that they tell is taken. An agent that does not count tells what its session holds, which was read
at least once; one that tells nothing is estimated from the text. Whatever is not counted by an
agent is marked, and so is every sum it is in.

With a turn's end is kept what all turns before it came to, so that whoever asks looks at the newest
turns and at no other, however many there were. A turn that has ended never changes, and one that a
newer turn has followed is never gone on with: so what was added up once stays right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.decision.words import (
    RESUME,
    RESUME_WITH_UPDATE,
    Price,
    Spending,
    Tokens,
    estimated,
)
from upthread.core.events import (
    PromptRecognised,
    PromptSent,
    RecoveryStarted,
    TurnEnded,
    TurnEvent,
    TurnParked,
    Usage,
    UsageReported,
)
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import Recognition, TurnView
from upthread.core.types import Outcome, TurnId

FAILED_KEPT_MAX = 64
"""How many turns that did not end well are named; of more nothing is kept, and all are read."""

NOTHING_SPENT = Tokens(count=0, is_estimate=False)

NO_USAGE = Usage()

_SUMS = ("read", "written", "cached", "cache_written")


class Counted(Struct, frozen=True, kw_only=True):
    """What the requests of a prompt took so far, those of its sub-agents with them.

    `is_estimate` where nobody said what one of them wrote. `usage` is the same, figure by figure.
    """

    tokens: int = 0
    is_estimate: bool = False
    usage: Usage = NO_USAGE

    def and_one(self, told: UsageReported, *, is_own: bool) -> Counted:
        """Return the same with one more, unless the report is not of a request."""
        # Some agents tell only what the session holds: that is no request.
        if told.tokens_read is None and (told.tokens_used or told.tokens_window) is not None:
            return self
        return Counted(
            tokens=self.tokens + (told.tokens_read or 0) + (told.tokens_written or 0),
            is_estimate=self.is_estimate or told.tokens_written is None,
            usage=with_request(self.usage, told, is_own=is_own),
        )


NOTHING_COUNTED = Counted()


def spent_on_prompt(
    counted: Counted,
    *,
    characters: int,
    read: int | None = None,
    written: int | None = None,
    held: int | None = None,
) -> Tokens:
    """Return what one prompt took; `characters` are those of the prompt and its reply.

    The rest is what its agent said of it, None where it did not: what the model `read` and wrote,
    and what the session holds after it (`held`). An agent's own sum may leave out what its
    sub-agents took: the higher figure has more in it.
    """
    total = (read or 0) + (written or 0)
    # Claude Code's own sum leaves out its sub-agents (ADR 82); what is counted has them.
    if counted.usage.requests and counted.tokens >= total:
        return Tokens(count=counted.tokens, is_estimate=counted.is_estimate)
    if read is not None and written is not None:
        return Tokens(count=total, is_estimate=False)
    if held is not None:
        # It was read once at least, and marked, since it may have been many times.
        return Tokens(count=held, is_estimate=True)
    return estimated(characters)


class PromptTook(Struct, frozen=True):
    """What is known of one prompt: marked tokens where not all is known, and what was counted."""

    tokens: Tokens
    usage: Usage | None


_DIED = PromptTook(Tokens(count=0, is_estimate=True), NO_USAGE)
"""What is known of a prompt whose process died, until the agent's own store has been read."""


def took_by_prompt(events: Iterable[TurnEvent]) -> Iterator[PromptTook]:
    """Yield what each prompt of a turn took, as far as its events tell."""
    is_out, known = False, None
    for event in events:
        match event:
            case PromptSent():
                if known:
                    yield known
                is_out, known = True, None
            case RecoveryStarted() if is_out:
                known = known or _DIED
            # Read again later, the store has more of the same prompt.
            case PromptRecognised(tokens_spent=int()) if is_out:
                known = _told_by(event)
            case TurnEnded() | TurnParked():
                if known:
                    yield known
                    is_out, known = False, None
                yield _told_by(event, is_unknown=is_out and event.tokens_spent is None)
                is_out = False
            case _:
                pass
    if is_out:
        # A prompt left and nothing is known of it: the sum is too low, and has to say so.
        yield known or PromptTook(_DIED.tokens, None)


def _told_by(
    event: PromptRecognised | TurnEnded | TurnParked, *, is_unknown: bool = False
) -> PromptTook:
    # Something was spent and nobody counted it: no sum that it is in is known.
    is_uncounted = not event.usage and event.tokens_spent is not None
    return PromptTook(
        Tokens(count=event.tokens_spent or 0, is_estimate=event.is_spent_estimated or is_unknown),
        NO_USAGE if is_uncounted else event.usage,
    )


def spent_on_turn(events: Iterable[TurnEvent]) -> Tokens:
    """Return what a turn has taken so far; marked where nothing is known of a prompt that left."""
    return added(took.tokens for took in took_by_prompt(events))


def recognised_event(recognition: Recognition, counted: Counted) -> PromptRecognised:
    """Return what an agent's history says of a prompt; `counted` are its requests there."""
    if not counted.usage.requests:
        return PromptRecognised(recognition=recognition)
    # The request that was cut off is in no history.
    is_whole = recognition is Recognition.COMPLETE
    return PromptRecognised(
        recognition=recognition,
        tokens_spent=counted.tokens,
        is_spent_estimated=counted.is_estimate or not is_whole,
        usage=counted.usage if is_whole else unfinished(counted.usage),
    )


def added(spent: Iterable[Tokens]) -> Tokens:
    """Return the sum; marked as soon as one of them is."""
    known = tuple(spent)
    return Tokens(
        count=sum(each.count for each in known), is_estimate=any(each.is_estimate for each in known)
    )


def cost_of(decision: str, price: Price) -> Tokens | None:
    """Return what a turn reads at least when it is decided so; None where nothing is known."""
    return price.resume if decision in {RESUME, RESUME_WITH_UPDATE} else price.briefing


def going_on(spending: Spending, *, taken: int, next_read: int) -> Spending:
    """Return what may be spent and was, in the middle of a turn.

    `taken` is what the turn took so far; `next_read` what its next request reads at least.
    """
    spent = added((spending.spent, Tokens(count=taken, is_estimate=False)))
    more = Tokens(count=next_read, is_estimate=False)
    return replace(spending, spent=spent, next_turn=more)


def spending_in_words(spending: Spending) -> str:
    """`41k of at most 50000 tokens are used`, and what the next request takes where that is why."""
    said = f"{spending.spent.in_words} of at most {spending.tokens_max} tokens are used"
    if spending.spent.count < spending.tokens_max and spending.next_turn:
        said += f", and the next request would take {spending.next_turn.in_words} or more"
    return said


# --- the totals of a conversation ---------------------------------------------------------------


class Totals(Struct, frozen=True, kw_only=True):
    """What turns came to, oldest first: how many, what they took, and which did not end well."""

    turns: int = 0
    spent: Tokens = NOTHING_SPENT
    failed: tuple[TurnId, ...] = ()

    def and_one(self, turn_id: TurnId, events: Sequence[TurnEvent]) -> Totals:
        """Return the same with the turn that came next."""
        is_well = ended_well(turns.fold(events))
        return Totals(
            turns=self.turns + 1,
            spent=added((self.spent, spent_on_turn(events))),
            failed=self.failed if is_well else (*self.failed, turn_id),
        )

    def kept_in(self, ended: TurnEnded) -> TurnEnded:
        """Return the end of the turn that comes next, which keeps these."""
        if len(self.failed) > FAILED_KEPT_MAX:
            return ended
        return replace(
            ended,
            turns_before=self.turns,
            tokens_before=self.spent.count,
            is_before_estimated=self.spent.is_estimate,
            failed_before=self.failed,
        )


NO_TOTALS = Totals()


def totals_before(events: Sequence[TurnEvent]) -> Totals | None:
    """Return what the turns before this one came to, None where its end does not tell."""
    ended = events[-1] if events else None
    if not isinstance(ended, TurnEnded) or ended.turns_before is None:
        return None
    return Totals(
        turns=ended.turns_before,
        spent=Tokens(count=ended.tokens_before, is_estimate=ended.is_before_estimated),
        failed=tuple(map(TurnId, ended.failed_before)),
    )


def ended_well(view: TurnView) -> bool:
    """Return whether a turn came to a good end, and each of its calls to one."""
    ended = view.ended
    is_well = ended is not None and ended.outcome is Outcome.OK and not ended.calls_open
    # Sent twice, it lost its agent or its session in between: what it did until then counts too.
    return is_well and not view.was_sent_again


# --- figure by figure -----------------------------------------------------------------------------
# Nothing is estimated here. A sum is known only while every request in it was reported: a request
# that was not makes the sum None, which is shown as "not told". So a figure can be held against a
# bill.


def with_request(usage: Usage, told: UsageReported, *, is_own: bool) -> Usage:
    """Return the usage with one more request; `is_own` where no sub-agent made it."""
    one = Usage(
        requests=1,
        read=told.tokens_read,
        written=told.tokens_written,
        cached=told.tokens_cached,
        cache_written=told.tokens_cache_written,
        first_read=told.tokens_read if is_own else None,
        first_cached=told.tokens_cached if is_own else None,
    )
    return _added(usage, one) if usage.requests else one


def usage_of_prompt(counted: Usage, *, read: int | None, written: int | None) -> Usage | None:
    """Return what a prompt took; `read` and `written` are the sums that its agent told at its end.

    They count for an agent that does not tell of its requests. None where it tells nothing.
    """
    if counted.requests:
        return counted
    return None if read is None and written is None else Usage(read=read, written=written)


def unfinished(counted: Usage) -> Usage:
    """Return the usage of a prompt that was cut off: of its last request nobody told."""
    return replace(counted, read=None, written=None, cached=None, cache_written=None)


def together(usage: Usage | None, more: Usage | None) -> Usage | None:
    """Return both as one; the first requests stay those that came first, told or not."""
    if not (usage and more):
        return usage or more
    whole = _added(usage, more)
    return replace(whole, first_read=usage.first_read, first_cached=usage.first_cached)


def _added(usage: Usage, more: Usage) -> Usage:
    first = usage if usage.first_read is not None else more
    return Usage(
        requests=usage.requests + more.requests,
        first_read=first.first_read,
        first_cached=first.first_cached,
        **{name: _sum(getattr(usage, name), getattr(more, name)) for name in _SUMS},
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
