"""One child process with lines on its pipes: started, read, written to, ended, always reaped.

What the agents' adapters stand on. It knows nothing of any protocol: a line is bytes. The pipes
are non-blocking descriptors awaited through anyio, and not the event loop's own subprocess
support, for two reasons: that one reports an exit only when every pipe is closed, so a grandchild
that holds stdout hides the death of its parent; and it reaps at once, so that a group could be
signalled whose number is already somebody else's. Here the group is killed while the dead leader
is still unreaped and its number therefore taken.

A child ends with us in three ways. Leaving the context ends it. If we are killed, its stdin closes,
a guard (`_guard`) ends what it started beside its group, and on Linux it gets SIGTERM as its
parent-death signal, set by `setpriv` of util-linux between fork and exec; a `preexec_fn` is not
safe beside threads. SIGTERM rather than SIGKILL: what ignores both stays recognisable, and a
successor ends it whole with `end_process_group`. The kernel sends that signal when the *thread*
that started the child ends, so the child is started on the event loop's own thread.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Self, TypeAlias

import anyio
import msgspec
from msgspec import Struct

from upthread.agent_stores.homes import agent_environment
from upthread.agents._guard import (
    MARK_VARIABLE,
    Guard,
    kill_marked,
    mark_for,
    marked_processes,
    marks_of,
    started_guard,
)
from upthread.boundary import programs
from upthread.boundary.files import NOWHERE, read_all, read_start, through_links, write_whole
from upthread.boundary.forked import Forkable
from upthread.boundary.own_files import home_directory, require_home
from upthread.boundary.programs import environment_of
from upthread.core.quotas import FRAME, STDERR_BYTES_MAX, Allowance
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import Environment, Outcome, ready
from upthread.errors import ConfigError, UpstreamError
from upthread.tasks import task_group

READ_BYTES = 2**16
OUTBOX_FRAMES_MAX = 1024
PIPE_READS_MAX = 16
EOF_PATIENCE_S = 1.0

TERM_PATIENCE_S = 2.0
KILL_PATIENCE_S = 5.0
POLL_INTERVAL_S = 0.02


class ChildStart(Struct, frozen=True, kw_only=True):
    """What to start. `environment` wins over inherited.

    `stderr_path` None keeps stderr nowhere but its end; what `redactor` takes for a secret is
    nowhere at all, and has no default: whoever starts an agent must say. `ends_at_eof` False is a
    command that does not read its stdin, and so would not notice its end. `starts_in` is for an
    agent that is told its working directory later, and must not start there. No program is taken
    from the repository of the working directory, nor from that of this process.
    """

    command: Sequence[str]
    working_directory: str
    stderr_path: str | None
    redactor: Redactor | None
    environment: Environment = {}
    ends_at_eof: bool = True
    starts_in: str = ""


def child_environment(given: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the whole environment of a child: the inherited few, the given, and its mark."""
    whole = agent_environment(given)
    cleaned = {"PATH": programs.search_path(whole)}  # it works in a repository
    return {**whole, **cleaned, MARK_VARIABLE: mark_for(os.environ, mark)}


