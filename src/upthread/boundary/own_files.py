"""upthread's own files on this machine, for this user: where they are, and how they are replaced.

Of the standard library alone, without `pathlib`: `upthread id` asks it before it loads anything.
As the XDG Base Directory Specification has it, where its variables are set on macOS too; a path in
them that is not absolute is passed over, as there.
"""

from __future__ import annotations

import os
import sys
from os.path import abspath, dirname, isabs, join, lexists

from upthread.boundary import files as opener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from upthread.core.types import Environment

_OF_MACOS = "Library/Application Support"
_NONE = "/nonexistent"  # as Debian writes it down for users without a home


def home_path(environment: Environment) -> str:
    """Return where upthread keeps its files: UPTHREAD_HOME, else the platform's data directory.

    Raises ConfigError where the person has no home, or UPTHREAD_HOME is not absolute.
    """
    return _chosen(environment, "XDG_DATA_HOME", ".local/share")


def configuration_path(environment: Environment) -> str:
    """Return the directory of the person's own `config.toml`, as `home_path` does."""
    return _chosen(environment, "XDG_CONFIG_HOME", ".config")


def installed_path(home: Path) -> str:
    """Return the file in which `upthread setup` writes down what it has done, below the home."""
    return join(str(home), "hooks", "installed.json")


def home_of_hooks(environment: Environment, set_up: str) -> str:
    """Return where upthread's files are for what an agent runs: where `set_up` says, unless told.

    What is not absolute is passed over: in here it would be a place in whichever repository the
    agent works in, and nothing may keep an agent from going on.
    """
    told = environment.get("UPTHREAD_HOME", "")
    return told if isabs(told) else set_up


def home_directory(environment: Environment) -> Path:
    """Return `home_path` as a Path."""
    from pathlib import Path  # see the module

    return Path(home_path(environment))


def _chosen(environment: Environment, variable: str, usual: str) -> str:
    chosen = environment.get("UPTHREAD_HOME", "")
    if not chosen:
        of_all = environment.get(variable, "")
        if not isabs(of_all):
            usual = _OF_MACOS if sys.platform == "darwin" else usual
            of_all = join(persons_home(environment), usual)
        chosen = join(of_all, "upthread")
    if isabs(chosen) and not any(each < " " or "\ud800" <= each <= "\udfff" for each in chosen):
        return chosen
    from upthread.errors import ConfigError

    if isabs(chosen):
        raise ConfigError(
            f"upthread's files would be in {chosen!r}, whose name is no line of UTF-8",
            hint="set UPTHREAD_HOME to another directory",
        )
    raise ConfigError(
        f"UPTHREAD_HOME is {chosen!r}, which is another place in each directory",
        hint=f"give it an absolute path: {abspath(chosen)}",
    )


def agents_home(environment: Environment) -> Path:
    """Return the home below which agents have their files; one that is not there for none."""
    from pathlib import Path  # see the module

    from upthread.errors import ConfigError

    try:
        return Path(persons_home(environment))
    except ConfigError:
        return Path(_NONE)


def persons_home(environment: Environment) -> str:
    """Return the person's home directory. Raises ConfigError for a user without one."""
    for home in (environment.get("HOME", ""), os.environ.get("HOME", "")):
        if isabs(home):
            return home
    import pwd  # only where HOME says nothing

    from upthread.errors import ConfigError

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(
            f"HOME is not set, and user {os.getuid()} has no entry that says where it is",
            hint="set HOME to an absolute path; for upthread's own files UPTHREAD_HOME is enough",
        ) from None


def require_home(environment: Environment) -> None:
    """Raise ConfigError for a user without a home that an agent could use.

    One that is not there yet is not refused, because some agents make it.
    """
    home = persons_home(environment)
    try:
        os.stat(join(home, os.curdir))
    except OSError as error:
        if not isinstance(error, PermissionError) and not lexists(home):
            return
        from upthread.errors import ConfigError

        raise ConfigError(
            f"an agent needs a home, and {home} cannot be used: {error.strerror}",
            hint="set HOME to a directory that you may write to",
        ) from error


# --- private files of JSON: read with a limit, replaced atomically --------------------------------


SCHEMA = 1
FILE_BYTES_MAX = 4 * 1024 * 1024


class UnreadableError(Exception):
    """A file is there and cannot be used; the message says which, and why."""


def read(path: str) -> dict[str, Any] | None:
    """Return a file's content, None when there is no file. Raises UnreadableError."""
    from upthread.core.codec import read_json  # see the module
    from upthread.errors import StoreError

    try:
        found = read_json(opener.read_all(opener.direct(path), path, bytes_max=FILE_BYTES_MAX))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    except (StoreError, ValueError, RecursionError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    # Another version may mean something else by the same name: better nothing than half of it.
    fields: dict[str, Any] = found if isinstance(found, dict) else {}
    if fields.get("schema") != SCHEMA:
        raise UnreadableError(f"{path}: written by another version of upthread")
    return fields


def replace(path: str, fields: dict[str, Any]) -> None:
    """Write a file whole, for nobody else to read; a crash leaves the old one. Raises OSError."""
    import json  # see the module

    make_directory(dirname(path))
    # Named by the process: two never write into one, and what a dead one left is found by it.
    beside = f"{path}.{os.getpid()}"
    raw = json.dumps({"schema": SCHEMA, **fields}).encode("ascii")
    descriptor = _made(beside)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
    except BaseException:
        os.unlink(beside)
        raise
    # Readers find the old file or the new one, and never half of one.
    os.replace(beside, path)


def _made(beside: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(beside, flags, 0o600)
    except FileExistsError:
        # Left by a process that was killed while it wrote and had our pid, as happens in
        # containers: whoever took it for one at work would never write this file again.
        remove(beside)
        return os.open(beside, flags, 0o600)


def make_directory(path: str) -> None:
    """Make a directory and those above it, each for nobody else; `makedirs` does the last only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(dirname(path))
        make_directory(path)


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
