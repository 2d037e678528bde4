"""Publication: what hooks have to know, written from the store into their small files.

A conversation that a call is using, or of which something is still in the spool, is left alone:
its file knows more than the store does. Blocking.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from msgspec import Struct

from upthread.config import Settings
from upthread.core.context.briefing import build_briefing
from upthread.core.decision.freshness import Surroundings
from upthread.core.decision.handshake import because, decide
from upthread.core.decision.model import HandshakeInputs, RecordFacts, worth_keeping
from upthread.core.decision.price import CacheState, cache_of
from upthread.core.decision.words import cost_in_words
from upthread.core.lazy_dataclass import asdict, replace
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.role import Role
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    ConversationId,
    Link,
    ProjectId,
)
from upthread.core.workstreams import UNASSIGNED
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.files import BusyError
from upthread.runtime.bindings.index import write_index
from upthread.runtime.bindings.light_json import object_in, objects_in, text_in
from upthread.runtime.bindings.places import Place, read_binding
from upthread.runtime.hooked.published_files import (
    Before,
    Stale,
    binding_paths,
    remove_old,
    write_bindings,
    write_place,
)
from upthread.runtime.record.briefing import BriefingRequest, briefing_inputs
from upthread.runtime.record.record_filter import RecordPolicy
from upthread.runtime.record.replay import replay_of
from upthread.runtime.record.workstream_views import (
    ConditionOf,
    Overview,
    RoleView,
    WorkstreamView,
    record_inputs,
)
from upthread.runtime.turns.handshake_inputs import subject_of, unmoved
from upthread.runtime.working_tree.repository import default_branch
from upthread.store.base import Store

WORKSTREAMS_MAX: Final = 50
"""How many workstreams hooks know, the newest: a prompt that names an older one binds nothing."""

AGAIN_WITHIN_S: Final = 10.0
"""For how long the record is read again because others wrote meanwhile: each time one got on."""

FORMAT: Final = 2
"""Raised with what a place or a binding holds, so that those of earlier versions are replaced."""

STATE_CHARACTERS_MAX: Final = 1_000
"""Of a workstream's state as a session is told it at its start: some 300 tokens."""


class Published(Struct, frozen=True, kw_only=True):
    """What publishing looks at.

    `condition_of` gives the digest that `resume_if` compares, `other_host` where a session lives,
    None for here. `policy` and `redactor` hold for what is read from the store, too: it may have
    been recorded when more was.
    """

    store: Store
    settings: Settings
    project_id: ProjectId
    overview: Overview
    condition_of: ConditionOf
    other_host: Callable[[Link | None], str | None]
    policy: RecordPolicy
    redactor: Redactor

    def text(self, role: str, text: str) -> str:
        """Return a text as it may be written for hooks."""
        mode = self.policy.of_role(role)
        if mode == "index":
            return ""
        return self.redactor.redact(text) if mode == "redacted" else text


def publish(
    source: Published, *, home: Path, root: Path, workstreams: Collection[str] | None = None
) -> None:
    """Write the place's file and one for each conversation. Raises BusyError, OSError.

    With `workstreams` only these have moved, and the others are not read; all are where what every
    binding rests on is not as it was published. What is written is put together before the lock is
    taken, which hooks wait for, and of many files a few at a time; a conversation that has not
    moved since it was last published is not read again. What another process wrote since the record
    was read is left, and the record read again: that one may have read it later.
    """
    place = Place(str(home), str(root))
    place.known = {"project_id": source.project_id}
    left = workstreams
    until_s = time.monotonic() + AGAIN_WITHIN_S
    while (left := _publish_as_read(source, place, left)) is None or left:
        if time.monotonic() > until_s:
            what = ", ".join(sorted(left or ())) or "all of it"
            raise BusyError(f"{place.project}: others write each time before {what} can be")


def _publish_as_read(
    source: Published, place: Place, workstreams: Collection[str] | None
) -> Collection[str] | None:
    """Write what one look into the record says; returns what is to be published again, None: all.

    That is what is not as it was before the look.
    """
    published = read_binding(place.path)
    bindings_before = binding_paths(place)
    known = [each.workstream for each in source.store.workstreams(source.project_id)]
    names = known[-WORKSTREAMS_MAX:]
    fields = _place_fields(source, place)
    others = set(names) - {*(workstreams or ())}
    listed = None if workstreams is None else _listed(published, fields, others)
    moved = names if listed is None else [name for name in names if name not in listed]
    before = _read_before(source, place, moved)
    views = [
        view
        for name in moved
        if (view := source.overview.workstream(source.project_id, name)) is not None
    ]
    entries = {view.workstream.workstream: _entry(source, view) for view in views}
    listed = (listed or {}) | entries
    listed.pop(UNASSIGNED, None)
    fields["workstreams"] = [
        listed[name] for name in names if name in listed and name != UNASSIGNED
    ]
    read = _newer_than(before, place, source)
    stale = [each for view in views for role in _roles(view) if (each := read(view, role))]
    if not write_place(place, fields, published):
        # No name left would be nothing to do, and the place's file is still to be written.
        return workstreams or None
    overtaken = write_bindings(place, stale, before)
    # What hooks look for among all bindings is found without reading them.
    write_index(place)
    if moved is names:
        keys = (role.conversation.key for view in views for role in _roles(view))
        current = {place.binding_path(k.workstream, k.role, k.slot) for k in keys}
        remove_old(place, bindings_before - current)
    return overtaken


