"""The error tree. Its second level is what the caller does next.

    UpthreadError
    ├── UsageError        fix the call
    │   └── NotFoundError    the address, run or question does not exist
    ├── ConfigError       fix a file: configuration, roles, pipeline
    ├── UpstreamError     the agent's fault; `outcome` says which
    │   └── QuotaExceededError   it sent more than a limit allows, or a name that is none
    ├── StoreError        the database cannot be read or written
    ├── ConflictError     another writer was there first
    │   ├── LeaseHeldError   it still holds the lease
    │   └── FencedError      it took our lease over: stop
    └── RefusedError      a decision: attaching would be wrong

Every message says what happened, to which id; `hint` says what to do next. Nothing here logs.

All that reaches a caller stands below the root. What only steers within a layer does not, so that
no `except UpthreadError` takes it for a fault, and is turned into one of these, or ends, where that
layer ends: tests/test_errors.py names each with where that is.
"""

from typing import ClassVar

UPSTREAM_CHARACTERS_MAX = 4000
"""How much an agent's failure may take to tell."""


def _cut(text: str) -> str:
    most = UPSTREAM_CHARACTERS_MAX
    return text if len(text) <= most else text[: most - 1] + "…"


class UpthreadError(Exception):
    """The root. `ids` names what the error is about, in the order a reader needs it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **ids: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.ids = ids

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(UpthreadError):
    """The call cannot be carried out as it was made."""

    exit_code = 2


class NoOpenTurnError(UsageError):
    """There is no turn to continue: it has ended, or another prompt took its place."""


class NotFoundError(UsageError):
    """What the call names does not exist."""

    exit_code = 3


class ConfigError(UpthreadError):
    """A configuration, role or pipeline file is wrong. Nothing was started."""


class UpstreamError(UpthreadError):
    """The agent failed us.

    `outcome` is a word of `core.types.Outcome`; `reset_at_ms` is the time the agent gave for a
    rate limit to end, epoch milliseconds, None when it gave none. `was_killed`: its process was
    ended by a signal that we did not send.
    """

    was_killed: bool = False

    def __init__(
        self,
        message: str,
        *,
        outcome: str,
        reset_at_ms: int | None = None,
        hint: str = "",
        **ids: str,
    ) -> None:
        # What an agent said stands in these, and an agent may say much.
        super().__init__(_cut(message), hint=_cut(hint), **ids)
        self.outcome = outcome
        self.reset_at_ms = reset_at_ms


class QuotaExceededError(UpstreamError):
    """The agent went past a limit of core/quotas.py, `limit`. It is ended; nothing is retried."""

    def __init__(self, message: str, *, limit: str, hint: str = "") -> None:
        super().__init__(message, outcome="unknown", hint=hint)
        self.limit = limit


class StoreError(UpthreadError):
    """The store cannot be opened, read or written. What was acknowledged is still there."""


class StoreUnreachableError(StoreError):
    """No server answers at the store's address. Nothing was read or written."""


class ConflictError(UpthreadError):
    """Another writer wrote something else under the same key first. Read again."""


class SeveralAgentsError(UsageError):
    """Several agents are installed and nothing says which; `agents` are their names."""

    def __init__(self, message: str, *, agents: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.agents = agents


class LeaseHeldError(ConflictError):
    """Somebody living holds the lease. `holder` says who, in words."""

    exit_code = 6

    def __init__(self, message: str, *, holder: str, hint: str = "", **ids: str) -> None:
        super().__init__(message, hint=hint, **ids)
        self.holder = holder


class FencedError(ConflictError):
    """Our lease was taken over while we slept. Nothing was written; stop the agent."""

    exit_code = 6


class RefusedError(UpthreadError):
    """The handshake decided not to attach. `reasons` are codes of `core.decision.handshake`."""

    exit_code = 5

    def __init__(
        self, message: str, *, reasons: tuple[str, ...], hint: str = "", **ids: str
    ) -> None:
        super().__init__(message, hint=hint, **ids)
        self.reasons = reasons
