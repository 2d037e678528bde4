"""A SQLite file system that counts, and fails when told to.

For tests of a store on SQLite: `with faulty_file_system() as faults: SqliteStore(path,
vfs=faults.name)`. Failures are injected below SQLite, where a broken disk would show.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

import apsw

_NUMBERS = count(1)


class FaultyFileSystem(apsw.VFS):
    """The default file system, counted.

    `failing` names what raises an I/O error, of "write" and "sync"; with `operations_left`, only
    after so many of those have gone well.
    """

    def __init__(self) -> None:
        self.name = f"upthread-faulty-{next(_NUMBERS)}"
        self.failing: frozenset[str] = frozenset()
        self.operations_left = 0
        self.log_syncs = 0
        """How often a write-ahead log was brought to the disk."""
        self.written_bytes = 0
        super().__init__(self.name, "")

    def do(self, operation: str) -> None:
        """Fail if this operation is to fail."""
        if operation in self.failing:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise apsw.IOError(f"injected: {operation} failed")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        """Open a file that reports here."""
        return _FaultyFile(self, name, flags)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, owner: FaultyFileSystem, name: Any, flags: list[int]) -> None:
        self._owner = owner
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802  # SQLite's name
        self._owner.do("write")
        self._owner.written_bytes += len(data)
        # apsw's stub names a type that Python 3.11 does not have.
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        self._owner.do("sync")
        self._owner.log_syncs += self._is_log
        super().xSync(flags)


@contextmanager
def faulty_file_system() -> Generator[FaultyFileSystem]:
    """Register the file system while the block lasts; close every store on it before its end."""
    file_system = FaultyFileSystem()
    try:
        yield file_system
    finally:
        file_system.unregister()


@contextmanager
def statements_of(store: Any) -> Generator[list[str]]:
    """Collect the statements that a store executes."""
    found: list[str] = []
    connection = store.database.connection
    connection.set_exec_trace(lambda _cursor, statement, _bindings: found.append(statement) or True)
    yield found
    connection.set_exec_trace(None)
