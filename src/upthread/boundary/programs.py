"""Other programs: how one is started, which ones run, and when nobody waits for one any more.

Three answers, for whoever starts something. A program is an absolute path, looked up in the
absolute entries of PATH, and never one that lies in the working tree: a clone brings files, and
whoever may edit may write one. upthread's own modules run isolated (`python -I`, through
`isolated.py`), so that neither the working directory nor PYTHONPATH nor the user's site is
importable. What they are given of the environment is named here; agents have a list of their own
(`agents._process`). This file starts nothing, and imports nothing a hook would have to wait for.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os.path import (
    abspath,
    basename,
    dirname,
    exists,
    isabs,
    isfile,
    join,
    lexists,
    normpath,
    realpath,
)

from upthread.boundary.files import FileRefusedError, read_start
from upthread.boundary.git.files import GitFileError, common_of, named_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from upthread.core.types import Environment

UP_MAX = 64
"""How many directories up a repository is looked for."""

LINE_BYTES_MAX = 256
"""Of a script, in which its interpreter stands; what Linux itself reads."""

OWN_ENVIRONMENT = (
    *("HOME", "PATH", "LANG", "LANGUAGE", "TERM", "SHELL", "USER", "LOGNAME", "TMPDIR", "TZ"),
    "DBUS_SESSION_BUS_ADDRESS",  # a keyring is asked through it
)
"""The variables a process of our own is given by name, where somebody else's is what we have."""

OWN_ENVIRONMENT_PREFIXES = ("UPTHREAD_", "PG", "LC_", "XDG_", "SSL_CERT_", "KRB5")
"""And the families it is given: ours, libpq's, and what those two need."""

_HERE = dirname(abspath(__file__))
_LAUNCHER = join(_HERE, "isolated.py")
_ENV = (b"#!/usr/bin/env ", b"#! /usr/bin/env ", b"#!/bin/env ")


