"""What has changed around a session, in words: sentences, and the block that says them.

File names are strangers' text and stay on their line. Hooks load this, without any library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from upthread.core.decision.freshness import ChangedFile, Freshness, Shift
from upthread.core.text.markdown import code, item, one_line

HEADING: Final = "# What has changed since your last turn"
NEW_INSTRUCTIONS_HOLD: Final = "Your instructions have changed: those that you have now hold."
READ_AGAIN: Final = "Read these files again before you rely on what you remember of them."

CHANGED: Final = "What has changed"
"""The heading in a briefing."""

NO_CHANGES: Final = "No changes to the files that were known, the branch or the directory."
"""What a briefing says where it was looked, and nothing had changed."""

PATH_CHARACTERS_MAX: Final = 300


def change_lines(found: Freshness) -> tuple[str, ...]:
    """Return what has changed as sentences, files first; empty when nothing has."""
    return (*map(_file_line, found.changed), *_more(found), *_shifts(found))


def with_changes(briefing: str, lines: Sequence[str]) -> str:
    """Return a briefing that was made while nothing had changed, with what has changed since."""
    heading = f"\n## {CHANGED}\n"  # no text of others has a heading like it
    told = "\n".join(map(item, lines))
    return briefing.replace(heading + item(NO_CHANGES), heading + told) if lines else briefing


def render_native_update(found: Freshness) -> str:
    """Return what a resumed session is told first where its agent itself tells the instructions."""
    changes = render_changes(found)
    pieces = [changes] if changes else []
    if found.is_configuration_changed:
        pieces.append(NEW_INSTRUCTIONS_HOLD)
    return "\n\n".join(pieces)


def render_changes(found: Freshness) -> str:
    """Return the block that lists what has changed; empty when nothing has."""
    lines = [item(line) for line in change_lines(found)]
    pieces = ["\n".join([HEADING, *lines])] if lines else []
    if found.changed:
        pieces.append(READ_AGAIN)
    return "\n\n".join(pieces)


def _file_line(changed: ChangedFile) -> str:
    path = one_line(changed.path)
    if len(path) > PATH_CHARACTERS_MAX:
        # The end is what tells one file from another.
        path = f"…{path[-PATH_CHARACTERS_MAX:]}"
    return f"{code(path)}: {changed.how}"


def _more(found: Freshness) -> Iterator[str]:
    left = found.changed_count - len(found.changed)
    if left > 0:
        yield f"and {left} more of the files you had read"


def _shifts(found: Freshness) -> Iterator[str]:
    if found.branch is not None:
        yield f"the branch is {_named(found.branch.now)}; it was {_named(found.branch.was)}"
    if found.directory is not None:
        yield f"the working directory is {_moved(found.directory)}"


def _named(branch: str | None) -> str:
    return code(branch) if branch else "none"


def _moved(directory: Shift) -> str:
    return f"{_named(directory.now)}; it was {_named(directory.was)}, and your paths lead there"
