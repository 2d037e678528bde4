"""The experiment: the same two prompts in three new workstreams, each in a working tree of its own.

*resumed* and *briefed* are told the first prompt and then the second; resumed in the same session,
briefed in a new one that is told what upthread tells a fresh session. *fresh* is told the second
prompt alone, as without upthread. What is compared is what the second one took, as it is on record.
Nothing of the person's own conversations or files is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from msgspec import Struct, structs

from upthread.core.decision.price import Tokens
from upthread.core.types import Outcome
from upthread.errors import RefusedError, UpthreadError
from upthread.runtime.options import TellOptions
from upthread.runtime.record.savings import Delegation, delegations_of
from upthread.runtime.record.timeline import Timeline

if TYPE_CHECKING:
    from upthread.client import Project
    from upthread.runtime.turns.progress import TurnResult

Way: TypeAlias = Literal["resumed", "briefed", "fresh"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)


class Asked(Struct, frozen=True, kw_only=True):
    """What is played: `first` is what the role has done before, `then` the task compared.

    No turn begins once `tokens_max` are spent over all three ways.
    """

    name: str
    role: str
    first: str
    then: str
    tokens_max: int

    def address(self, way: Way) -> str:
        """Return the address that a way is played under."""
        return f"{self.name}-{way}/{self.role}"


class Played(Struct, frozen=True, kw_only=True):
    """What one way took for the second prompt. `fault` says why there is none, else empty.

    `took` is as on record, None where it never began; `seconds` of the wall; `tree_kept` is the
    working tree, where something was left in it, else empty.
    """

    way: Way
    address: str
    decision: str = ""
    reply: str = ""
    took: Delegation | None = None
    seconds: float = 0.0
    fault: str = ""
    tree_kept: str = ""


class Budget:
    """Counts what is spent over all ways; an agent that tells nothing is counted as estimated."""

    def __init__(self, tokens_max: int) -> None:
        self.tokens_max, self.spent = tokens_max, 0

    @property
    def left(self) -> int:
        """How much may still be spent."""
        return max(0, self.tokens_max - self.spent)

    def add(self, spent: Tokens) -> None:
        """Count a turn."""
        self.spent += spent.count


async def play(
    project: Project, asked: Asked, options: TellOptions, *, begins: Callable[[Way, str], None]
) -> tuple[list[Played], Budget]:
    """Play all ways, one after the other. `begins` is told of each turn before it is told.

    What one way fails at is said of it, and the others are played all the same. Raises UsageError
    where no working tree can be made.
    """
    budget = Budget(asked.tokens_max)
    played: list[Played] = []
    for way in WAYS:
        workstream = f"{asked.name}-{way}"
        await project.worktrees.make(workstream)
        try:
            found = await _played(project, asked, way, options, budget, begins)
        finally:
            kept = await _left(project, workstream)
        played.append(structs.replace(found, tree_kept=kept))
    return played, budget


async def _played(  # noqa: PLR0917  # one way of an experiment
    project: Project,
    asked: Asked,
    way: Way,
    options: TellOptions,
    budget: Budget,
    begins: Callable[[Way, str], None],
) -> Played:
    address = asked.address(way)
    held = 0
    result: TurnResult | None = None
    began_s = time.monotonic()
    for prompt in _prompts(asked, way):
        if not budget.left:
            fault = f"the {budget.tokens_max} tokens are spent"
            return Played(way=way, address=address, fault=fault)
        begins(way, address)
        began_s = time.monotonic()
        chosen = structs.replace(
            options,
            is_fresh=way == "briefed" and result is not None,
            tokens_max=held + budget.left,
        )
        try:
            result = await project.tell(address, prompt, chosen)
        except UpthreadError as error:  # told in the table: the other ways are played
            return Played(way=way, address=address, fault=error.message)
        budget.add(result.spent)
        held += result.spent.count
        if result.parked is not None or result.outcome is not Outcome.OK:
            fault = result.detail or str(result.outcome)
            return Played(way=way, address=address, decision=result.decision, fault=fault)
    assert result is not None
    return Played(
        way=way,
        address=address,
        decision=result.decision,
        reply=result.reply,
        took=await _took(project, asked, way, result.turn_id),
        seconds=time.monotonic() - began_s,
    )


def _prompts(asked: Asked, way: Way) -> Iterator[str]:
    if way != "fresh":
        yield asked.first
    yield asked.then


async def _took(project: Project, asked: Asked, way: Way, turn_id: str) -> Delegation | None:
    timeline = Timeline(await project.audit(f"{asked.name}-{way}"))
    return next((each for each in delegations_of(timeline) if each.turn_id == turn_id), None)


async def _left(project: Project, workstream: str) -> str:
    """Remove a way's working tree; return where it is where something in it is not committed."""
    tree = await project.worktrees.find(workstream)
    if tree is None:
        return ""
    try:
        await project.worktrees.remove(workstream)
    except RefusedError:
        return str(tree.path)
    return ""
