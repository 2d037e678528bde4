"""The spool: what hooks have seen, one file for each event, until it is in the database.

No event holds what was said. A hook cannot redact, for that takes more than it may load; so it
hands a call's words to the drain it starts, through a pipe, and the drain writes them down as they
are to be kept.
"""

from __future__ import annotations

import os
import time

from upthread.runtime.bindings import files
from upthread.runtime.bindings.claims import process
from upthread.runtime.bindings.light_json import dumps, list_in
from upthread.runtime.bindings.places import INSTALLED, Place

SET_ASIDE = ".unreadable"
"""How the name of an event ends that could not be read."""

WORDS = "--words"
"""Tells a drain that a call's words come on its standard input."""

REPAIR_EVERY_NS = 10_000_000_000

PIPE_BYTES = 16 * 1024
"""What any system's pipe takes in without somebody reading."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def put(place: Place, kind: str, fields: dict[str, Any]) -> None:
    """Keep an event. Raises OSError when it cannot be kept."""
    at_ns = time.time_ns()
    # With the pid: two hooks may keep an event in the same nanosecond of a coarse clock.
    name = f"{at_ns:020d}-{os.getpid()}-{kind}.json"
    content = {"kind": kind, "at_ms": at_ns // 1_000_000, "root": place.root, **fields}
    files.replace(os.path.join(directory(place), name), content)


def directory(place: Place) -> str:
    """Return where a project's events lie."""
    return os.path.join(place.project, "spool")


def names(place: Place) -> list[str]:
    """Return the events' paths. In order of time, which is no order to rely on."""
    try:
        found = os.listdir(directory(place))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise files.UnreadableError(f"{directory(place)}: {error.strerror}") from error
    return [os.path.join(directory(place), name) for name in sorted(found) if _is_event(name)]


def _is_event(name: str) -> bool:
    return name.endswith(".json")


def start_drain(place: Place) -> int:
    """Start the process that takes the events into the database, and do not wait for it.

    It also makes the files of a place that has none yet. Returns its pid, 0 where none was started
    since `setup` never said how. Raises OSError when it cannot be; the events then wait for the
    next one.
    """
    nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _started(place, nowhere)
    finally:
        os.close(nowhere)


def start_repair(place: Place) -> None:
    """Start a drain for a file that is damaged, once in a while: it is written from the record."""
    begun = os.path.join(place.project, "repair.json")
    try:
        # Either way: a clock that was set back must not put repairs off until it has caught up.
        if abs(time.time_ns() - os.stat(begun).st_mtime_ns) < REPAIR_EVERY_NS:
            return
    except OSError:
        pass  # there was none yet
    files.replace(begun, {})
    start_drain(place)


def hand_over(place: Place, kind: str, fields: dict[str, Any], words: dict[str, Any]) -> None:
    """Keep an event, and give its words to a drain that is started for them.

    The event names that process: the words come from it or, once it is dead, from nobody. Raises
    OSError when the event cannot be kept or, after that, when no drain could be started.
    """
    reading, writing = os.pipe()
    try:
        try:
            # Started before the event is kept: that has to name who the words will come from.
            drain = _started(place, reading, WORDS)
        except OSError:
            # Of nobody: then the call is taken in without waiting for words that never come.
            put(place, kind, {**fields, "drain": {}})
            raise
        finally:
            # Closed on our side, so that writing to a drain that has died is an error and no wait.
            os.close(reading)
        put(place, kind, {**fields, "drain": process(drain) if drain else {}})
        if drain:
            _feed(writing, dumps(words).encode("ascii"))
    finally:
        os.close(writing)


def _started(place: Place, standard_input: int, *more: str) -> int:
    """Start a drain and return its pid, 0 where `setup` never said how."""
    from upthread.boundary import programs  # only where something is started

    installed = files.read(os.path.join(place.home, INSTALLED)) or {}
    command = [word for word in list_in(installed, "drain") if isinstance(word, str)]
    if not command:
        return 0
    # An agent waits until nobody holds its hook's output any more, and the drain takes longer.
    outward = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
    return os.posix_spawn(
        command[0],
        [*command, "-C", place.root, *more],
        # By name: an agent's environment may come from a repository's settings (ADR 59).
        {**programs.own_environment(os.environ), "UPTHREAD_HOME": os.path.dirname(place.home)},
        file_actions=[(os.POSIX_SPAWN_DUP2, standard_input, 0), *outward],
        # It has to outlive the agent, whose group is ended with it.
        setsid=True,
    )


def _feed(pipe: int, raw: bytes) -> None:
    """Write all to a pipe. What it does not take in at once is left to a child: nobody waits."""
    if len(raw) > PIPE_BYTES:
        if os.fork() == 0:
            _feed_and_exit(pipe, raw)
        return
    try:
        os.write(pipe, raw)
    except BrokenPipeError:
        return  # the drain is dead, which whoever comes next sees by its pid


def _feed_and_exit(pipe: int, raw: bytes) -> None:
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # the agent waits until nobody holds these any more
            os.dup2(nowhere, number)
        left = memoryview(raw)
        while left:
            left = left[os.write(pipe, left) :]
    finally:
        os._exit(0)


def untold(place: Place) -> list[str]:
    """Return the events of calls that were not decided and that nobody was told of yet."""
    return [path for path in names(place) if path.endswith("-undecided.json")]


def mark_told(paths: list[str]) -> None:
    """Remember that a person was told of calls that were not decided."""
    for path in paths:
        os.replace(path, path.replace("-undecided.json", "-told.json"))
