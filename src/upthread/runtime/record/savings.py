"""Savings: what each delegation really took, and what resuming saved, from the record.

Measured is what an agent counted, request by request. What it did not tell is not told, and no
estimate takes its place. A visit is a delegation with all its requests. What a resumed visit saved
is the difference between two measured figures: what visits of its role that began anew took on
average (the first ones and those after a briefing, with the same agent in the same workstream), and
what it took itself. Below 0 it is a loss. Without such a visit nothing is said to be saved.

For example: a visit began anew and took 46,794 tokens, because the agent read its files. Two visits
resumed that session, and took 26,140 each. Together they saved 41,308.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from statistics import mean, median
from typing import Literal, TypeAlias

from msgspec import Struct, convert
from msgspec.structs import replace

from upthread.core.decision.words import (
    FIRST,
    READ_BACK,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    Price,
    Tokens,
)
from upthread.core.events import Usage
from upthread.core.roles.reports import Report
from upthread.core.types import Outcome, TurnId, ready
from upthread.runtime.record.timeline import Branch, Timeline, TurnNode

Way: TypeAlias = Literal["resumed", "briefed", "first"]

WAYS: Mapping[str, Way] = {
    FIRST: "first",
    RESUME: "resumed",
    RESUME_WITH_UPDATE: "resumed",
    RESUME_WITH_REPLAY: "briefed",
    START_FRESH: "briefed",
}
"""How a session was come by; what is not in here was no delegation."""

_MILLION = 1_000_000


class Prices(Struct, frozen=True, kw_only=True):
    """What a person pays for a million tokens of each kind, in whatever they count it in."""

    read: Decimal
    cached: Decimal
    cache_written: Decimal
    written: Decimal


class Delegation(Struct, frozen=True, kw_only=True):
    """A turn whose prompt left, and what it took.

    `price` is what its decision expected of either way. `usage` is what its agent counted; `spent`
    what is known all the same, marked where it is an estimate.
    `files_again` are those that it read and another session of the conversation had read or
    written; `questions_again` those that its role had asked before. `anew` is what visits of its
    role that began anew took on average, None where none was measured; `is_whole` whether it came
    to its end, which took more than a part would, and all prompts of it were counted.
    """

    workstream: str
    address: str
    role: str
    agent: str
    turn_id: str
    number: int
    opened_at_ms: int
    decision: str
    way: Way
    price: Price
    usage: Usage
    spent: Tokens | None
    files_again: tuple[str, ...] = ()
    questions_again: tuple[str, ...] = ()
    anew: int | None = None
    is_whole: bool = True

    @property
    def month(self) -> str:
        """`2026-11`, in UTC."""
        return time.strftime("%Y-%m", time.gmtime(self.opened_at_ms / 1000))

    @property
    def expected(self) -> Tokens | None:
        """What its first request was expected to read, None where nobody knew."""
        price = self.price.shown
        return price.resume if self.way == "resumed" else price.briefing

    @property
    def whole(self) -> int | None:
        """What all its requests read and wrote, None where it was cut off or nobody told."""
        if not self.is_whole or self.usage.read is None or self.usage.written is None:
            return None
        return self.usage.read + self.usage.written

    @property
    def measured(self) -> int | None:
        """The tokens that it took, None where they are estimated."""
        return None if not self.spent or self.spent.is_estimate else self.spent.count

    @property
    def saved(self) -> int | None:
        """Tokens less than a visit that began anew; below 0 is a loss, None where not measured."""
        if self.way != "resumed" or self.whole is None or self.anew is None:
            return None
        return self.anew - self.whole

    @property
    def was_cache_gone(self) -> bool | None:
        """Whether most of a session that was resumed was read anew; None where nobody told."""
        read, cached = self.usage.first_read, self.usage.first_cached
        if self.way != "resumed" or read is None or cached is None:
            return None
        return cached < read / 2

    @property
    def error(self) -> float | None:
        """How far what was expected is from what was read: 0.1 is a tenth too much."""
        if not self.expected or not self.usage.first_read:
            return None
        return self.expected.count / self.usage.first_read - 1

    def cost(self, prices: Prices) -> Decimal | None:
        """Return what it cost, None where a figure was not told."""
        usage = self.usage
        if usage.read is None or usage.written is None or usage.cached is None:
            return None
        # An agent whose provider asks nothing for it tells of none.
        put = usage.cache_written or 0
        anew = max(0, usage.read - usage.cached - put)
        cost = (
            anew * prices.read
            + usage.cached * prices.cached
            + put * prices.cache_written
            + usage.written * prices.written
        )
        return cost / _MILLION


class Sum(Struct, frozen=True, kw_only=True):
    """A figure over several delegations: how many told it, of how many."""

    total: int
    told: int
    of: int


class Savings(Struct, frozen=True, kw_only=True):
    """What several delegations took. `saved` is of those that were resumed, below 0 for a loss.

    `spent` is what was measured alone; `errors` are those of the decisions' prices, in order.
    `cost` is None without prices, and covers the delegations that told all its figures.
    """

    delegations: int
    ways: Mapping[Way, int]
    spent: Sum
    read: Sum
    written: Sum
    cached: Sum
    cache_written: Sum
    saved: Sum
    caches_gone: Sum
    files_again: int
    questions_again: int
    errors: tuple[float, ...]
    cost: Decimal | None
    cost_told: int

    @property
    def median_error(self) -> float | None:
        """How far the price was off in the median, None where nothing can be compared."""
        return median(self.errors) if self.errors else None


def savings_of(delegations: Iterable[Delegation], prices: Prices | None = None) -> Savings:
    """Return what delegations took together."""
    each = tuple(delegations)
    costs = [one.cost(prices) for one in each] if prices else []
    known_costs = [cost for cost in costs if cost is not None]
    resumed = [one for one in each if one.way == "resumed"]
    return Savings(
        delegations=len(each),
        ways={way: sum(one.way == way for one in each) for way in dict.fromkeys(WAYS.values())},
        spent=_sum(one.measured for one in each),
        read=_sum(one.usage.read for one in each),
        written=_sum(one.usage.written for one in each),
        cached=_sum(one.usage.cached for one in each),
        cache_written=_sum(one.usage.cache_written for one in each),
        saved=_sum(one.saved for one in resumed),
        caches_gone=_sum(one.was_cache_gone for one in resumed),
        files_again=sum(len(one.files_again) for one in each),
        questions_again=sum(len(one.questions_again) for one in each),
        errors=tuple(sorted(one.error for one in each if one.error is not None)),
        cost=sum(known_costs, Decimal(0)) if prices else None,
        cost_told=len(known_costs),
    )


def _sum(figures: Iterable[int | None]) -> Sum:
    each = tuple(figures)
    known = [figure for figure in each if figure is not None]
    return Sum(total=sum(known), told=len(known), of=len(each))


def grouped(
    delegations: Iterable[Delegation], by: Callable[[Delegation], str]
) -> dict[str, list[Delegation]]:
    """Return delegations by what they share, in the order of their first ones."""
    groups: dict[str, list[Delegation]] = {}
    for one in delegations:
        groups.setdefault(by(one), []).append(one)
    return groups


# --- from the record ---------------------------------------------------------------------------


def delegations_of(timeline: Timeline) -> list[Delegation]:
    """Return a workstream's delegations, conversation by conversation."""
    asked: set[tuple[str, str]] = set()
    found = [
        each for branch in timeline.branches for each in _of_branch(branch, timeline.name, asked)
    ]
    anew: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for each in found:
        if each.way != "resumed" and each.whole is not None:
            anew[each.role, each.agent].append(each.whole)
    means = {key: round(mean(wholes)) for key, wholes in anew.items()}
    return [replace(each, anew=means.get((each.role, each.agent))) for each in found]


