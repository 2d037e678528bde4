"""What a backend declares, how a promise is run on it, and how the outcome is shown."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from upthread.core.commands import Write
from upthread.errors import UpthreadError
from upthread.store.base import Store
from upthread.store.log import LogStore


class Verdict(StrEnum):
    """What running a promise on a backend showed; a broken one raises."""

    KEPT = "kept"
    ABSENT = "absent"


Damage: TypeAlias = Literal["message missing", "message unreadable", "message changed"]
"""What can be done to message DAMAGED_MESSAGE behind a store's back."""

Tampering: TypeAlias = Literal[
    Damage,
    "event changed",
    "event dropped",
    "events swapped",
    "link changed",
    "link dropped",
    "head changed",
    "turn changed",
    "receipt changed",
    "act changed",
    "head missing",
    "tag missing",
]
"""What can be done to what is told of turns, runs and links behind a store's back.

It is the second event of a run, and the second link, of three; it is swapped with the third.
"""

DAMAGED_MESSAGE = 3
"""The message that is damaged: one with others before and after it."""


def files_below(place: Path) -> dict[str, bytes]:
    """Return the files beside a place, its own among them."""
    beside = place.parent.iterdir()
    return {each.name: each.read_bytes() for each in beside if each.is_file()}


class StoreBackend(Struct, frozen=True, kw_only=True):
    """A backend under test.

    `make` opens the store at a place, making it when there is none; the place is a path nobody
    uses yet, below a directory that exists, for a backend to take as a file or as a name. It is
    picklable, because several processes open one place. `mark_newer` changes a closed store so that
    it looks as if a later version had written it; `contents` returns what a closed store holds, to
    compare. `failing` makes the writes of a store fail while its context lasts; `tamper` changes or
    deletes a row of a closed store. `is_between_people`: several people use one, so a store of it
    that acts for a project refuses all else.
    """

    name: str
    make: Callable[[Path], LogStore]
    mark_newer: Callable[[Path], None]
    contents: Callable[[Path], object] = files_below
    failing: Callable[[Store], AbstractContextManager[None]]
    tamper: Callable[[Path, Tampering], None]
    is_between_people: bool = False


class Trial:
    """One promise on trial: a store of its own, closed at the end."""

    def __init__(self, backend: StoreBackend, place: Path) -> None:
        self.backend = backend
        self.place = place
        self.store = backend.make(place)

    def commit(self, *writes: Write) -> None:
        """Commit writes as one batch."""
        self.store.commit(writes)

    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = self.backend.make(self.place)


class Promise(Struct, frozen=True, kw_only=True):
    """One side of a numbered promise; some hold only for backends between people."""

    number: str
    check: Callable[[Trial], None]
    is_between_people: bool = False

    @property
    def name(self) -> str:
        """`S6_a_gap_between_messages_is_a_conflict`."""
        return f"{self.number}_{self.check.__name__}"

    def run(self, backend: StoreBackend, place: Path) -> Verdict:
        """Run it at a place nobody uses. AssertionError: the promise is broken."""
        if self.is_between_people and not backend.is_between_people:
            return Verdict.ABSENT
        trial = Trial(backend, place)
        try:
            self.check(trial)
        finally:
            trial.store.close()
        return Verdict.KEPT


PROMISES: list[Promise] = []
"""All promises, in the order in which their checks are loaded."""


def promise(
    number: str, *, is_between_people: bool = False
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Make a function the check of one side of a promise."""

    def add(check: Callable[[Trial], None]) -> Callable[[Trial], None]:
        PROMISES.append(Promise(number=number, check=check, is_between_people=is_between_people))
        return check

    return add


def refuses(trial: Trial, error: type[UpthreadError], writes: Iterable[Write]) -> None:
    """Assert that each of these writes, in a batch of its own, raises this kind of error."""
    for write in writes:
        with refused(error):
            trial.commit(write)


@contextmanager
def refused(error: type[UpthreadError]) -> Generator[None]:
    """Assert that the block raises this kind of error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


def matrix(verdicts: Mapping[tuple[str, str], str]) -> str:
    """Return a table, promise by subject, of (promise name, subject name) → verdict."""
    subjects = sorted({subject for _, subject in verdicts})
    promises = {promise for promise, _ in verdicts}
    names = sorted(promises, key=lambda name: (int(name[1:].partition("_")[0]), name))
    width = max(map(len, names), default=0)
    rows = [["", *subjects]]
    rows += [[name, *(verdicts.get((name, each), "-") for each in subjects)] for name in names]
    columns = [max(len(each), 8) for each in subjects]
    return "\n".join(
        " ".join([f"{name:<{width}}", *map(str.rjust, cells, columns)]) for name, *cells in rows
    )