class ChildProcess(Forkable):
    """A running child. Made by `started_child` only; reading is for one task at a time."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        mark: str,
        stderr: StderrLog,
        guard: Guard | None = None,
        ends_at_eof: bool = True,
        home: str = "",
    ) -> None:
        super().__init__()
        self._home = home
        self._is_parents = False
        self._popen = popen
        self._guard = guard
        self._eof_patience_s = EOF_PATIENCE_S if ends_at_eof else 0.0
        self._mark = mark
        self._stderr = stderr
        self._pipe = _name_of(f"self/fd/{popen.stdin.fileno()}") if popen.stdin else ""
        self.allowance = Allowance()
        self._buffer = bytearray()
        self._scanned = 0
        self._outbox, self._frames = anyio.create_memory_object_stream[bytes](OUTBOX_FRAMES_MAX)
        self._stopping = anyio.Lock()
        # Shielded: whoever cancels the rest still waits for the child to be reaped.
        self._watching = anyio.CancelScope(shield=True)
        self._exited = anyio.Event()
        self.pid = popen.pid
        # 0 for one that is dead already, which no process has: a successor signals nobody.
        self.started_at_ticks = started_at_ticks(popen.pid) or 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._popen.returncode

    @property
    def fault_of_home(self) -> str:
        """What its HOME lacks, empty for a usable one: it may be why an agent ended.

        Who names one below /dev/null has chosen to have none.
        """
        home = self._home
        if not home or home.startswith(os.devnull) or os.access(home, os.W_OK):
            return ""
        return f" with HOME={home}, which cannot be written (set another HOME),"

    def environment(self) -> Environment:
        """Return the agent's environment, which a wrapper may have changed; empty without /proc.

        The agent is the newest process that reads our pipe: what it starts itself has another.
        """
        pids = marked_processes(self._mark)
        readers = (pid for pid in pids if _name_of(f"{pid}/fd/0") == self._pipe)
        return environment_of(max(readers, default=0))

    async def wait(self) -> int | None:
        """Wait until it has exited and what it started has been ended."""
        await self._exited.wait()
        return self.exit_code

    def after_fork(self, *, is_idle: bool) -> None:
        self._is_parents = True
        # Otherwise neither the agent nor its guard would notice that our parent has ended.
        for pipe in (self._popen.stdin, self._guard.pipe if self._guard else None):
            if pipe is not None:
                pipe.close()

    def require_own(self) -> None:
        """Raise UpstreamError in a process that was forked from the one that started it."""
        if self._is_parents:
            raise UpstreamError(
                f"the agent (process {self.pid}) belongs to the process that this one was forked"
                " from",
                outcome=Outcome.UNKNOWN,
                hint="open the project again after the fork",
            )

    # --- lines ---------------------------------------------------------------------------------

    async def read_line(self) -> bytes | None:
        """Return the next line without its end, None when there will be no more.

        Raises QuotaExceededError past a limit; what follows on that pipe cannot be trusted, and
        begins in the middle of that line for whoever reads on. An unfinished last line is returned.
        """
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end >= 0:
                return self._take(end, skipped=1)
            # What was searched is not searched again: a long frame comes in many pieces.
            self._scanned = len(self._buffer)
            # Asked before the end is there: a line without one would fill the memory.
            if self._scanned > FRAME.most:
                self._buffer.clear()
                raise FRAME.passed()
            chunk = await _read_chunk(self._popen.stdout)
            if not chunk:
                return self._take(self._scanned, skipped=0) if self._buffer else None
            self._buffer += chunk

    @property
    def unfinished_line(self) -> bytes:
        """The beginning of its last line, which has no end yet; empty where there is none."""
        return bytes(self._buffer[:TAIL_BYTES])

    def _take(self, end: int, *, skipped: int) -> bytes:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + skipped]
        self._scanned = 0
        self.allowance.take(len(line))
        return line

    async def write_line(self, line: bytes) -> None:
        """Queue a line. It waits only when OUTBOX_FRAMES_MAX are queued; a dead child eats it."""
        self.require_own()
        # Whoever reads is told of its death, with how it ended; an error here would hide that one.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._outbox.send(line + b"\n")

    async def _write_frames(self) -> None:
        # One task writes, so that a caller's cancellation never leaves half a line in the pipe.
        with self._frames, suppress(OSError, anyio.ClosedResourceError):
            async for frame in self._frames:
                await self._write(memoryview(frame))

    async def _write(self, rest: memoryview) -> None:
        stdin = self._popen.stdin
        assert stdin is not None
        # Asked each time: `stop` closes the pipe while this waits for it.
        while rest and not stdin.closed:
            try:
                rest = rest[os.write(stdin.fileno(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(stdin)

    def tail_of_stderr(self) -> str:
        """Return the last this child wrote to stderr, without its secrets."""
        self._read_stderr_now()
        return self._stderr.tail()

    async def _read_stderr(self) -> None:
        while chunk := await _read_chunk(self._popen.stderr):
            self._stderr.write(chunk)

    def _read_stderr_now(self) -> None:
        """Take what is in the pipe: of a child that has died, the end of all it said."""
        pipe = self._popen.stderr
        if pipe is None or pipe.closed:
            return
        with suppress(BlockingIOError):
            # Bounded: what the agent started may hold the pipe still, and go on writing.
            for _ in range(PIPE_READS_MAX):
                self._stderr.write(os.read(pipe.fileno(), READ_BYTES))

    # --- its life ------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Serve its pipes and watch for its end; leaving the context ends it."""
        try:
            async with task_group() as tasks:
                tasks.start_soon(self._watch_exit)
                tasks.start_soon(self._write_frames)
                # All the time: an agent whose stderr is full would stop in the middle of a turn.
                tasks.start_soon(self._read_stderr)
                try:
                    yield self
                finally:
                    await self.stop()
                    self._watching.cancel()  # of use only for a child that cannot be killed
                    tasks.cancel_scope.cancel()
        finally:
            # Last of all: until here a task may wait for one of the descriptors.
            self._close()

    async def stop(self) -> None:
        """End it: close stdin, then SIGTERM, then SIGKILL to the group. Not cancellable.

        Returns when it is reaped and everything it started is gone.
        """
        if self._is_parents:
            return
        with anyio.CancelScope(shield=True):
            # A deadline and the end of the context may both ask: each returns only when it is gone.
            async with self._stopping:
                self._close_stdin()
                for signal_number, patience_s in (
                    (None, self._eof_patience_s),
                    (signal.SIGTERM, TERM_PATIENCE_S),
                    (signal.SIGKILL, KILL_PATIENCE_S),
                ):
                    if await self._exited_after(signal_number, patience_s):
                        return

    async def _exited_after(self, signal_number: int | None, patience_s: float) -> bool:
        # Once it is reaped, the number may be that of somebody else's group.
        if signal_number is not None and not self._exited.is_set():
            signal_group(self.pid, signal_number)
        with anyio.move_on_after(patience_s):
            await self._exited.wait()
        return self._exited.is_set()

    def _close_stdin(self) -> None:
        stdin = self._popen.stdin
        if stdin is not None and not stdin.closed:
            # A write that waits for room would wait on, on a number that may become another's.
            anyio.notify_closing(stdin)
            stdin.close()

    async def _watch_exit(self) -> None:
        with self._watching:
            await _wait_for_exit(self._popen)
            # The rest of the group first, then the reaping: only until then is its number taken.
            signal_group(self.pid, signal.SIGKILL)
            kill_marked(self._mark)
            # Codex starts MCP servers in groups of their own, and without our mark.
            for member in _members_of(self.pid):
                signal_group(member, signal.SIGKILL)
            self._popen.wait()
            # Only now: who waits for its end may remove its directory, or start another one there.
            self._exited.set()

    def _close(self) -> None:
        self._outbox.close()
        self._frames.close()
        self._close_stdin()
        if self._popen.stdout is not None:
            self._popen.stdout.close()
        self._read_stderr_now()
        self._stderr.close()
        if self._popen.stderr is not None:
            self._popen.stderr.close()
        if self._guard is not None:
            self._guard.release()