def _read_before(source: Published, place: Place, names: Collection[str]) -> Before:
    """Return the bindings of some workstreams as they are before the record is read for them."""
    keys = {
        each.key
        for name in names
        for each in source.store.conversations(source.project_id, name)
        if each.key.slot != CHILD_SLOT
    }
    paths = (place.binding_path(key.workstream, key.role, key.slot) for key in keys)
    return {path: read_binding(path) for path in paths}


def _listed(
    published: dict[str, Any], fields: dict[str, Any], others: Collection[str]
) -> dict[str, dict[str, Any]] | None:
    """Return what is published of the workstreams that have not moved; None where that is old."""
    if any(published.get(name) != field for name, field in fields.items()):
        return None
    listed = {text_in(each, "name"): each for each in objects_in(published, "workstreams")}
    found = {name: listed[name] for name in others if name in listed}
    return found if len(found) == len({*others} - {UNASSIGNED}) else None


def _place_fields(source: Published, place: Place) -> dict[str, Any]:
    """Return what a place's file says that no conversation changes."""
    return {
        "basis": _basis(source.settings),
        "project_id": source.project_id,
        "path": place.repository,
        "handover": source.settings.handover,
        "stamps": dict(source.settings.stamps),
        "default_branch": default_branch(Path(place.root)),
        "roles": {
            name: _role_fields(source, role)
            for name, role in source.settings.continued_roles.items()
        },
    }


def _entry(source: Published, view: WorkstreamView) -> dict[str, Any]:
    return {
        "name": view.workstream.workstream,
        "base_name": view.workstream.base_name,
        "last_at_ms": _last_at_ms(source.store, view),
        "state": state_of(view),
        "open_questions": len(view.open_questions),
        "worked": [
            role.conversation.key.role
            for role in view.roles
            if role.conversation.key.slot == MAIN_SLOT and role.turns
        ],
    }


def _basis(settings: Settings) -> str:
    """Return what every binding rests on, as a digest."""
    return _digest(FORMAT, asdict(settings.limits), settings.window_tokens, settings.redaction)


def _role_fields(source: Published, role: Role) -> dict[str, Any]:
    return {
        "continuity": role.continuity,
        "record": source.policy.of_role(role.name),
        "configuration": role.configuration,
        "critical": list(source.settings.critical),
        **beforehand(_first(source, role)),
    }


def _first(source: Published, role: Role) -> HandshakeInputs:
    """Return the inputs for a role's first turn."""
    inputs = RecordFacts().inputs(
        continuity=role.continuity, agent="", depth_max=source.settings.depth_max
    )
    return replace(inputs, limits=source.settings.limits)


def beforehand(inputs: HandshakeInputs) -> dict[str, Any]:
    """Return inputs, and what is decided on them, for each state that the cache may be in.

    As hooks read both: `inputs` whole, `decided` with the words that a person reads.
    """
    decided: dict[str, Any] = {}
    # The one thing that moves by itself: a hook reads the clock and takes the fitting decision.
    for state in get_args(CacheState):
        priced = replace(inputs.price, cache=state)
        decision = decide(replace(inputs, price=priced))
        decided[state] = {
            "decision": decision.decision,
            "reasons": list(decision.reasons),
            "because": because(decision.reasons, inputs.freshness),
            "cost": cost_in_words(priced),
            "hint": decision.hint,
        }
    return {"inputs": dict(worth_keeping(inputs)), "decided": decided}


def _last_at_ms(store: Store, view: WorkstreamView) -> int:
    turns = [store.turns(role.conversation.conversation_id, newest=1) for role in view.roles]
    opened = [turn.opened_at_ms for each in turns for turn in each]
    return max(opened, default=view.workstream.opened_at_ms)


def state_of(view: WorkstreamView) -> str:
    """Return how a workstream stands, in a few lines for a session that begins."""
    known = view.workstream
    lines = [f"Workstream {known.workstream} ({known.base_name}) is {view.state}."]
    for role in view.roles:
        verdict = f", {role.verdict.in_words}" if role.verdict else ""
        turns = f"{role.turns} turn" + ("" if role.turns == 1 else "s")
        lines.append(f"- {role.conversation.key.role}: {role.state}, {turns}{verdict}")
    lines += [f"- open question {each.question_id} of {each.role}" for each in view.open_questions]
    return "\n".join(lines)[:STATE_CHARACTERS_MAX]


def _roles(view: WorkstreamView) -> Iterator[RoleView]:
    return (role for role in view.roles if role.conversation.key.slot != CHILD_SLOT)


