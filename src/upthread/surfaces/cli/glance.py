"""`upthread id ADDRESS`, answered without opening the project, where that is sure to say the same.

Scripts and prompts ask it before each command of theirs. What a project is was found when it was
last opened, and is remembered as long as it holds (client/remembered_opening.py); what is asked of
the database is one statement. Whatever is out of the ordinary (another option, an address that
needs reading, no open session, an event of hooks that is not on record) has no answer here, and the
verb is carried out as any other.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from upthread.runtime.bindings.places import Place

STANDARD_OUTPUT = 1


def told(words: Sequence[str]) -> bool:
    """Return whether the line was answered here, and so is done."""
    if len(words) != 2 or words[0] != "id" or words[1].startswith("-"):
        return False
    session = _session(words[1])
    # What a terminal could act on is made visible by the verb.
    if session is None or not (session.isascii() and session.isprintable()):
        return False
    try:
        return os.write(STANDARD_OUTPUT, f"{session}\n".encode("ascii")) > 0
    except (
        OSError
    ):  # a reader that is gone, a disk that is full: the verb says what there is to say
        return False


def _session(address: str) -> str | None:
    workstream, _, role = address.rpartition("/")
    # Of other names the parser makes what is stored: a sibling's slot, characters in normal form.
    if not workstream or "~" in role or not address.isascii() or not address.isprintable():
        return None
    from upthread.client.remembered_opening import Openings

    opening = Openings(".", os.environ).recall()
    if opening is None or not _is_all_taken_in(opening.place):
        return None
    from upthread.store.sqlite.glance import open_session

    key = (opening.project_id, workstream.strip(), role, 1)
    return open_session(opening.database, opening.identities, key)


def _is_all_taken_in(place: Place) -> bool:
    """Return whether hooks have seen nothing of the project that the record does not have."""
    for name in ("spool", "unread"):
        try:
            if os.listdir(os.path.join(place.project, name)):
                return False
        except FileNotFoundError:
            continue
    return True
