"""A session's history, read: what a role was told, what was said, which files it saw.

Nothing is remembered between prompts. Each prompt reads the session's file again.

What a role was told are the sections of all prompts of its session, the later ones winning.
Sections are first-level headings: `# Specification`, `# Report of ROLE`, `# Answers`, `# Briefing`;
any other heading ends a section and is news. A briefing counts as the role's own memory, since it
is all that is left of it.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from upthread.agents.rehearsal.protocol import Json

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+-]*)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+(.*)$")
_CODE = re.compile(r"`([^`\n]+)`")
EASY_TO_MISS = "(easy to miss)"
EASY_TO_BREAK = "(easy to break)"
REQUIREMENT_ID = r"[A-Z]{1,8}\d{1,4}"
_REQUIREMENT = re.compile(rf"\**({REQUIREMENT_ID})\b[:.*]*\s+(.*)$")
_OPEN = re.compile(r"OPEN\s+([\w.-]+):\s*(.+)$")
_LEADING_PATH = re.compile(r"^`[^`]+`\s*[:-]?\s*")
_PLACEHOLDER = re.compile(r"<([\w.-]+)>")


class Line(NamedTuple):
    """A line and whether it belongs to a code fence, the fence's own two lines included."""

    text: str
    is_code: bool
    is_fence: bool


def lines_of(text: str) -> Iterator[Line]:
    """Return the lines of a text, told apart by the fences around them."""
    opened = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        fence = found[1] if found else ""
        if opened:
            closes = fence.startswith(opened) and not line.strip().strip(fence[:1])
            yield Line(line, is_code=True, is_fence=closes)
            opened = "" if closes else opened
        else:
            opened = fence
            yield Line(line, is_code=bool(fence), is_fence=bool(fence))


def heading_of(line: Line) -> tuple[int, str]:
    """Return level and words of a heading; level 0 for any other line."""
    found = None if line.is_code else _HEADING.match(line.text)
    return (len(found[1]), found[2]) if found else (0, "")


def item_of(line: Line) -> str:
    """Return the words of a list item; empty for any other line."""
    found = None if line.is_code else _ITEM.match(line.text)
    return found[1].strip() if found else ""


def items_of(text: str) -> list[str]:
    """Return the words of all list items in a text."""
    return [item for line in lines_of(text) if (item := item_of(line))]


def code_words(text: str) -> list[str]:
    """Return what stands in backticks outside of code fences, in order, each once."""
    prose = "\n".join(line.text for line in lines_of(text) if not line.is_code)
    return list(dict.fromkeys(_CODE.findall(prose)))


def section_of(text: str, heading: str, *, level: int) -> str:
    """Return what stands under a heading, up to the next of its level or above; empty if none."""
    body: list[str] = []
    is_inside = False
    for line in lines_of(text):
        found_level, words = heading_of(line)
        if found_level and found_level <= level:
            is_inside = found_level == level and words.lower() == heading.lower()
        elif is_inside:
            body.append(line.text)
    return "\n".join(body)


def dedented(lines: Sequence[str]) -> str:
    """Return lines without the indentation they share."""
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins, default=0)
    return "\n".join(line[margin:].rstrip() for line in lines)


class Requirement(NamedTuple):
    """One thing to build: `block` is what the file at `path` must hold. Both may be empty."""

    id: str
    path: str
    what: str
    block: str
    is_easy_to_miss: bool
    is_easy_to_break: bool