Newer: TypeAlias = Callable[[WorkstreamView, RoleView], Stale | None]


def _newer_than(before: Before, place: Place, source: Published) -> Newer:
    """Return what gives a conversation's new binding, None for one that has not moved."""
    of_settings = _basis(source.settings)

    def fields(workstream: WorkstreamView, view: RoleView) -> Stale | None:
        key, run = view.conversation.key, workstream.run
        stamp = _digest(of_settings, run.events if run else 0, _facts(source, view))
        old = before.get(place.binding_path(key.workstream, key.role, key.slot), {})
        # A dead process's claim has to go, and moves nothing in the record (ADR 44).
        is_left = bool(object_in(old, "claim")) and not is_claimed_by_another(old, "")
        # No decision: its words were forgotten, or a call has moved it since.
        is_same = text_in(old, "stamp") == stamp and old.get("decided") is not None
        return (
            None
            if is_same and not is_left
            else (key, {**_binding_fields(source, view), "stamp": stamp})
        )

    return fields


def _facts(source: Published, view: RoleView) -> tuple[object, ...]:
    """Return what changes with anything that a binding says: of the record, the role, the policy.

    Nothing in the record is ever rewritten, so its numbers tell; what was erased is written anew.
    """
    conversation_id, key = view.conversation.conversation_id, view.conversation.key
    role = source.settings.native_roles.get(key.role)
    link, last = view.chain[-1] if view.chain else None, view.last_turn
    edit = source.store.briefing_edit(conversation_id)
    return (
        conversation_id,
        view.turns,
        view.last_turn_id,
        last.events if last else 0,
        source.store.message_count(conversation_id),
        (link.seq, link.upstream_session_id, link.ended_because) if link else None,
        repr(role),
        source.condition_of(key.workstream, role) if role else None,
        source.policy.of_role(key.role),
        edit.seq if edit else 0,
    )


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _binding_fields(source: Published, view: RoleView) -> dict[str, Any]:
    store, conversation = source.store, view.conversation
    key, link = conversation.key, view.link
    is_outline = source.policy.of_role(key.role) == "index"
    session = link.upstream_session_id if link else ""
    examined = store.examined(conversation.conversation_id, upstream_session_id=session)
    return {
        "workstream": key.workstream,
        "role": key.role,
        "slot": key.slot,
        "conversation_id": conversation.conversation_id,
        "base_name": conversation.base_name,
        "agent": link.agent if link else "",
        "session": session,
        "turns": view.turns,
        # A path is what somebody said to a tool, and an outline keeps nothing of that.
        "files": [asdict(each) for each in examined] if link and not is_outline else [],
        **_grounds(source, view),
        "briefing": source.text(key.role, _briefing(source, view)),
        "replay": source.text(key.role, _replay(source, conversation.conversation_id)),
    }


def _grounds(source: Published, view: RoleView) -> dict[str, Any]:
    """Return what a decision on the next call rests on; nothing of a role nobody configured."""
    key, link = view.conversation.key, view.link
    role = source.settings.native_roles.get(key.role)
    if role is None:
        return {}
    inputs = record_inputs(
        view,
        role,
        link.agent if link else "",
        depth_max=source.settings.depth_max,
        condition_of=source.condition_of,
        other_host=source.other_host,
    )
    settings = source.settings
    place = settings.working_directory
    # now_ms=0, at which no limit is over yet: the hook compares it with its own clock.
    subject = subject_of(view, role, settings, working_directory=place, now_ms=0)
    return grounds(*unmoved(source.store, inputs, subject))


def grounds(inputs: HandshakeInputs, was: Surroundings | None) -> dict[str, Any]:
    """Return inputs as hooks read them: whole, and apart what hooks themselves see change.

    `was` are the surroundings of the session's last turn, None where they were never recorded.
    """
    cache = cache_of(inputs.current_agent or "")
    return {
        "relays": inputs.relays,
        "was": asdict(was) if was else None,
        "cache": {
            "at_ms": was.at_ms if was else 0,
            "warm_s": cache.warm_s,
            "cold_s": cache.cold_s,
        },
        "condition_before": inputs.condition_before,
        "condition_now": inputs.condition_now,
        "was_interrupted": inputs.was_interrupted,
        **beforehand(inputs),
    }


def _briefing(source: Published, view: RoleView) -> str:
    """Return the briefing while nothing has changed; the hook that tells it looks for itself."""
    role = source.settings.native_roles.get(view.conversation.key.role)
    request = BriefingRequest(
        conversation=view.conversation,
        changes=() if view.link else None,
        is_independent=role is not None and role.continuity == "fresh",
    )
    return build_briefing(briefing_inputs(source.store, request))


def _replay(source: Published, conversation_id: ConversationId) -> str:
    return replay_of(
        source.store,
        conversation_id,
        # No content can have known it, so none can end the block that it stands in.
        nonce=os.urandom(8).hex(),
        outward_patterns=source.settings.outward_patterns,
    )
