"""A process of git: which one, with what around it, for how long, and how much it may say.

The environment is made, not inherited: nothing of `GIT_*` comes in, and everything that could ask,
fetch, page, edit or watch is off, beside the configuration that names none of it.
"""

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from os.path import abspath, expanduser, isdir, join, realpath
from pathlib import Path
from typing import IO

from msgspec import Struct

from upthread.boundary import programs
from upthread.boundary.git.files import Configuration
from upthread.boundary.programs import POLL_S, GivenUpError, is_given_up
from upthread.core.types import Environment
from upthread.errors import UsageError

TIMEOUT_S = 30.0
"""How long git may take to read."""

WORK_TIMEOUT_S = 600.0
"""How long git may take to check a whole tree out."""

OUTPUT_BYTES_MAX = 256 << 20
"""How much git may say: about three million paths."""

COMPLAINT_BYTES_MAX = 64 << 10
"""How much of git's complaints is kept; what is more is read and dropped."""

_READ_BYTES = 1 << 20

_INHERITED = ("DEVELOPER_DIR", "HOME", "TMPDIR", "XDG_CONFIG_HOME")

CLOSED = {
    "GIT_ALLOW_PROTOCOL": "none",  # a list of protocols with nothing real on it
    "GIT_ASKPASS": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",  # git 2.45; before, a repository without a promisor fetches nothing
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Else `status` would write the index that it has refreshed.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS": "false",
}
"""What git is told in every call: no transports, programs or prompts."""

UNCONFIGURED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""What git is told in every call but the one that asks for the person's own configuration."""


class Done(Struct, frozen=True, kw_only=True):
    """How a process of git ended, and what it said."""

    code: int
    said: bytes
    complained: bytes

    def answer(self, verb: str, directory: str) -> bytes:
        """Return what git said; raises UsageError with its last word where it failed."""
        if self.code == 0:
            return self.said
        lines = [line for line in os.fsdecode(self.complained).splitlines() if line.strip()]
        why = lines[-1] if lines else "it did not say why"
        raise UsageError(f"git {verb} failed: {why}", hint=f"see what git says in {directory}")


def find_git(outside: Sequence[str]) -> str | None:
    """Return git's absolute path, None where there is none outside of some directories."""
    return programs.program_outside("git", os.environ, outside)


def run_git(
    arguments: Sequence[str],
    *,
    directory: str,
    outside: Sequence[str],
    environment: Environment,
    given: bytes = b"",
    until_s: float,
) -> Done:
    """Run git in a directory to its end. Blocking.

    Neither git nor what it starts is taken from within `outside`. `until_s` is a time of the
    monotonic clock. Raises UsageError without a git, past the time and for too long an answer,
    GivenUpError where nobody waits for it any more.
    """
    git = find_git(outside)
    if git is None:
        raise UsageError("git is not installed", hint="install git")
    # Nothing of GIT_*: it would name another repository, or programs, over all that is said here.
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = {"PATH": programs.search_path(os.environ, outside)}
    allowed_s = max(0.0, until_s - time.monotonic())
    parent = private_parent(outside)
    # Files and no pipes: git that answers while it still reads would wait for us, and we for it.
    with (
        tempfile.TemporaryFile(dir=parent) as asked,
        tempfile.TemporaryFile(dir=parent) as complained,
    ):
        asked.write(given)
        asked.seek(0)
        with subprocess.Popen(
            [git, "--no-pager", *arguments],
            cwd=directory,
            env={**kept, **path, **CLOSED, **environment},
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=complained,
            process_group=0,  # so that what git started ends with it
        ) as process:
            try:
                said = _heard(process, complained, arguments[0], until_s)
                # It has said all, and only has to end.
                code = process.wait(max(POLL_S, until_s - time.monotonic()))
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise UsageError(
                    f"git {arguments[0]} did not answer within {allowed_s:.1f} s",
                    hint="is the disk slow, or something in .git no plain file?",
                ) from error
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        complained.seek(0)
        return Done(code=code, said=said, complained=complained.read(COMPLAINT_BYTES_MAX))


def private_parent(outside: Sequence[str]) -> str:
    """Return a folder for temporary ones that is not within some directories."""
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - its parent only
        if isdir(parent) and not programs.is_in(parent, outside):
            return parent
    raise UsageError(
        f"there is no temporary folder outside of {outside[0]}", hint="set TMPDIR to one that is"
    )


