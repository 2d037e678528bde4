"""The seal of a row: what tells a row that was recorded from one that was changed behind our back.

Light, for `upthread id`, which checks the one row it answers with and loads no store.
"""

from __future__ import annotations

from hashlib import sha256


def seal_of(*columns: str | float | bytes | None) -> bytes:
    """Return the SHA-256 of a row's columns, each told apart from all that look like it.

    Text that is not valid Unicode may be given as its bytes.
    """
    # ASCII and not as it is: what counts as printable differs between versions of Python.
    # Bytes stand there by their length, in a tuple, which no other column is; they themselves
    # follow, since written out they could be four times as long.
    told = ascii([(len(each),) if type(each) is bytes else each for each in columns])
    content = [each for each in columns if type(each) is bytes]
    return sha256(b"".join((told.encode(), *content))).digest()
