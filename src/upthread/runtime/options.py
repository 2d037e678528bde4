"""How to tell, and how to run, as every surface says it and every layer hands it on.

Values only. A `listener` of None hears nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from upthread.core.decision.handshake import Continuity
from upthread.core.events import RunEvent
from upthread.runtime.turns.conversation import WhenBusy
from upthread.runtime.turns.progress import Listener, TurnResult


class TellOptions(Struct, frozen=True, kw_only=True):
    """How to tell. `agent` None leaves the choice to client/parts.py's order.

    A turn that would pass `tokens_max`, counted over all of the conversation, is refused. With
    `is_waiting` a limit of the agent is waited out, as long as it takes, where the agent said until
    when; `when_busy` says what becomes of a turn that has to wait for another one. A turn with a
    `key` is found by it, and is left open when it is cancelled: the next attempt continues it.
    """

    agent: str | None = None
    when_busy: WhenBusy = "refuse"
    is_fresh: bool = False
    is_waiting: bool = False
    tokens_max: int | None = None
    listener: Listener | None = None
    key: str = ""


class RunOptions(Struct, frozen=True, kw_only=True):
    """How to run. `agents` overrides by role, `agent` for all others; so does `continuity`.

    `steps_max` stops after so many steps; None runs to the end. With `is_handed_back` a turn that
    is cancelled is left open, and another process continues it. `is_worktree` gives the workstream
    a working tree of its own, on a branch of its own; it is worked on there from then on.
    """

    agent: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    continuity: Continuity | None = None
    steps_max: int | None = None
    tokens_max: int | None = None
    is_waiting: bool = False
    is_handed_back: bool = False
    is_worktree: bool = False
    listener: Listener | None = None
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None

    @property
    def names_an_agent(self) -> bool:
        """Whether an agent was named, which need not be the one that is limited."""
        return self.agent is not None or bool(self.agents)
