"""The chain over the entries of a stream, and what proves one of them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, overload

from upthread.core.codec import encode_plain_json
from upthread.errors import StoreError
from upthread.store.entries import CURE_OF_DAMAGE, Entry, Written
from upthread.store.tags import StreamKind

_NOTHING: Final = sha256(b"").digest()


def first_hash(kind: StreamKind, name: str, project_id: str) -> bytes:
    """Return what the first entry of a stream is chained to."""
    return sha256(encode_plain_json([kind, project_id, name])).digest()


@overload
def as_bytes(document: str | bytes) -> bytes: ...
@overload
def as_bytes(document: str | bytes | None) -> bytes | None: ...
def as_bytes(document: str | bytes | None) -> bytes | None:
    """Return JSON as bytes; a store may have it as text."""
    return document.encode() if isinstance(document, str) else document


def digest_of(said: bytes | None, forgotten: bytes | None = None) -> bytes:
    """Return the digest of the words; `forgotten` is the stored digest of words that are gone."""
    return forgotten or _NOTHING if said is None else sha256(said).digest()


def chained(before: bytes, seq: int, entry: Entry | Written, digest: bytes) -> bytes:
    """Return the hash of an entry that follows one with the hash `before`."""
    covered = b"%b%b%d %b %d " % (before, digest, seq, entry.kind.encode(), entry.at_ms)
    return sha256(covered + as_bytes(entry.kept)).digest()


def hash_of(entry: Entry, before: bytes) -> bytes:
    """Return the hash that an entry as stored should have after one with the hash `before`.

    Empty for words beside a digest, because `forget` leaves the digest alone.
    """
    try:
        if None not in {entry.said, entry.digest}:
            return b""
        digest = digest_of(as_bytes(entry.said), entry.digest)
        return chained(before, entry.seq, entry, digest)
    except (AttributeError, TypeError, UnicodeEncodeError):  # another program wrote another type
        return b""


def not_whole(what: str, **ids: str) -> StoreError:
    """Return the error of an entry that is not what was recorded."""
    return StoreError(
        f"{what} is damaged: it is not what was recorded, or what stood before it is gone",
        hint=CURE_OF_DAMAGE,
        **ids,
    )


def proved(entries: Iterable[Entry], *, what: str, first: bytes) -> list[Entry]:
    """Return entries that were read with the hash before each. StoreError for one that is damaged.

    `first` is what the first entry of their stream is chained to.
    """
    found = list(entries)
    for each in found:
        before = first if each.seq == 1 else each.before
        if before is None or hash_of(each, before) != each.hash:
            raise not_whole(f"entry {each.seq} of {what}, {each.kind},")
    return found
