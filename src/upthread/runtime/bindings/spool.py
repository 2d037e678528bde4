"""The spool: what hooks have seen, one file for each event, until it is in the database."""

from __future__ import annotations

import os
import time

from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import list_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def put(place: Place, kind: str, fields: dict[str, Any]) -> None:
    """Keep an event. Raises OSError when it cannot be kept."""
    at_ns = time.time_ns()
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
    return [os.path.join(directory(place), name) for name in sorted(found) if _is_event(name)]


def _is_event(name: str) -> bool:
    return name.endswith(".json")


def start_drain(place: Place) -> None:
    """Start the process that takes the events into the database, and do not wait for it.

    Raises OSError when it cannot be started; the events then wait for the next one.
    """
    command = [word for word in list_in(place.known or {}, "drain") if isinstance(word, str)]
    if not command:
        return
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    environment = {**os.environ, "UPTHREAD_HOME": os.path.dirname(place.home)}
    os.posix_spawn(
        command[0], [*command, "-C", place.root], environment, file_actions=nowhere, setsid=True
    )