class Specification(NamedTuple):
    """A specification, read. `open_questions` are texts by id, in order."""

    requirements: tuple[Requirement, ...]
    open_questions: Mapping[str, str]
    check: tuple[tuple[str, ...], ...]
    release: tuple[tuple[str, ...], ...]
    code_words: tuple[str, ...]

    def requirement(self, requirement_id: str) -> Requirement | None:
        """Return a requirement by its id."""
        return next((one for one in self.requirements if one.id == requirement_id), None)

    def filled_in(self, block: str, answers: Mapping[str, str]) -> tuple[str, list[str]]:
        """Return a block with the answers in place, and the ids that have no answer yet."""
        missing: list[str] = []

        def replaced(found: re.Match[str]) -> str:
            question_id = found[1]
            if question_id not in self.open_questions:
                return found[0]
            if question_id not in answers:
                missing.append(question_id)
            return answers.get(question_id, found[0])

        return _PLACEHOLDER.sub(replaced, block), missing

    def is_held(self, block: str, text: str, answers: Mapping[str, str]) -> bool:
        """Return whether a file's text holds a block; an answer not known may be any words."""
        filled, missing = self.filled_in(block, answers)
        pattern = re.escape(filled)
        for question_id in missing:
            pattern = pattern.replace(re.escape(f"<{question_id}>"), ".+?")
        return re.search(rf"^{pattern}\s*?$", text, re.MULTILINE) is not None


def parse_specification(text: str) -> Specification:
    """Return what a specification says; what the grammar does not know is prose and left out."""
    open_items = (item_of(line) for line in lines_of(section_of(text, "Open", level=2)))
    found = (_OPEN.match(item) for item in open_items)
    return Specification(
        requirements=tuple(_requirement(*piece) for piece in _pieces(text)),
        open_questions={one[1]: one[2].strip() for one in found if one},
        check=tuple(_commands(section_of(text, "Check", level=2))),
        release=tuple(_commands(section_of(text, "Release", level=2))),
        code_words=tuple(code_words(text)),
    )


def _pieces(text: str) -> Iterable[tuple[str, list[Line]]]:
    """Return (id, lines) for each requirement, up to the next item or heading."""
    current: tuple[str, list[Line]] | None = None
    for line in lines_of(text):
        found = _REQUIREMENT.match(item_of(line))
        if found or heading_of(line)[0] or item_of(line):
            if current:
                yield current
            first = Line(found[2], is_code=False, is_fence=False) if found else line
            current = (found[1], [first]) if found else None
        elif current:
            current[1].append(line)
    if current:
        yield current


def _requirement(requirement_id: str, lines: list[Line]) -> Requirement:
    prose: list[str] = []
    for line in lines:
        if line.is_code:
            break
        prose.append(line.text.strip())
    words = " ".join(filter(None, prose))
    paths = [
        word
        for word in code_words(words)
        if " " not in word and ("/" in word or "." in word) and not word.endswith(")")
    ]
    what = _LEADING_PATH.sub("", words)
    for mark in (EASY_TO_MISS, EASY_TO_BREAK):
        what = what.replace(mark, "")
    return Requirement(
        id=requirement_id,
        path=paths[0] if paths else "",
        what=" ".join(what.split()),
        block=_first_block(lines),
        is_easy_to_miss=EASY_TO_MISS in words,
        is_easy_to_break=EASY_TO_BREAK in words,
    )


def _first_block(lines: Iterable[Line]) -> str:
    block: list[str] = []
    fences = 0
    for line in lines:
        fences += line.is_fence
        if line.is_code and not line.is_fence and fences == 1:
            block.append(line.text)
    return dedented(block).strip("\n")


def _commands(text: str) -> Iterable[tuple[str, ...]]:
    lines = [line.text.strip() for line in lines_of(text) if line.is_code and not line.is_fence]
    for line in lines or code_words(text):
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            yield tuple(words)


# --- what was said and done -----------------------------------------------------------------------


