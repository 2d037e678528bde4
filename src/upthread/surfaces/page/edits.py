"""Edits: what a call would change in files, read from its arguments, as a person compares it.

Agents say it in a few forms: the text before and after, a whole new file, or a patch. What has none
of them is shown as it is. Nothing here looks at a file: it is what the agent said.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from upthread.core.decision.freshness import PATH_ARGUMENTS
from upthread.core.types import JsonValue

LINES_COMPARED_MAX = 2_000
"""Longer texts are shown one after the other: to compare them takes the square of their lines."""

CONTEXT_LINES = 3
EDITS_MAX = 200

LineKind: TypeAlias = Literal["same", "removed", "added", "place"]


class Edit(NamedTuple):
    """A change of one file: the texts before and after it, or a patch; `path` may be empty."""

    path: str
    before: str = ""
    after: str = ""
    patch: str = ""


class DiffLine(NamedTuple):
    """A line of a comparison; a `place` stands for lines that are left out."""

    kind: LineKind
    text: str


_BEFORE = ("old_string", "oldString", "oldText", "old_text")
_AFTER = ("new_string", "newString", "newText", "new_text", "content", "new_source")
_PATCHES = ("unified_diff", "diff", "patchText", "patch")


def edits_in(arguments: JsonValue) -> tuple[Edit, ...]:
    """Return the edits that a call's arguments tell; none where they tell none."""
    return tuple(_edits(arguments, path=""))[:EDITS_MAX]


def _edits(value: JsonValue, *, path: str) -> Iterator[Edit]:
    if not isinstance(value, Mapping):
        return
    path = _first(value, PATH_ARGUMENTS) or path
    # Claude Code's MultiEdit and Codex's fileChange have several in one call.
    for each in _several(value):
        yield from _edits(each, path=path)
    patch, after = _first(value, _PATCHES), _first(value, _AFTER)
    before = _first(value, _BEFORE)
    if patch:
        yield Edit(path=path, patch=patch)
    elif before or (after and path):
        yield Edit(path=path, before=before or "", after=after or "")


def _several(value: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    for name in ("edits", "changes", "content"):
        inner = value.get(name)
        if isinstance(inner, Mapping):
            for path, change in inner.items():
                yield {"path": path, **change} if isinstance(change, Mapping) else None
        elif isinstance(inner, Sequence) and not isinstance(inner, str):
            yield from inner


def _first(value: Mapping[str, JsonValue], names: Sequence[str]) -> str | None:
    found = (value.get(name) for name in names)
    return next((each for each in found if isinstance(each, str)), None)


def diff_of(edit: Edit) -> Iterator[DiffLine]:
    """Yield the lines of an edit, those that stay only near the ones that change."""
    if edit.patch:
        yield from _patch_lines(edit.patch)
        return
    before, after = edit.before.splitlines(), edit.after.splitlines()
    if len(before) + len(after) > LINES_COMPARED_MAX:
        yield from (DiffLine("removed", line) for line in before)
        yield from (DiffLine("added", line) for line in after)
        return
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT_LINES)):
        if number:
            yield DiffLine("place", "…")
        for tag, from_line, to_line, new_from, new_to in group:
            if tag == "equal":
                yield from (DiffLine("same", line) for line in before[from_line:to_line])
                continue
            yield from (DiffLine("removed", line) for line in before[from_line:to_line])
            yield from (DiffLine("added", line) for line in after[new_from:new_to])


def _patch_lines(patch: str) -> Iterator[DiffLine]:
    kinds: Mapping[str, LineKind] = {"+": "added", "-": "removed", "@": "place", "*": "place"}
    for line in patch.splitlines():
        if line.startswith(("+++", "---")):
            yield DiffLine("place", line)
        else:
            kind: LineKind = kinds.get(line[:1], "same")
            yield DiffLine(kind, line if kind == "place" else line[1:])
