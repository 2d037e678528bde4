"""What the last commits of a connection have left behind, so that the next one need not ask.

Theory of operation. Most commits follow one of the same process. What such a commit would look up
is remembered, and it is sent as one statement that carries its rows and has the server check what
they build on: `must_hold` for a lease, `must_end_with` for a conversation that gets parts. The
unique keys check all else. Where something has to be read first, or is not as remembered, nothing
is written, and the commit is made by looking up, which also finds the right words for an error. A
commit takes out what it builds on, so that after a failure the same one is sure to look it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.codec import encode_text
from upthread.core.types import Fence
from upthread.errors import UpthreadError
from upthread.store.postgres.batch import Batch, Known, Step, in_order
from upthread.store.postgres.columns import Column, Row
from upthread.store.postgres.joining import joined
from upthread.store.postgres.prepared import Prepared

REMEMBERED_MAX: Final = 1_000
"""Conversations, turns and runs, each. Whoever writes to more looks the oldest up again."""

STEPS_MAX: Final = 48
BYTES_MAX: Final = 1_000_000
"""What is larger is looked up and sent bit by bit: the server takes 1 GB at once and no more."""


class NotRememberedError(Exception):
    """A write has to read what only the server can tell."""


class Memory:
    """What is remembered. Whoever commits takes it out, and puts back what it left behind."""

    def __init__(self) -> None:
        self._known = Known()

    def take(self, steps: Sequence[Step]) -> Known:
        """Take out what is remembered of what the steps name: a failure leaves none of it."""
        known, taken = self._known, Known()
        for _, conversation, turn, run in steps:
            if conversation is not None and conversation in known.tails:
                taken.tails[conversation] = known.tails.pop(conversation)
            if turn is not None and turn in known.turns:
                taken.turns[turn] = known.turns.pop(turn)
            if run is not None and run in known.runs:
                taken.runs[run] = known.runs.pop(run)
        return taken

    def put(self, left: Known) -> None:
        """Remember how a commit has left things."""
        known = self._known
        known.tails.update(left.tails)
        known.turns.update(left.turns)
        known.runs.update(left.runs)
        for each in (known.tails, known.turns, known.runs):
            while len(each) > REMEMBERED_MAX:
                del each[next(iter(each))]

    def forget(self) -> None:
        """Forget all: the connection is another one."""
        self._known = Known()


def commit_as_remembered(
    prepared: Prepared, known: Known, steps: Sequence[Step], fences: Sequence[Fence]
) -> bool:
    """Commit in one statement and move `known` on; False when that cannot be done.

    SerializationFailure when the server finds something to be otherwise than remembered, as
    UniqueViolation is raised for a place that is taken.
    """
    is_nothing_known = not (known.tails or known.turns or known.runs)
    if is_nothing_known or len(steps) > STEPS_MAX:
        return False
    before = dict(known.tails)
    sent: dict[str, list[Sequence[Column]]] = defaultdict(list)
    batch = Batch(known, send=lambda query, row: sent[query].append(row), ask=_asked)
    try:
        for step in steps:
            step.apply(batch)
    except (NotRememberedError, UpthreadError):
        return False
    grown = [(name, tail.chain) for name, tail in before.items() if known.tails[name] is not tail]
    shape = tuple([(query, len(rows)) for query, rows in sent.items()])
    statement = joined(len(fences), len(grown), shape)
    if statement is None or _size_bytes(sent) > BYTES_MAX:
        return False
    values: list[Column] = []
    for fence in in_order(fences):
        values += (encode_text(fence.name), fence.token)
    for name, chain in grown:
        values += (name, chain)
    for rows in sent.values():
        for row in rows:
            values += row
    prepared.send(statement, values)
    return True


def _size_bytes(sent: Mapping[str, Sequence[Sequence[Column]]]) -> int:
    """Return the size of what can be large: the last column has a part's content."""
    contents = [row[-1] for row in sent.get("record_part", ())]
    return sum([len(each) for each in contents if isinstance(each, bytes)])


def _asked(query: str, _values: Sequence[Column]) -> list[Row]:
    raise NotRememberedError(query)
