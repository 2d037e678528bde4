"""What was said of each call, for as long as a turn goes on.

A call that has ended can be asked for again by its id: what was told of it stays. What is kept is
bounded. Of a call that may have been forgotten it is not known what it is: of no settled kind.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from upthread.core.quotas import weight
from upthread.core.shell.expected_call import Told

CALLS_TOLD_MAX: Final = 10_000
TOLD_BYTES_MAX: Final = 16 * 2**20
"""How many calls, and how much of what was said of them, one turn keeps: the newest."""

TELLINGS_OF_CALL_MAX: Final = 32
"""A call that is told in more ways is of no settled kind: only the newest is still noted."""
UNSETTLED: Final = "unsettled"
_FORGOTTEN: Final = Told(tool_kind=UNSETTLED)


class ToldOfCalls:
    """Made for one turn."""

    def __init__(self) -> None:
        self._told: dict[str, list[Told]] = {}
        self._bytes = 0
        self._has_forgotten = False

    def note(self, call_id: str, told: Told) -> None:
        """Keep one thing that was said, unless it was said before."""
        # Taken out and put in again: the dict's order is by the last word on each call.
        said = self._told.pop(call_id, None)
        if said is None:
            # It may be one that was forgotten, and was called a command then.
            said = [_FORGOTTEN] if self._has_forgotten else []
        else:
            self._bytes -= sum(map(_bytes_of, said))
        if told not in said and told != Told():
            if len(said) >= TELLINGS_OF_CALL_MAX:
                said.pop()
                told = structs.replace(told, tool_kind=UNSETTLED)
            said.append(told)
        self._told[call_id] = said  # the newest last
        self._bytes += sum(map(_bytes_of, said))
        self._forget()

    def of(self, call_id: str | None) -> tuple[Told, ...]:
        """Return what was said of a call, under any session; none for one never told of."""
        said = self._told.get(call_id or "")
        if said is not None:
            return tuple(said)
        return (_FORGOTTEN,) if self._has_forgotten else ()

    def _forget(self) -> None:
        while len(self._told) > CALLS_TOLD_MAX or self._bytes > TOLD_BYTES_MAX:
            oldest = next(iter(self._told))
            self._bytes -= sum(map(_bytes_of, self._told.pop(oldest)))
            self._has_forgotten = True


def _bytes_of(told: Told) -> int:
    return weight([told.title, told.arguments, told.locations])
