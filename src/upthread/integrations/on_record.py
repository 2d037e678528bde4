"""What all stores have in common: the record that they are on, and what its logs come to.

The record is one that a store opened or was given. What a log comes to is kept up to date: of a log
only what is new is read.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Generic, ParamSpec, Protocol, Self, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from upthread.client.framework_record import FrameworkRecord
from upthread.core.codec import comes_back, decode_json, encode_json
from upthread.core.types import Speaker
from upthread.errors import ConflictError, StoreError, StoreUnreachableError, UsageError
from upthread.runtime.record.entry_log import (
    Append,
    Entry,
    EntryLog,
    NewEntry,
    Stands,
    append_together,
)

Given = ParamSpec("Given")
Value = TypeVar("Value")

SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT}
"""Who speaks under which name of the frameworks; under any other it is a tool."""


AS_TEXT = (date, UUID, Decimal, Enum)
"""In a framework's item a value of these types comes back as the framework's own JSON has it."""


async def settled(
    write: Callable[Given, Value], *given: Given.args, **named: Given.kwargs
) -> Value:
    """Carry a write out in a thread and return what it returns: its outcome is known.

    A thread cannot be stopped. Were it left behind, its write would be committed after its caller
    was told that it was cancelled, and whoever tries again would have it twice. So cancelled, this
    waits for the end of the write, then raises CancelledError, with the error of a write that
    failed as its cause.
    """
    call = partial(copy_context().run, write, *given, **named)
    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as cancelled:
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue  # once more, and the write goes on all the same
        raise cancelled from work.exception()


def dumped(
    name: str, dump: Callable[[], Value], both: Callable[[Value], Iterable[object]]
) -> Value:
    """Return a framework's item as JSON. UsageError unless it comes back equal from that.

    `both` returns the item and what is loaded from the JSON, as data that can be compared.
    """
    try:
        told = dump()
        if comes_back(*both(told), but=AS_TEXT):
            return told
        reason = "its JSON would come back as other values"
    except ValueError as error:
        reason = str(error)
    raise UsageError(
        f"{name} cannot be kept: {reason}",
        hint="give it text, finite numbers, lists, and objects with names that are text",
    )


class OnRecord:
    """A store on a record. One that was given, which others may be on as well, stays open."""

    _record: FrameworkRecord
    _is_own: bool

    def _open(
        self, directory: str | Path, database: str | None, record: FrameworkRecord | None
    ) -> None:
        self._record = record or FrameworkRecord(directory, database=database)
        self._is_own = record is None

    async def _look(self, look: Callable[[], Value]) -> Value:
        """Return what a blocking look at the record returns, while nobody here writes to it."""

        def locked() -> Value:
            with self._record.lock:
                return look()

        return await asyncio.to_thread(locked)

    def close(self) -> None:
        """Close the record, unless it was given."""
        if self._is_own:
            self._record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        OnRecord.close(self)  # one framework's own `close` is awaited


# --- what logs come to ----------------------------------------------------------------------------

REMEMBERED_MAX = 64
"""Of so many logs what they come to is kept. One that is read again after that is read whole."""


class Fold(Protocol):
    """A state that is the fold of a log's entries, none left out and none taken in twice."""

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        ...


FoldT = TypeVar("FoldT", bound=Fold)


class Followed(Struct, Generic[FoldT]):
    """A log's fold and how far it has come: `stands` is what compare-and-set compares."""

    fold: FoldT
    stands: Stands

    def take(self, stands: Stands, entries: Iterable[Entry]) -> None:
        """Take in what leads to where the log stands. What was forgotten has its number as well."""
        for entry in entries:
            if entry.seq <= stands.last:
                self.fold.apply(entry)
        self.stands = stands


ORDER = "upthread: the order in which these threads moved"
"""The thread of a framework's log that numbers its other logs. No other has this name by chance."""

NEVER = [0, 0]
"""Where in that log an entry of an earlier version stands, before all: a generation, a number."""


