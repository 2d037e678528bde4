"""The system: clock, ids, host identity, and how is waited, in one value.

The only place of the runtime that asks the machine for anything. Order never depends on the clock.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct, field

from upthread.boundary.programs import GivenUpError, heeding, started_at_ticks
from upthread.core.types import Holder

if TYPE_CHECKING:
    from anyio import CapacityLimiter


Result = TypeVar("Result")

HOST_VARIABLE = "UPTHREAD_HOST"
USER_VARIABLE = "UPTHREAD_USER"

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_MACHINE_DIGITS = 16

LOOK_AT_CLOCK_EVERY_S = 5.0
"""A machine that sleeps, or a clock that is set, must not make anybody wait for ever."""

PAUSE_S_MIN = 1.0
"""An agent that says again and again that its limit has just passed is not asked without end."""

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """Return a fresh id, `con_…`: 48 bits of time and 80 of chance, as a ULID has them."""
    number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    digits = [_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds; for people, never for order."""
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    """Return the wall clock in epoch nanoseconds, as the kernel stamps files with it."""
    return time.time_ns()


def host_name() -> str:
    """Return what this host is called: UPTHREAD_HOST, else its own name.

    Processes under one name must see each other's pids: who is not seen there counts as dead.
    """
    return os.environ.get(HOST_VARIABLE) or os.uname().nodename


def user_name(environment: Mapping[str, str]) -> str:
    """Return who works here, for the audit: UPTHREAD_USER, else the account and its host."""
    chosen = environment.get(USER_VARIABLE)
    return chosen or f"{_account()}@{environment.get(HOST_VARIABLE) or os.uname().nodename}"


def path_owner() -> str:
    """Return whose this machine's paths are to this process: its account, host and machine.

    By the kernel's word for the account, not the environment's. Host and machine both: containers
    of one image may share the machine's id, and machines may share a name. The id itself is to be
    kept on the machine, so this has a digest of it.
    """
    return f"{_account()}({os.geteuid()})@{host_name()} {_machine()}".rstrip()


@functools.cache
def _machine() -> str:
    import hmac  # noqa: PLC0415  # few ask which machine this is

    for place in _MACHINE_IDS:
        with contextlib.suppress(OSError):
            found = Path(place).read_bytes().strip()
            return hmac.digest(found, b"upthread", "sha256").hex()[:_MACHINE_DIGITS]
    return ""


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user that has no name
        return str(os.geteuid())


def this_process(doing: str = "") -> Holder:
    """Return this process as a lease holder."""
    return process_holder(os.getpid(), doing)


def process_holder(pid: int, doing: str) -> Holder:
    """Return another process of this host, such as an agent, as a lease holder."""
    return Holder(
        host=host_name(),
        boot_id=_boot_id(),
        pid=pid,
        started_at_ticks=started_at_ticks(pid) or 0,
        doing=doing,
    )


def is_dead(holder: Holder) -> bool:
    """Return whether the holder is known to be dead: on this host, and gone or another process."""
    # Another host's pids tell nothing here: only its heartbeat does.
    if holder.host != host_name():
        return False
    # Pids and times begin anew with each boot.
    if holder.boot_id != _boot_id():
        return True
    ticks = started_at_ticks(holder.pid)
    return ticks is None or (holder.started_at_ticks not in {0, ticks})


@functools.cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


async def _end_nothing(_pid: int, _started_at_ticks: int) -> bool:
    """Leave a dead holder's agent alone, where nobody said how to end it."""
    return False


THREAD_POLL_S = 0.001
"""How often a cancelled caller looks whether its call has ended."""


class EventLoop:
    """Waits on the loop that runs, which is the one that its first call is made on."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Run a blocking call off the event loop.

        A call under way is not abandoned when the caller is cancelled: this returns, or raises the
        cancellation, only when the call has ended. A git that it waits for is ended then.
        """
        import anyio.to_thread  # noqa: PLC0415  # a hook has no event loop

        watched = _Watched(call)
        # One call at a time: a connection of a store is no thread's own.
        self._limiter = self._limiter or anyio.CapacityLimiter(1)
        async with self._limiter:
            try:
                return await anyio.to_thread.run_sync(watched)
            except anyio.get_cancelled_exc_class():
                # anyio shields the wait from its own scopes, not from the task's own cancellation,
                # which is what Ctrl-C is: two threads would be in one connection.
                await watched.wait_until_over()
                raise


class _Watched(Generic[Result]):
    """A call of which it is known whether it has begun and ended; given up, it never begins."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._turnstile = threading.Lock()
        self._is_given_up = False
        self._has_begun = False
        self._is_over = threading.Event()
        self._given_up = threading.Event()

    def __call__(self) -> Result:
        # Begun or given up, never both: a call that began after its caller
        # had left would be the second one in a connection that takes one.
        with self._turnstile:
            if self._is_given_up:
                raise GivenUpError
            self._has_begun = True
        try:
            with heeding(self._given_up):
                return self._call()
        finally:
            self._is_over.set()

    async def wait_until_over(self) -> None:
        """Return when the call has ended; one that has not begun by now never will."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        self._given_up.set()
        with self._turnstile:
            self._is_given_up = not self._has_begun
        with anyio.CancelScope(shield=True):
            while self._has_begun and not self._is_over.is_set():  # noqa: ASYNC110  # a thread's event
                await anyio.sleep(THREAD_POLL_S)


class System(Struct, frozen=True):
    """What the runtime asks of the machine. Tests pass clocks of their own.

    `end_process_group` ends an agent that a dead holder left behind, if pid and start time match.
    """

    now_ms: Callable[[], int] = now_ms
    monotonic_s: Callable[[], float] = time.monotonic
    new_id: Callable[[str], str] = new_id
    is_dead: Callable[[Holder], bool] = is_dead
    this_process: Callable[[str], Holder] = this_process
    end_process_group: Callable[[int, int], Awaitable[bool]] = _end_nothing
    waits: EventLoop = field(default_factory=EventLoop)

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Run a store call off the event loop. One hop a batch, never one an event."""
        return await self.waits.in_thread(call)

    async def wait_until(self, at_ms: int) -> None:
        """Return once a moment is past, in epoch milliseconds; not at once where it is already."""
        await self.sleep(PAUSE_S_MIN)
        while (left_ms := at_ms - self.now_ms()) > 0:
            await self.sleep(min(left_ms / 1000, LOOK_AT_CLOCK_EVERY_S))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        await anyio.sleep(seconds)

    def shield(self) -> AbstractContextManager[object]:
        """Keep a cancellation off a block."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        return anyio.CancelScope(shield=True)
