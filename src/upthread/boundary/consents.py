"""What a person has agreed to of repositories: one file of ours, in their own directory.

A consent is to exactly one text, by its SHA-256, under one name in one repository. The text is kept
beside it, bounded, so that a change can be shown as one. What is written here loosens what is kept
and what agents may do, so a file that anybody else could have written is an error, never a no.
"""

import fcntl
import hashlib
import itertools
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os.path import lexists, realpath
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from upthread.boundary import files
from upthread.boundary.files import write_whole
from upthread.boundary.programs import suspended_holder
from upthread.core.agents import AGENTS, Actor
from upthread.core.trust import AgentSettings, Item, Pending, project_settings_item
from upthread.core.types import Environment, ready
from upthread.errors import ConfigError

FILE = "trust.json"
LOCK = "trust.lock"
SCHEMA: Literal[1] = 1

FILE_BYTES_MAX = 16 * 1024 * 1024
TEXT_BYTES_MAX = 64 * 1024
"""Of a longer text only the digest is kept: it is shown whole when it has changed."""

TEXTS_PER_NAME_MAX = 8
"""Of one name so many texts are remembered: branches that differ are not asked about each time."""

LOCK_WAIT_S = 5.0
LOCK_LOOK_S = 0.01
"""For how long, and how often, a process looks whether another one has given the lock back."""

_MEND = "look at it, then move it away: you are asked anew about each repository"


class Consent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was said of one text; `is_given` False for a no. `text` is None if it was long.

    `by` is who said it: a person, or a program of theirs. None: before that was recorded.
    """

    repository: str
    kind: Literal["setting", "role"]
    name: str
    sha256: str
    text: str | None
    decided_at_ms: int
    is_given: bool = True
    by: Actor | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    schema: Literal[1]
    consents: tuple[Consent, ...]


class Consents:
    """What was decided of one repository. Of what is asked about and does not count it takes note.

    The file is read when the first question comes: most repositories ask for nothing.
    """

    def __init__(self, home: Path, repository: str) -> None:
        self.repository = as_known(repository)
        self._home = home
        self._decided: tuple[Consent, ...] | None = None
        self._pending: list[Pending] = []

    @property
    def pending(self) -> tuple[Pending, ...]:
        """What was asked about and does not count, in the order it was asked."""
        return tuple(self._pending)

    def cover(self, item: Item) -> bool:
        """Return whether a person agreed to exactly this. Raises ConfigError as the file does."""
        if self._decided is None:
            known = read_consents(self._home)
            self._decided = tuple(each for each in known if each.repository == self.repository)
        about = [e for e in self._decided if (e.kind, e.name) == (item.kind, item.name)]
        said = [each.is_given for each in about if each.sha256 == item.digest]
        # The newest counts: a no that was said later takes a yes back, and the other way round.
        if said and said[-1]:
            return True
        given = [each.text for each in about if each.is_given]
        was = given[-1] if given else None
        self._pending.append(Pending(item=item, was=was, is_declined=bool(said)))
        return False

    def tell_instead(self, stand_in: Callable[[Item], str]) -> None:
        """Note of all that is pending what is used in its place."""
        self._pending = [replace(e, instead=stand_in(e.item)) for e in self._pending]


def as_known(path: str | os.PathLike[str]) -> str:
    """Return a path as it is kept: one that is no text is escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def consents_path(home: Path) -> Path:
    """Return the file of consents in upthread's home, which need not be there."""
    return home / FILE


def read_consents(home: Path) -> tuple[Consent, ...]:
    """Return all that was decided, oldest first; nothing where there is no file.

    ConfigError for a file that is a link, somebody else's, writable by others, or not as we wrote
    it.
    """
    raw = _read(consents_path(home))
    if raw is None:
        return ()
    try:
        consents = msgspec.json.decode(raw, type=ready(_File)).consents
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(home / FILE, f"is not as upthread wrote it: {error}") from error
    for each in consents:
        # A person is shown it as what they agreed to before: another text would hide a change.
        if each.text is not None and _digest(each.text) != each.sha256:
            raise _refused(home / FILE, f"has a text that is not its digest's, of {each.name!r}")
    return consents


