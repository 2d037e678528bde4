"""A session's history, read: what was said, who the agent was told to be, which files it saw.

Nothing is remembered between prompts. Each prompt reads the session's file again.

What a role was told are the sections of all prompts of its session, the later ones winning.
Sections are first-level headings: `# Specification`, `# Report of ROLE`, `# Answers`, `# Briefing`;
any other heading ends a section and is news. A briefing counts as the role's own memory, since it
is all that is left of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from upthread.agents.rehearsal.protocol import Json
from upthread.agents.rehearsal.specification import (
    REQUIREMENT_ID,
    heading_of,
    item_of,
    items_of,
    lines_of,
    section_of,
)

# As upthread's own continuation has it (core/turns/prompt.py).
_GOES_ON_WITH: Final = "Its prompt was:\n"
_ROLE_BLOCK: Final = re.compile(r'^<role name="([a-z0-9][a-z0-9_-]*)">', re.MULTILINE)
_REPORT: Final = re.compile(r"Report of ([a-z0-9][a-z0-9_-]*)$")
_KNOWN: Final = re.compile(rf"Task$|Specification$|Answers$|Briefing$|{_REPORT.pattern}")
_VERDICT: Final = re.compile(r"^## Verdict: (approved|rejected)\s*$", re.MULTILINE)
_ANSWER: Final = re.compile(r"^([\w.-]+):\s*(.+)$")
_ARROW: Final = " → "
# A briefing says behind each item whose word it was.
_SOURCE: Final = re.compile(r"\s\([a-z0-9][a-z0-9_-]*(?:, message \d+)?\)$")
_PLANNED: Final = re.compile(rf"({REQUIREMENT_ID})\s+→")


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
