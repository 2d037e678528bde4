"""What all stores have in common: the record that they are on, which they opened or were given."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from upthread.client.framework_record import FrameworkRecord


class OnRecord:
    """A store on a record. One that was given, which others may be on as well, stays open."""

    _record: FrameworkRecord
    _is_own: bool

    def _open(
        self, directory: str | Path, database: str | None, record: FrameworkRecord | None
    ) -> None:
        self._record = record or FrameworkRecord(directory, database=database)
        self._is_own = record is None

    def close(self) -> None:
        """Close the record, unless it was given."""
        if self._is_own:
            self._record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        OnRecord.close(self)  # one framework's own `close` is awaited
