"""Publishing: what hooks have to know, written from the store into their small files.

A conversation that a call is using, or of which something is still in the spool, is left alone:
its file knows more than the store does. Blocking.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from upthread.config import Settings
from upthread.core import turn as turns
from upthread.core.briefing import build_briefing
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles import BUILT_IN_ROLES, Role
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Outcome,
    ProjectId,
)
from upthread.core.workstreams import UNASSIGNED
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another
from upthread.runtime.bindings.light_json import number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.briefing import BriefingRequest, briefing_inputs
from upthread.runtime.occupying import read_binding
from upthread.runtime.overview import Overview, WorkstreamView
from upthread.runtime.private_store import RecordPolicy
from upthread.runtime.replay import replay_of
from upthread.runtime.repository import default_branch
from upthread.store.base import Store

WORKSTREAMS_MAX: Final = 50
"""How many workstreams hooks know, the newest: a prompt that names an older one binds nothing."""

LOCK_WAIT_S: Final = 10.0
STATE_CHARACTERS_MAX: Final = 1_000
"""Of a workstream's state as a session is told it at its start: some 300 tokens."""

ConditionOf = Callable[[str, Role], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What publishing looks at. `condition_of` gives the digest that `resume_if` compares.

    `policy` and `redactor` hold for what is read from the store, too: it may have been recorded
    when more was.
    """

    store: Store
    settings: Settings
    project_id: ProjectId
    overview: Overview
    condition_of: ConditionOf
    policy: RecordPolicy
    redactor: Redactor

    def text(self, role: str, text: str) -> str:
        """Return a text as it may be written for hooks."""
        mode = self.policy.of_role(role)
        if mode == "index":
            return ""
        return self.redactor.redact(text) if mode == "redacted" else text


def publish(source: Published, *, home: Path, root: Path) -> None:
    """Write the place's file and one for each conversation. Raises BusyError, OSError."""
    place = Place(str(home), str(root))
    views = [
        view
        for known in source.store.workstreams(source.project_id)[-WORKSTREAMS_MAX:]
        if (view := source.overview.workstream(source.project_id, known.workstream)) is not None
    ]
    place.known = {"project_id": source.project_id}
    with place.lock(wait_s=LOCK_WAIT_S):
        used = object_in(read_binding(place.path), "used")
        place.known = _place_fields(source, place, views, used)
        files.replace(place.path, place.known)
        pending = _pending(place)
        for conversation in _conversations(views):
            _publish_binding(source, place, conversation, pending)


def forget(place: Place, workstream: str | None) -> None:
    """Take what was said out of a workstream's bindings, None: of all; `publish` fills them again.

    Also those that are published no more. An event nobody could read may be anybody's, and goes.
    """
    with place.lock(wait_s=LOCK_WAIT_S):
        for path in Path(place.project, "bindings").glob("*.json"):
            binding = read_binding(str(path))
            if workstream in {None, text_in(binding, "workstream")}:
                files.replace(str(path), {**binding, "briefing": "", "replay": "", "files": []})
        for path in Path(spool.directory(place)).glob(f"*{spool.SET_ASIDE}"):
            path.unlink(missing_ok=True)
        files.remove_half_written(str(Path(place.project, "bindings")))
        files.remove_half_written(spool.directory(place))


def use(place: Place, workstream: str | None) -> None:
    """Note what a working tree works on, None for nothing. Of a place that is published."""
    place.read()
    with place.lock(wait_s=LOCK_WAIT_S):
        known = place.read() or {}
        used = {name: each for name, each in object_in(known, "used").items() if name != place.root}
        if workstream is not None:
            used[place.root] = workstream
        files.replace(place.path, {**known, "used": used})


def _place_fields(
    source: Published, place: Place, views: list[WorkstreamView], used: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "project_id": source.project_id,
        "path": place.repository,
        "handover": source.settings.handover,
        "default_branch": default_branch(Path(place.root)),
        "used": dict(used),
        "roles": {
            role.name: _role_fields(source, role) for role in continued_roles(source.settings)
        },
        "workstreams": [
            {
                "name": view.workstream.workstream,
                "base_name": view.workstream.base_name,
                "last_at_ms": _last_at_ms(source.store, view),
                "state": state_of(view),
                "worked": [
                    role.conversation.key.role
                    for role in view.roles
                    if role.conversation.key.slot == MAIN_SLOT and role.turns
                ],
            }
            for view in views
            if view.workstream.workstream != UNASSIGNED
        ],
    }


def continued_roles(settings: Settings) -> Iterator[Role]:
    """Yield the roles that hooks go on with: the agents' own only if they are configured."""
    for role in settings.native_roles.values():
        if role.name not in BUILT_IN_ROLES or role.continuity != "fresh":
            yield role


def _role_fields(source: Published, role: Role) -> dict[str, Any]:
    return {
        "continuity": role.continuity,
        "record": source.policy.of_role(role.name),
        "configuration": role.configuration,
        "critical": list(source.settings.critical),
        "files_changed_max": source.settings.limits.files_changed_max,
    }


def _last_at_ms(store: Store, view: WorkstreamView) -> int:
    turns = [store.turns(role.conversation.conversation_id, newest=1) for role in view.roles]
    opened = [turn.opened_at_ms for each in turns for turn in each]
    return max(opened, default=view.workstream.opened_at_ms)


def state_of(view: WorkstreamView) -> str:
    """Return how a workstream stands, in a few lines for a session that begins."""
    known = view.workstream
    lines = [f"Workstream {known.workstream} ({known.base_name}) is {_words(view.status)}."]
    for role in view.roles:
        verdict = f", {role.verdict.outcome}" if role.verdict else ""
        turns = f"{role.turns} turn" + ("" if role.turns == 1 else "s")
        lines.append(f"- {role.conversation.key.role}: {role.state}, {turns}{verdict}")
    lines += [f"- open question {each.question_id} of {each.role}" for each in view.open_questions]
    return "\n".join(lines)[:STATE_CHARACTERS_MAX]


def _words(status: str) -> str:
    return status.replace("_", " ")


def _pending(place: Place) -> set[tuple[str, str, int]]:
    """Return the conversations of which something is in the spool."""
    found = [read_binding(path) for path in spool.names(place)]
    return {
        (text_in(each, "workstream"), text_in(each, "role"), number_in(each, "slot"))
        for each in found
    }


def _conversations(views: list[WorkstreamView]) -> Iterator[Conversation]:
    for view in views:
        for role in view.roles:
            if role.conversation.key.slot != CHILD_SLOT:
                yield role.conversation


def _publish_binding(
    source: Published,
    place: Place,
    conversation: Conversation,
    pending: set[tuple[str, str, int]],
) -> None:
    key = conversation.key
    if (key.workstream, key.role, key.slot) in pending:
        return
    path = place.binding_path(key.workstream, key.role, key.slot)
    old = read_binding(path)
    held = object_in(old, "claim") if is_claimed_by_another(old, "") else {}
    if held and text_in(held, "agent") != OURS:
        return
    fields = _binding_fields(source, key, conversation)
    same = text_in(old, "session") == fields["session"]
    kept = {
        name: old.get(name)
        for name in ("main_session", "transcript", "surroundings")
        if same and old.get(name) is not None
    }
    new = {**fields, **kept, "claim": held or None}
    if {**new, "schema": files.SCHEMA} != old:
        files.replace(path, new)


def _binding_fields(
    source: Published, key: ConversationKey, conversation: Conversation
) -> dict[str, Any]:
    store, conversation_id = source.store, conversation.conversation_id
    resolved = store.resolve(key)
    link = resolved.link if resolved else None
    session = link.upstream_session_id if link else ""
    examined = store.examined(conversation_id, upstream_session_id=session) if link else ()
    role = source.settings.native_roles.get(key.role)
    is_outline = source.policy.of_role(key.role) == "index"
    return {
        "workstream": key.workstream,
        "role": key.role,
        "slot": key.slot,
        "conversation_id": conversation_id,
        "base_name": conversation.base_name,
        "agent": link.agent if link else "",
        "session": session,
        "turns": store.turn_count(conversation_id),
        "files": [] if is_outline else [asdict(each) for each in examined],
        "condition_now": source.condition_of(key.workstream, role) if role else None,
        **_last_turn(store, conversation),
        "briefing": source.text(key.role, _briefing(source, conversation)),
        "replay": source.text(key.role, _replay(source, conversation_id)),
    }


def _last_turn(store: Store, conversation: Conversation) -> dict[str, Any]:
    for turn in store.turns(conversation.conversation_id, newest=1):
        view = turns.fold(store.turn_events(turn.turn_id))
        ended = view.ended
        return {
            "condition_before": view.intended.condition if view.intended else None,
            # A call in an agent that died is ended for it, by the drain.
            "was_interrupted": ended is None or ended.outcome is Outcome.PROCESS_DIED,
        }
    return {"condition_before": None, "was_interrupted": False}


def _briefing(source: Published, conversation: Conversation) -> str:
    role = source.settings.native_roles.get(conversation.key.role)
    request = BriefingRequest(
        conversation=conversation,
        is_independent=role is not None and role.continuity == "fresh",
    )
    return build_briefing(briefing_inputs(source.store, request))


def _replay(source: Published, conversation_id: ConversationId) -> str:
    return replay_of(
        source.store,
        conversation_id,
        nonce=secrets.token_hex(8),
        outward_patterns=source.settings.outward_patterns,
    )


def installed_path(home: Path) -> str:
    """Return where `setup` writes down how a drain is started."""
    return str(home / "hooks" / spool.INSTALLED)
