"""The spool: what hooks have seen, one file for each event, until it is in the database."""

from __future__ import annotations

import os
import time

from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import list_in
from upthread.runtime.bindings.places import Place

INSTALLED = "installed.json"
"""In the directory of hooks: what `setup` wrote down of itself, such as how a drain is started."""

SET_ASIDE = ".unreadable"
"""How the name of an event ends that could not be read."""

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

    It also makes the files of a place that has none yet. Raises OSError when it cannot be started;
    the events then wait for the next one.
    """
    installed = files.read(os.path.join(place.home, INSTALLED)) or {}
    command = [word for word in list_in(installed, "drain") if isinstance(word, str)]
    if not command:
        return
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    environment = {**os.environ, "UPTHREAD_HOME": os.path.dirname(place.home)}
    os.posix_spawn(
        command[0], [*command, "-C", place.root], environment, file_actions=nowhere, setsid=True
    )


def untold(place: Place) -> list[str]:
    """Return the events of calls that were not decided and that nobody was told of yet."""
    return [path for path in names(place) if path.endswith("-undecided.json")]


def mark_told(paths: list[str]) -> None:
    """Remember that a person was told of calls that were not decided."""
    for path in paths:
        os.replace(path, path.replace("-undecided.json", "-told.json"))
