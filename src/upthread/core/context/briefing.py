"""The briefing: what a fresh session starts from when the conversation is older than it.

Deterministic Markdown from the record. Five parts are always there, "none" where nothing is known:
the goal, decisions, findings, what has changed, and the focus, which is the task of this turn. An
earlier prompt is a decision of the person's: one line of it is told. Other parts follow where they
have something: actions, answers, a plan, files, the last report's summary, which is often the whole
plan, or the last reply. No model is asked, no transcript is copied. CAPS limits each part, and says
which are cut first where all of them are too much; what is cut says so.

A person may edit it, and a caller may give one. Each section of that text is theirs from then on;
one that a person took out stays out; what stands under no heading of ours is a note. A section that
was edited still gains what comes up later. Text whose structure is broken is kept whole as a note,
and nothing else changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.decision.freshness import CHANGED, NO_CHANGES
from upthread.core.roles.reports import Report, without_report
from upthread.core.text import code, item, neutral, one_line, shortened

BRIEFING_CHARACTERS_MAX = 4_000
"""The whole, some thousand tokens, without the last report's summary and a person's own words."""
BESIDE_WHOLE_CHARACTERS_MIN = 2_500
"""What everything else has beside a long summary or much that a person wrote."""
SUMMARY_CHARACTERS_MAX = 12_000
STATED_CHARACTERS_MAX = 400
"""What is told of one decision or finding."""
ASKED_CHARACTERS_MAX = 160
"""What is told of an earlier prompt: its beginning and its end, on one line."""

GOAL = "Goal"
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
FOCUS = "Focus for this session"

CAPS = {
    FILES: 800,
    REPLY: 1_000,
    PLAN: 800,
    ANSWERED: 800,
    FOUND: 1_200,
    DECIDED: 1_600,
    CHANGED: 800,
    DONE: 1_200,
    OPEN: 600,
    CUT_OFF: 800,
    GOAL: 1_500,
    FOCUS: 600,
}
"""The characters of each part at most, in the order in which they are cut; the focus stays."""

ALWAYS = frozenset({GOAL, DECIDED, FOUND, CHANGED, FOCUS})
ALWAYS_CHARACTERS_MIN = 500
"""What each part that is always there keeps, however much has to be cut."""
NONE = "none"
UNKNOWN_CHANGES = "not looked at"

_CUT = "\n[… cut]"
_LEFT_OUT_CHARACTERS = 40
"""Room for the line that says how many items were left out."""


class Reported(Struct, frozen=True):
    """A report, who gave it, and the message it came from where that is known."""

    role: str
    report: Report
    place: str = ""


class BriefingInputs(Struct, frozen=True, kw_only=True):
    """What a briefing is made of; what is empty has no section, or says "none".

    `asked` are the prompts after the first one, oldest first: what they forbid still holds.
    `reports` are oldest first; what several of them say is told once. `summary` is the last one's
    of the role itself, and stands in the place of its last reply. `changes`, `cut_off` and
    `effects` are sentences; `changes` is None where nobody looked. `answers` are (question,
    answer); `plan` is (entry, status). Files are paths, the last examined last. `task` is what
    this turn asks, empty before there is a prompt. `is_independent` is a role that judges.
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
    task: str = ""
    edit: BriefingEdit | None = None
    is_independent: bool = False


def build_briefing(inputs: BriefingInputs) -> str:
    """Return the briefing as Markdown within its limits; empty when nothing is known."""
    kept = _within(sections_of(inputs))
    closing = JUDGE if inputs.is_independent else CLOSING
    return "\n\n".join([TITLE, *(section.text for section in kept), closing]) if kept else ""


def sections_of(inputs: BriefingInputs) -> tuple[Section, ...]:
    """Return the sections in order, with a person's edit applied; empty when nothing is known."""
    made = list(_made(inputs))
    known = {section.heading for section in made if section.items} - {FOCUS}
    if not inputs.changes:
        known -= {CHANGED}  # that nothing has changed is no news by itself
    edit = inputs.edit or BriefingEdit()
    if not known and edit == BriefingEdit():
        return ()
    filled = [
        section if section.items else replace(section, items=(NONE,))
        for section in made
        if section.items or section.heading in ALWAYS
    ]
    return with_edit(filled, edit)


def _made(inputs: BriefingInputs) -> Iterable[Section]:
    reports = inputs.reports
    summary = _cut(inputs.summary.strip(), SUMMARY_CHARACTERS_MAX)
    # One of the two: a summary says the same in fewer words.
    reply = "" if summary else without_report(inputs.last_reply)
    edited = tuple(f"edited {code(path)}" for path in inputs.files_edited)
    read = tuple(
        f"read {code(path)}" for path in inputs.files_read if path not in inputs.files_edited
    )
    # A prompt that was sent again, after a failure say, is one prompt.
    asked = dict.fromkeys(map(one_line, inputs.asked))
    wanted = [f"{one_line(shortened(each, ASKED_CHARACTERS_MAX))} (asked)" for each in asked]
    decided = _stated((each, text) for each in reports for text in each.report.decisions)
    found = _stated((each, text) for each in reports for text in each.report.findings)
    changes = (UNKNOWN_CHANGES,) if inputs.changes is None else inputs.changes or (NO_CHANGES,)
    yield _prose(GOAL, shortened(inputs.goal.strip(), CAPS[GOAL]))
    yield _list(DECIDED, [*wanted, *decided])
    yield _list(FOUND, found)
    yield _list(CHANGED, changes)
    yield _list(CUT_OFF, inputs.cut_off)
    yield _list(DONE, inputs.effects)
    yield _list(ANSWERED, [f"{one_line(q)} → {one_line(a)}" for q, a in inputs.answers])
    yield _list(OPEN, inputs.open_questions)
    yield _list(PLAN, [f"{one_line(text)} ({status})" for text, status in inputs.plan])
    yield _list(FILES, (*read, *edited))
    yield _prose(SUMMARY, summary)
    yield _prose(REPLY, _cut(reply, CAPS[REPLY]))
    yield _prose(FOCUS, shortened(goal_of(inputs.task), CAPS[FOCUS]))


