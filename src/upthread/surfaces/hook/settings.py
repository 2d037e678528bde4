"""Settings that were changed since hooks were told of them: they are read anew and waited for.

What is published rests on the person's and the repository's configuration and on the role files. A
hook reads none of them; it looks whether one was written since, and whoever publishes reads them.
"""

from __future__ import annotations

from upthread.boundary.files import stamp_of
from upthread.runtime.bindings.light_json import object_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.drain_wait import wait_for_drain


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
    stamps = object_in(place.known or {}, "stamps")
    return next((path for path, stamp in stamps.items() if stamp_of(path) != stamp), "")
