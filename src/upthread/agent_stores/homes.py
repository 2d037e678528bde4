"""Homes: where each agent keeps its store, and that nothing outside it is read.

A home follows from the environment that the agent is started with. Apart from the readers of those
stores: every verb asks this, and few read one.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from upthread.boundary.files import within
from upthread.boundary.own_files import agents_home, persons_home
from upthread.core.agents import AGENTS, WITH_A_STORE, Home, name_of
from upthread.core.names import did_you_mean, shown
from upthread.core.types import Environment
from upthread.errors import ConfigError, StoreError, UsageError

INHERITED = (
    *("HOME", "PATH", "LANG", "LANGUAGE", "TERM", "SHELL", "USER", "LOGNAME", "TMPDIR", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *(variable for row in AGENTS.values() for variable in row.passed_on),
)
"""The variables that an agent inherits by name; everything else of ours stays with us."""

_PLACES = frozenset(
    variable for row in AGENTS.values() if row.home for variable in row.home.variables
)

_DIRECTORIES = ("_HOME", "_CONFIG_DIR")
"""How variables end that name a directory, for example `XDG_DATA_HOME`."""

INHERITED_PREFIXES = ("LC_", "XDG_", "SSL_CERT_", "NODE_")
"""And the families that it inherits."""


def agent_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that an agent is started with: the inherited few and the given.

    A relative place is made absolute, because OpenCode is started in a directory of its own.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }
    # The home that we read, also where HOME is empty or relative, so that an agent uses no other.
    with suppress(ConfigError):
        given = {**given, "HOME": persons_home({**inherited, **given})}
    # Set to nothing, they would be taken for the working directory by some agents, and not by all.
    return {
        name: str(Path(value).absolute()) if value and name.endswith(_DIRECTORIES) else value
        for name, value in {**inherited, **given}.items()
        if value or name not in _PLACES
    }


def home_of(agent: str, environment: Environment) -> Path:
    """Return where an agent keeps its store: OpenCode's is a directory in the data home.

    Or a database, where a variable names that.
    """
    own = AGENTS[agent].home
    assert own is not None, "nobody reads a store of an agent without one"
    home = _place(own, environment)
    file = environment.get(own.file) if own.file else None
    return home / own.folder / file if file else home


def settings_of(agent: str, environment: Environment) -> Path:
    """Return where an agent has a person's own settings, for example `~/.claude`."""
    own = AGENTS[agent].settings or AGENTS[agent].home
    assert own is not None, "an agent without a home has no files of a person's that are read"
    return _place(own, environment) / own.folder


def _place(own: Home, environment: Environment) -> Path:
    return Path(environment.get(own.variable) or agents_home(environment) / own.below)


def store_of(word: str) -> str:
    """Return the agent with a store that is called so. Raises UsageError for none."""
    name = name_of(word)
    if name not in WITH_A_STORE:
        like = did_you_mean(word, WITH_A_STORE)
        raise UsageError(
            f"no store of an agent {shown(word)} is read{like}",
            hint=f"one of: {', '.join(WITH_A_STORE)}",
        )
    return name


def require_own(home: Path, path: Path, *, bytes_max: int) -> None:
    """Raise StoreError unless a file is an ordinary one of an agent's own, of a size to be read.

    A link in there may lead anywhere, and is followed to nothing outside.
    """
    try:
        # Opened and let go: the size of what the name leads to then, through no link outside.
        descriptor = within(str(home), str(path.relative_to(home)))
        try:
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"{path} is not read: {error.strerror}", hint="check what lies there"
        ) from error
    if size > bytes_max:
        raise StoreError(
            f"{path} is not read: it has more than {bytes_max:,} bytes",
            hint="the agent itself may open it",
        )


def require_listed(top: Path) -> None:
    """Raise OSError if a directory below cannot be listed, because a file may be in it."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    for _ in os.walk(top, onerror=refuse):
        pass


def file_stamp(path: Path) -> str:
    """Return what a file is known by while nobody writes to it. Raises OSError if unreadable."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
    return f"{found.st_size}-{found.st_mtime_ns}"