def change_consents(
    home: Path, change: Callable[[tuple[Consent, ...]], Iterable[Consent]]
) -> tuple[Consent, ...]:
    """Replace what is decided by what `change` makes of it, and return that.

    Whole or not at all, 0600, one process after the other. Of each name the newest texts are kept.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file apart: a lock on one that is replaced holds up nobody who opened the new one.
    with _locked(home / LOCK):
        # Read under the lock: what another process has just written is not to be lost.
        kept = _newest(tuple(change(read_consents(home))))
        raw = msgspec.json.format(msgspec.json.encode(_File(schema=SCHEMA, consents=kept)))
        # Refused here: once written, every verb that reads it would fail.
        if len(raw) > FILE_BYTES_MAX:
            raise ConfigError(
                f"{home / FILE} would have {len(raw)} bytes",
                hint="take back what is no longer needed: upthread trust --remove",
            )
        write_whole(home / FILE, raw)
    return kept


def kept_text(text: str) -> str | None:
    """Return a text as it is kept beside its digest, None for one that is too long."""
    return text if len(text.encode()) <= TEXT_BYTES_MAX else None


def _newest(consents: tuple[Consent, ...]) -> tuple[Consent, ...]:
    counts: dict[tuple[str, str, str], int] = {}
    kept: list[Consent] = []
    for each in reversed(consents):
        name = (each.repository, each.kind, each.name)
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= TEXTS_PER_NAME_MAX:
            kept.append(each)
    return tuple(reversed(kept))


def _read(path: Path) -> bytes | None:
    try:
        # Not blocking: in place of the file there might be a FIFO.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        # Asked of what is open: the name may lead elsewhere by now.
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise _refused(path, "is not an ordinary file of yours")
        if found.st_mode & 0o022:
            raise _refused(path, f"could be written by others (mode {found.st_mode & 0o777:04o})")
        raw = file.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise _refused(path, f"has more than {FILE_BYTES_MAX} bytes")
    return raw


@contextmanager
def _locked(path: Path) -> Generator[None]:
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}") from error
    try:
        deadline_s = time.monotonic() + LOCK_WAIT_S
        # Not waited for within flock, which knows no limit: its holder may be suspended.
        while not _is_taken(descriptor, path):
            if time.monotonic() >= deadline_s:
                pid = suspended_holder((path,))
                by = f"process {pid}, which is suspended" if pid else "another process"
                hint = f"let it continue: kill -CONT {pid}" if pid else "try again"
                raise ConfigError(f"{path} is locked by {by}", hint=hint)
            time.sleep(LOCK_LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be locked: {error.strerror}",
            hint="set UPTHREAD_HOME to a directory of a local disk",
        ) from error
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refused(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"{path} {problem}", hint=_MEND)


# --- trust in a directory, as the configuration of an agent records it ----------------------------

# Read only. Claude Code (2.1.332) records trust in `.claude.json`, and trust in a directory
# includes those below it. Codex (0.171.0) records it in `config.toml`, for the directory or the
# repository. OpenCode (1.18.33) records nothing.


def held_by_project(agent: str, place: str, environment: Environment) -> bool:
    """Return whether a directory, or one above it, holds settings for an agent. Blocking.

    Instructions count if they are a link that leads out of their directory, because they would be
    sent. Agents also go by what is above, except in the person's home and above that.
    """
    row = AGENTS.get(agent)
    home = realpath(environment.get("HOME") or "/")
    here = Path(realpath(place))
    above = itertools.takewhile(lambda each: str(each) != home, here.parents)
    return row is not None and any(
        lexists(each / name) if name in row.project_settings else _leads_out(each, name)
        for each in (here, *above)
        for name in (*row.project_settings, *row.project_instructions)
    )


def _leads_out(place: Path, name: str) -> bool:
    return not Path(realpath(place / name)).is_relative_to(place)


def trusted_agents(
    working_directory: Path,
    environment: Environment,
    agents: Mapping[str, AgentSettings],
    consents: Consents,
) -> Iterator[str]:
    """Yield the agents whose project settings in this directory may be used.

    Either the agent's configuration trusts the directory, or a person agreed with `upthread trust`.
    """
    for name, row in AGENTS.items():
        if not held_by_project(name, str(working_directory), environment):
            continue
        own = agents[name].environment if name in agents else {}
        places = (str(working_directory), consents.repository)
        item = project_settings_item(name, row.project_settings)
        if is_trusted_in(name, places, {**environment, **own}) or (
            not row.heeds_trust and consents.cover(item)
        ):
            yield name


def is_trusted_in(agent: str, places: Iterable[str], environment: Environment) -> bool:
    """Return whether an agent's own configuration trusts one of these directories. Blocking.

    False if the configuration cannot be read. `environment` gives its place, for example by
    CLAUDE_CONFIG_DIR.
    """
    reader = _READERS.get(agent)
    if reader is None or not environment.get("HOME"):
        return False
    real = [Path(realpath(each)) for each in places]
    try:
        return reader(real, environment)
    # Another program writes this file, so it may have any form.
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _claude_code(places: Iterable[Path], environment: Environment) -> bool:
    home = environment.get("CLAUDE_CONFIG_DIR") or environment["HOME"]
    known = json.loads(_content(Path(home, ".claude.json"))).get("projects", {})
    within = (str(each) for place in places for each in (place, *place.parents))
    return any(known.get(each, {}).get("hasTrustDialogAccepted") is True for each in within)


def _codex(places: Iterable[Path], environment: Environment) -> bool:
    import tomllib

    home = environment.get("CODEX_HOME") or Path(environment["HOME"], ".codex")
    known = tomllib.loads(_content(Path(home, "config.toml"))).get("projects", {})
    return any(known.get(str(each), {}).get("trust_level") == "trusted" for each in places)


def _content(path: Path) -> str:
    raw = files.read_all(files.through_links(str(path)), str(path), bytes_max=CONTENT_BYTES_MAX)
    return raw.decode("utf-8")


CONTENT_BYTES_MAX = 64 * 1024 * 1024
"""Claude Code keeps what it knows of every project in that file."""

_Reader = Callable[[Iterable[Path], Environment], bool]
_READERS = {"claude-code": _claude_code, "codex": _codex}
