"""The briefing: what a fresh session starts from when the conversation is older than it.

Deterministic Markdown from what is stored: the goal, which is what a first prompt asks without the
conversation that was pasted into it; reports where roles hand them back, the last one's summary
whole, since a plan is often all there is in it; for agents that never report, what they said last,
read, edited and planned, and what was asked and answered. No model is asked, no transcript is
copied. A section is capped by itself, and the whole by a budget: CUT_ORDER says what is cut first,
and whatever is cut says so.

A person may edit it. Read back after that, every section that was changed is the person's from then
on; one that was taken out stays out; what stands under no heading of ours is a note. A section that
was edited still gains what comes up later. Text whose structure is broken is kept whole as a note,
and nothing else changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile

from msgspec import Struct, structs

from upthread.core.decision.freshness import CHANGED, NO_CHANGES
from upthread.core.roles.reports import Report, without_report
from upthread.core.text import code, item, neutral, one_line, shortened

BRIEFING_CHARACTERS_MAX = 24_000
"""The whole, some six thousand tokens."""

REPLY_CHARACTERS_MAX = 4_000
LIST_CHARACTERS_MAX = 8_000
SUMMARY_CHARACTERS_MAX = 12_000
ASKED_CHARACTERS_MAX = 1_500
"""What is told of one prompt; of what was pasted into it, the beginning and the end."""

GOAL = "Goal"
ASKED = "What was asked since"
DECIDED = "Decisions already made"
FOUND = "Findings already confirmed"
CUT_OFF = "What was cut off"
DONE = "Actions already taken, not to be repeated"
ANSWERED = "Questions already answered"
OPEN = "Open questions"
PLAN = "Plan"
FILES = "Files read and edited"
SUMMARY = "Your last report"
REPLY = "Your last reply"
FOCUS = "Focus now"

CUT_ORDER = (
    FILES,
    REPLY,
    PLAN,
    FOUND,
    CHANGED,
    ANSWERED,
    DECIDED,
    SUMMARY,
    DONE,
    ASKED,
    OPEN,
    CUT_OFF,
    GOAL,
)
"""What goes first when the whole is over its budget; the focus and a person's words stay.

The focus is the prompt that follows: a briefing is shown before there is one, and says so.
"""

FOCUS_NOW = "What is asked after this briefing; where it differs from the goal, it holds."

_CUT = "\n[… cut]"
_LEFT_OUT_CHARACTERS = 40
"""Room for the line that says how many items were left out."""


class Reported(Struct, frozen=True):
    """A report, who gave it, and the message it came from where that is known."""

    role: str
    report: Report
    place: str = ""


class BriefingInputs(Struct, frozen=True, kw_only=True):
    """What a briefing is made of; what is empty has no section.

    `asked` are the prompts after the first one, oldest first: what they forbid still holds.
    `reports` are oldest first; what several of them say is told once. `summary` is the last one's
    of the role itself, and stands in the place of its last reply. `changes`, `cut_off` and
    `effects` are sentences; `changes` is None where nobody looked. `answers` are (question,
    answer); `plan` is (entry, status). Files are paths, the last examined last.
    """

    goal: str
    asked: Sequence[str] = ()
    reports: Sequence[Reported] = ()
    summary: str = ""
    last_reply: str = ""
    changes: Sequence[str] | None = None
    cut_off: Sequence[str] = ()
    effects: Sequence[str] = ()
    answers: Sequence[tuple[str, str]] = ()
    open_questions: Sequence[str] = ()
    plan: Sequence[tuple[str, str]] = ()
    files_read: Sequence[str] = ()
    files_edited: Sequence[str] = ()
    edit: BriefingEdit | None = None


def build_briefing(inputs: BriefingInputs, *, characters_max: int = BRIEFING_CHARACTERS_MAX) -> str:
    """Return the briefing; empty when nothing is known."""
    return render(sections_of(inputs), characters_max=characters_max)


def sections_of(inputs: BriefingInputs) -> tuple[Section, ...]:
    """Return the sections that say something, in order, with a person's edit applied."""
    made = [section for section in _made(inputs) if section.items]
    if not inputs.changes and all(section.heading in {CHANGED, FOCUS} for section in made):
        made = []  # nothing is known: that nothing has changed is no news
    return tuple(made) if inputs.edit is None else with_edit(made, inputs.edit)


def render(sections: Sequence[Section], *, characters_max: int = BRIEFING_CHARACTERS_MAX) -> str:
    """Return sections as Markdown within the budget; empty without any."""
    kept = _within(sections, characters_max)
    if not kept:
        return ""
    return "\n\n".join([TITLE, *(section.text for section in kept), CLOSING])


