"""The system: clock, ids, host identity, and how is waited, in one value.

The only place of the runtime that asks the machine for anything. Order never depends on the clock.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from upthread.boundary.processes import started_at_ticks
from upthread.core.types import Holder
from upthread.runtime.event_loop import EventLoop

Result = TypeVar("Result")

HOST_VARIABLE = "UPTHREAD_HOST"
USER_VARIABLE = "UPTHREAD_USER"

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_MACHINE_DIGITS = 16

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

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        await anyio.sleep(seconds)

    def shield(self) -> AbstractContextManager[object]:
        """Keep a cancellation off a block."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        return anyio.CancelScope(shield=True)
