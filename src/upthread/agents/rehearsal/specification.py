"""The specification: the small grammar of Markdown the five roles can work on. Pure.

    ## Requirements                      (any heading)
    - R1 `greeter/words.py`: what it is for
      ```python
      what the file must hold; <opening> stands for the answer to an open question
      ```
    - R2 `greeter/greet.py`: … (easy to miss)      the planner's first plan misses it
    - R3 `README.md`: … (easy to break)            the constructor forgets it at first
    ## Open
    - OPEN opening: Which word does a greeting begin with?
    ## Check
    ```sh
    python -I check.py
    ```
    ## Release
    ```sh
    python -I deploy.py                          the constructor runs it when its files are written
    ```

A requirement is met when its file holds its block. Several requirements may share a file.

Below it, Markdown as far as the rehearsal reads it: lines, code fences, headings, lists.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+-]*)")
_HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_ITEM: Final = re.compile(r"^\s*(?:[-*]|\d+\.)\s+(.*)$")
_CODE: Final = re.compile(r"`([^`\n]+)`")
EASY_TO_MISS: Final = "(easy to miss)"
EASY_TO_BREAK: Final = "(easy to break)"
REQUIREMENT_ID: Final = r"[A-Z]{1,8}\d{1,4}"
_REQUIREMENT: Final = re.compile(rf"\**({REQUIREMENT_ID})\b[:.*]*\s+(.*)$")
_OPEN: Final = re.compile(r"OPEN\s+([\w.-]+):\s*(.+)$")
_LEADING_PATH: Final = re.compile(r"^`[^`]+`\s*[:-]?\s*")
_PLACEHOLDER: Final = re.compile(r"<([\w.-]+)>")


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
    paths = [word for word in code_words(words) if _looks_like_path(word)]
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


def _looks_like_path(word: str) -> bool:
    return " " not in word and ("/" in word or "." in word) and not word.endswith(")")