class Folds(Generic[FoldT]):
    """The folds of a record's logs, by address. Call it with the record's lock held or not.

    With `ordered`, a framework's name, each entry says as `moved` where it stands in ORDER: which
    log moved last is no matter of hosts' clocks. While no other log moves, the newest one keeps
    its place, so that a long conversation adds nothing to ORDER.
    """

    def __init__(
        self, record: FrameworkRecord, make: Callable[[], FoldT], *, ordered: str | None = None
    ) -> None:
        self._record, self._make = record, make
        self._followed: dict[str, Followed[FoldT]] = {}
        self._ordered = ordered
        self._newest: tuple[str, list[int]] = ("", NEVER)
        self.damaged: list[StoreError] = []  # of the logs that the newest listing left out

    def of(self, log: EntryLog) -> Followed[FoldT]:
        """Return a log's fold as it stands now; what is in it is not to be changed."""
        with self._record.lock:
            address, stands = log.key.address, log.stands()
            followed = self._followed.pop(address, None)
            if followed is None or followed.stands.generation != stands.generation:
                followed = Followed(self._make(), Stands(stands.conversation))
            new = stands.last - followed.stands.last
            entries = list(log.entries(after=followed.stands.last, stands=stands)) if new else []
            if len(entries) < new:  # some were forgotten, and what is remembered may be of them
                followed = Followed(self._make(), Stands(stands.conversation))
                entries = list(log.entries(stands=stands))
            followed.take(stands, entries)
            self._followed[address] = followed  # the one used last stands last
            while len(self._followed) > REMEMBERED_MAX:
                del self._followed[next(iter(self._followed))]
            return followed

    def _took(self, log: EntryLog, stands: Stands, entries: Sequence[NewEntry]) -> None:
        """Take in what this process has just appended to a log that stood so: it is not read back.

        The values are those that a read would give, and not the caller's own.
        """
        followed = self._followed.pop(log.key.address, None)
        if followed is None or stands.conversation is None or followed.stands != stands:
            return
        numbered = enumerate(entries, start=stands.last + 1)
        followed.take(
            Stands(stands.conversation, stands.last + len(entries)),
            [
                Entry(seq=seq, value=decode_json(encode_json(each.value)), speaker=each.speaker)
                for seq, each in numbered
            ],
        )
        self._followed[log.key.address] = followed

    def add(self, log: EntryLog, entries: Sequence[NewEntry]) -> None:
        """Append entries, whatever comes before them."""
        while True:
            with self._record.lock:
                stands = log.stands()
                try:
                    log.append(entries, after=stands)
                except ConflictError:
                    continue
                self._took(log, stands, entries)
                return

    def append(
        self,
        log: EntryLog,
        make: Callable[[Followed[FoldT]], NewEntry | None],
        *,
        continues: bool = False,
        beside: Sequence[Append] = (),
    ) -> Stands | None:
        """Append the entry that is made from a log's fold as it is in this moment, if there is any.

        It is made anew where another process appends first. With `continues` the first attempt
        takes the fold as this process knows it, without a read: for work that began with a read.
        After a reset meanwhile the entry belongs to the conversation in which the work began.
        `beside` is appended to other logs in the same commit. Returns how the log stands then.
        """
        known = self._followed.get(log.key.address) if continues else None
        while True:
            with self._record.lock:
                followed, known = known or self.of(log), None
                stands, entry = followed.stands, make(followed)
                if entry is None:
                    return None
                newest, moves = self._place_of(log)
                if self._ordered:
                    entry = structs.replace(entry, value={**entry.value, "moved": newest[1]})
                own = Append(log=log, entries=(entry,), after=stands)
                try:
                    append_together((own, *moves, *beside))
                except ConflictError:
                    continue
                self._took(log, stands, (entry,))
                self._newest = newest
                return Stands(stands.conversation, stands.last + 1)

    def _place_of(self, log: EntryLog) -> tuple[tuple[str, list[int]], Sequence[Append]]:
        """Return the place in ORDER of a log that moves, and what has to be appended there."""
        if self._ordered is None:
            return self._newest, ()
        order, address = self._record.log(self._ordered, ORDER), log.key.address
        stands = order.stands()
        if self._newest == (address, [stands.generation, stands.last]):
            return self._newest, ()
        newest = address, [max(1, stands.generation), stands.last + 1]
        return newest, (Append(log=order, entries=(NewEntry(value={}),), after=stands),)

    def folded(self, entries: Iterable[Entry]) -> FoldT:
        """Return the fold of these entries alone."""
        fold = self._make()
        for entry in entries:
            fold.apply(entry)
        return fold

    def all(self, framework: str) -> Iterator[tuple[EntryLog, Followed[FoldT]]]:
        """Yield each log of a framework with its fold."""
        return self._each(framework, lambda log: (log, self.of(log)))

    def of_newest(self, framework: str) -> Iterator[FoldT]:
        """Yield the fold of each log's newest entry, where that says it all: no other is read."""

        def newest(log: EntryLog) -> FoldT:
            with self._record.lock:
                return self.folded(log.entries(newest=1))

        return self._each(framework, newest)

    def _each(self, framework: str, read: Callable[[EntryLog], Value]) -> Iterator[Value]:
        """Yield what is read of each log. A damaged one hides no other: it is warned of."""
        order, self.damaged = self._record.log(framework, ORDER).key, []
        for log in self._record.threads(framework):
            if log.key == order:
                continue
            try:
                found = read(log)
            except StoreUnreachableError:
                raise
            except StoreError as error:
                self.damaged.append(error)
                warnings.warn(f"left out: {error}", RuntimeWarning, stacklevel=2)
            else:
                yield found

    def known(self) -> Sequence[Followed[FoldT]]:
        """Return the folds that are remembered, the one used last first. None is read again."""
        return list(reversed(self._followed.values()))


class Folding(OnRecord, Generic[FoldT]):
    """A store whose logs are folded, each into one `_kind`."""

    _kind: type[FoldT]
    _ordered: str | None = None
    """The framework whose logs are listed by which of them moved last."""

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        record: FrameworkRecord | None = None,
    ) -> None:
        super().__init__()
        self._open(directory, database, record)
        self._folds = Folds(self._record, self._kind, ordered=self._ordered)
