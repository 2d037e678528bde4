"""A person's hand in a briefing: what was edited stays, is marked, and hides nothing new.

The briefing is Markdown with a section under each `##` heading. Read back after a person edited it,
every section that was changed is the person's from then on; one that was taken out stays out; what
stands under no heading of ours is a note. A section that was edited still gains what comes up
later. Text whose structure is broken is kept whole as a note, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Final

from msgspec import Struct, field

from upthread.core.text import neutral

TITLE: Final = "# Briefing"
CLOSING: Final = "Do not repeat work already completed. Build on this briefing."
NOTE: Final = "A person's note"
MARK: Final = "*Edited by a person.*"
EDIT_CHARACTERS_MAX: Final = 64 * 1024

_HEADING: Final = "## "


class Section(Struct, frozen=True, kw_only=True):
    """A section of a briefing. Prose is one item, a list's items are Markdown list items."""

    heading: str
    items: tuple[str, ...]
    is_list: bool = False
    is_edited: bool = False

    @property
    def text(self) -> str:
        """The section as Markdown."""
        mark = (MARK,) if self.is_edited else ()
        return "\n".join([_HEADING + self.heading, *mark, *self.items])


class EditedSection(Struct, frozen=True, kw_only=True):
    """A person's text for a section, empty when it was taken out; `seen` are the items it had."""

    text: str
    seen: tuple[str, ...] = ()


class BriefingEdit(Struct, frozen=True, kw_only=True):
    """All that persons have made of a conversation's briefing."""

    sections: Mapping[str, EditedSection] = field(default_factory=dict[str, EditedSection])
    note: str = ""


class ReadEdit(Struct, frozen=True, kw_only=True):
    """An edit as read back; `faults` tell the person what could not be kept in its place."""

    edit: BriefingEdit
    faults: tuple[str, ...] = ()


def with_edit(sections: Sequence[Section], edit: BriefingEdit) -> tuple[Section, ...]:
    """Return sections with a person's text in place of what was edited, the note last."""
    told = [_edited(section, edit.sections.get(section.heading)) for section in sections]
    present = {section.heading for section in sections}
    told += [
        _edited(Section(heading=heading, items=()), mine)
        for heading, mine in edit.sections.items()
        if heading not in present
    ]
    if edit.note:
        told.append(Section(heading=NOTE, items=(neutral(edit.note),), is_edited=True))
    return tuple(section for section in told if section.items)


def _edited(section: Section, mine: EditedSection | None) -> Section:
    if mine is None:
        return section
    # What came up after the edit is told beside it: an edit must not hide what it could not know.
    new = tuple(each for each in section.items if each not in mine.seen)
    text = (neutral(mine.text),) if mine.text else ()
    return Section(
        heading=section.heading,
        items=(*text, *new),
        is_list=section.is_list,
        is_edited=bool(text),
    )


def read_edit(
    edited: str, *, shown: Sequence[Section], made: Sequence[Section], before: BriefingEdit
) -> ReadEdit:
    """Return what a person made of a briefing.

    `shown` are the sections the person was shown, `made` the same without any edit, and `before`
    what was edited earlier. Faults are told for text that has no section of ours any more.
    """
    if len(edited) > EDIT_CHARACTERS_MAX:
        fault = f"the text has {len(edited)} characters, {EDIT_CHARACTERS_MAX} are kept"
        # Not cut: half of a person's text could say the opposite.
        return ReadEdit(edit=before, faults=(f"{fault}: nothing was changed",))
    headings = {section.heading for section in shown} | {NOTE}
    loose, found, faults = _split(edited, headings)
    # An editor that was closed on an empty file must not take every section out.
    if not found:
        note = "\n\n".join(piece for piece in (before.note, loose) if piece)
        fault = "no heading of the briefing is left: your text is kept as a note, nothing else"
        kept = BriefingEdit(sections=before.sections, note=note)
        return ReadEdit(edit=kept, faults=(fault,) if loose else ())
    seen = {section.heading: section.items for section in made}
    sections = dict(before.sections)
    for section in shown:
        body = found.get(section.heading, "")
        # Only what differs becomes the person's: an untouched section goes on being made anew.
        if section.heading != NOTE and body != "\n".join(section.items).strip():
            sections[section.heading] = EditedSection(text=body, seen=seen.get(section.heading, ()))
    note = "\n\n".join(piece for piece in (found.get(NOTE, ""), loose) if piece)
    return ReadEdit(edit=BriefingEdit(sections=sections, note=note), faults=tuple(faults))


def _split(edited: str, headings: set[str]) -> tuple[str, dict[str, str], list[str]]:
    """Return what stands under no heading of ours, the bodies of those that are, and faults."""
    loose: list[str] = []
    found: dict[str, str] = {}
    faults: list[str] = []
    for heading, lines in _blocks(edited):
        body = "\n".join(lines).strip()
        if heading is None:
            loose.append(body)
        elif heading not in headings:
            loose.append(f"#{_HEADING}{heading}\n{body}")
            faults.append(f"{heading!r} is no section of a briefing: it is kept in your note")
        elif heading in found:
            found[heading] = f"{found[heading]}\n{body}".strip()
            faults.append(f"{heading!r} stands twice: both are kept, one after the other")
        else:
            found[heading] = body
    return "\n\n".join(filter(None, loose)), found, faults


def _blocks(edited: str) -> Iterator[tuple[str | None, list[str]]]:
    # Our own lines are no text of the person's, wherever the editing left them.
    lines = [line for line in edited.splitlines() if line.strip() not in {TITLE, MARK, CLOSING}]
    yield None, list(takewhile(lambda line: not line.startswith(_HEADING), lines))
    starts = [index for index, line in enumerate(lines) if line.startswith(_HEADING)]
    for start, end in pairwise([*starts, len(lines)]):
        yield lines[start].removeprefix(_HEADING).strip(), lines[start + 1 : end]
