"""What is damaged in a database file, by the engine's own check. It is only read.

What is said of a file that could be opened comes from SQLite; what a file that could not be opened
is, from presence.py and from the error of opening it. Messages are verified by the store (S9).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from upthread.errors import StoreError
from upthread.store.sqlite.database import Database
from upthread.store.sqlite.encryption import connect
from upthread.store.sqlite.presence import CURE_OF_DAMAGE, Connection, refuse_remains, size_of

FAULTS_MAX: Final = 100
"""How many faults the engine is asked for."""

_BUSY_TIMEOUT_S: Final = 30.0


class FileFaults(Struct, frozen=True, kw_only=True):
    """What is wrong with a database file; `faults` is empty for a sound one.

    `is_open` is whether it can be opened at all, `cure` what helps.
    """

    path: Path
    is_open: bool
    faults: tuple[str, ...] = ()
    cure: str = CURE_OF_DAMAGE

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return self.is_open and not self.faults


def check_file(path: Path, *, key: bytes | None = None) -> FileFaults:
    """Check all of a database file; one that is not there yet is sound, and not made.

    Nothing in it is changed.
    """
    try:
        refuse_remains(path)
        if not size_of(path):
            return FileFaults(path=path, is_open=True)
        # For its refusals: what no store would open is said in the store's words.
        Database(path, busy_timeout_s=_BUSY_TIMEOUT_S, key=key).close()
    except StoreError as error:
        return FileFaults(path=path, is_open=False, faults=(error.message,), cure=error.hint)
    connection = connect(path, key, busy_timeout_ms=int(_BUSY_TIMEOUT_S * 1000))
    try:
        faults = faults_in(connection, faults_max=FAULTS_MAX)
    except apsw.Error as error:
        # Damage may also end the check, as that of the schema does: then this is the fault.
        faults = (str(error),)
    finally:
        connection.close()
    return FileFaults(path=path, is_open=True, faults=faults)


def faults_in(connection: Connection, *, faults_max: int) -> tuple[str, ...]:
    """Return what the engine finds damaged, empty where nothing is. Blocking, reads the whole file.

    For example an entry that no index leads to: whoever asks for it by its place finds none.
    """
    rows = connection.execute(f"PRAGMA integrity_check({faults_max:d})").fetchall()
    told = [line for (text,) in rows for line in str(text).splitlines()]
    # `*** in database main ***` is the head of what follows it.
    return tuple(line for line in told if line != "ok" and not line.startswith("***"))