def own_module(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the words that run a module of upthread's, with what upthread needs and nothing else.

    The same upthread that asks, however it was installed: in a venv, editable, by `--user`.
    """
    return (sys.executable, "-I", _LAUNCHER, module, *arguments)


def own_file(path: str, *arguments: str) -> tuple[str, ...]:
    """Return the words that run a file of upthread's which needs the standard library alone."""
    return (sys.executable, "-I", "-S", path, *arguments)


def own_environment(environment: Environment) -> dict[str, str]:
    """Return what a process of our own is given of an environment that is an agent's."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in OWN_ENVIRONMENT or name.startswith(OWN_ENVIRONMENT_PREFIXES)
    }
    return {**kept, "PATH": search_path(environment)}


def search_path(environment: Environment, trees: Sequence[str] = ()) -> str:
    """Return PATH without its relative and its empty entries: those mean the working directory.

    Entries in any of `trees` are left out as well.
    """
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    kept = (entry for entry in entries if isabs(entry) and not is_in(entry, trees))
    return os.pathsep.join(kept)


def absolute_program(name: str, environment: Environment, *, outside: Sequence[str]) -> str | None:
    """Return where a program is, None if nowhere; never one in the repositories of `outside`.

    `outside` are the directories that are worked in. A program named by its absolute path is the
    one somebody meant, wherever it lies; one named by a relative path with a slash is none.
    """
    if isabs(name):
        return name if _is_program(name) else None
    if os.sep in name or not name:
        return None
    home = environment.get("HOME", "")
    trees = [tree for each in outside for tree in repository_of(each, home=home)]
    return program_outside(name, environment, trees)


def program_outside(name: str, environment: Environment, trees: Sequence[str]) -> str | None:
    """Return where a program of a plain name is, None if nowhere but in one of `trees`."""
    for entry in search_path(environment).split(os.pathsep):
        found = join(entry, name)
        if entry and _is_program(found) and not is_in(found, trees):
            return found
    return None


def absolute_command(
    command: Sequence[str], environment: Environment, *, outside: Sequence[str]
) -> list[str] | None:
    """Return a command with its program's absolute path, and its interpreter's; None: not found.

    A script that says `#!/usr/bin/env node` has its `node` looked up here too: `env` would take the
    first one on PATH, be it the repository's.
    """
    program = absolute_program(command[0], environment, outside=outside)
    if program is None:
        return None
    words = _looked_up_by_env(program)
    if not words:
        return [program, *command[1:]]
    interpreter = absolute_program(words[0], environment, outside=outside)
    return None if interpreter is None else [interpreter, *words[1:], program, *command[1:]]


def repository_of(directory: str, *, home: str) -> tuple[str, ...]:
    """Return the working trees that nothing is taken from: a directory's own, and the main one.

    A linked worktree lies elsewhere, and the repository that it is of brings programs all the same.
    """
    try:
        tree = working_tree_of(directory, home=home)
    except FileNotFoundError:
        return ()  # the working directory is gone, and so is what lay in it
    main = _main_tree_of(tree) if tree else None
    main = working_tree_of(main, home=home) if main else None
    return tuple(dict.fromkeys(each for each in (tree, main) if each))


def working_tree_of(directory: str, *, home: str) -> str:
    """Return the outermost directory that is a repository's, or the directory itself.

    Empty where that would be somebody's whole home or more: what they installed lies in there.
    """
    # The outermost: an agent could make a repository within, and all around it would count as safe.
    tree = place = realpath(directory)
    if home and _is_below(realpath(home), place):
        return ""
    for _ in range(UP_MAX):
        place = dirname(place)
        if len(place) == 1 or (home and _is_below(realpath(home), place)):
            break
        if lexists(join(place, ".git")):
            tree = place
    return tree


def _main_tree_of(tree: str) -> str | None:
    """Return the main working tree of a linked one, None for any other."""
    try:
        git_directory = named_in(join(tree, ".git"))
        common = common_of(git_directory) if git_directory else None
    except GitFileError:
        return None  # it is no repository's, and whoever asks git is told so
    return dirname(common) if common and common != git_directory else None


def forget_working_directory(path: list[str]) -> None:
    """Take the working directory out of where modules are looked for, unless upthread is there.

    An empty entry in PYTHONPATH means it, and so does `python -m`.
    """
    ours = dirname(dirname(_HERE))
    try:
        here = realpath(os.getcwd())
    except OSError:
        return  # it is gone, and so is what lay in it
    if here != realpath(ours):
        path[:] = [entry for entry in path if entry and realpath(entry) != here]


def is_in(path: str, trees: Sequence[str]) -> bool:
    """Return whether a path is one of some trees or in one, by its name or where it leads to."""
    real = [realpath(tree) for tree in trees]
    return any(_is_below(each, tree) for tree in (*trees, *real) for each in _ways_to(path))


def _is_program(path: str) -> bool:
    return isfile(path) and os.access(path, os.X_OK)


def _ways_to(path: str) -> Iterator[str]:
    # A link that lies in a tree can be changed there, wherever it leads; one that leads into it
    # runs what lies there. Either is the tree's.
    yield normpath(path)
    yield join(realpath(dirname(path)), basename(path))
    yield realpath(path)


def _is_below(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip(os.sep) + os.sep)


def _looked_up_by_env(program: str) -> list[str]:
    """Return a script's interpreter, by name, and its options, where `env` would look it up."""
    try:
        first = read_start(program, LINE_BYTES_MAX).partition(b"\n")[0]
    except (FileRefusedError, OSError):
        return []  # one may run what one may not read
    for beginning in _ENV:
        if first.startswith(beginning):
            words = os.fsdecode(first[len(beginning) :]).split()
            words = words[1:] if words[:1] == ["-S"] else words[:1]
            # What sets options or variables of env's own is left to env.
            return words if words and words[0][0] not in "-/" and "=" not in words[0] else []
    return []


# --- which processes run, as Linux lists them -----------------------------------------------------

# A program can start another with a clean environment; the table of processes still shows that an
# agent started it, until the processes between are gone. Where the system reports nothing (not
# Linux, another account's process), there is no result.


ANCESTORS_MAX = 64
ENVIRONMENT_BYTES_MAX = 4 * 1024 * 1024
LOCKS_BYTES_MAX = 4 * 1024 * 1024
_STAT_BYTES_MAX = 4096
_SUSPENDED = b"T"
_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def started_at_ticks(pid: int) -> int | None:
    """Return when a process started, None if it is gone; 0 where the machine does not tell."""
    if pid <= 0:
        return None
    stat = _stat_of(pid)
    if not stat:
        # Gone, or a system without /proc, which tells no more than that a pid is in use.
        return None if exists("/proc/self/stat") else _lives_without_proc(pid)
    # A zombie has ended and waits to be collected, by an agent that may never do it.
    return None if stat[0] in {b"Z", b"X"} else int(stat[19])


def _lives_without_proc(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    # Somebody else's, and there.
    except PermissionError:
        return 0
    return 0


def environments_above() -> Iterator[Environment]:
    """Yield what each process above this one was started with, the nearest first."""
    pid = os.getppid()
    # A pid may be given out again while we go up: without a bound the way could go round.
    for _ in range(ANCESTORS_MAX):
        if pid <= 1:
            return
        yield environment_of(pid)
        pid = _parent_of(pid)


def living_parent() -> int:
    """Return the process that started this one and reads its output, 0 where it has died.

    An orphan has another parent, which may live for ever.
    """
    parent, output = os.getppid(), select.poll()
    output.register(1, 0)
    gone = select.POLLERR | select.POLLHUP  # of a pipe, and of a pair of sockets
    return 0 if any(events & gone for _, events in output.poll(0)) else parent


def suspended_holder(files: Iterable[Path]) -> int | None:
    """Return the pid of a suspended process (Ctrl-Z) that holds a write lock of one of the files.

    The kernel's list of locks is read, because asking for a lock would need the file to be opened,
    and closing it would drop this process's own locks (POSIX).
    """
    inodes = {str(each.stat().st_ino).encode() for each in files if each.exists()}
    for line in _read("/proc/locks", LOCKS_BYTES_MAX).splitlines():
        # For example `1: POSIX  ADVISORY  WRITE 4711 00:2c:90813 120 120` (proc(5)).
        _, kind, _, access, pid, file, *_ = line.split()
        # A process that waits for a lock has `->` as its kind.
        is_held = kind in {b"POSIX", b"FLOCK"} and access == b"WRITE"
        is_ours = is_held and file.rpartition(b":")[2] in inodes
        if is_ours and _stat_of(int(pid))[:1] == [_SUSPENDED]:
            return int(pid)
    return None


def users_of(*files: Path) -> Iterator[tuple[Path, int, int]]:
    """Yield the other processes of this account that have files open; none without /proc.

    Each is a file, a pid, and when that was started, in epoch milliseconds.
    """
    from pathlib import Path  # see the module

    wanted = {_identity(each): each for each in files if each.exists()}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        pid = int(process.name)
        with suppress(OSError):  # gone meanwhile, or another account's
            opened = wanted.keys() & map(_identity, process.glob("fd/*"))
            if opened and pid != os.getpid() and (ticks := started_at_ticks(pid)):
                age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _NS_PER_TICK
                for each in opened:
                    yield wanted[each], pid, (time.time_ns() - age_ns) // 1_000_000


def _identity(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:  # a busy process closes files meanwhile
        return 0, 0
    return found.st_dev, found.st_ino


def environment_of(pid: int) -> Environment:
    """Return what a process was started with; empty where the system does not tell."""
    raw = _read(f"/proc/{pid}/environ", ENVIRONMENT_BYTES_MAX)
    pairs = (each.partition(b"=") for each in raw.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _parent_of(pid: int) -> int:
    """Return the pid of a process's parent, 0 for none."""
    after_name = _stat_of(pid)
    return int(after_name[1]) if len(after_name) > 1 and after_name[1].isdigit() else 0


def _stat_of(pid: int) -> list[bytes]:
    """Return a process's state and what follows it; its name may hold spaces and brackets."""
    return _read(f"/proc/{pid}/stat", _STAT_BYTES_MAX).rpartition(b")")[2].split()


def _read(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max)
    except OSError:  # gone, another account's, or no such file system
        return b""


# --- whether anybody still waits ------------------------------------------------------------------

# Ctrl-C and a cancellation reach no thread. Who hops into a thread says there what tells of it, and
# whoever waits there for another process asks now and then. Only such waits are given up; what is
# being written is written to its end.


POLL_S = 0.1
"""How often it is asked during a wait."""

# By the context: what lies between the hop and a wait need not know that it can be given up.
_GIVEN_UP: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(Exception):
    """Nobody waits for it any more. Nobody is left to see this."""


@contextmanager
def heeding(given_up: threading.Event) -> Generator[None]:
    """Have `is_given_up` return true within, once the event is set; outside nothing changes."""
    token = _GIVEN_UP.set(given_up)
    try:
        yield
    finally:
        _GIVEN_UP.reset(token)


def is_given_up() -> bool:
    """Whether nobody waits for what is being done here."""
    given_up = _GIVEN_UP.get()
    return given_up is not None and given_up.is_set()
