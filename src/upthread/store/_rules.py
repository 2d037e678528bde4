"""The rules every store applies, written once: numbering, sameness, existence, the hash chain.

Pure: values in, values or errors out. What a backend looks up and how is its own business.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

from upthread.core.codec import StoredPart, encode_plain_json
from upthread.core.commands import RecordOnce, RecordParts
from upthread.core.types import Speaker, TextPart
from upthread.errors import ConflictError, FencedError, NotFoundError, StoreError
from upthread.store.base import Verified

Found = TypeVar("Found")

FIRST_CHAIN: Final = bytes(32)
"""What the first part of a conversation is chained to."""

_CURE_OF_DAMAGE: Final = "`upthread doctor` says what is damaged, and what helps"
_READ_AGAIN: Final = "read again: another writer may have been there first"


def must_exist(found: Found | None, *, what: str, name: str) -> Found:
    """Return what was found. NotFoundError for a write that names what was never opened (S21)."""
    if found is None:
        raise NotFoundError(
            f"no {what} {name!r} was ever opened", hint=f"open the {what} first", name=name
        )
    return found


def must_equal(stored: object, given: object, *, what: str) -> None:
    """Accept the same again (S2); ConflictError for other content under the same key (S3)."""
    if stored != given:
        raise ConflictError(f"{what} was already written, with other content", hint=_READ_AGAIN)


def is_next(seq: int, *, last: int, what: str, owner: str) -> bool:
    """Return whether `seq` is the next number; False: it is taken, compare. A gap is a conflict."""
    if not 1 <= seq <= last + 1:
        raise ConflictError(
            f"{what} {seq} of {owner} would leave a gap: the last one is {last}", hint=_READ_AGAIN
        )
    return seq > last


def lost_lease(name: str, token: int) -> FencedError:
    """Return the error of a writer whose lease is no longer held under its token (S4, S14)."""
    return FencedError(
        f"the lease {name!r} is no longer held under token {token}; nothing was written",
        hint="another process took it over: stop the agent",
        name=name,
    )


def conversation_leases(project_id: str) -> tuple[str, str]:
    """Return the texts between which the names of leases on a project's conversations lie."""
    first = f"conversation {project_id} "
    return first, f"{first[:-1]}!"  # the character that follows a blank


def taken_lease(name: str) -> ConflictError:
    """Return the error of a writer whose commit takes a lease that somebody else holds (S34)."""
    return ConflictError(
        f"the lease {name!r} is held by somebody else; nothing was written",
        hint="read the lease again",
        name=name,
    )


def check_attempt(write: RecordOnce, last: tuple[str, str] | None) -> None:
    """Refuse a step that does not follow the last one, an attempt and its state (S23)."""
    name = f"the action {write.key!r}"
    # An action that was never begun stands as one whose attempt has failed: it may be begun.
    attempt_id, state = last or ("", "failed")
    if write.state == "intent":
        if state != "failed":
            raise ConflictError(
                f"{name} was begun by another attempt, {attempt_id}: {state}",
                hint="read it: what is done has a receipt",
                key=write.key,
            )
        return
    must_exist(last, what="attempt at the action", name=write.key)
    # Nor may an attempt that another has followed: its end, come late, is not the other one's.
    if last != (write.attempt_id, "intent"):
        raise ConflictError(
            f"{name} stands at attempt {attempt_id}: {state}; this one cannot end",
            hint=_READ_AGAIN,
            key=write.key,
        )


SPEAKERS_THAT_SAY: Final = frozenset({Speaker.USER, Speaker.ASSISTANT})
"""Whose messages `prior_messages` returns (S22)."""


def says_something(texts: Iterable[TextPart]) -> bool:
    """Return whether one of a message's texts is not blank (S22)."""
    for part in texts:  # noqa: SIM110  # `any` takes twice as long, for each of many messages
        if part.text.strip():
            return True
    return False


class PartHeader(NamedTuple):
    """What the chain covers beside the content."""

    conversation_id: str
    seq: int
    ordinal: int
    speaker: str
    turn_id: str | None
    upstream_session_id: str | None
    recorded_at_ms: int
    kind: str
    call_id: str | None


