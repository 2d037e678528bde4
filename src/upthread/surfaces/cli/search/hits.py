"""Hits: where the words stand in what was said, as it may be shown: redacted first, looked at then.

What is gone once it is redacted was never found. Of a message that is long only what is around the
words is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from upthread.agent_stores.text_search import Said, Words

CONTEXT_CHARACTERS: Final = 120
REDACTED_CHARACTERS: Final = 128 * 1024
"""So much around the words is redacted: more than the longest secret."""


class Hit(Struct, frozen=True, kw_only=True):
    """Words that were found: in which session, who said them, and what stands around them.

    `address` is set for what is in our own record. `resume_command` is what opens it,
    `unarchive_command` what comes before that for a session that was archived.
    """

    agent: str
    session_id: str
    speaker: str
    at_ms: int
    text: str
    directory: str = ""
    role: str = ""
    title: str = ""
    address: str = ""
    resume_command: tuple[str, ...] | None = None
    unarchive_command: tuple[str, ...] | None = None


def found_in(said: Said, words: Words, redact: Callable[[str], str]) -> str | None:
    """Return what stands around the words in a text, None where they are not in it."""
    place = words.place_in(said.text)
    if place is None:
        return None
    start = max(0, place - REDACTED_CHARACTERS // 2)
    around = redact(said.text[start : start + REDACTED_CHARACTERS])
    place = words.place_in(around)
    if place is None:
        return None
    begun = max(0, place - CONTEXT_CHARACTERS // 3)
    text = " ".join(around[begun : begun + CONTEXT_CHARACTERS].split())
    return f"{'…' if begun else ''}{text}{'…' if begun + CONTEXT_CHARACTERS < len(around) else ''}"