# As upthread's own continuation has it (core/turns/turn.py).
_GOES_ON_WITH = "Its prompt was:\n"
_ROLE_BLOCK = re.compile(r'^<role name="([a-z0-9][a-z0-9_-]*)">', re.MULTILINE)
_REPORT = re.compile(r"Report of ([a-z0-9][a-z0-9_-]*)$")
_KNOWN = re.compile(rf"Task$|Specification$|Answers$|Briefing$|{_REPORT.pattern}")
_VERDICT = re.compile(r"^## Verdict: (approved|rejected)\s*$", re.MULTILINE)
_ANSWER = re.compile(r"^([\w.-]+):\s*(.+)$")
_ARROW = " → "
# A briefing says behind each item whose word it was.
_SOURCE = re.compile(r"\s\([a-z0-9][a-z0-9_-]*(?:, message \d+)?\)$")
_PLANNED = re.compile(rf"({REQUIREMENT_ID})\s+→")


class History:
    """The entries of a session, oldest first."""

    def __init__(self, entries: Sequence[Json]) -> None:
        self._entries = entries

    @property
    def prompts(self) -> list[str]:
        """All prompts, the running one last."""
        return [str(entry["text"]) for entry in self._entries if entry["entry"] == "prompt"]

    @property
    def told(self) -> list[str]:
        """All prompts as a reader takes them: the one a continuation quotes may be news."""
        return ["\n\n".join([prompt, *_quoted(prompt)]) for prompt in self.prompts]

    @property
    def replies(self) -> list[str]:
        """The agent's own words, one text per prompt; empty where it said nothing."""
        replies: list[str] = []
        for entry in self._entries:
            if entry["entry"] == "prompt":
                replies.append("")
            elif replies:
                replies[-1] += _spoken(entry)
        return replies

    @property
    def role(self) -> str:
        """The role the newest role block names; empty without one."""
        found = [name for prompt in self.told for name in _ROLE_BLOCK.findall(prompt)]
        return found[-1] if found else ""

    @property
    def has_spoken(self) -> bool:
        """Whether the agent has said anything in this session."""
        return any(self.replies)

    @property
    def calls_of_children(self) -> int:
        """How many sub-agents were called in this session."""
        return sum(
            "childSessionId" in (update.get("rawInput") or {})
            for update in self._updates
            if update["sessionUpdate"] == "tool_call"
        )

    @property
    def files_read(self) -> frozenset[str]:
        """The paths, as asked for, of all files whose content this session holds."""
        asked = {
            update["toolCallId"]: str(update["rawInput"]["path"])
            for update in self._updates
            if update["sessionUpdate"] == "tool_call" and update["kind"] == "read"
        }
        return frozenset(
            asked[update["toolCallId"]]
            for update in self._updates
            if update.get("status") == "completed" and update["toolCallId"] in asked
        )

    @property
    def _updates(self) -> list[Json]:
        return [entry["update"] for entry in self._entries if entry["entry"] == "update"]


def replay(entries: Sequence[Json], *, names_messages: bool) -> list[Json]:
    """Return a history as the ACP updates that tell it, those of the agent word for word.

    Without ids of messages where it does not `names_messages`, which ACP leaves to the agent.
    """
    updates: list[Json] = []
    for entry in entries:
        if entry["entry"] == "prompt":
            content = {"type": "text", "text": entry["text"]}
            updates.append(
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": content,
                    "messageId": entry["messageId"],
                }
            )
        elif entry["entry"] == "update":
            updates.append(cast("Json", entry["update"]))
    if names_messages:
        return updates
    return [{k: v for k, v in update.items() if k != "messageId"} for update in updates]


def _quoted(prompt: str) -> list[str]:
    """Return the prompt that a continuation goes on with, and the one that this goes on with."""
    lines = prompt.partition(_GOES_ON_WITH)[2].splitlines()
    quoted = [line.removeprefix(">").removeprefix(" ") for line in lines if line.startswith(">")]
    inner = "\n".join(quoted)
    return [inner, *_quoted(inner)] if inner else []


def _spoken(entry: Json) -> str:
    update: Any = entry.get("update")
    if entry["entry"] != "update" or update["sessionUpdate"] != "agent_message_chunk":
        return ""
    return str(update["content"]["text"])


class Section(NamedTuple):
    """A part of a prompt; the title is empty for what comes before the first heading."""

    title: str
    body: str


