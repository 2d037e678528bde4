"""What all stores have in common: the record that they are on, which they opened or were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TypeVar

from upthread.client.framework_record import FrameworkRecord
from upthread.core.types import Speaker

SPEAKERS: Final = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT}
"""Who speaks under which name of the frameworks; under any other it is a tool."""

Value = TypeVar("Value")


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
