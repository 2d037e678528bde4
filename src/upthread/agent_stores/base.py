"""What every reader of an agent's own store gives back, and what it never does.

A reader opens nothing for writing and leaves no file behind. What it cannot read it reports with
its place and leaves where it is. It was written for versions it names: of any other version the
history is read as far as it goes and is said to be of unknown form, so that nothing is changed on
a guess.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from upthread.core import types
from upthread.core.codec import objects_at, text_at
from upthread.core.history.model import History
from upthread.core.roles.role import BUILT_IN_ROLES
from upthread.core.types import JsonValue

BEGINNING_CHARACTERS_MAX = 80
OUTLINE_CHARACTERS = 200
"""How much of each text a diagnosis keeps, so that a long session fits into little memory."""


class Unreadable(Struct, frozen=True, kw_only=True):
    """A line, row or value that could not be read. It stays in the store as it is."""

    place: str
    why: str
    beginning: str = ""


class VendorHistory(Struct, frozen=True, kw_only=True):
    """One session as an agent's store holds it.

    `version` is the agent's that wrote it, empty when it does not say. `parent_session_id` is set
    for a sub-agent's.
    """

    agent: str
    session_id: str
    path: Path
    version: str
    is_version_known: bool
    history: History
    unreadable: tuple[Unreadable, ...] = ()
    parent_session_id: str | None = None
    directory: str = ""

    @property
    def is_of_lines(self) -> bool:
        """Whether its file is one of lines: a copy can do without one that cannot be read."""
        return self.path.suffix in {".jsonl", ".json", ".zst"}


def is_known_version(version: str, known: tuple[str, ...]) -> bool:
    """Return whether a version is of a line the reader was written for: `2.1` takes `2.1.329`."""
    return any(version == line or version.startswith(f"{line}.") for line in known)


def outlined(part: types.Part) -> types.Part:
    """Return a part with the beginning of its text."""
    match part:
        case types.TextPart() | types.ReasoningPart() | types.ToolResultPart():
            return replace(part, text=part.text[:OUTLINE_CHARACTERS])
        case types.UnknownPart():
            return replace(part, raw=None)
        case _:
            return part


# --- outlines: what a store says of a session at a glance -----------------------------------------

# By size, time and both ends of a file, or by one row of a database: never by reading it whole. So
# what an outline says is what the ends say. A look at the stores is bounded in time and in files,
# and what it passed over is counted by its reason: one line for each reason, however many there
# are.


Ending: TypeAlias = Literal["ended", "interrupted", "unknown"]
"""How a session's last turn looks from its end; one that is under way looks interrupted."""

TITLE_CHARACTERS_MAX = 200
TITLE_SOURCE_CHARACTERS = 4000
"""More than the longest secret that begins in what is shown."""

SESSIONS_MAX = 100_000
SECONDS_MAX = 4.5
"""A look that takes longer is no glance; what was not reached is said."""

DAY_MS = 86_400_000


class SessionOutline(Struct, frozen=True, kw_only=True):
    """One session of an agent, as its store says at a glance; empty or None where it does not.

    `parent_session_id` and `role` are set for a sub-agent's. `unredacted_title` is what its agent
    calls it, else how its first prompt begins, as it was written: it is shown as `title` has it.
    `tokens` are those it held at its last answer. `is_foreign` says that its lines are of a form
    this version does not know, `is_too_old` that its agent of today does not resume it.
    """

    agent: str
    session_id: str
    path: str
    parent_session_id: str = ""
    role: str = ""
    unredacted_title: str = ""
    directory: str = ""
    branch: str = ""
    begun_at_ms: int | None = None
    used_at_ms: int = 0
    model: str = ""
    tokens: int | None = None
    size_bytes: int = 0
    version: str = ""
    ending: Ending = "unknown"
    is_archived: bool = False
    is_too_old: bool = False
    is_foreign: bool = False
    deleted_at_ms: int | None = None

    @property
    def is_sub_agent(self) -> bool:
        """Whether another session started it."""
        return bool(self.parent_session_id)

    @property
    def is_of_a_role(self) -> bool:
        """Whether its role has a past: the agents' own begin anew by what they are for."""
        return bool(self.role) and self.role.casefold() not in BUILT_IN_ROLES

    def title(self, redact: Callable[[str], str]) -> str:
        """Return what it is called, without its secrets, on one line and cut.

        In this order: a secret that is cut, or a key whose lines are put into one, may be known by
        nobody, and be of use all the same.
        """
        return " ".join(redact(self.unredacted_title).split())[:TITLE_CHARACTERS_MAX]


def newest_of(outlines: Iterable[SessionOutline]) -> Collection[SessionOutline]:
    """Return each session once: of its copies, the copy with the last entry."""
    newest: dict[tuple[str | bool, ...], SessionOutline] = {}
    for each in outlines:
        # A file of an unknown form is counted as a file.
        key = (each.agent, each.parent_session_id, each.session_id, each.is_foreign and each.path)
        newest[key] = max(newest.get(key, each), each, key=lambda one: one.used_at_ms)
    return newest.values()


class Look(Struct, kw_only=True):
    """One look at the agents' stores: its bounds, and what it passed over.

    `passed_over` counts by agent and reason, such as `empty`. `is_cut_short` once a bound was met.
    """

    until_s: float
    sessions_max: int = SESSIONS_MAX
    sessions: int = 0
    passed_over: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    is_cut_short: bool = False

    def goes_on(self) -> bool:
        """Return whether one more session may be looked at, and count it."""
        self.is_cut_short |= self.sessions >= self.sessions_max or time.monotonic() > self.until_s
        self.sessions += not self.is_cut_short
        return not self.is_cut_short

    def pass_over(self, agent: str, why: str, number: int = 1) -> None:
        """Count what is no session, or cannot be looked at."""
        if number:
            self.passed_over[agent, why] += number


def look(*, seconds_max: float = SECONDS_MAX) -> Look:
    """Begin a look."""
    return Look(until_s=time.monotonic() + seconds_max)


def title_of(text: str) -> str:
    """Return so much of a title, or of a prompt, that what is shown of it has no half of a word."""
    if len(text) <= TITLE_SOURCE_CHARACTERS:
        return text
    cut = text[:TITLE_SOURCE_CHARACTERS]
    whole = cut.rsplit(maxsplit=1)
    # One word that is longer than all that is kept has no end to be cut at.
    return whole[0] if len(whole) == 2 else cut


def text_in(content: JsonValue) -> str:
    """Return the first text of a message: of a text, or of a list of blocks; empty for none."""
    if isinstance(content, str):
        return content
    return next((text for block in objects_at(content) if (text := text_at(block, "text"))), "")


def text_of_blocks(content: object) -> str:
    """Return a text, or those of blocks.

    A line each, as a turn reports it: the same result is the same text, whichever way it comes.
    """
    if isinstance(content, str):
        return content
    return "\n".join(text for block in objects_at(content) if (text := text_at(block, "text")))


def epoch_ms(timestamp: str) -> int | None:
    """Return a moment of ISO 8601 in epoch milliseconds, None for what is none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
