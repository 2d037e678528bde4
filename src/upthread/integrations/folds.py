"""What a framework's log comes to, kept up to date: of a log only what is new is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from upthread.client.framework_record import FrameworkRecord
from upthread.errors import ConflictError
from upthread.integrations.on_record import OnRecord
from upthread.runtime.record.entry_log import Entry, EntryLog, NewEntry

REMEMBERED_MAX: Final = 64
"""Of so many logs what they come to is kept. One that is read again after that is read whole."""


class Fold(Protocol):
    """A state that is the fold of a log's entries, none left out and none taken in twice."""

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        ...


FoldT = TypeVar("FoldT", bound=Fold)


class Followed(Generic[FoldT]):
    """A log's fold and how far it has come. `seen` is what compare-and-set compares."""

    __slots__ = ("fold", "generation", "seen")

    def __init__(self, fold: FoldT, generation: int) -> None:
        self.fold, self.generation, self.seen = fold, generation, 0


class Folds(Generic[FoldT]):
    """The folds of a record's logs, by address. Call it with the record's lock held or not."""

    def __init__(self, record: FrameworkRecord, make: Callable[[], FoldT]) -> None:
        self._record, self._make = record, make
        self._followed: dict[str, Followed[FoldT]] = {}

    def of(self, log: EntryLog) -> Followed[FoldT]:
        """Return a log's fold as it stands now; what is in it is not to be changed."""
        with self._record.lock:
            address, generation = log.key.address, log.generation()
            followed = self._followed.pop(address, None)
            if followed is None or followed.generation != generation:
                followed = Followed(self._make(), generation)
            # Asked before they are read: all up to there is read then. What was forgotten is no
            # entry, and has its number all the same.
            last = log.last()
            for entry in log.entries(after=followed.seen):
                followed.fold.apply(entry)
                followed.seen = entry.seq
            followed.seen = max(followed.seen, last)
            self._followed[address] = followed  # the one used last stands last
            while len(self._followed) > REMEMBERED_MAX:
                del self._followed[next(iter(self._followed))]
            return followed

    def append(self, log: EntryLog, make: Callable[[FoldT], NewEntry | None]) -> None:
        """Append the entry that is made from a log's fold as it is in this moment, if there is any.

        It is made anew where another process appends first.
        """
        while True:
            followed = self.of(log)
            entry = make(followed.fold)
            try:
                if entry is not None:
                    log.append((entry,), after=followed.seen)
            except ConflictError:
                continue
            return

    def folded(self, entries: Iterable[Entry]) -> FoldT:
        """Return the fold of these entries alone."""
        fold = self._make()
        for entry in entries:
            fold.apply(entry)
        return fold

    def of_newest(self, framework: str) -> Iterator[FoldT]:
        """Yield the fold of each log's newest entry, where that says it all: no other is read."""
        for known in self._record.threads(framework):
            with self._record.lock:
                newest = list(known.log.entries(newest=1))
            yield self.folded(newest)

    def known(self) -> tuple[FoldT, ...]:
        """Return the folds that are remembered, the one used last first. None is read again."""
        return tuple(each.fold for each in reversed(self._followed.values()))


class Folding(OnRecord, Generic[FoldT]):
    """A store whose logs are folded, each into one `_kind`."""

    _kind: type[FoldT]

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        record: FrameworkRecord | None = None,
    ) -> None:
        super().__init__()
        self._open(directory, database, record)
        self._folds = Folds(self._record, self._kind)
