"""Published files: written under the lock hooks wait for, and never over what is newer.

Locks alone do not keep a writer that read the record earlier from coming later: what it wrote would
let a session go on that was reset in between, until something else is published. So who writes says
what a file held before the record was read, and leaves one that holds something else by now.
Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, TypeAlias

from upthread.core.types import CHILD_SLOT, ConversationKey
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another
from upthread.runtime.bindings.light_json import number_in, object_in, text_in
from upthread.runtime.bindings.places import Place, read_binding
from upthread.runtime.hooked import unread

LOCK_WAIT_S: Final = 10.0

WRITTEN_AT_ONCE_MAX: Final = 16
"""How many bindings are written under one lock: no hook waits for more."""

BETWEEN_WRITES_S: Final = 2 * files.LOCK_LOOK_S
"""How long the lock is left to hooks that wait for it, and look at it now and then."""

FORGOTTEN: Final[dict[str, Any]] = {
    "briefing": "",
    "replay": "",
    "files": [],
    "stamp": "",
    "decided": None,
}
"""What is left of what was said, in a binding whose words are forgotten."""

Before: TypeAlias = Mapping[str, dict[str, Any]]
"""Bindings by their paths, as they were before the record was read."""

Stale: TypeAlias = tuple[ConversationKey, dict[str, Any]]
"""A conversation with its new binding."""


def binding_paths(place: Place) -> Set[str]:
    """Return where bindings lie now."""
    return {*map(str, Path(place.project, "bindings").glob("*.json"))}


def write_bindings(place: Place, stale: Sequence[Stale], before: Before) -> Set[str]:
    """Write bindings, a few under one lock; returns the workstreams of those that are overtaken."""
    overtaken: set[str] = set()
    for first in range(0, len(stale), WRITTEN_AT_ONCE_MAX):
        if first:
            time.sleep(BETWEEN_WRITES_S)
        with place.lock(wait_s=LOCK_WAIT_S):
            # Under the lock too: hooks keep an event and its claim under it.
            pending = _pending(place)
            for key, binding in stale[first : first + WRITTEN_AT_ONCE_MAX]:
                if not _write_binding(place, key, binding, pending, before):
                    overtaken.add(key.workstream)
    return overtaken


def _write_binding(
    place: Place,
    key: ConversationKey,
    fields: dict[str, Any],
    pending: set[tuple[str, str, int]],
    before: Before,
) -> bool:
    """Write a binding, or leave it to a call; False where another process wrote it since."""
    if (key.workstream, key.role, key.slot) in pending:
        return True
    path = place.binding_path(key.workstream, key.role, key.slot)
    old = read_binding(path)
    held = object_in(old, "claim") if is_claimed_by_another(old, "") else {}
    # A turn of ours writes to the record, and so its conversation is published with its claim.
    if held and text_in(held, "agent") != OURS:
        return True
    if old != before.get(path, {}):
        return False
    # What hooks know of a session, and the record does not, is of that session alone.
    same = text_in(old, "session") == fields["session"]
    kept = {
        name: old.get(name)
        for name in ("main_session", "transcript")
        if same and old.get(name) is not None
    }
    new = {**fields, **kept, "claim": held or None}
    if {**new, "schema": files.SCHEMA} != old:
        files.replace(path, new)
    return True


def _pending(place: Place) -> set[tuple[str, str, int]]:
    """Return the conversations of which something is in the spool."""
    found = [read_binding(path) for path in spool.names(place)]
    return {
        (text_in(each, "workstream"), text_in(each, "role"), number_in(each, "slot"))
        for each in found
    }


def write_place(place: Place, fields: dict[str, Any], before: dict[str, Any]) -> bool:
    """Write the place's file; returns whether it was still what it was before, or needed none."""
    with place.lock(wait_s=LOCK_WAIT_S):
        # Read again under the lock: `use` may have written it while this was put together.
        published = read_binding(place.path)
        used = {"used": object_in(published, "used")}
        place.known = {**fields, **used}
        if {**place.known, "schema": files.SCHEMA} == published:
            return True
        if published != ({**before, **used} if before else before):
            return False
        files.replace(place.path, place.known)
        return True


def remove_old(place: Place, old: Set[str]) -> None:
    """Take away the bindings of what is published no more, unless a call works with one."""
    if not old:
        return
    with place.lock(wait_s=LOCK_WAIT_S):
        pending = _pending(place)
        for path in old:
            binding = read_binding(path)
            whose = (text_in(binding, "workstream"), text_in(binding, "role"))
            slot = number_in(binding, "slot")
            is_in_use = (*whose, slot) in pending or is_claimed_by_another(binding, "")
            # What is only recorded has no key, and goes with its call.
            if slot != CHILD_SLOT and not is_in_use:
                files.remove(path)


def forget(place: Place, workstream: str | None) -> None:
    """Take what was said out of a workstream's bindings, None: of all; `publish` fills them again.

    Also those that are published no more. An event nobody could read may be anybody's, and goes.
    """
    with place.lock(wait_s=LOCK_WAIT_S):
        for path in Path(place.project, "bindings").glob("*.json"):
            binding = read_binding(str(path))
            if workstream in {None, text_in(binding, "workstream")}:
                files.replace(str(path), {**binding, **FORGOTTEN})
        for path in Path(spool.directory(place)).glob(f"*{spool.SET_ASIDE}"):
            path.unlink(missing_ok=True)
        files.remove_half_written(str(Path(place.project, "bindings")))
        files.remove_half_written(spool.directory(place))
        unread.forget(place, workstream)


def use(place: Place, workstream: str | None) -> None:
    """Note what a working tree works on, None for nothing. Of a place that is published."""
    place.read()
    with place.lock(wait_s=LOCK_WAIT_S):
        known = place.read() or {}
        used = {name: each for name, each in object_in(known, "used").items() if name != place.root}
        if workstream is not None:
            used[place.root] = workstream
        files.replace(place.path, {**known, "used": used})