class Told:
    """The sections of a session's prompts, oldest first."""

    def __init__(self, prompts: Sequence[str]) -> None:
        self._prompts = [sections_of(prompt) for prompt in prompts]
        self._newest_prompt = prompts[-1]

    @property
    def specification(self) -> str:
        """The newest specification; empty when none was given."""
        return self._newest("Specification")

    def report(self, role: str) -> str:
        """Return a role's newest report; empty when none was given."""
        return self._newest(f"Report of {role}")

    @property
    def news(self) -> str:
        """What the newest prompt says outside of the sections known."""
        return "\n".join(one.body for one in self._prompts[-1] if not _KNOWN.match(one.title))

    def may_be_done(self, action: str) -> bool:
        """Return whether the newest prompt lists an action as done, or as perhaps done.

        Quoted lines count: a continuation quotes the prompt it goes on with.
        """
        lines = [line.lstrip("> ") for line in self._newest_prompt.splitlines()]
        known = [line for line in lines if line.startswith(f"- {action}: ")]
        return any(not line.endswith(": failed") for line in known)

    def rejections(self, role: str) -> str:
        """Return the evidence of all rejecting verdicts of a role; empty when it rejected none."""
        return "\n".join(
            section.body[found.end() :].strip() or "rejected"
            for section in self._all
            if section.title == f"Report of {role}"
            for found in _VERDICT.finditer(section.body)
            if found[1] == "rejected"
        )

    def answers(self, questions: Mapping[str, str]) -> dict[str, str]:
        """Return answers by question id, from answers, decisions reported, and briefings."""
        answers: dict[str, str] = {}
        for section in self._all:
            for item in _answering_items(section):
                found = _answer(item, questions)
                if found:
                    answers[found[0]] = found[1]
        return answers

    @property
    def briefings(self) -> list[str]:
        """All briefings."""
        return [section.body for section in self._all if section.title == "Briefing"]

    @property
    def _all(self) -> list[Section]:
        return [section for prompt in self._prompts for section in prompt]

    def _newest(self, title: str) -> str:
        found = [section.body for section in self._all if section.title == title]
        return found[-1] if found else ""


def sections_of(prompt: str) -> list[Section]:
    """Return a prompt's sections. A document's own title, right under a heading, ends nothing."""
    sections = [("", list[str]())]
    for line in lines_of(prompt):
        level, words = heading_of(line)
        is_empty = not any(text.strip() for text in sections[-1][1])
        is_title = is_empty and sections[-1][0] == "Specification" and not _KNOWN.match(words)
        if level == 1 and not is_title:
            sections.append((words, []))
        else:
            sections[-1][1].append(line.text)
    return [Section(title, "\n".join(body).strip()) for title, body in sections]


def planned_ids(text: str) -> list[str]:
    """Return the requirements a plan names, in order: lines like `1. R1 → file: what`."""
    found = (_PLANNED.match(item_of(line)) for line in lines_of(text))
    return list(dict.fromkeys(one[1] for one in found if one))


def _answering_items(section: Section) -> Iterable[str]:
    if section.title == "Answers":
        return items_of(section.body)
    if section.title == "Briefing":
        return [_SOURCE.sub("", item) for item in items_of(section.body)]
    if _REPORT.match(section.title):
        return items_of(section_of(section.body, "Decisions", level=2))
    return []


def _answer(item: str, questions: Mapping[str, str]) -> tuple[str, str] | None:
    """Read `id: QUESTION → ANSWER` or `id: ANSWER`; the question's text counts more than its id."""
    found = _ANSWER.match(item)
    if found is None:
        return None
    question_id, said = found[1], found[2]
    for known_id, text in questions.items():
        if said.startswith(text + _ARROW):
            return known_id, said[len(text + _ARROW) :].strip()
    if question_id not in questions:
        return None
    return question_id, said.split(_ARROW, 1)[-1].strip()