def _made(inputs: BriefingInputs) -> Iterable[Section]:
    reports = inputs.reports
    summary = _cut(inputs.summary.strip(), SUMMARY_CHARACTERS_MAX)
    # One of the two: a summary says the same in fewer words.
    reply = "" if summary else _cut(without_report(inputs.last_reply), REPLY_CHARACTERS_MAX)
    edited = tuple(f"edited {code(path)}" for path in inputs.files_edited)
    read = tuple(
        f"read {code(path)}" for path in inputs.files_read if path not in inputs.files_edited
    )
    yield _prose(GOAL, shortened(inputs.goal.strip(), GOAL_CHARACTERS_MAX))
    # A prompt that was sent again, after a failure say, is one prompt.
    asked = dict.fromkeys(each.strip() for each in inputs.asked)
    yield _list(ASKED, [shortened(each, ASKED_CHARACTERS_MAX) for each in asked])
    yield _list(DECIDED, _said((each, text) for each in reports for text in each.report.decisions))
    yield _list(FOUND, _said((each, text) for each in reports for text in each.report.findings))
    yield _list(CHANGED, () if inputs.changes is None else inputs.changes or (NO_CHANGES,))
    yield _list(CUT_OFF, inputs.cut_off)
    yield _list(DONE, inputs.effects)
    yield _list(ANSWERED, [f"{one_line(q)} → {one_line(a)}" for q, a in inputs.answers])
    yield _list(OPEN, inputs.open_questions)
    yield _list(PLAN, [f"{one_line(text)} ({status})" for text, status in inputs.plan])
    yield _list(FILES, (*read, *edited))
    yield _prose(SUMMARY, summary)
    yield _prose(REPLY, reply)
    yield _prose(FOCUS, FOCUS_NOW)


