"""Repair of an agent's store, in a copy: the original is only read, and both are kept.

Beside each other in a directory of ours (0700, files 0600): `before/` is the original byte for
byte, `after/` the copy that was changed. Putting it in the original's place is left to a person,
who knows whether the agent is running. The copy is read again, and what is still wrong is reported.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.lines import SUFFIX, Line, read_lines
from upthread.core.history.model import faults
from upthread.core.types import ToolCallPart, ToolResultPart
from upthread.errors import StoreError, UsageError

_SHOWN_CHARACTERS: Final = 200


class Edit(Struct, frozen=True, kw_only=True):
    """One place that differs between the copies, in words; None for what is not there."""

    place: str
    before: str | None
    after: str | None
    why: str


class RepairedCopy(Struct, frozen=True, kw_only=True):
    """A repaired copy. `left` is what is still wrong with it, empty when it is valid."""

    source: Path
    before: Path
    after: Path
    edits: tuple[Edit, ...]
    left: tuple[str, ...]


def still_wrong(history: VendorHistory) -> Iterator[str]:
    """Yield what is wrong with a history, each `SESSION PLACE: WHAT`; what is unreadable last."""
    for fault in faults(history.history.messages):
        yield f"{history.session_id} {fault.place}: {fault.what}"
    for each in history.unreadable:
        yield f"{history.session_id} {each.place}: {each.why}"


# --- places ------------------------------------------------------------------------------------


def prepare(into: Path, path: Path) -> tuple[Path, Path]:
    """Make the two directories, and return where the copies go."""
    try:
        # Parents one by one: mkdir gives those it makes on the way the umask's mode.
        missing = [each for each in (into, *into.parents) if not each.exists()]
        for directory in (*reversed(missing), into / "before", into / "after"):
            directory.mkdir(mode=0o700)
    except FileExistsError as error:
        raise UsageError(
            f"{into} has a repaired copy already", hint="name another place with --into"
        ) from error
    except OSError as error:
        raise StoreError(
            f"{into} cannot be made: {error.strerror}", hint="name another place with --into"
        ) from error
    return into / "before" / path.name, into / "after" / path.name


def keep(source: Path, copy: Path) -> None:
    """Copy a file byte for byte, for nobody else to read."""
    # Made first: a copy that shutil makes is for all to read who the umask lets.
    copy.touch(mode=0o600)
    shutil.copyfile(source, copy)


# --- a store of lines --------------------------------------------------------------------------


class Plan(Struct):
    """What is to be done, by call id, and what has been met on the way."""

    open_calls: set[str]
    made: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    edits: list[Edit] = field(default_factory=list[Edit])

    def takes(self, call_id: str) -> bool:
        """Whether a result belongs to a call before it, and is the first."""
        if call_id in self.answered or call_id not in self.made:
            return False
        self.answered.add(call_id)
        return True

    def edit(self, line: Line, why: str, after: str | None = None, *, is_new: bool = False) -> None:
        before = None if is_new else _shown(line.raw.decode("utf-8", "backslashreplace"))
        shown = None if after is None else _shown(after)
        self.edits.append(Edit(place=line.place, before=before, after=shown, why=why))


def repaired_lines(
    path: Path,
    into: Path,
    read: Callable[[Path], Iterator[VendorHistory]],
    rewrite: Callable[[Line, Plan], Iterator[bytes]],
) -> RepairedCopy:
    """Copy a session that is a file of lines, each as `rewrite` has it; all others stay as bytes.

    What to do is decided by core/history: calls without a result are closed, results without a call
    and second ones go. Lines that cannot be read are left out, and stay in the one kept before.
    """
    (history,) = read(path)
    before, after = prepare(into, path)
    # What was compressed is plain once it is repaired, and of two its agent takes the plain one.
    after = after.with_suffix("") if after.suffix == SUFFIX else after
    keep(path, before)
    parts = [part for message in history.history.messages for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    plan = Plan(open_calls=calls - answered)
    after.touch(mode=0o600)
    with after.open("wb") as copy:
        # Of what was kept: the agent may be writing to its own file meanwhile.
        for line in read_lines(before):
            if line.why:
                plan.edit(line, line.why)
            else:
                copy.writelines(raw + b"\n" for raw in rewrite(line, plan))
    # Read again: that it is mended is told by what a reader finds, not by the plan.
    left = tuple(line for each in read(after) for line in still_wrong(each))
    return RepairedCopy(source=path, before=before, after=after, edits=tuple(plan.edits), left=left)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