def header_of(write: RecordParts, ordinal: int, stored: StoredPart) -> PartHeader:
    """Return the header of one part of a message."""
    return PartHeader(  # by position: there is one for each part, and names take twice as long
        write.conversation_id,
        write.seq,
        ordinal,
        str(write.speaker),
        write.turn_id,
        write.upstream_session_id,
        write.recorded_at_ms,
        stored.kind,
        stored.call_id,
    )


def digest_of(content: bytes | None) -> bytes:
    """Return the SHA-256 of a part's content."""
    return sha256(content or b"").digest()


def is_before(recorded_at_ms: int, before_ms: int | None) -> bool:
    """Return whether something was recorded before a time; None: whenever it was (S26)."""
    return before_ms is None or recorded_at_ms < before_ms


def covered_by_chain(digest: bytes, header: PartHeader) -> bytes:
    """Return what a part adds to its chain: the digest of its content, its header as a JSON array.

    It does not depend on what is before it, so a writer makes it before it waits for any lock.
    """
    return digest + encode_plain_json(header)


def chained_to(previous: bytes, covered: bytes) -> bytes:
    """Return the SHA-256 of the previous chain and of what `covered_by_chain` says of a part."""
    return sha256(previous + covered).digest()


def chained(previous: bytes, digest: bytes, header: PartHeader) -> bytes:
    """Return SHA-256(previous chain, digest of the content, header as a JSON array)."""
    return chained_to(previous, covered_by_chain(digest, header))


def not_whole(what: str, name: object) -> StoreError:
    """Return the error of a row that does not match its seal, or does not follow the one before."""
    return StoreError(
        f"{what} {name} is damaged: it is not what was recorded, or what stood before it is gone",
        hint=_CURE_OF_DAMAGE,
    )


def must_count(seqs: Iterable[int], *, what: str, owner: str) -> None:
    """Raise StoreError where the numbers of rows that were read do not run from 1 without a gap."""
    for expected, seq in enumerate(seqs, start=1):
        if seq != expected:
            raise not_whole(f"{what} {expected} of", owner)


class ChainedPart(NamedTuple):
    """A part as stored, for verification. `digest` is None unless the content was erased.

    `erased_bytes` is how long the content was then; None where nobody knows, and where it is there.
    """

    header: PartHeader
    chain: object
    digest: object
    content: object
    erased_bytes: int | None = None


def verified(parts: Iterable[ChainedPart]) -> Verified:
    """Return the first message that does not verify, or the end of the chain (S9).

    Where a message is missing, that is the one. Rows missing after the last one that is left cannot
    be noticed.
    """
    place, previous = (0, 0), FIRST_CHAIN
    for header, chain, digest, content, _ in parts:
        seq, ordinal = place
        place = (header.seq, header.ordinal)
        # Of the first one (0, 1) would follow as well, and no message is numbered 0.
        if place not in {(seq, ordinal + 1), (seq + 1, 0)} or place[0] < 1:
            # A damaged number may be anything; what is named is a message that there can be.
            return Verified(max(1, min(header.seq, seq + 1)), None)
        # A digest stored beside its content proves nothing: it may have been changed with it.
        computed = digest_of(content) if isinstance(content, bytes) else digest
        if (
            not isinstance(computed, bytes)
            or (previous := chained(previous, computed, header)) != chain
        ):
            return Verified(header.seq, None)
    return Verified(None, None if place == (0, 0) else previous)


def seal_of(*columns: str | float | bytes | None) -> bytes:
    """Return a row's seal: the SHA-256 of its columns, each told apart from all that look alike.

    Text that is not valid Unicode may be given as its bytes.
    """
    # ASCII and not as it is: what counts as printable differs between versions of Python.
    # Bytes stand there by their length, in a tuple, which no other column is; they themselves
    # follow, since written out they could be four times as long.
    told = ascii([(len(each),) if type(each) is bytes else each for each in columns])
    content = [each for each in columns if type(each) is bytes]
    return sha256(b"".join((told.encode(), *content))).digest()
