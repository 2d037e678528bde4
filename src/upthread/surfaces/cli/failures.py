"""Failures: an error as one line, or as one JSON object, and the exit code it ends with.

Only a bug of ours shows a traceback, and says that it is one.
"""

import errno
import re
import signal
import traceback
from collections.abc import Mapping
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.decision.words import REFUSE, done_in_words
from upthread.core.text import visible_line
from upthread.errors import (
    ConfigError,
    ConflictError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    StoreError,
    UpstreamError,
    UpthreadError,
    UsageError,
)
from upthread.surfaces.cli.terminal.output import Output, Shape, members

EXIT_ERROR = 1
EXIT_WAITING = 4
EXIT_INTERRUPTED = 130
EXIT_OF_SIGNALS = 128
"""A shell's way: the exit code is this and the number of the signal."""

# The narrower before the wider: some of these are kinds of others.
KINDS = (
    (NotFoundError, "not_found"),
    (UsageError, "usage"),
    (ConfigError, "config"),
    (UpstreamError, "agent"),
    (StoreError, "store"),
    (LeaseHeldError, "busy"),
    (ConflictError, "conflict"),
    (RefusedError, "refused"),
)
"""The word of an error in JSON; the first that fits, else `error`."""

TOLD_CHARACTERS_MAX = 4_000
"""How much of an error is shown to a person; all of it is in --json."""

TRACEBACK_LINES_MAX = 80
"""How much of a traceback is shown, its end: recursion and nested groups make long ones."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Found by writing, where no name is known any more."""

_OF_THE_MACHINE = _FULL | {errno.EACCES, errno.EPERM, errno.EROFS}


class EndedBySignalError(Exception):
    """A signal ended the verb; `ids` name the turn that was running, if any.

    `has_ended` is whether that turn was done already, and only its agent's end was waited for.
    """

    def __init__(self, number: int, ids: Mapping[str, str], *, has_ended: bool) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.ids = ids
        self.has_ended = has_ended


class Failure(Struct, frozen=True, kw_only=True):
    """What a person or a script is told. `refused` is the line of a refusal, without its hint."""

    kind: str
    message: str
    exit_code: int
    hint: str = ""
    ids: Mapping[str, str] = {}
    refused: str = ""


INTERRUPTED = Failure(kind="interrupted", message="interrupted", exit_code=EXIT_INTERRUPTED)


def failure_of(error: BaseException) -> Failure | None:
    """Return what to say about an error; None for a bug of ours."""
    # The second is what Python 3.11 makes of a Ctrl-C while a class is made.
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, EndedBySignalError):
        message = INTERRUPTED.message + ("" if error.number == signal.SIGINT else f" by {error}")
        if error.has_ended:
            message += ", after its turn had ended: the reply is on record"
            message += ", and need not be asked for again"
        return replace(
            INTERRUPTED,
            message=message,
            exit_code=EXIT_OF_SIGNALS + error.number,
            ids=error.ids,
        )
    # Task groups wrap the one error there is; of several none speaks for the others.
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return failure_of(group.exceptions[0]) if len(group.exceptions) == 1 else None
    # Only the question for the working directory fails without a name.
    if isinstance(error, FileNotFoundError) and not error.filename:
        gone = "the working directory is not there any more"
        error = UsageError(gone, hint="change into the project's folder")
    # A place where nothing can be written is no bug of ours, whichever step met it first.
    if isinstance(error, OSError) and error.errno in (_OF_THE_MACHINE if error.filename else _FULL):
        where = visible_line(f"{error.filename or 'the disk'}: {error.strerror}")
        return Failure(
            kind="error",
            message=without_secrets(where),
            exit_code=EXIT_ERROR,
            hint="make room there that you may read and write, or set HOME or UPTHREAD_HOME",
        )
    if isinstance(error, UpthreadError):
        return Failure(
            kind=next((word for kind, word in KINDS if isinstance(error, kind)), "error"),
            message=without_secrets(error.message),
            exit_code=error.exit_code,
            hint=without_secrets(error.hint),
            ids={name: without_secrets(value) for name, value in error.ids.items()},
            refused=_refused(error),
        )
    return None


def shape(failure: Failure, *, is_stream: bool = False) -> Shape:
    """Return the failure as JSON; in a stream it is the result."""
    told: Shape = {
        "error": members(failure, "kind message hint ids"),
        "exit_code": failure.exit_code,
    }
    if not is_stream:
        return told
    status = failure.kind if failure.kind == INTERRUPTED.kind else "failed"
    return {"type": "result", "status": "refused" if failure.refused else status, **told}


def tell(failure: Failure, output: Output, *, is_stream: bool = False) -> int:
    """Show a failure and return its exit code."""
    # A reply may have left its line open, and the error would go on in it.
    output.end_line()
    if output.is_json:
        output.json(shape(failure, is_stream=is_stream))
    elif failure.kind == INTERRUPTED.kind:
        output.note(failure.message)
    elif failure.refused:
        output.note(failure.refused + (f"; {failure.hint}" if failure.hint else ""), "yellow")
    else:
        hint = f" ({_bounded(failure.hint)})" if failure.hint else ""
        first, _, more = f"error: {_bounded(failure.message)}{hint}".partition("\n")
        output.note(first, "red")
        if more:  # an agent's stderr, or a line of a file: none of it can pose as ours
            output.quote(more, is_beside=True)
    return failure.exit_code


def tell_bug(error: BaseException, output: Output, *, is_stream: bool = False) -> int:
    """Show the traceback of a bug of ours, on standard error."""
    told = without_secrets("".join(traceback.format_exception(error)))
    output.quote("\n".join(told.splitlines()[-TRACEBACK_LINES_MAX:]), is_beside=True)
    message = without_secrets(visible_line(f"{type(error).__name__}: {error}"))
    failure = Failure(
        kind="bug",
        message=message,
        hint="this is a bug in upthread, not yours: please report it with the lines above",
        exit_code=EXIT_ERROR,
    )
    return tell(failure, output, is_stream=is_stream)


def without_secrets(text: str) -> str:
    """Return an error's text redacted: an agent's words may be in it, and builds log errors."""
    import secrets  # only where there is an error

    from upthread.core.redaction.redactor import Redactor

    return Redactor(secrets.token_bytes(16)).redact(text)


def _refused(error: UpthreadError) -> str:
    where = error.ids.get("address") or error.ids.get("workstream") or error.ids.get("lease", "")
    if isinstance(error, LeaseHeldError):
        # Leases have the project's id in their names, which no person has ever typed.
        name = re.sub(r"^(workstream|conversation) \S+ ", "", visible_line(where))
        return f"{name}: {done_in_words(REFUSE, None)}: busy — {error.holder}"
    if isinstance(error, RefusedError):
        from upthread.core.decision.handshake import in_words  # a light verb decides nothing

        reason = in_words(error.reasons[0] if error.reasons else "refused")
        return f"{visible_line(where)}: {done_in_words(REFUSE, None)}: {visible_line(reason)}"
    return ""


def _bounded(text: str) -> str:
    """An agent's stderr may be in a hint, and a file in a message."""
    return text if len(text) <= TOLD_CHARACTERS_MAX else text[:TOLD_CHARACTERS_MAX] + " […]"
