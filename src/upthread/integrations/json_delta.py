"""What has changed between two values of JSON: a snapshot is kept as its difference to the last.

A framework's snapshot holds a whole conversation, each time. Told as a difference, the bytes of a
thread grow with what is new. Pure; `changed(a, b)` and `applied(a, difference)` are inverse to each
other for all JSON, which a property test says.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

SAME = 0
"""A difference is 0 for none, else an object with one key: `v` a new value; `l` of a list, how many
elements stay and those after; `o` of an object, its changed members and the names of those that
went."""


def changed(before: Any, after: Any) -> Any:
    """Return what makes `after` of `before`."""
    if isinstance(before, list) and isinstance(after, list):
        most = min(len(before), len(after))
        kept = next((at for at in range(most) if not _is_same(before[at], after[at])), most)
        return SAME if kept == len(before) == len(after) else {"l": [kept, after[kept:]]}
    if isinstance(before, dict) and isinstance(after, dict):
        return _changed_object(before, after)
    return SAME if _is_same(before, after) else {"v": after}


def applied(before: Any, difference: Any) -> Any:
    """Return what a difference makes of a value. What has not changed is shared with it."""
    if difference == SAME and not isinstance(difference, Mapping):
        return before
    if "v" in difference:
        return difference["v"]
    if "l" in difference:
        kept, new = difference["l"]
        return [*before[:kept], *new]
    members, gone = difference["o"]
    return {
        **{name: value for name, value in before.items() if name not in set(gone)},
        **{
            name: applied(before[name], each) if name in before else each["v"]
            for name, each in members.items()
        },
    }


def _changed_object(before: dict[str, Any], after: dict[str, Any]) -> Any:
    members = {
        name: difference
        for name, value in after.items()
        if (difference := changed(before[name], value) if name in before else {"v": value}) != SAME
    }
    gone = [name for name in before if name not in after]
    # Its members in another order are another value to who shows them, and no other in JSON.
    return {"o": [members, gone]} if members or gone else SAME


def _is_same(one: Any, other: Any) -> bool:
    """As `==`, but that 1, 1.0 and True are three: a value comes back as the type it was."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _is_same(value, other[name]) for name, value in one.items()
        )
    return bool(one == other)


def copied(value: Any) -> Any:
    """Return a copy of a JSON value, which its caller may change."""
    return msgspec.to_builtins(value)
