"""Spending: the tokens that turns took, as their agents reported them, beside what is allowed.

What a turn took is all that the model read and wrote. An agent that does not count that tells what
its session holds, which was read at least once; one that tells nothing is estimated from the text.
Whatever is not counted by an agent is marked, and so is every sum it is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upthread.core.decisions import FIRST, START_FRESH
from upthread.core.events import PromptSent, TurnEnded, TurnEvent, TurnParked
from upthread.core.price import Price, Spending, Tokens, estimated

NOTHING_SPENT = Tokens(count=0, is_estimate=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What an agent said of a prompt's tokens; None where it did not say.

    `read` and `written` are the model's; `held` is what the session holds after it.
    """

    read: int | None = None
    written: int | None = None
    held: int | None = None


def spent_on_prompt(reported: Reported, *, characters: int) -> Tokens:
    """Return what one prompt took; `characters` are those of the prompt and its reply."""
    if reported.read is not None and reported.written is not None:
        return Tokens(count=reported.read + reported.written, is_estimate=False)
    if reported.held is not None:
        return Tokens(count=reported.held, is_estimate=True)
    return estimated(characters)


def spent_on_turn(events: Iterable[TurnEvent]) -> Tokens:
    """Return what a turn has taken so far; marked where nothing is known of a prompt that left."""
    total, is_pending = NOTHING_SPENT, False
    for event in events:
        if isinstance(event, PromptSent):
            is_pending = True
        elif isinstance(event, TurnEnded | TurnParked):
            known = event.tokens_spent
            more = Tokens(count=known or 0, is_estimate=event.is_spent_estimated)
            unknown = Tokens(count=0, is_estimate=is_pending and known is None)
            total, is_pending = added((total, more, unknown)), False
    return Tokens(count=total.count, is_estimate=total.is_estimate or is_pending)


def added(spent: Iterable[Tokens]) -> Tokens:
    """Return the sum; marked as soon as one of them is."""
    known = tuple(spent)
    return Tokens(
        count=sum(each.count for each in known),
        is_estimate=any(each.is_estimate for each in known),
    )


def cost_of(decision: str, price: Price) -> Tokens | None:
    """Return what a turn reads at least when it is decided so; None where nothing is known."""
    return price.briefing if decision in {FIRST, START_FRESH} else price.resume


def spending_in_words(spending: Spending) -> str:
    """`41k of at most 40k tokens`, and what the turn would take where that is why."""
    said = f"{spending.spent.in_words} of at most {spending.tokens_max} tokens"
    if spending.spent.count < spending.tokens_max and spending.next_turn is not None:
        said += f" are used, and the turn would take {spending.next_turn.in_words} or more"
    return said
