"""Briefings: what a fresh session of a role would be told, shown and edited by a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct, structs

from upthread.client.parts import ProjectParts
from upthread.core.commands import RecordBriefingEdit
from upthread.core.context.briefing import (
    BriefingEdit,
    BriefingInputs,
    Section,
    build_briefing,
    read_edit,
    sections_of,
)
from upthread.core.types import Conversation
from upthread.runtime.record.workstream_views import RoleView
from upthread.runtime.turns.recovery import briefing_edit, briefing_inputs


class Briefing(Struct, frozen=True, kw_only=True):
    """A briefing as it would be told now. `edits` counts how often persons have edited it.

    `changes` are what has changed, as it is told in it, None where nothing was looked at.
    """

    conversation: Conversation
    text: str
    sections: tuple[Section, ...]
    edits: int
    changes: tuple[str, ...] | None = None


class Briefings:
    """`await up.brief(address)` shows, `await up.brief.edit(…)` keeps a person's text."""

    def __init__(
        self,
        parts: ProjectParts,
        *,
        role: Callable[[str], Awaitable[RoleView]],
        is_independent: Callable[[str], bool],
        changes_now: Callable[[RoleView], tuple[str, ...] | None],
    ) -> None:
        self._store = parts.store
        self._system = parts.system
        self._role = role
        self._is_independent = is_independent
        self._changes_now = changes_now

    async def __call__(self, address: str) -> Briefing:
        """Return the briefing of a role's conversation. Raises NotFoundError."""
        view = await self._role(address)
        return await self._system.in_thread(
            lambda: self._read(view.conversation, self._changes_now(view))
        )

    async def edit(self, shown: Briefing, text: str) -> tuple[Briefing, tuple[str, ...]]:
        """Keep what a person made of a briefing; returns it as it is now, and what went amiss.

        Text that changes nothing, and an empty one, change nothing. Raises ConflictError when
        somebody else has edited it since it was shown.
        """

        def keep() -> tuple[Briefing, tuple[str, ...]]:
            conversation = shown.conversation
            _, before = briefing_edit(self._store, conversation.conversation_id)
            # As it was without the edit, and with the changes
            # that the person saw: what differs is theirs.
            made = sections_of(
                structs.replace(self._inputs(conversation, shown.changes), edit=None)
            )
            read = read_edit(text, shown=shown.sections, made=made, before=before)
            if read.edit != before:
                # By number, so that of two who edited the same
                # text the second is told, and nobody overwrites.
                self._keep(conversation, shown.edits + 1, read.edit)
            return self._read(conversation, shown.changes), read.faults

        return await self._system.in_thread(keep)

    def _keep(self, conversation: Conversation, seq: int, edit: BriefingEdit) -> None:
        write = RecordBriefingEdit(
            conversation_id=conversation.conversation_id,
            seq=seq,
            edit=msgspec.to_builtins(edit),
            recorded_at_ms=self._system.now_ms(),
        )
        self._store.commit((write,))

    def _read(self, conversation: Conversation, changes: tuple[str, ...] | None) -> Briefing:
        inputs = self._inputs(conversation, changes)
        edits, _ = briefing_edit(self._store, conversation.conversation_id)
        return Briefing(
            conversation=conversation,
            text=build_briefing(inputs),
            sections=sections_of(inputs),
            edits=edits,
            changes=changes,
        )

    def _inputs(
        self, conversation: Conversation, changes: tuple[str, ...] | None
    ) -> BriefingInputs:
        return briefing_inputs(
            self._store,
            conversation,
            changes=changes,
            is_independent=self._is_independent(conversation.key.role),
        )