def _name_of(descriptor: str) -> str:
    """Return what a process has open, for example `pipe:[4711]`; empty if that is not seen."""
    with suppress(OSError):
        return str(Path("/proc", descriptor).readlink())
    return ""


async def _read_chunk(pipe: IO[bytes] | None) -> bytes:
    """Return what comes next from a pipe, nothing at its end or once it is closed."""
    while pipe is not None and not pipe.closed:
        try:
            return os.read(pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            with suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(pipe)
    return b""


async def _wait_for_exit(popen: subprocess.Popen[bytes]) -> None:
    """Wait until the child is dead, leaving it unreaped wherever the system lets us."""
    try:
        pidfd = os.pidfd_open(popen.pid)
    # A system without pidfd: asking reaps it, so a group is signalled that may be gone.
    except (AttributeError, OSError):
        while popen.poll() is None:  # noqa: ASYNC110  # nothing but asking tells it here
            await anyio.sleep(POLL_INTERVAL_S)
        return
    try:
        await anyio.wait_readable(pidfd)
    finally:
        os.close(pidfd)


@asynccontextmanager
async def started_child(start: ChildStart) -> AsyncGenerator[ChildProcess]:
    """Start a child in its own session and process group; leaving the context ends it.

    Raises ConfigError for a command that does not exist and UpstreamError with outcome
    `workspace_changed` for a working directory that does not.
    """
    async with _spawn(start).running() as child:
        yield child


def _spawn(start: ChildStart) -> ChildProcess:
    mark = secrets.token_hex(8)
    environment = child_environment(start.environment, mark)
    agent = whole_command(start)
    command = [*_parent_death_wrapper(_outside(start)), *agent]
    file = open_private_append(start.stderr_path) if start.stderr_path else None
    stderr = StderrLog(file, start.redactor)
    # Before the agent: were that first, a kill between the two would leave all that it starts.
    guard = started_guard(mark)
    try:
        popen = subprocess.Popen(
            command,
            # The pipes are used by their descriptors: what a buffer holds would be lost.
            bufsize=0,
            cwd=start.starts_in or start.working_directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        stderr.close()
        if guard is not None:
            guard.release()
        raise ConfigError(
            f"the command {start.command[0]!r} cannot be started: {error.strerror}",
            hint="run it once by hand; it must be an executable for this machine",
        ) from error
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        assert pipe is not None
        # One agent that does not read, or says nothing, must not hold up the whole event loop.
        os.set_blocking(pipe.fileno(), False)
    return ChildProcess(
        popen,
        mark=mark,
        stderr=stderr,
        guard=guard,
        ends_at_eof=start.ends_at_eof,
        home=environment.get("HOME", ""),
    )


def whole_command(start: ChildStart) -> list[str]:
    """Return the command by its program's whole path. Raises as `started_child`, starting none."""
    # Asked first: the error of a missing directory is the same as that of a missing program.
    if not os.path.isdir(start.working_directory):  # noqa: PTH112  # a plain question
        raise UpstreamError(
            f"the working directory {start.working_directory} is gone",
            outcome=Outcome.WORKSPACE_CHANGED,
            hint="create it again, or start the role afresh elsewhere",
        )
    environment = agent_environment(start.environment)
    require_home(environment)
    found = programs.absolute_command(start.command, environment, outside=_outside(start))
    if found is None:
        raise ConfigError(
            f"the command {start.command[0]!r} was not found on PATH outside of the working tree",
            hint="install the agent, name another one with --agent, or name it by its whole path",
        )
    return found


def _outside(start: ChildStart) -> tuple[str, str]:
    # Ours too: upthread is mostly started in the repository, and the agent may work elsewhere.
    return start.working_directory, os.curdir


def _parent_death_wrapper(outside: Sequence[str]) -> tuple[str, ...]:
    """Return the words before a command that ask for a parent-death signal, none without them."""
    if sys.platform != "linux":
        return ()
    setpriv = programs.absolute_program("setpriv", os.environ, outside=outside)
    words = (setpriv or "", "--pdeathsig=TERM", "--")
    # Tried once: a setpriv that lacks the option, or may not, would be the end of every agent.
    return words if setpriv and _works((*words, setpriv, "--version")) else ()


@lru_cache(maxsize=8)
def _works(command: tuple[str, ...]) -> bool:
    if remembered(command) is not None:
        return True
    tried = subprocess.run(
        command, cwd=NOWHERE, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if tried.returncode == 0:
        remember(command, "works")
    return tried.returncode == 0


# --- who a process is, and how it and all it started are ended ------------------------------------

# A process is known by its id and its start time together, so that a reused id is never taken for
# it. What belongs to an agent is its process group and, on Linux, every process that inherited its
# mark in the environment (`_guard`).


_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"


def started_at_ticks(pid: int) -> int | None:
    """Return when process `pid` was started, None when there is none or it is a zombie.

    On Linux the kernel's own figure, clock ticks since boot. Elsewhere a checksum of what
    `ps -o lstart` prints: a number that only serves to be compared with itself.
    """
    return programs.started_at_ticks(pid) if _IS_LINUX else _checksum_of_ps(pid)


def _checksum_of_ps(pid: int) -> int | None:
    # One locale, whoever asks: a month's name in another language would be another process.
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    said = subprocess.run(
        command, cwd=NOWHERE, env={"LC_ALL": "C"}, capture_output=True, check=False
    )
    return zlib.crc32(said.stdout) if said.stdout.strip() else None


def signal_group(pid: int, signal_number: int) -> None:
    """Signal the process group `pid` leads. A group that is gone is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal_number)


async def end_process_group(pid: int, ticks: int) -> bool:
    """End an agent left over by a dead holder, with its group and its marked processes.

    Nothing is signalled, and False returned, unless process `pid` is the one started at `ticks`
    and leads its own group. It gets SIGTERM, `TERM_PATIENCE_S` seconds, then SIGKILL. Of one that
    is dead already, what it left in its group is killed.
    """
    if started_at_ticks(pid) is None:
        # The marked members of the session it led: the number of a session with members is not
        # given out again, so they are nobody else's.
        marks = {marks_of(member) for member in _members_of(pid)} - {""}
        for mark in marks:
            kill_marked(mark)
        return bool(marks)
    if not _is_leader(pid, ticks):
        return False
    # Now: of a process that is dead, the system no longer tells the environment.
    mark = marks_of(pid)
    for signal_number, patience_s in (
        (signal.SIGTERM, TERM_PATIENCE_S),
        (signal.SIGKILL, KILL_PATIENCE_S),
    ):
        signal_group(pid, signal_number)
        with anyio.move_on_after(patience_s):
            while started_at_ticks(pid) == ticks:  # noqa: ASYNC110  # not our child
                await anyio.sleep(POLL_INTERVAL_S)
            break
    # Its own children may have outlived it; a group that still has members keeps its number.
    signal_group(pid, signal.SIGKILL)
    kill_marked(mark)
    return started_at_ticks(pid) != ticks


def _members_of(session: int) -> tuple[int, ...]:
    # To the system 0 is the caller's own session, and 1 that of the first process of all.
    if not _IS_LINUX or session <= 1:
        return ()
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    return tuple(pid for pid in pids if _session_of(pid) == session)


def _session_of(pid: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None


def _is_leader(pid: int, ticks: int) -> bool:
    if pid <= 1 or started_at_ticks(pid) != ticks:
        return False
    with suppress(ProcessLookupError):
        return os.getpgid(pid) == pid
    return False


# --- stderr ---------------------------------------------------------------------------------------

# The agent has a pipe and not the file itself, since a secret must not get there for a moment. Of a
# line that has no end yet, what may turn into a secret waits. The file is 0600 in a 0700 directory,
# no symlink, nobody else's.


TAIL_BYTES = 1000
REST_BYTES = 64 * 1024
"""How much of what is not kept is looked at for the tail: more than any secret is long."""

CUT = b"\n[upthread: the agent wrote more than 8 MiB to stderr; the rest is not kept]\n"


class StderrLog:
    """The file of one child's stderr, None for nowhere. Without a redactor all goes through.

    No more than STDERR_BYTES_MAX of it are kept: agents can be told to write without end. What
    comes after is not even looked at, but for its end, which is what a failure is told with.
    """

    def __init__(self, file: IO[bytes] | None, redactor: Redactor | None) -> None:
        self._file = file
        self._redactor = redactor
        self._redacted = None
        if redactor:
            # Only what starts an agent pays for its expressions.
            from upthread.core.redaction.running_text import RedactedStream  # noqa: PLC0415

            self._redacted = RedactedStream(redactor)
        self._tail = b""
        self._written = 0
        self._rest = b""
        self._fault = ""

    def write(self, piece: bytes) -> None:
        """Take the next bytes."""
        if self._written >= STDERR_BYTES_MAX:
            self._rest = (self._rest + piece)[-REST_BYTES:]
            return
        self._written += len(piece)
        self._append(self._redacted.feed(piece) if self._redacted else piece)
        if self._written >= STDERR_BYTES_MAX:
            # What waited goes first: the line that says it was cut is to be the last of the file.
            self._append(self._redacted.finish() if self._redacted else b"")
            self._append(CUT)

    def tail(self) -> str:
        """Return the last that was written, at most TAIL_BYTES of it."""
        # An agent that dies in mid-line has its reason there; waiting it stays, for the file.
        waiting = self._redacted.waiting() if self._redacted else b""
        written = (self._tail + waiting + self._redacted_rest())[-TAIL_BYTES:]
        return (written.decode("utf-8", "replace").strip() + self._fault).strip()

    def _redacted_rest(self) -> bytes:
        """Return the end of what is not kept, from its first whole line, without its secrets."""
        # It begins anywhere: a secret that lost its beginning would not be known for one.
        _, _, lines = self._rest.partition(b"\n")
        return self._redactor.redact_bytes(lines) if self._redactor else lines

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._append(self._redacted.finish() if self._redacted else b"")
        if self._file is not None:
            self._file.close()

    def _append(self, piece: bytes) -> None:
        self._tail = (self._tail + piece)[-TAIL_BYTES:]
        if self._file is None or self._fault:
            return
        try:
            self._file.write(piece)
        except OSError as error:
            # The turn is worth more than its log; whoever reads the end of it is told.
            self._fault = f" (no more of its stderr is kept: {error.strerror})"


def open_private_append(path: str) -> IO[bytes]:
    """Open a file for appending and reading back, made 0600 when new, narrowed when not.

    Its directory is made 0700 when missing. A directory or file that is a symlink, belongs to
    another user, or could be written by one raises ConfigError, and nothing is opened.
    """
    directory = Path(path).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(directory, directory.lstat(), writable_bits=0o022)
    # Of what lies there nothing is trusted: no link is followed, and no pipe waited for.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the file {path} for the agent's stderr cannot be opened: {error.strerror}",
            hint="it must be an ordinary file of yours; remove it and try again",
        ) from error
    try:
        # What was opened is looked at, and not the name, which may be another file's by now.
        _refuse_foreign(Path(path), os.fstat(descriptor), writable_bits=0)
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "ab+", buffering=0)


def _refuse_foreign(path: Path, status: os.stat_result, *, writable_bits: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        problem = "is a symlink"
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        problem = "is no ordinary file"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}"
    elif status.st_mode & writable_bits:
        problem = "can be written by others"
    else:
        return
    raise ConfigError(
        f"{path} {problem}, so no session output is written there",
        hint="use a directory of your own with mode 0700",
    )


# --- what a program said when it was tried --------------------------------------------------------

# Whether `setpriv` can do what we want, and which version an agent is, would otherwise be a process
# of its own in each turn. It is remembered while the program is the same: by its path, its inode,
# its size and the moment it was changed. What runs another program cannot be known by that, a shell
# script for one, so it is asked each time; and whatever is remembered is asked again after a day.
#
# One file in upthread's home, 0600, replaced whole. It is never made where there is no home yet:
# who only looks leaves nothing behind. What is not as we wrote it counts for nothing.


PROBES_FILE = "probes.json"
PROBES_BYTES_MAX = 256 * 1024
PROBES_MAX = 64
SAID_CHARACTERS_MAX = 200
DAY_MS = 24 * 3600 * 1000


_Stamp: TypeAlias = tuple[int, int, int, int, int]
"""A file's device, inode, size, and in nanoseconds when it was last written, and changed at all:
the time of the last write can be put back."""


class _Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one command said. `stamps` are the program's, after its interpreter's."""

    stamps: tuple[_Stamp, ...]
    said: str
    asked_at_ms: int


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    probes: dict[str, _Probe]


def remembered(command: Sequence[str]) -> str | None:
    """Return what exactly this command said, None where it has to be run. Blocking.

    Its words are a program's whole path, before it perhaps its interpreter's, and options.
    """
    probe = _read_probes(_probes_path()).get(_probe_key(command))
    if probe is None or probe.stamps != _program_stamps(command):
        return None
    age_ms = _now_ms() - probe.asked_at_ms
    return probe.said if 0 <= age_ms < DAY_MS else None


def remember(command: Sequence[str], said: str) -> None:
    """Keep what a command said, if that can be known by its program. Blocking."""
    stamps, path = _program_stamps(command), _probes_path()
    if not stamps or not path.parent.is_dir():
        return
    probe = _Probe(stamps, said[:SAID_CHARACTERS_MAX], _now_ms())
    probes = {**_read_probes(path), _probe_key(command): probe}
    newest = sorted(probes.items(), key=lambda each: -each[1].asked_at_ms)[:PROBES_MAX]
    # It is asked again where it cannot be kept: no turn is worse for that, only slower.
    with suppress(OSError):
        write_whole(path, msgspec.json.encode(_File(dict(newest))))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _probes_path() -> Path:
    return home_directory(os.environ) / PROBES_FILE


def _probe_key(command: Sequence[str]) -> str:
    # A name that is no text is escaped: JSON has none.
    return os.fsencode(shlex.join(command)).decode("utf-8", "backslashreplace")


def _program_stamps(command: Sequence[str]) -> tuple[_Stamp, ...]:
    """Return what a command's programs are known by; nothing where that would not tell."""
    programs = [word for word in command if word.startswith(os.sep)]
    # A module's name, or a file's by which it is found, is no program that can be looked at.
    if not all(word.startswith("-") for word in command if word not in programs):
        return ()
    try:
        # An interpreter is known with the script it runs; one by itself runs who knows what.
        if not programs or read_start(programs[0], 2) == b"#!":
            return ()
        return tuple(_file_stamp(program) for program in dict.fromkeys(programs))
    except OSError:
        return ()


def _file_stamp(program: str) -> _Stamp:
    found = os.stat(program)  # noqa: PTH116  # a plain question
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_probes(path: Path) -> Mapping[str, _Probe]:
    try:
        descriptor = through_links(str(path))
        status = os.fstat(descriptor)
        raw = read_all(descriptor, str(path), bytes_max=PROBES_BYTES_MAX)
        # Whoever else could write it could say that a program is what it is not.
        is_ours = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022
        return msgspec.json.decode(raw, type=ready(_File)).probes if is_ours else {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
