"""Where upthread keeps its own files, on this machine and for this user.

Of the standard library alone, without `pathlib`: `upthread id` asks it before it loads anything.
As the XDG Base Directory Specification has it, where its variables are set on macOS too; a path in
them that is not absolute is passed over, as there.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OF_MACOS = "Library/Application Support"
_NONE = "/nonexistent"  # as Debian writes it down for users without a home


def home_path(environment: Mapping[str, str]) -> str:
    """Return where upthread keeps its files: UPTHREAD_HOME, else the platform's data directory.

    Raises ConfigError where the person has no home, or UPTHREAD_HOME is not absolute.
    """
    return _chosen(environment, "XDG_DATA_HOME", ".local/share")


def configuration_path(environment: Mapping[str, str]) -> str:
    """Return the directory of the person's own `config.toml`, as `home_path` does."""
    return _chosen(environment, "XDG_CONFIG_HOME", ".config")


def installed_path(home: Path) -> str:
    """Return the file in which `upthread setup` writes down what it has done, below the home."""
    return os.path.join(str(home), "hooks", "installed.json")


def home_of_hooks(environment: Mapping[str, str], set_up: str) -> str:
    """Return where upthread's files are for what an agent runs: where `set_up` says, unless told.

    What is not absolute is passed over: in here it would be a place in whichever repository the
    agent works in, and nothing may keep an agent from going on.
    """
    told = environment.get("UPTHREAD_HOME", "")
    return told if os.path.isabs(told) else set_up


def home_directory(environment: Mapping[str, str]) -> Path:
    """Return `home_path` as a Path."""
    from pathlib import Path  # see the module

    return Path(home_path(environment))


def _chosen(environment: Mapping[str, str], variable: str, usual: str) -> str:
    if chosen := environment.get("UPTHREAD_HOME"):
        if os.path.isabs(chosen):
            return chosen
        from upthread.errors import ConfigError

        raise ConfigError(
            f"UPTHREAD_HOME is {chosen!r}, which is another place in each directory",
            hint=f"give it an absolute path: {os.path.abspath(chosen)}",
        )
    of_all = environment.get(variable, "")
    if not os.path.isabs(of_all):
        usual = _OF_MACOS if sys.platform == "darwin" else usual
        of_all = os.path.join(persons_home(environment), usual)
    return os.path.join(of_all, "upthread")


def agents_home(environment: Mapping[str, str]) -> Path:
    """Return the home below which agents have their files; one that is not there for none."""
    from pathlib import Path  # see the module

    from upthread.errors import ConfigError

    try:
        return Path(persons_home(environment))
    except ConfigError:
        return Path(_NONE)


def persons_home(environment: Mapping[str, str]) -> str:
    """Return the person's home directory. Raises ConfigError for a user without one."""
    for home in (environment.get("HOME", ""), os.environ.get("HOME", "")):
        if os.path.isabs(home):
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
