"""`upthread savings`: the cost of delegations, and what resuming saved or lost."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import get_args

import click

from upthread.client.project import Project
from upthread.core.decision.words import Tokens, done_in_words
from upthread.errors import UsageError
from upthread.runtime.record.savings import (
    Delegation,
    Prices,
    Savings,
    Sum,
    Way,
    delegations_of,
    grouped,
    savings_of,
)
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.shapes import tokens_expected
from upthread.surfaces.cli.terminal.output import Output, Shape, Styled, members
from upthread.surfaces.cli.terminal.phrases import counted, one_line
from upthread.surfaces.cli.terminal.state_lines import Row, write_table

NOT_TOLD = "not told"
KINDS = ("read", "cached", "cache_written", "written")
_HINT = "--prices read=3,cached=0.3,cache_written=3.75,written=15"
_GROUPS = ("workstream", "role", "month")
"""By which members of a delegation the sums are told as well."""


@options.verb
@options.workstream_or_all
@click.option(
    "--prices",
    metavar="P",
    help="What you pay for a million tokens, for example read=3,written=15 "
    "(also: cached, cache_written).",
)
def main(call: Call, *, workstream: str | None, prices: str | None) -> None:
    """Show what delegations cost, as their agents counted, and what resuming saved or lost."""
    paid = read_prices(prices) if prices is not None else None

    async def use(project: Project) -> list[Delegation]:
        names = [workstream] if workstream is not None else await project.names()
        found: list[Delegation] = []
        for name in names:
            found += await project.with_audit(name, delegations_of)
        return found

    delegations = call.with_project(use)
    total = savings_of(delegations, paid)
    output = call.output
    if output.is_json:
        groups = {
            f"by_{name}": [
                {name: shared, **total_shape(savings_of(each, paid))}
                for shared, each in grouped(delegations, attrgetter(name)).items()
            ]
            for name in _GROUPS
        }
        told = [_delegation_shape(one, paid) for one in delegations]
        sums = {"workstream": workstream, "total": total_shape(total)}
        output.json({**sums, **groups, "delegations": told})
        return
    if not delegations:
        output.note("nothing was delegated here yet")
        return
    output.row((one_line(workstream or "all workstreams"), "bold"), f": {ways_in_words(total)}")
    for label, value in sum_lines(total):
        output.row((f"  {label:<12}", "dim"), value)
    output.line()
    if workstream is not None:
        head, rows = rows_of(delegations, paid)
        write_table(output, head, rows)
    else:
        for name in _GROUPS:
            _write_group(output, name, delegations, paid)


def read_prices(text: str) -> Prices:
    """Return the prices that a person typed. Raises UsageError."""
    given: dict[str, Decimal] = {}
    for each in text.split(","):
        kind, _, price = each.partition("=")
        try:
            given[kind.strip()] = Decimal(price.strip())
        except InvalidOperation:
            raise UsageError(f"{each!r} is no price of a kind of tokens", hint=_HINT) from None
    is_each_one = given.keys() == set(KINDS)
    if not is_each_one or not all(price.is_finite() and price >= 0 for price in given.values()):
        raise UsageError(f"a price is needed for each of {', '.join(KINDS)}", hint=_HINT)
    return Prices(**given)


# --- for people --------------------------------------------------------------------------------


def ways_in_words(total: Savings) -> str:
    """`3 delegations: 1 first, 1 resumed, 1 briefed`."""
    ways = ", ".join(f"{count} {way}" for way, count in total.ways.items() if count)
    return f"{counted(total.delegations, 'delegation')}: {ways}"


def sum_lines(total: Savings) -> Iterator[Styled]:
    """Yield each figure with its label. A figure that no agent reported is *not told*."""
    yield "spent", _sum(total.spent)
    yield "read", _sum(total.read)
    yield "from cache", _sum(total.cached)
    yield "into cache", _sum(total.cache_written)
    yield "written", _sum(total.written)
    if total.cost is not None:
        cost = money(total.cost) if total.cost_told else NOT_TOLD
        yield "cost", cost + _of(total.cost_told, total.delegations)
    yield "saved", _sum(total.saved)
    if total.caches_gone.of:
        gone = f"{total.caches_gone.total} of {counted(total.caches_gone.told, 'resume')}"
        yield "cache gone", gone if total.caches_gone.told else NOT_TOLD
    questions = counted(total.questions_again, "question")
    yield "again", f"{questions} asked, {counted(total.files_again, 'file')} read in a new session"
    yield "the price", _error(total)


def _sum(figure: Sum) -> str:
    if not figure.told:
        return NOT_TOLD if figure.of else "none"
    return f"{_tokens(figure.total)}{_of(figure.told, figure.of)}"


def _of(told: int, of: int) -> str:
    return "" if told in {0, of} else f" ({told} of {of} told)"


def _tokens(count: int) -> str:
    sign = "-" if count < 0 else ""
    return sign + Tokens(count=abs(count), is_estimate=False).in_words


def _error(total: Savings) -> str:
    middle = total.median_error
    if middle is None:
        return "not compared: no agent told what a first request read"
    many = counted(len(total.errors), "first request")
    least, most = _off(total.errors[0]), _off(total.errors[-1])
    return f"{_off(middle)} in the median of {many} ({least} to {most})"


def _off(error: float) -> str:
    percent = round(abs(error) * 100)
    return "right" if not percent else f"{percent} % {'high' if error > 0 else 'low'}"


def money(amount: Decimal) -> str:
    """Return an amount in whatever the prices were in."""
    return f"{amount:.4f}"


def rows_of(
    delegations: Sequence[Delegation], prices: Prices | None = None
) -> tuple[Row, list[Row]]:
    """Return the head of a table of delegations, and its rows."""
    head = ("ADDRESS", "TURN", "DECISION", "EXPECTED", "FIRST READ", "CACHED", "SPENT", "SAVED")
    rows: list[Row] = [
        (
            one.address,
            str(one.number),
            done_in_words(one.decision, None),
            one.expected.in_words if one.expected else "—",
            tokens_told(one.usage.first_read),
            tokens_told(one.usage.first_cached),
            _spent(one, prices),
            "—" if one.saved is None else _tokens(one.saved),
        )
        for one in delegations
    ]
    return head, rows


def _spent(one: Delegation, prices: Prices | None) -> str:
    cost = one.cost(prices) if prices else None
    tokens = NOT_TOLD if one.spent is None or one.spent.is_estimate else one.spent.in_words
    return tokens if cost is None else f"{tokens} {money(cost)}"


def tokens_told(figure: int | None) -> str:
    """Return a figure that an agent reported, or "not told"."""
    return NOT_TOLD if figure is None else _tokens(figure)


def _write_group(
    output: Output, name: str, delegations: Iterable[Delegation], prices: Prices | None
) -> None:
    ways = get_args(Way)
    head = (name.upper(), *map(str.upper, ways), "SPENT", "SAVED", "AGAIN")
    rows: list[Row] = []
    for shared, each in grouped(delegations, attrgetter(name)).items():
        total = savings_of(each, prices)
        again = str(total.files_again + total.questions_again)
        sums = (_sum(total.spent), _sum(total.saved))
        rows.append((shared, *(str(total.ways[way]) for way in ways), *sums, again))
    write_table(output, head, rows)
    output.line()


# --- for programs ------------------------------------------------------------------------------


def total_shape(total: Savings) -> Shape:
    """Return the sums, each with the number of delegations that reported it."""
    sums = {
        "tokens_spent": total.spent,
        "tokens_read": total.read,
        "tokens_written": total.written,
        "tokens_cached": total.cached,
        "tokens_cache_written": total.cache_written,
        "tokens_saved": total.saved,
        "caches_gone": total.caches_gone,
    }
    return {
        "delegations": total.delegations,
        **{str(way): count for way, count in total.ways.items()},
        **{name: members(s, "total told of") for name, s in sums.items()},
        "files_read_again": total.files_again,
        "questions_asked_again": total.questions_again,
        "price_error_median": total.median_error,
        "prices_compared": len(total.errors),
        "cost": money(total.cost) if total.cost is not None and total.cost_told else None,
        "cost_told": total.cost_told,
    }


def _delegation_shape(one: Delegation, prices: Prices | None) -> Shape:
    usage = one.usage
    cost = one.cost(prices) if prices else None
    return {
        **members(one, "address turn_id number opened_at_ms agent decision way"),
        "expected": {**tokens_expected(one.price), "cache": one.price.cache},
        "tokens_spent": one.measured,
        "requests": usage.requests or None,
        "tokens_read": usage.read,
        "tokens_written": usage.written,
        "tokens_cached": usage.cached,
        "tokens_cache_written": usage.cache_written,
        "tokens_first_read": usage.first_read,
        "tokens_first_cached": usage.first_cached,
        "tokens_saved": one.saved,
        "was_cache_gone": one.was_cache_gone,
        "files_read_again": one.files_again,
        "questions_asked_again": one.questions_again,
        "price_error": one.error,
        "cost": money(cost) if cost is not None else None,
    }
