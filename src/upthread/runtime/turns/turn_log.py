"""The log of a turn: its events as they are committed, and the view they fold to.

Nothing counts before it is committed, so the view moves with the commit, and in its thread: a
caller that is cancelled while it waits for that thread finds the view as the store has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from upthread.core.commands import RecordTurnEvent, Write
from upthread.core.events import TurnEnded, TurnEvent, TurnIntended, TurnParked
from upthread.core.turns import turn as turns
from upthread.core.types import Durability, Fence, Outcome, TurnId
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import TellRequest
from upthread.store.base import Store


class TurnLog:
    """Appends to one turn. The turn is none before `begin` or `take_up`."""

    def __init__(
        self, store: Store, system: System, request: TellRequest, fences: tuple[Fence, ...]
    ) -> None:
        self.turn_id = TurnId("")
        self.view = turns.TurnView()
        self.fences = (*fences, *request.fences)
        """The leases without which nothing of this turn may be written."""
        self._store = store
        self._system = system
        self._at_park = request.at_park
        self._held: tuple[TurnEvent, ...] = ()

    def begin(self, turn_id: TurnId) -> None:
        """Start a new turn after the newest one."""
        self.take_up(turn_id, turns.TurnView())

    def take_up(self, turn_id: TurnId, view: turns.TurnView) -> None:
        """Go on with a turn as another process left it."""
        self.turn_id, self.view = turn_id, view

    @property
    def intended(self) -> TurnIntended:
        """The intent that was committed last; a turn has one before anything else is asked."""
        assert self.view.intended is not None
        return self.view.intended

    @property
    def outcome_of_park(self) -> Outcome:
        """The agent's failure that parked the turn, unknown where it was something else."""
        known = {outcome.value for outcome in Outcome}
        reason = self.view.parked.reason if self.view.parked else ""
        return Outcome(reason) if reason in known else Outcome.UNKNOWN

    def hold(self, event: TurnEvent) -> None:
        """Append with the next commit: for what a crash may take with it."""
        self._held += (event,)
        self.view = turns.apply(self.view, event)

    async def commit(self, *events: TurnEvent, writes: Sequence[Write] = ()) -> None:
        """Append, with what belongs to the same moment, in one commit."""
        now_ms = self._system.now_ms()
        # The view counts those that are held as well: they have happened, and are not stored yet.
        committed = self.view.events - len(self._held)
        records = tuple(
            RecordTurnEvent(
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
                durability=_durability(event),
            )
            for seq, event in enumerate((*self._held, *events), committed + 1)
        )
        # A turn is opened before its first event; all else is older than the event it led to.
        parks = (each for each in events if isinstance(each, TurnParked))
        follow_up = (w for each in parks for w in self._at_park(self.turn_id, each))
        batch = (*writes, *records, *follow_up)

        def write() -> None:
            self._store.commit(batch, fences=self.fences)
            # Here and not below: a caller that is cancelled meanwhile must know what is written.
            self._held = ()
            for event in events:
                self.view = turns.apply(self.view, event)

        await self._system.in_thread(write)


def _durability(event: TurnEvent) -> Durability:
    """The end of a turn is synced; it covers all that was committed before it."""
    is_end = isinstance(event, TurnEnded | TurnParked)
    return Durability.SYNCED if is_end else Durability.PROCESS
