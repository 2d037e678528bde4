"""Erasure: what was said is erased, and the outline stays. Nobody may be at it meanwhile.

One workstream at a time, under its own lease and those of its conversations, in one commit; the
file is scrubbed once at the end. What is forgotten is not asked back from the agents: their own
stores hold what they hold, and whoever forgets is told where.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct

from upthread.core.commands import EraseConversation, EraseRun, RecordRunEvent, Write
from upthread.core.events import RunEnded
from upthread.core.types import CHILD_SLOT, Conversation, ConversationId, Fence, Link, ProjectId
from upthread.errors import ConflictError, NotFoundError, StoreError
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease, workstream_lease
from upthread.runtime.record.entry_log import marks_of
from upthread.runtime.record.turn_views import run_view
from upthread.runtime.system import System
from upthread.store.base import Store
from upthread.store.kinds import PARTS
from upthread.store.reads import Run
from upthread.store.streams import Entry, as_bytes, spoken_of

RACES_MAX = 20
"""How often an erasure gives way to a framework that writes in this moment."""


class Selection(Struct, frozen=True, kw_only=True):
    """What is to be forgotten; None leaves that side open. A child goes with who called it."""

    workstream: str | None = None
    role: str | None = None
    before_ms: int | None = None


class Held(Struct, frozen=True, kw_only=True):
    """How much content there is. `oldest_at_ms` is None where there is none."""

    parts: int
    content_bytes: int
    oldest_at_ms: int | None


class HeldConversation(Struct, frozen=True, kw_only=True):
    """A conversation with the content that falls under a selection, and its whole chain."""

    conversation: Conversation
    held: Held
    links: tuple[Link, ...]


def summed(conversations: Iterable[HeldConversation]) -> Held:
    """Return how much content several conversations have."""
    held = [each.held for each in conversations]
    times = [each.oldest_at_ms for each in held if each.oldest_at_ms is not None]
    return Held(
        parts=sum(each.parts for each in held),
        content_bytes=sum(each.content_bytes for each in held),
        oldest_at_ms=min(times, default=None),
    )


class HeldRun(Struct, frozen=True, kw_only=True):
    """A run, how many events it has, and whether it has ended."""

    run: Run
    events: int
    is_over: bool


class HeldWorkstream(Struct, frozen=True, kw_only=True):
    """What of a workstream falls under a selection. Only the last run may not have ended."""

    workstream: str
    conversations: tuple[HeldConversation, ...]
    runs: tuple[HeldRun, ...]


class Forgetting(Struct, frozen=True, kw_only=True):
    """Finds and forgets what a project holds."""

    store: Store
    system: System
    leases: Leases
    project_id: ProjectId

    async def held(self, selection: Selection) -> tuple[HeldWorkstream, ...]:
        """Return what falls under a selection, workstreams with nothing to forget left out."""

        def read() -> tuple[HeldWorkstream, ...]:
            found = tuple(self._held(selection))
            if not found:
                self._must_reach_all(selection)
            return found

        return await self.system.in_thread(read)

    async def forget(self, selection: Selection) -> tuple[HeldWorkstream, ...]:
        """Forget it, and return what it was.

        Raises LeaseHeldError when a turn or a run is under way there: of that workstream nothing is
        forgotten, and of none after it. StoreError where a damaged record hides some of it: all
        else is forgotten then.
        """
        found = await self.held(selection)
        try:
            for each in found:
                await self._forget(each, selection)
        except NotFoundError:  # a tag is gone of what was found a moment ago
            await self.system.in_thread(lambda: self._must_reach_all(selection))
            raise
        # Also when nothing was found: an earlier one may have been cut off before this.
        await self.system.in_thread(self.store.scrub)
        await self.system.in_thread(lambda: self._must_reach_all(selection))
        return found

    async def _forget(self, held: HeldWorkstream, selection: Selection) -> None:
        whole = workstream_lease(self.project_id, held.workstream)
        names = {  # generations of a conversation share its lease
            conversation_lease(key)
            for key in (each.conversation.key for each in held.conversations)
            if key.slot != CHILD_SLOT
        }
        ends = tuple(_ends(held, at_ms=self.system.now_ms()))
        erasures = _erasures(held, selection)

        def erase() -> None:
            known = [each.conversation for each in held.conversations]
            marks = marks_of(self.store, self.system, known)
            # The end before the erasure, in one commit: no run is left that would go on from
            # nothing.
            self.store.commit((*ends, *marks, *erasures), fences=fences)

        async with AsyncExitStack() as stack:
            doing = f"forget {held.workstream}"
            # The run's lease first, since a run takes those of its conversations while it holds it.
            requests = [LeaseRequest(name=whole, doing=doing)]
            requests += [LeaseRequest(name=name, doing=doing) for name in names]
            fences: list[Fence] = [
                await stack.enter_async_context(self.leases.held(request)) for request in requests
            ]
            for left in reversed(range(RACES_MAX)):
                try:
                    await self.system.in_thread(erase)
                except ConflictError:  # a framework was first, which takes no lease
                    if not left:
                        raise
                else:
                    break

    def _must_reach_all(self, selection: Selection) -> None:
        """Raise StoreError where damage may hide a stream from what was read."""
        for proof in self.store.proofs(self.project_id, selection.workstream):
            if proof.damage and "seq" not in proof.damage.ids:
                raise StoreError(
                    f"words may be left, because the record is damaged: {proof.damage.message}",
                    hint="`upthread doctor` lists the damage and its cure",
                )

    # --- finding -------------------------------------------------------------------------------

    def _held(self, selection: Selection) -> Iterator[HeldWorkstream]:
        for known in self.store.workstreams(self.project_id):
            if selection.workstream not in {None, known.workstream}:
                continue
            found = HeldWorkstream(
                workstream=known.workstream,
                conversations=tuple(self._conversations(known.workstream, selection)),
                runs=tuple(self._runs(known.workstream, selection)),
            )
            if found.conversations or found.runs:
                yield found

    def _conversations(self, workstream: str, selection: Selection) -> Iterator[HeldConversation]:
        chosen: set[ConversationId] = set()
        for each in self.store.conversations(self.project_id, workstream):
            # In the order they were opened: whoever called it was looked at before.
            is_child_of_chosen = each.parent_conversation_id in chosen
            if is_child_of_chosen or selection.role in {None, each.key.role}:
                chosen.add(each.conversation_id)
                yield HeldConversation(
                    conversation=each,
                    held=self._content(each.conversation_id, selection.before_ms),
                    links=self.store.links(each.conversation_id),
                )

    def _content(self, conversation_id: ConversationId, before_ms: int | None) -> Held:
        """Count what falls under a time, None for any; a part is as old as its entry."""
        parts = content_bytes = 0
        oldest_at_ms = None
        head = self.store.head("conversation", conversation_id)
        for entry in self.store.all_entries(head.row, PARTS) if head else ():
            if entry.said is not None and (before_ms is None or entry.at_ms < before_ms):
                parts += _parts_in(entry)
                content_bytes += len(as_bytes(entry.said))
                oldest_at_ms = min(
                    entry.at_ms, entry.at_ms if oldest_at_ms is None else oldest_at_ms
                )
        return Held(parts=parts, content_bytes=content_bytes, oldest_at_ms=oldest_at_ms)

    def _runs(self, workstream: str, selection: Selection) -> Iterator[HeldRun]:
        """A run that has not ended keeps what it needs to go on, unless all is to be forgotten."""
        for run in self.store.runs(self.project_id, workstream):
            view = run_view(self.store, run.run_id)
            is_over = view.ended is not None
            is_older = selection.before_ms is None or run.opened_at_ms < selection.before_ms
            if is_older and (is_over or selection == Selection(workstream=workstream)):
                yield HeldRun(run=run, events=view.events, is_over=is_over)


def _ends(held: HeldWorkstream, *, at_ms: int) -> Iterator[Write]:
    """A run that has nothing left to go on from is over."""
    for each in held.runs:
        if not each.is_over:
            yield RecordRunEvent(
                run_id=each.run.run_id,
                seq=each.events + 1,
                event=RunEnded(status="forgotten"),
                recorded_at_ms=at_ms,
            )


def _erasures(held: HeldWorkstream, selection: Selection) -> Sequence[Write]:
    before_ms = selection.before_ms
    conversations = (
        EraseConversation(conversation_id=each.conversation.conversation_id, before_ms=before_ms)
        for each in held.conversations
    )
    runs = (
        EraseRun(run_id=each.run.run_id, before_ms=before_ms, role=selection.role)
        for each in held.runs
    )
    return (*conversations, *runs)


def _parts_in(entry: Entry) -> int:
    """Return how many parts an entry has; of a damaged one, which can be forgotten too, one."""
    try:
        return len(spoken_of(entry.kept).outline)
    except StoreError:
        return 1
