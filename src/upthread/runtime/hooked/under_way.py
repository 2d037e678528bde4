"""Calls under way: which conversations the sub-agents of hooked agents are working on now.

Hooks know no lease: a call claims its conversation in the binding, until it has ended or its agent
is dead. Nothing of it is in the record before that.
"""

from __future__ import annotations

from msgspec import Struct

from upthread.core.lazy_dataclass import replace
from upthread.core.types import ConversationKey, Holder, ProjectId
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import number_in, object_in, text_in
from upthread.runtime.bindings.places import Place, read_binding
from upthread.runtime.system import System


class CallUnderWay(Struct, frozen=True, kw_only=True):
    """A call that has begun and not ended. `begun_at_ms` is None where that was not kept."""

    key: ConversationKey
    agent: str
    holder: Holder
    begun_at_ms: int | None


def calls_under_way(place: Place, project_id: ProjectId, system: System) -> list[CallUnderWay]:
    """Return the calls that are under way, by address. Blocking."""
    found: list[CallUnderWay] = []
    # One that is damaged is written anew by the next that publishes.
    for _, binding in bindings(place, lambda each: object_in(each, "claim"), read_binding):
        held, slot = object_in(binding, "claim"), number_in(binding, "slot")
        is_ours = text_in(held, "agent") == OURS
        # Slot 0 is only recorded and no role's; a turn of ours has its lease to be seen by.
        if not slot or is_ours or not is_claimed_by_another(binding, ""):
            continue
        key = ConversationKey(
            project_id=project_id,
            workstream=text_in(binding, "workstream"),
            role=text_in(binding, "role"),
            slot=slot,
        )
        agent = text_in(held, "agent")
        holder = replace(
            system.this_process(f"a sub-agent of {agent}"),
            pid=number_in(held, "pid"),
            started_at_ticks=number_in(held, "ticks"),
        )
        begun_at_ms = number_in(held, "at_ms") or None
        found.append(CallUnderWay(key=key, agent=agent, holder=holder, begun_at_ms=begun_at_ms))
    return sorted(found, key=lambda call: call.key.address)
