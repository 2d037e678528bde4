"""How a conversation stands before its next prompt, as inputs of the handshake.

The one place where a conversation's own facts become inputs: for a turn that begins, for `why`,
and for what is published to hooks. What is around it (files, git, price) is added by the runtime.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from upthread.core.decision.model import CALLER_DEPTH_MAX, HandshakeInputs
from upthread.core.roles.role import Role
from upthread.core.turns.turn import TurnView
from upthread.core.types import ConversationId, Link

_NOT_KNOWN: Final = ConversationId("")


class RecordFacts(Struct, frozen=True, kw_only=True):
    """What the record says of a conversation; nothing of one that it does not know.

    `link` is the open one, `last` the newest turn.
    `other_host` is where its session lives, None when that is here, as far as is known.
    """

    conversation_id: ConversationId = _NOT_KNOWN
    turns: int = 0
    link: Link | None = None
    last: TurnView | None = None
    other_host: str | None = None

    def inputs(
        self,
        *,
        role: Role,
        agent: str,
        callers: tuple[ConversationId, ...] = (),
        depth_max: int = CALLER_DEPTH_MAX,
        condition_now: str | None = None,
        holder: str | None = None,
        tree_holder: str | None = None,
        opens_only_within: bool = False,
    ) -> HandshakeInputs:
        """Return the inputs for a prompt to `role` through `agent`, as far as the record goes."""
        intended = self.last.intended if self.last else None
        return HandshakeInputs(
            conversation_id=self.conversation_id,
            agent=agent,
            continuity=role.continuity,
            turns=self.turns,
            current_agent=self.link.agent if self.link else None,
            other_host=self.other_host,
            holder=holder,
            tree_holder=tree_holder,
            was_interrupted=self.last is not None and self.last.was_cut_off,
            was_unheard=self.last is not None and self.last.was_unheard,
            callers=callers,
            depth_max=depth_max,
            condition_before=intended.condition if intended else None,
            condition_now=condition_now,
            opens_only_within=opens_only_within,
        )
