"""The goal: what is asked in a first prompt, without a conversation that was pasted into it.

A prompt may carry pages of somebody's conversation and one line about it. A briefing tells what is
asked: the words around what was pasted, and where there are none what the one who asks said in it.
A conversation is found by what begins its lines, in the forms that people paste: `User:`, names
with times, the marks of agents' own interfaces. What is none for certain is left in, and all is
bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from upthread.core.text.markdown import shortened

GOAL_CHARACTERS_MAX: Final = 4_000
ASKED_CHARACTERS_MAX: Final = 1_000
"""What is kept of a conversation with nothing around it."""

CONVERSATION_LINES_MIN: Final = 12
"""A shorter one is left in."""

SPEAKERS_MAX: Final = 4
"""More than these are the headings of a text."""

UTTERANCES_MIN: Final = 8
"""Fewer are no conversation, where the speakers' names say nothing."""

_SPEAKERS: Final = (
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

_ASKING: Final = frozenset[str]().union(*(asking for asking, _ in _SPEAKERS))
_KNOWN: Final = _ASKING.union(*(answering for _, answering in _SPEAKERS))
_TIME: Final = r"(?:[\[(]?\d{1,4}[-:./\dT ]{2,20}(?:[AaPp][Mm])?[\])]?[ \t,-]*)?"
_NAME: Final = r"(?P<name>[^\W\d_][\w.'-]*(?: [\w.'-]+){0,2})"
_LABEL: Final = re.compile(
    rf"^[>\s]*{_TIME}(?:#{{1,6}}[ \t]+)?[*_\[<]{{0,2}}{_NAME}[*_\]>]{{0,2}}:[*_]{{0,2}}(?=\s|$)"
)
_MARK: Final = re.compile(r"^(?P<name>[>\u276f\u23fa\u203a\u2022])\s")
_LABEL_CHARACTERS_MAX: Final = 80
_FENCE: Final = re.compile(r"^[>\s]*(?:`{3,}|~{3,})\S*\s*$")


class _Utterance(NamedTuple):
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
    match = _LABEL.match(line[:_LABEL_CHARACTERS_MAX]) or _MARK.match(line)
    if match is None:
        return None
    name = match["name"]
    return _Utterance(at, name.casefold() if name.casefold() in _KNOWN else name)


def _span(lines: Sequence[str], spoken: Sequence[_Utterance]) -> tuple[int, int]:
    """Return the first line of a conversation and the one after its last, fences included."""
    first, end = spoken[0].at, spoken[-1].at + 1
    while end < len(lines) and lines[end].strip() and not _FENCE.match(lines[end]):
        end += 1
    if first and _FENCE.match(lines[first - 1]):
        first -= 1
    if end < len(lines) and _FENCE.match(lines[end]):
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
    return shortened("\n".join(asked), ASKED_CHARACTERS_MAX)