def _heard(
    process: subprocess.Popen[bytes], complained: IO[bytes], verb: str, until_s: float
) -> bytes:
    """Return all that git says, within its length. Raises TimeoutError past its time."""
    assert process.stdout is not None
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(POLL_S, max(0.0, until_s - time.monotonic())))
            # Also while git says much: a person who pressed Ctrl-C waits for no more than one look.
            if is_given_up():
                raise GivenUpError
            if ready:
                chunk = os.read(process.stdout.fileno(), _READ_BYTES)
                if not chunk:
                    return bytes(said)
                said += chunk
            elif time.monotonic() >= until_s:
                raise TimeoutError
            if max(len(said), os.fstat(complained.fileno()).st_size) > OUTPUT_BYTES_MAX:
                raise UsageError(
                    f"git {verb} said more than {OUTPUT_BYTES_MAX} bytes",
                    hint="the repository is larger than is looked through",
                )


# --- what the person and the machine have set for git ---------------------------------------------

# Git itself is asked, away from any repository. Finding a repository asks here whether the person
# trusts it.


def person_configuration(outside: Sequence[str]) -> Configuration:
    """Return what the person and the machine have set for git, empty without git. Blocking.

    Read from an empty folder: of a repository nothing is in it, and its includes are the person's.
    """
    if find_git(outside) is None:
        return Configuration({})
    with tempfile.TemporaryDirectory(prefix="upthread-git-", dir=private_parent(outside)) as empty:
        done = run_git(
            ("config", "--list", "-z"),
            directory=empty,
            outside=outside,
            # To nothing: git would else look for a repository above, and read that one's too.
            environment={**_persons_variables(), "GIT_DIR": join(empty, "none")},
            until_s=time.monotonic() + TIMEOUT_S,
        )
    values: dict[str, list[str]] = {}
    for line in os.fsdecode(done.said).split("\0"):
        name, equals, value = line.partition("\n")
        if name:
            values.setdefault(name, []).append(value if equals else "true")
    return Configuration(values)


def _persons_variables() -> dict[str, str]:
    """Return the variables that name or hold configuration: whoever sets them is the person."""
    found = {name: os.environ[name] for name in os.environ if name.startswith("GIT_CONFIG_")}
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        if found.get(name):  # empty means none, as git has it
            found[name] = abspath(found[name])
    return found


def is_trusted_by_the_person(top: str, outside: Sequence[str]) -> bool:
    """Whether the person's own `safe.directory` names a working tree of somebody else's. Blocking.

    `outside` are the folders that git is not to be started from.
    """
    is_trusted, real = False, realpath(top)
    found = person_configuration(outside)
    for value in found.values.get("safe.directory", ()):
        named = expanduser(value)
        if named in {"", "true"}:  # also a key without a value
            is_trusted = False  # it takes back what was said before, as git has it
        # Not where a link leads: git before 2.46 goes by the text, and a link can be moved.
        elif named in {"*", real}:
            is_trusted = True
        elif named.rstrip("/") == real or (named.endswith("/*") and real.startswith(named[:-1])):
            is_trusted = is_trusted or _takes_wider_paths(outside)
    return is_trusted


def _takes_wider_paths(outside: Sequence[str]) -> bool:
    """Whether the installed git takes `/srv/x/` and `/srv/*` in `safe.directory`, as 2.46 does."""
    until_s = time.monotonic() + TIMEOUT_S
    done = run_git(("version",), directory="/", outside=outside, environment={}, until_s=until_s)
    found = re.search(rb"(\d+)\.(\d+)", done.said)
    return found is not None and (int(found[1]), int(found[2])) >= (2, 46)


# --- a repository of our own, as `demo` needs it --------------------------------------------------

# With nobody's configuration or hooks.


_IDENTITY = {
    "GIT_AUTHOR_NAME": "demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}


def start_repository(directory: Path) -> None:
    """Make a directory a repository, on `main`, with all that is in it committed. Blocking."""
    # No template: the machine's may bring hooks, which the commit would run.
    _git(directory, "init", "--quiet", "--template=", "--initial-branch=main")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message=Start")


def _git(directory: Path, *arguments: str) -> None:
    done = run_git(
        arguments,
        directory=str(directory),
        outside=(str(directory),),
        environment={**UNCONFIGURED, **_IDENTITY},
        until_s=time.monotonic() + TIMEOUT_S,
    )
    done.answer(arguments[0], str(directory))
