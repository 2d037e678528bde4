"""Hits in our own record, newest first, and which of the agents' sessions were forgotten here.

What a person had us forget is not found again in an agent's own copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from upthread.agent_stores.text_search import Said, Words, texts_in
from upthread.core.types import (
    Conversation,
    ErasedPart,
    Link,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from upthread.surfaces.cli.search.hits import Hit, found_in

if TYPE_CHECKING:
    from upthread.client import Project


def own_hits(project: Project, words: Words) -> tuple[list[Hit], set[str]]:
    """Return the hits of a project's record, and the sessions of which something was erased."""
    hits: list[Hit] = []
    forgotten: set[str] = set()
    store = project.store
    for workstream in store.workstreams(project.project_id):
        for conversation in store.conversations(project.project_id, workstream.workstream):
            links = store.links(conversation.conversation_id)
            by_session = {each.upstream_session_id: each for each in links}
            for message in store.messages(conversation.conversation_id):
                session = message.upstream_session_id
                if session and any(isinstance(part, ErasedPart) for part in message.parts):
                    forgotten.add(session)
                link = by_session.get(session) if session else None
                hits += _hits_of(message, conversation, link, words)
    return sorted(hits, key=lambda each: -each.at_ms), forgotten


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
