"""One delegation as its caller asks for it: whom, what, under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from upthread.agents.base import AgentAdapter, OpenRequest
from upthread.config import Settings
from upthread.core.commands import Write
from upthread.core.decision.words import Tokens
from upthread.core.events import AgentsCall, TurnEnded, TurnParked
from upthread.core.turns.prompt import Task
from upthread.core.types import Durability, Fence, RunId, TurnId
from upthread.runtime.options import TellOptions
from upthread.runtime.turns.conversation import ClaimRequest
from upthread.runtime.turns.older_record import OwnSessions
from upthread.runtime.turns.progress import SILENT, Listener, Notice

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor
    from upthread.runtime.permissions import AskPerson


def _no_writes(*_: object) -> Sequence[Write]:
    return ()


class TellRequest(Struct, frozen=True, kw_only=True):
    """One delegation. `at_intent`, `at_end` and `at_park` add a run's writes to the turn's commits.

    `condition` is the digest of what `resume_if` looks at. `ask_person` is None where nobody is
    there to ask. `redactor` is what the turn is recorded with, None where it is recorded as it is.
    `options` are the caller's; `spent` gives what was spent so far of their `tokens_max`, blocking,
    None: all of this conversation. `version_notice` is given what the agent calls itself and its
    version. `is_tree_judged` for a turn whose verdict is passed on the working tree. One that
    `is_handed_back` is not ended when it is cancelled, so that another process goes on.
    `own_sessions` is how the session is compared with the record before the prompt leaves. `call`
    is what began a turn that the agent itself drives; such a turn has no adapter.
    """

    claim: ClaimRequest
    task: Task
    adapter: AgentAdapter | None
    open: OpenRequest
    settings: Settings
    ask_person: AskPerson | None = None
    options: TellOptions = field(default_factory=TellOptions)
    fences: tuple[Fence, ...] = ()
    run_id: RunId | None = None
    is_tree_judged: bool = False
    version_notice: Callable[[str, str], Notice | None] = lambda _calls_itself, _version: None
    spent: Callable[[], Tokens] | None = None
    condition: str | None = None
    redactor: Redactor | None = None
    is_handed_back: bool = False
    own_sessions: OwnSessions
    call: AgentsCall | None = None
    # In the turn's own commits: a crash between two would leave a run that does not know its turn.
    at_intent: Callable[[TurnId], Sequence[Write]] = _no_writes
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]] = _no_writes
    at_park: Callable[[TurnId, TurnParked], Sequence[Write]] = _no_writes

    @property
    def durability(self) -> Durability:
        """What a user message and a tool call are committed with."""
        is_strict = self.settings.durability == "strict"
        return Durability.SYNCED if is_strict else Durability.PROCESS

    @property
    def listener(self) -> Listener:
        """Who hears how it goes."""
        return self.options.listener or SILENT