def _of_branch(
    branch: Branch, workstream: str, asked: set[tuple[str, str]]
) -> Iterator[Delegation]:
    key = branch.conversation.key
    agents = {str(link.upstream_session_id): link.agent for link in branch.chain}
    files_again = _files_again(branch)
    for turn in branch.turns:
        again = tuple(_questions_again(turn, key.role, asked))
        session = turn.view.attached.upstream_session_id if turn.view.attached else ""
        found = turn.decision
        way = WAYS.get(found.decision) if found else None
        # What was read back or never left was not delegated: it shows all the same what is known.
        if not found or way is None or not turn.view.sends or READ_BACK in found.reasons:
            continue
        yield Delegation(
            workstream=workstream,
            address=branch.name,
            role=key.role,
            agent=agents.get(session, ""),
            turn_id=turn.turn_id,
            number=turn.number,
            opened_at_ms=turn.opened_at_ms,
            decision=found.decision,
            way=way,
            price=found.price,
            usage=turn.usage or Usage(),
            is_whole=turn.view.ended is not None
            and turn.view.ended.outcome is Outcome.OK
            and not (turn.spent and turn.spent.is_estimate),
            spent=turn.spent,
            files_again=tuple(files_again[turn.turn_id]),
            questions_again=again,
        )


def _files_again(branch: Branch) -> Mapping[TurnId, Mapping[str, None]]:
    """Return the files of each turn that it read though another session had them, in order."""
    found: defaultdict[TurnId, dict[str, None]] = defaultdict(dict)
    sessions: defaultdict[str, set[str]] = defaultdict(set)
    for each in branch.examinations:
        for file in each.files:
            others = sessions[file.path] - {each.upstream_session_id}
            if others and file.how == "read":
                found[each.turn_id][file.path] = None
            sessions[file.path].add(each.upstream_session_id)
    return found


def _questions_again(turn: TurnNode, role: str, asked: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the questions that the role had asked before, word for word but for white space."""
    ended = turn.view.ended
    if not ended or ended.report is None:
        return
    for each in convert(ended.report, ready(Report)).questions:
        question = (role, " ".join(each.text.casefold().split()))
        if question in asked and each.text.strip():
            yield each.text
        asked.add(question)
