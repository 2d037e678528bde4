"""What a hook waits for, as long as its agent gives it: what hooks know is brought up to date.

Settings that were changed since hooks were told of them are read anew. A hook reads none of them:
it looks whether one was written since, and whoever publishes reads them. And what a conversation
has come to is taken in: the agent of its last call was killed, so nobody told how it ended; or it
has ended, and its words are on their way into the record. A drain writes what the next sub-agent
is told; without it that one would start as if there had been nothing.
"""

from __future__ import annotations

import time

from upthread.boundary.files import changed_since
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another, is_of_call, lives, process
from upthread.runtime.bindings.files import BusyError
from upthread.runtime.bindings.light_json import object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.begun import put_off

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WAIT_S = 8.0
"""How long a hook waits in all: below the time that agents give to it, 10 s (setup writes that
down for Claude Code and Codex, and OpenCode's plug-in has it)."""

LOOK_S = 0.02

_until_s: list[float] = []
"""When this process has waited enough. One: a call may wait for its settings and then for its role,
and would be killed by its agent, without a word, before two such times are over."""


def wait_for_drain(place: Place, is_so: Callable[[], bool]) -> bool:
    """Start a drain, and return True as soon as `is_so()` holds.

    False once no drain is alive any more or this process has waited for WAIT_S, and at once where
    `setup` never said how a drain is started.
    """
    drain = spool.start_drain(place)
    if not drain:
        return False
    known = process(drain)
    if not _until_s:
        put_off(WAIT_S)
        _until_s.append(time.monotonic() + WAIT_S)
    # Its process rather than a time: a drain that failed at once is not waited for.
    while time.monotonic() < _until_s[0] and (lives(known) or _is_draining(place)):
        if is_so():
            return True
        time.sleep(LOOK_S)
    return is_so()


def _is_draining(place: Place) -> bool:
    """Return whether another drain is at work, which ours has left the work to."""
    try:
        # Ours ends at once where another is at work: then that one is waited for.
        with place.drain_lock():
            return False
    except BusyError:
        return True


class NotTakenInError(Exception):
    """What a conversation has come to is not where hooks look; `path` is its binding's."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def is_left(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether another call had begun in a conversation, and nobody saw its end."""
    # Whether its process lives is not asked: who comes here has passed over what is in use.
    return bool(object_in(binding, "claim")) and not is_of_call(binding, call_id)


def is_ours(binding: dict[str, Any]) -> bool:
    """Return whether a conversation is claimed by a turn of upthread's own."""
    return text_in(object_in(binding, "claim"), "agent") == OURS


def is_taken_in(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether a binding tells all that its conversation has come to.

    A drain publishes `decided` with it; whatever moves the conversation on sets that to None.
    """
    return binding.get("decided") is not None and not is_left(binding, call_id)


def wait_until_taken_in(place: Place, path: str, call_id: str) -> None:
    """Return when a conversation is taken in or in use, or nobody is left to take it in."""

    def is_settled() -> bool:
        found = files.read(path) or {}
        # In use counts as settled: another call was quicker, and this one takes a sibling.
        return is_taken_in(found, call_id) or is_claimed_by_another(found, call_id)

    wait_for_drain(place, is_settled)


class SettingsChangedError(Exception):
    """The configuration or a role file is another one by now, and was not taken in."""


def wait_until_read(place: Place) -> None:
    """Return when hooks know the settings as they are. Raises SettingsChangedError."""
    if not changed(place):
        return
    # Read again each time: the stamps that are compared are published with the settings.
    if not wait_for_drain(place, lambda: place.read() is not None and not changed(place)):
        raise SettingsChangedError(
            f"{changed(place)} has changed and could not be taken in; upthread doctor says why"
        )


def changed(place: Place) -> str:
    """Return a path of settings that was written since they were read, empty for none."""
    return changed_since(object_in(place.known or {}, "stamps"))
