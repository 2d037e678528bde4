"""Addresses and names: how people say which conversation they mean, and what we call it back.

Pure text. A name is data for ever: nothing makes a path of one but `directory_name`, which leaves
nothing of it that means anything in one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable

from msgspec import Struct

from upthread.core.types import MAIN_SLOT, ConversationKey, ProjectId
from upthread.errors import UsageError

WORKSTREAM_BYTES_MAX = 200
ROLE_CHARACTERS_MAX = 64
SHOWN_CHARACTERS_MAX = 80
DIRECTORY_CHARACTERS_MAX = 60
DIGEST_CHARACTERS = 8

BASE_NAMES = tuple(
    """
    Aitana Kael Lyra Zev Thalia Iago Elowen Mael Noor Bram Saskia Teo Imani Rune Odile Juno Anselm
    Petra Cato Wren Ilse Dario Freya Hugo Maren Silas Vera Otis Leda Nils Amara Emil Tove Rafael
    Signe Luca Hanne Pavel Marisol Corin Alba Jonas Yara Felix Inga Matteo Suri Leif Carmen Ivo
    Nadia Orson Bea Tariq Linnea Aldo Mira Edda Casper Zora Quinn Rosalind Viggo Asta
    """.split()
)
"""Given out in an order of the workstream's own; then again with a number, `Kael2`."""

_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DIGESTED = re.compile(r"(?:\A|-)[0-9a-f]{8}\Z")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_MARKS = re.compile(r"[\W_]+")
_SLOT = re.compile(r"(?P<role>.+)~(?P<slot>[1-9][0-9]{0,5})")


class Address(Struct, frozen=True, kw_only=True):
    """A parsed `WORKSTREAM/ROLE[~SLOT]`."""

    workstream: str
    role: str
    slot: int = MAIN_SLOT


def key_of(project_id: ProjectId, address: Address) -> ConversationKey:
    """Return the key behind an address of a project."""
    return ConversationKey(
        project_id=project_id,
        workstream=address.workstream,
        role=address.role,
        slot=address.slot,
    )


def parse_address(text: str) -> Address:
    """Split at the last slash; raises UsageError that says which half is wrong."""
    workstream, slash, last = text.rpartition("/")
    if not slash:
        raise UsageError(
            f"{shown(text)} is not an address",
            hint="an address is WORKSTREAM/ROLE, such as spec-42/planner",
        )
    sibling = _SLOT.fullmatch(last)
    role, slot = (sibling["role"], int(sibling["slot"])) if sibling else (last, MAIN_SLOT)
    return Address(workstream=parse_workstream(workstream), role=parse_role(role), slot=slot)


def parse_workstream(text: str) -> str:
    """Return the name in NFC; raises UsageError for an empty, too long or unprintable one."""
    if not text.isprintable():
        raise UsageError(
            f"the workstream name {shown(text)} has a character that cannot be printed",
            hint="use letters, digits, punctuation and spaces",
        )
    name = unicodedata.normalize("NFC", text.strip())
    size = len(name.encode())
    if not name:
        raise UsageError("the workstream name is empty", hint="name the piece of work: spec-42")
    if size > WORKSTREAM_BYTES_MAX:
        raise UsageError(
            f"the workstream name {shown(name)} has {size} bytes",
            hint=f"at most {WORKSTREAM_BYTES_MAX} bytes are allowed",
        )
    return name


def parse_role(text: str) -> str:
    """Return the role's name; raises UsageError unless it is `[a-z0-9][a-z0-9_-]*`."""
    if not _ROLE.fullmatch(text) or len(text) > ROLE_CHARACTERS_MAX:
        raise UsageError(
            f"{shown(text)} is not a role name",
            hint=f"lower-case letters, digits, - and _, at most {ROLE_CHARACTERS_MAX}: planner",
        )
    return text


def directory_name(workstream: str) -> str:
    """Return a name for a directory and a branch, of letters that both may have anywhere.

    The workstream's own where it is such a name; else what is left of it, and a part of its digest
    so that no two workstreams share one.
    """
    is_short = len(workstream) <= DIRECTORY_CHARACTERS_MAX
    if is_short and _PLAIN.fullmatch(workstream) and not _DIGESTED.search(workstream):
        return workstream
    digest = hashlib.sha256(workstream.encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = _NOT_PLAIN.sub("-", workstream.lower())[:DIRECTORY_CHARACTERS_MAX].strip("-")
    return f"{readable}-{digest}" if readable else digest


def shown(text: str) -> str:
    """Quote a name for a message: escaped and cut, so that no name can forge a line."""
    cut = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    return ascii(cut) if not cut.isprintable() else repr(cut)


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return the end of an error about a name that is not known: the one that is like it."""
    from difflib import get_close_matches  # noqa: PLC0415  # only where there is an error

    close = get_close_matches(typed, list(known), n=1)
    return f". Did you mean {shown(close[0])}?" if close else ""


def choose_base_name(workstream: str, taken: Collection[str]) -> str:
    """Return the first free base name in this workstream's own order of the list."""
    start = int.from_bytes(hashlib.sha256(workstream.encode()).digest()[:4], "big")
    used = set(taken)
    lap = 1
    while True:
        for offset in range(len(BASE_NAMES)):
            name = BASE_NAMES[(start + offset) % len(BASE_NAMES)] + ("" if lap == 1 else str(lap))
            if name not in used:
                return name
        lap += 1


def folded(name: str) -> str:
    """Return a name without case and marks: `filePath` and `file_path` are one."""
    return _MARKS.sub("", name).casefold()
