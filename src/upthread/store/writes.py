"""What each write adds to its stream. A write of a new kind is a function here, and its line below.

Messages, turns and forgetting are methods of `Drafts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, get_args

from msgspec import structs

from upthread.core import commands
from upthread.core.decision.examined import ExaminedFile
from upthread.core.record_policy import left_of_receipt
from upthread.core.types import MAIN_SLOT
from upthread.errors import ConflictError
from upthread.store import entries, kinds
from upthread.store.drafting import (
    READ_AGAIN,
    Change,
    Drafts,
    is_next,
    is_same,
    must_be_same,
    must_equal,
    must_exist,
)
from upthread.store.entries import Entry, Written, kept_of, written, written_event
from upthread.store.tags import key_tag, tag


def apply(drafts: Drafts, write: commands.Write) -> None:
    """Add what one write changes."""
    _APPLY[type(write)](drafts, write)


def _record_project(drafts: Drafts, write: commands.RecordProject) -> None:
    opening = written(kinds.ProjectOpened(), 0)
    change = drafts.opened(write.project_id, write.project_id, opening)
    entry = written(kinds.Identified(write.identity), 0)
    if not any(is_same(each, entry) for each in drafts.stored(change, ("identity",))):
        change.add(entry)


def _open_workstream(drafts: Drafts, write: commands.OpenWorkstream) -> None:
    project_id, name, base_name = write.project_id, write.workstream, write.base_name
    opening = written(kinds.WorkstreamOpened(base_name), write.opened_at_ms)
    if drafts.change("workstream", name, project_id) is None:
        taken = drafts.owner_of(tag("base_name", project_id, base_name), 0)
        if taken is not None:
            raise ConflictError(
                f"the base name {base_name!r} belongs to workstream {taken!r}",
                hint="take another base name",
            )
    drafts.opened(name, project_id, opening)


def _open_conversation(drafts: Drafts, write: commands.OpenConversation) -> None:
    new = write.conversation
    key, name = new.key, new.conversation_id
    opening = written(kinds.ConversationOpened(new), new.opened_at_ms)
    if drafts.change("conversation", name) is None:
        # Children, slot 0, share a key and are not in each other's way.
        if key.slot >= MAIN_SLOT:
            taken = drafts.owner_of(key_tag(key), new.generation)
            if taken is not None:
                raise ConflictError(
                    f"{key.address} generation {new.generation} is conversation {taken}",
                    hint="use that one: resolve again",
                )
        home = drafts.existing("workstream", key.workstream, key.project_id)
        must_equal(
            home.state.base_name,
            new.base_name,
            what=f"the base name of workstream {key.workstream!r}",
        )
        if new.parent_conversation_id is not None:
            drafts.existing("conversation", new.parent_conversation_id)
    drafts.opened(name, key.project_id, opening)


def _open_run(drafts: Drafts, write: commands.OpenRun) -> None:
    opening = written(kinds.RunOpened(write.workstream), write.opened_at_ms)
    if drafts.change("run", write.run_id) is None:
        drafts.existing("workstream", write.workstream, write.project_id)
    drafts.opened(write.run_id, write.project_id, opening)


def _open_link(drafts: Drafts, write: commands.OpenLink) -> None:
    link = write.link
    change = drafts.existing("conversation", link.conversation_id)
    # Its end is an entry of its own: a link that has ended since it was opened is the same link.
    opened = structs.replace(link, ended_because=None, ended_at_ms=None)
    entry = written(kinds.LinkOpened(opened), link.opened_at_ms)
    last = change.state.links
    drafts.numbered(change, entry, attrgetter("link.seq"), last=last, what="link")
    if link.ended_because is not None:
        _close_link(change, link.seq, link.ended_because, link.ended_at_ms or 0)


def _end_link(drafts: Drafts, write: commands.EndLink) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    is_there = 1 <= write.seq <= change.state.links
    must_exist(is_there or None, what="link", name=str(write.seq))
    _close_link(change, write.seq, write.ended_because, write.ended_at_ms)


def _close_link(change: Change, seq: int, because: str, at_ms: int) -> None:
    # The first cause stands.
    if any(link.seq == seq for link in change.state.open_links):
        change.add(written(kinds.LinkEnded(seq, because), at_ms))


def _record_run_event(drafts: Drafts, write: commands.RecordRunEvent) -> None:
    change = drafts.existing("run", write.run_id)
    event = written_event(kinds.RunMoved(write.seq, write.event), write.recorded_at_ms)
    last = change.state.events
    drafts.numbered(change, event, attrgetter("seq"), last=last, what="run event")


def _enqueue_transition(drafts: Drafts, write: commands.EnqueueTransition) -> None:
    run_id, after = write.run_id, write.run_seq
    change = drafts.existing("run", run_id)
    for each in drafts.stored(change, ("due",)):
        if kept_of(each).run_seq == after:
            # By its time alone: another host may name another queue.
            what = f"the transition after event {after} of run {run_id}"
            return must_equal(each.at_ms, write.due_at_ms, what=what)
    # What it follows must be there; what it leads to may be there already, by another process.
    last = change.state.events
    is_next(after + 1, last=last, what="a transition to event", owner=run_id)
    change.add(written(kinds.Due(after, write.queue), write.due_at_ms))
    change.job = write
    return None


def _record_quarantine(drafts: Drafts, write: commands.RecordQuarantine) -> None:
    turn_id, ordinal = write.turn_id, write.ordinal
    change = drafts.with_turn(write.conversation_id, turn_id)
    value = kinds.Strayed(turn_id, ordinal, write.reason)
    entry = written(value, write.recorded_at_ms, write.raw)
    what = f"quarantined event {ordinal} of turn {turn_id}"
    if not drafts.is_there(change, entry, attrgetter("turn_id", "ordinal"), what):
        change.add(entry)


def _record_decision(drafts: Drafts, write: commands.RecordDecision) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    value = kinds.Refused(write.decision, write.reasons, write.inputs)
    drafts.note(change, written(value, write.decided_at_ms))


def _record_act(drafts: Drafts, write: commands.RecordAct) -> None:
    conversation_id, run_id = write.conversation_id, write.run_id
    value = kinds.Acted(write.what, write.by_user, write.detail)
    if conversation_id is not None:
        about = structs.replace(value, run_id=run_id)
        change = drafts.existing("conversation", conversation_id)
        drafts.note(change, written(about, write.recorded_at_ms))
    if run_id is not None:
        about = structs.replace(value, conversation_id=conversation_id)
        drafts.note(drafts.existing("run", run_id), written(about, write.recorded_at_ms))


def _record_examined(drafts: Drafts, write: commands.RecordExamined) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    drafts.must_know_turn(write.turn_id, change)
    given = {write.first_ordinal + at: file for at, file in enumerate(write.files)}
    turn = change.state.turn
    is_newest = turn is not None and turn.turn_id == write.turn_id
    if not (is_newest and turn is not None and write.first_ordinal >= turn.files):
        for entry in drafts.stored(change, ("examined",)):
            _compare_files(entry, write, given)
    if given:
        first = min(given)
        must_equal(list(given), list(range(first, first + len(given))), what="examined files")
        change.add(_examined_entry(write, first, list(given.values())))


def _compare_files(
    entry: Entry, write: commands.RecordExamined, given: dict[int, ExaminedFile]
) -> None:
    """Take files that are there already out of those that are given; compare them (S3)."""
    value = kept_of(entry)
    first, count = value.first_ordinal, value.count
    same = [place for place in range(first, first + count) if place in given]
    if value.turn_id != write.turn_id or not same:
        return
    # Of files that were forgotten there is a digest of all alone, so all are compared.
    files: list[Any] = list(entries.files_of(entry)) or [None] * count
    for place in same:
        files[place - first] = given.pop(place)
    what = f"examined file {same[0]} of turn {write.turn_id}"
    must_be_same(entry, _examined_entry(write, first, files), what=what)


def _examined_entry(
    write: commands.RecordExamined, first: int, files: Sequence[ExaminedFile]
) -> Written:
    value = kinds.Examined(write.turn_id, first, write.upstream_session_id, len(files))
    return written(value, write.recorded_at_ms, files)


def _record_briefing_edit(drafts: Drafts, write: commands.RecordBriefingEdit) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    entry = written(kinds.BriefingEdited(write.seq), write.recorded_at_ms, write.edit)
    last = change.state.edits
    drafts.numbered(change, entry, attrgetter("seq"), last=last, what="briefing edit")


def _record_once(drafts: Drafts, write: commands.RecordOnce) -> None:
    project_id, key = write.project_id, write.key
    left = left_of_receipt(write.receipt)
    value = kinds.Attempted(write.attempt_id, write.state, write.receipt if left is None else left)
    said = () if left is None else (write.receipt,)
    entry = written(value, write.recorded_at_ms, *said)
    # Looked up once: what was not there may be there a moment later.
    change = drafts.opened(key, project_id, written(kinds.OnceOpened(), 0))
    # First: no step could follow itself, and the same again is accepted (S2).
    what = f"{write.state} of the action {key!r}"
    if not drafts.is_there(change, entry, attrgetter("attempt_id", "state"), what):
        _check_attempt(write, change.state)
        change.add(entry)


def _check_attempt(write: commands.RecordOnce, stands: kinds.ActionState) -> None:
    """Refuse a step that does not follow the last one, an attempt and its state (S23)."""
    name = f"the action {write.key!r}"
    attempt = f"{stands.attempt_id}: {stands.state}"
    if write.state == "intent":
        if stands.state not in {"", "failed"}:
            raise ConflictError(
                f"{name} was begun by another attempt, {attempt}",
                hint="read it: what is done has a receipt",
                key=write.key,
            )
        return
    must_exist(stands.state or None, what="attempt at the action", name=write.key)
    # Nor may an attempt that another has followed: its end, come late, is not the other one's.
    if (stands.attempt_id, stands.state) != (write.attempt_id, "intent"):
        raise ConflictError(
            f"{name} stands at attempt {attempt}; this one cannot end",
            hint=READ_AGAIN,
            key=write.key,
        )


_APPLY: Final[dict[type[Any], Callable[[Drafts, Any], None]]] = {
    commands.RecordProject: _record_project,
    commands.OpenWorkstream: _open_workstream,
    commands.OpenConversation: _open_conversation,
    commands.OpenLink: _open_link,
    commands.EndLink: _end_link,
    commands.OpenTurn: Drafts.open_turn,
    commands.RecordParts: Drafts.record_parts,
    commands.RecordTurnEvent: Drafts.turn_event,
    commands.OpenRun: _open_run,
    commands.RecordRunEvent: _record_run_event,
    commands.EnqueueTransition: _enqueue_transition,
    commands.RecordQuarantine: _record_quarantine,
    commands.RecordDecision: _record_decision,
    commands.RecordAct: _record_act,
    commands.RecordExamined: _record_examined,
    commands.RecordBriefingEdit: _record_briefing_edit,
    commands.RecordOnce: _record_once,
    commands.EraseConversation: Drafts.erase_conversation,
    commands.EraseRun: Drafts.erase_run,
}
"""What each write does. A write of a new kind is one line here, and what makes its entry."""
assert {*_APPLY} == {*get_args(commands.Write)}, "each write has its function"