def _said(said: Iterable[tuple[Reported, str]]) -> list[str]:
    """Return sentences of reports, each once, with who said it and in which message."""
    first: dict[str, Reported] = {}
    for each, text in said:
        # Half of the list's room at most: one long text must not push out all others.
        first.setdefault(_cut(text.strip(), LIST_CHARACTERS_MAX // 2), each)
    return [f"{text} ({_source(each)})" for text, each in first.items()]


def _source(reported: Reported) -> str:
    return f"{reported.role}, {reported.place}" if reported.place else reported.role


def _prose(heading: str, text: str) -> Section:
    return Section(heading=heading, items=(neutral(text),) if text else ())


def _list(heading: str, texts: Sequence[str]) -> Section:
    section = Section(heading=heading, items=tuple(map(item, texts)), is_list=True)
    return _shortened(section, LIST_CHARACTERS_MAX)


# --- the budget --------------------------------------------------------------------------------


def _within(sections: Sequence[Section], characters_max: int) -> list[Section]:
    """Shorten sections in CUT_ORDER until all of them fit, or nothing is left to cut."""
    kept = {section.heading: section for section in sections}
    over = sum(map(_length, sections)) - characters_max
    for heading in CUT_ORDER:
        section = kept.get(heading)
        # A person's words are never cut: they were written to be read.
        if over <= 0 or section is None or section.is_edited:
            continue
        shorter = _shortened(section, max(_length(section) - over, 0))
        over -= _length(section) - _length(shorter)
        kept[heading] = shorter
    return list(kept.values())


def _length(section: Section) -> int:
    return sum(len(each) + 1 for each in section.items)


def _shortened(section: Section, characters_max: int) -> Section:
    """Return a section within so many characters: of a list the newest items, of prose the head."""
    if _length(section) <= characters_max:
        return section
    if not section.is_list:
        text = section.items[0][: max(characters_max - len(_CUT) - 1, 0)]
        return structs.replace(section, items=(f"{text}{_CUT}".strip(),))
    room = characters_max - _LEFT_OUT_CHARACTERS
    taken = accumulate(len(each) + 1 for each in reversed(section.items))
    left = len(section.items) - sum(total <= room for total in taken)
    # Newest last and kept: a later decision may take an earlier one back.
    newest = section.items[left:]
    left_out = f"- [… {left} older ones left out]"
    return structs.replace(section, items=(left_out, *newest))


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[:characters_max] + _CUT


# --- the goal -------------------------------------------------------------------------------------


GOAL_CHARACTERS_MAX = 4_000
GOAL_FROM_PASTED_CHARACTERS_MAX = 1_000
"""What is kept of a conversation with nothing around it."""

CONVERSATION_LINES_MIN = 12
"""A shorter one is left in."""

SPEAKERS_MAX = 4
"""More than these are the headings of a text."""

UTTERANCES_MIN = 8
"""Fewer are no conversation, where the speakers' names say nothing."""

_SPEAKERS = (
    (
        frozenset({"user", "human", "me", "you", "you said"}),
        frozenset(
            {
                *("assistant", "ai", "agent", "bot", "model", "opencode", "copilot", "gemini"),
                *("claude", "chatgpt", "chatgpt said", "gpt", "codex"),
            }
        ),
    ),
    (frozenset({">", "\u276f"}), frozenset({"\u23fa"})),  # Claude Code's own interface
    (frozenset({"\u203a"}), frozenset({"\u2022"})),  # Codex's
)
"""Who asks and who answers, by what begins their lines."""

_ASKING = frozenset[str]().union(*(asking for asking, _ in _SPEAKERS))
_KNOWN = _ASKING.union(*(answering for _, answering in _SPEAKERS))
_TIME = r"(?:[\[(]?\d{1,4}[-:./\dT ]{2,20}(?:[AaPp][Mm])?[\])]?[ \t,-]*)?"
_NAME = r"(?P<name>[^\W\d_][\w.'-]*(?: [\w.'-]+){0,2})"
_LABEL = (
    rf"^[>\s]*{_TIME}(?:#{{1,6}}[ \t]+)?[*_\[<]{{0,2}}{_NAME}[*_\]>]{{0,2}}:[*_]{{0,2}}(?=\s|$)"
)
_MARK = r"^(?P<name>[>\u276f\u23fa\u203a\u2022])\s"
_LABEL_CHARACTERS_MAX = 80
_FENCE = r"^[>\s]*(?:`{3,}|~{3,})\S*\s*$"


class _Utterance(Struct, frozen=True):
    """A line with which somebody begins to speak."""

    at: int
    name: str


def goal_of(prompt: str) -> str:
    """Return what is asked in a prompt, within GOAL_CHARACTERS_MAX; empty for a blank one."""
    lines = prompt.strip().splitlines()
    spoken = _conversation(lines)
    first, end = _span(lines, spoken) if spoken else (0, 0)
    # Left whole: a few quoted lines are often what the question is about.
    if end - first < CONVERSATION_LINES_MIN:
        return shortened(prompt.strip(), GOAL_CHARACTERS_MAX)
    before, after = "\n".join(lines[:first]).strip(), "\n".join(lines[end:]).strip()
    left_out = f"[… {end - first} lines of a conversation that was pasted here]"
    asked = "" if before or after else _asked(lines, spoken, end)
    pieces = (before, left_out, after, asked)
    return shortened("\n\n".join(piece for piece in pieces if piece), GOAL_CHARACTERS_MAX)


def _conversation(lines: Sequence[str]) -> list[_Utterance]:
    """Return who speaks where; empty where there is no conversation for certain."""
    labelled = [_utterance(at, line) for at, line in enumerate(lines)]
    found = [each for each in labelled if each]
    names = {each.name for each in found}
    for asking, answering in _SPEAKERS:
        if names & asking and names & answering:
            return [each for each in found if each.name in asking | answering]
    # A heading such as "Note:" stands once; who speaks in a conversation does so again.
    often = {name for name, count in Counter(each.name for each in found).items() if count > 1}
    spoken = [each for each in found if each.name in often and each.name[0].isupper()]
    # Speakers take turns; the keys of a pasted configuration or log repeat in runs.
    changes = sum(a.name != b.name for a, b in pairwise(spoken))
    is_one = 1 < len({each.name for each in spoken}) <= SPEAKERS_MAX
    return spoken if is_one and len(spoken) >= UTTERANCES_MIN and 2 * changes > len(spoken) else []


def _utterance(at: int, line: str) -> _Utterance | None:
    # Only a line's beginning: the pattern must not walk through a pasted megabyte.
    match = re.match(_LABEL, line[:_LABEL_CHARACTERS_MAX]) or re.match(_MARK, line)
    if match is None:
        return None
    name = match["name"]
    return _Utterance(at, name.casefold() if name.casefold() in _KNOWN else name)


def _span(lines: Sequence[str], spoken: Sequence[_Utterance]) -> tuple[int, int]:
    """Return the first line of a conversation and the one after its last, fences included."""
    first, end = spoken[0].at, spoken[-1].at + 1
    while end < len(lines) and lines[end].strip() and not re.match(_FENCE, lines[end]):
        end += 1
    if first and re.match(_FENCE, lines[first - 1]):
        first -= 1
    if end < len(lines) and re.match(_FENCE, lines[end]):
        end += 1
    return first, end


def _asked(lines: Sequence[str], spoken: Sequence[_Utterance], end: int) -> str:
    """Return the words of the speakers named like a user, else of the one who spoke first."""
    ends = [*(each.at for each in spoken[1:]), end]
    asking = _ASKING if {each.name for each in spoken} & _ASKING else {spoken[0].name}
    asked = (
        "\n".join(lines[each.at : until]).strip()
        for each, until in zip(spoken, ends, strict=True)
        if each.name in asking
    )
    return shortened("\n".join(asked), GOAL_FROM_PASTED_CHARACTERS_MAX)


TITLE = "# Briefing"
CLOSING = "Do not repeat work already completed. Build on this briefing."
NOTE = "A person's note"
MARK = "*Edited by a person.*"
EDIT_CHARACTERS_MAX = 64 * 1024

_HEADING = "## "


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

    sections: Mapping[str, EditedSection] = {}
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
