"""What the last commits of a connection have left behind, so that the next one need not ask.

Theory of operation. Most commits follow one of the same process. What such a commit would look up
is remembered, and it is sent as one statement that carries its rows and has the server check what
they build on: `must_hold` for a lease, `must_end_with` for a conversation that gets parts. The
unique keys check all else. Where something has to be read first, or is not as remembered, nothing
is written, and the commit is made by looking up, which also finds the right words for an error.
What a commit that failed has named is forgotten, so that the same one is sure to look it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.codec import encode_word
from upthread.core.types import Fence
from upthread.errors import UpthreadError
from upthread.store.postgres.batch import Batch, Known, in_order
from upthread.store.postgres.joined_statement import joined
from upthread.store.postgres.prepared import Prepared
from upthread.store.sql.batch import Column, Row, Step

REMEMBERED_MAX: Final = 1_000
"""Conversations, turns and runs, each. Whoever writes to more looks the oldest up again."""

STEPS_MAX: Final = 48
BYTES_MAX: Final = 1_000_000
"""What is larger is looked up and sent bit by bit: the server takes 1 GB at once and no more."""


class NotRememberedError(Exception):
    """A write has to read what only the server can tell."""


class Memory:
    """What one connection remembers: its commits put into it how they leave what they name."""

    def __init__(self) -> None:
        self._known = Known()

    def commit(self, prepared: Prepared, steps: Sequence[Step], fences: Sequence[Fence]) -> bool:
        """Commit in one statement; False when what is remembered is not enough.

        SerializationFailure when the server finds something to be otherwise than remembered, as
        UniqueViolation is raised for a place that is taken.
        """
        is_done = False
        try:
            is_done = commit_as_remembered(prepared, self._known, steps, fences)
        finally:
            # After an error, too: what was moved on and not committed is not what the server has.
            if is_done:
                self._keep_to_size()
            else:
                self._forget(steps)
        return is_done

    def put(self, left: Known) -> None:
        """Remember how a commit that looked up has left things."""
        self._known.tails.update(left.tails)
        self._known.turns.update(left.turns)
        self._known.runs.update(left.runs)
        self._keep_to_size()

    def forget(self) -> None:
        """Forget all: the connection is another one."""
        self._known = Known()

    def _forget(self, steps: Sequence[Step]) -> None:
        known = self._known
        for _, conversation, turn, run in steps:
            if conversation is not None:
                known.tails.pop(encode_word(conversation), None)
            if turn is not None:
                known.turns.pop(encode_word(turn), None)
            if run is not None:
                known.runs.pop(encode_word(run), None)

    def _keep_to_size(self) -> None:
        known = self._known
        for each in (known.tails, known.turns, known.runs):
            while len(each) > REMEMBERED_MAX:
                # The one that was learnt first: to know the least used, each commit would pay.
                del each[next(iter(each))]


def commit_as_remembered(
    prepared: Prepared, known: Known, steps: Sequence[Step], fences: Sequence[Fence]
) -> bool:
    """Commit in one statement, and put into `known` how that leaves things.

    False: nothing was sent, since something has to be looked up. After that, or an error of
    psycopg's, what `known` has of all that the steps name may be wrong, and is to be forgotten.
    """
    if not steps or len(steps) > STEPS_MAX:
        return False
    # By statement: rows of one table stay in their order, and between tables it does not matter,
    # since there are no foreign keys (ADR 35).
    sent: dict[str, list[Sequence[Column]]] = defaultdict(list)
    batch = Batch(known, send=lambda query, row: sent[query].append(row), ask=_asked)
    try:
        for step in steps:
            step.apply(batch)
    # Also an error of a rule: what is remembered may be out of date, and the error with it.
    except (NotRememberedError, UpthreadError):
        return False
    values: list[Column] = []
    # In the order in which `joined` numbers them: leases, conversations, rows.
    for fence in in_order(fences):
        values += (encode_word(fence.name), fence.token)
    for conversation, chain in batch.grown.items():
        values += (conversation, chain)
    shape: list[tuple[str, int]] = []
    for query, rows in sent.items():
        shape.append((query, len(rows)))
        for row in rows:
            values += row
    statement = joined(len(fences), len(batch.grown), tuple(shape))
    # Nothing was sent so far, so the same batch can still be made by looking up.
    if statement is None or _size_bytes(sent) > BYTES_MAX:
        return False
    prepared.send(statement, values)
    return True


def _size_bytes(sent: Mapping[str, Sequence[Sequence[Column]]]) -> int:
    """Return the size of what can be large: the last column has a part's content."""
    return sum([len(row[-1]) for row in sent.get("record_part", ()) if isinstance(row[-1], bytes)])


def _asked(query: str, _values: Sequence[Column]) -> list[Row]:
    raise NotRememberedError(query)