def _stated(stated: Iterable[tuple[Reported, str]]) -> list[str]:
    """Return sentences of reports, each once, with who said it and in which message."""
    first: dict[str, Reported] = {}
    for each, text in stated:
        first.setdefault(shortened(text.strip(), STATED_CHARACTERS_MAX), each)
    return [f"{text} ({_source(each)})" for text, each in first.items()]


def _source(reported: Reported) -> str:
    return f"{reported.role}, {reported.place}" if reported.place else reported.role


def _prose(heading: str, text: str) -> Section:
    return Section(heading=heading, items=(neutral(text),) if text else ())


def _list(heading: str, texts: Sequence[str]) -> Section:
    section = Section(heading=heading, items=tuple(map(item, texts)), is_list=True)
    return _shortened(section, CAPS[heading])


# --- the budget --------------------------------------------------------------------------------


def _within(sections: Sequence[Section]) -> list[Section]:
    """Shorten sections in the order of CAPS until all of them fit, or nothing is left to cut."""
    kept = {section.heading: section for section in sections}
    # A person's words are never cut: they were written to be read.
    whole = {each.heading for each in sections if each.is_edited or each.heading == SUMMARY}
    of_whole = sum(_length(kept[heading]) for heading in whole)
    room = max(BRIEFING_CHARACTERS_MAX - of_whole, BESIDE_WHOLE_CHARACTERS_MIN)
    over = sum(map(_length, sections)) - of_whole + len(TITLE) + len(JUDGE) - room
    for heading in CAPS:
        section = kept.get(heading)
        if over <= 0 or section is None or heading in whole or heading == FOCUS:
            continue
        least = ALWAYS_CHARACTERS_MIN if heading in ALWAYS else 0
        shorter = _shortened(section, max(_length(section) - over, least))
        over -= _length(section) - _length(shorter)
        kept[heading] = shorter
    return list(kept.values())


def _length(section: Section) -> int:
    return len(section.text) + 2


def _shortened(section: Section, characters_max: int) -> Section:
    """Return a section within so many characters: of a list the newest items, of prose the head."""
    if _length(section) <= characters_max:
        return section
    if not section.is_list:
        text = section.items[0][: max(characters_max - len(_CUT) - 1, 0)]
        return replace(section, items=(f"{text}{_CUT}".strip(),))
    room = characters_max - _LEFT_OUT_CHARACTERS
    taken = accumulate(len(each) + 1 for each in reversed(section.items))
    left = len(section.items) - sum(total <= room for total in taken)
    # Newest last and kept: a later decision may take an earlier one back.
    newest = section.items[left:]
    left_out = f"- [… {left} older ones left out]"
    return replace(section, items=(left_out, *newest))


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[:characters_max] + _CUT


# --- the goal -------------------------------------------------------------------------------------


GOAL_CHARACTERS_MAX = 4_000
"""What is read of a prompt. A briefing tells less of it."""
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
JUDGE = "This is background, not a verdict. Check the work itself, and judge by what you find."
NOTE = "Note"
MARK = "*Given, not generated.*"
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
        heading=section.heading, items=(*text, *new), is_list=section.is_list, is_edited=bool(text)
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


def given_edit(text: str, *, made: Sequence[Section], before: BriefingEdit) -> BriefingEdit:
    """Return the edit that a caller's briefing makes; `made` is the one that it stands in place of.

    A heading counts in any case, with or without `##` and a colon. A section that the text does not
    have stays as it is made.
    """
    names = {each.casefold(): each for each in (*CAPS, SUMMARY, NOTE)}
    read = re.compile(rf"^(?:#+\s*)?({'|'.join(map(re.escape, names))})\s*:?\s*$", re.IGNORECASE)
    lines = (
        read.sub(lambda m: _HEADING + names[m[1].casefold()], each) for each in text.split("\n")
    )
    loose, found, _ = _split("\n".join(lines), set(names.values()))
    seen = {section.heading: section.items for section in made}
    given = {
        heading: EditedSection(text=body, seen=seen.get(heading, (NONE,)))
        for heading, body in found.items()
        if heading != NOTE
    }
    note = "\n\n".join(filter(None, (found.get(NOTE, ""), loose)))
    # Whoever gives this one has not seen an earlier note: it is not theirs to take out.
    return BriefingEdit(sections={**before.sections, **given}, note=note or before.note)


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
    lines = [
        line for line in edited.splitlines() if line.strip() not in {TITLE, MARK, CLOSING, JUDGE}
    ]
    yield None, list(takewhile(lambda line: not line.startswith(_HEADING), lines))
    starts = [index for index, line in enumerate(lines) if line.startswith(_HEADING)]
    for start, end in pairwise([*starts, len(lines)]):
        yield lines[start].removeprefix(_HEADING).strip(), lines[start + 1 : end]
