"""Hits: where the words stand in what was said, as it may be shown: redacted first, looked at then.

What is gone once it is redacted was never found. Of a message that is long only what is around the
words is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from upthread.agent_stores.text_search import Said, Words, texts_in
from upthread.client.project import Project
from upthread.core.types import (
    Conversation,
    ErasedPart,
    Link,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from upthread.store.base import Store

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


# --- our own record ------------------------------------------------------------------------------
# Hits in our own record, and which of the agents' sessions were forgotten here.
#
# What a person had us forget is not found again in an agent's own copy of it. The record is gone
# through from its newest end, some messages at a time: however much there is, the newest hit is
# told at once, and no more is held than those. Most are looked at as they are stored, and never
# made.

MESSAGES_AT_ONCE: Final = 128


def own_hits(project: Project, words: Words, forgotten: set[str]) -> Iterator[Hit]:
    """Yield the hits of a project's record, of the conversation first that was used last.

    `forgotten` is given the sessions of which something was erased: all of them, at the end.
    """
    store = project.store
    for conversation in _newest_first(project):
        by_session: dict[str, Link] | None = None
        for message in _backwards(store, conversation, words):
            if by_session is None:  # most conversations have none of the words
                links = store.links(conversation.conversation_id)
                by_session = {str(each.upstream_session_id): each for each in links}
            session = message.upstream_session_id
            if session and any(isinstance(part, ErasedPart) for part in message.parts):
                forgotten.add(session)
            link = by_session.get(session) if session else None
            yield from _hits_of(message, conversation, link, words)


def _newest_first(project: Project) -> list[Conversation]:
    store = project.store
    used: list[tuple[int, int, Conversation]] = []
    for workstream in store.workstreams(project.project_id):
        for each in store.conversations(project.project_id, workstream.workstream):
            for newest in store.messages(each.conversation_id, newest=1):
                used.append((-newest.recorded_at_ms, len(used), each))
    return [each for _, _, each in sorted(used)]


def _backwards(store: Store, conversation: Conversation, words: Words) -> Iterator[Message]:
    """Yield a conversation's messages that may have the words, the newest first.

    And those of which something was erased.
    """
    owner, until = conversation.conversation_id, store.message_count(conversation.conversation_id)
    while until > 0:
        after = max(0, until - MESSAGES_AT_ONCE)
        contents = store.said_in_messages(owner, after_seq=after, first=until - after)
        # At once, for which there is one call of RE2; a line end is in no word.
        if None in contents or words.may_be_in_parts(
            b"\n".join(_unescaped(each) for each in contents if each is not None)
        ):
            yield from reversed(store.messages(owner, after_seq=after, first=until - after))
        until = after


def _unescaped(content: bytes) -> bytes:
    """Return JSON with its texts as they are, but for control characters, which no word has."""
    if b"\\" not in content:
        return content
    return content.replace(b"\\\\", b"\0").replace(b'\\"', b'"').replace(b"\0", b"\\")


def _hits_of(
    message: Message, conversation: Conversation, link: Link | None, words: Words
) -> Iterator[Hit]:
    for said in _said(message):
        # It was redacted, or was to be kept whole, when it was written.
        text = found_in(said, words, str)
        if text is not None:
            yield Hit(
                agent=link.agent if link else "",
                session_id=message.upstream_session_id or "",
                speaker=said.speaker,
                at_ms=message.recorded_at_ms,
                text=text,
                directory=link.working_directory if link else "",
                role=conversation.key.role,
                address=conversation.key.address,
                resume_command=("upthread", "show", conversation.key.address),
            )


def _said(message: Message) -> Iterator[Said]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield Said(speaker=str(message.speaker), text=part.text)
        elif isinstance(part, ToolResultPart):
            yield Said(speaker="tool", text=part.text)
        elif isinstance(part, ToolCallPart):
            yield Said(speaker="tool", text="\n".join((part.title, *texts_in(part.arguments))))
