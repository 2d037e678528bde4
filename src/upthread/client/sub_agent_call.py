"""One call of an agent's own tool for sub-agents, as its hook tells it, and the answer to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from upthread.core.events import AgentsCall
from upthread.core.types import Holder, Outcome
from upthread.core.workstreams import NONE
from upthread.runtime.system import process_holder

BUSY: Final = "busy"
ELSEWHERE: Final = "elsewhere"
"""What an agent says of a session that it was asked for, beside the words of an outcome: it is at
work in the session, or opens it only in another main session."""


class SubAgentCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent, as an agent's hook tells it.

    `pid` is the agent's process. `unusable` are sessions the agent was asked for, and what it said
    of each. `takes_session` is whether the agent's tool takes a session to go on in. `named` is a
    session that the model named and the agent does not have, empty for none. With `only_own` a main
    session can go on with nothing but what was started in it. `reach` words how the model writes to
    a sub-agent that it had before, None where it cannot. `by_sub_agent` is whether a sub-agent
    made the call, and not the main session itself.
    """

    agent: str
    main_session: str
    call_id: str
    role: str
    prompt: str
    pid: int
    takes_session: bool = False
    unusable: Mapping[str, str] = field(default_factory=dict[str, str])
    named: str = ""
    only_own: bool = False
    reach: Callable[[str], str] | None = None
    by_sub_agent: bool = False

    @property
    def holder(self) -> Holder:
        """The agent's process, for which a call's lease is held."""
        return process_holder(self.pid, f"a call in {self.agent}")

    @property
    def session_lost(self) -> Outcome | None:
        """Why the agent cannot use the session that it was asked for last; None where it can."""
        lost = [why for why in self.unusable.values() if why not in {BUSY, ELSEWHERE}]
        # The plug-in's word may be of a newer version; that the session cannot be used is certain.
        known = [Outcome(why) if why in set(Outcome) else Outcome.MISSING for why in lost]
        return known[-1] if known else None


class Answer(Struct, frozen=True, kw_only=True):
    """What a hook answers: a line for the person, the prompt, and the session to resume.

    `refusal` tells the model why the call is not made; `is_role` is whether the call is continued.
    """

    line: str = ""
    prompt: str = ""
    session: str = ""
    refusal: str = ""
    is_role: bool = False


def agents_call(call: SubAgentCall, because: str = "") -> AgentsCall:
    """Return what the record keeps of a call; `because` is why it belongs to its workstream."""
    return AgentsCall(
        agent=call.agent,
        main_session=call.main_session,
        call_id=call.call_id,
        because=because or NONE,
    )
