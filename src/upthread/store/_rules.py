"""The rules every store applies, written once: numbering, sameness, existence, leases.

Pure: values in, values or errors out. What a backend looks up and how is its own business.
"""

from __future__ import annotations

from typing import Final, TypeVar

from upthread.core.commands import RecordOnce
from upthread.errors import ConflictError, FencedError, NotFoundError

Found = TypeVar("Found")

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
