"""`upthread id ADDRESS [--json]`, answered without opening the project, where that says the same.

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
    if len(words) not in {2, 3} or words[0] != "id" or words[1].startswith("-"):
        return False
    if words[2:] not in ([], ["--json"]):
        return False
    found = _session(words[1])
    # What a terminal could act on is made visible by the verb.
    if found is None or not all(each.isascii() and each.isprintable() for each in found):
        return False
    line = _in_json(words[1], *found) if words[2:] else found[-1]
    try:
        return os.write(STANDARD_OUTPUT, f"{line}\n".encode("ascii")) > 0
    except (
        OSError
    ):  # a reader that is gone, a disk that is full: the verb says what there is to say
        return False


def _in_json(address: str, conversation_id: str, agent: str, upstream_session_id: str) -> str:
    from upthread.runtime.bindings.light_json import dumps

    told = {
        "schema": 1,
        "address": address,
        "conversation_id": conversation_id,
        "agent": agent,
        "upstream_session_id": upstream_session_id,
    }
    return dumps(told)


def _session(address: str) -> tuple[str, str, str] | None:
    """Return conversation id, agent and upstream id of an address, None for whatever is unsure."""
    workstream, _, role = address.rpartition("/")
    # Of other names the parser makes what is stored: a sibling's slot, characters in normal form.
    if not workstream or "~" in role or not address.isascii() or not address.isprintable():
        return None
    if workstream != workstream.strip():
        return None
    from upthread.client.remembered_opening import Openings

    opening = Openings(".", os.environ).recall()
    if opening is None or not _is_all_taken_in(opening.place):
        return None
    from upthread.store.sqlite.session_query import open_session

    key = (opening.project_id, workstream, role, 1)
    return open_session(opening.database, opening.identity, opening.identities, key)


def _is_all_taken_in(place: Place) -> bool:
    """Return whether hooks have seen nothing of the project that the record does not have."""
    for name in ("spool", "unread"):
        try:
            if os.listdir(os.path.join(place.project, name)):
                return False
        except FileNotFoundError:
            continue
    return True
