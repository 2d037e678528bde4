"""Writes many conversations into the project of the working directory, a turn in each.

A process of its own, since a project is found, and its store opened, by the environment.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import cast

import anyio
from msgspec.structs import replace
from tests.support.default_turn import Place, commits_of, open_place, prepare_turn

import upthread
from upthread.core.commands import OpenConversation, OpenLink
from upthread.core.types import ConversationId, UpstreamSessionId
from upthread.runtime.record.project_store import ProjectStore
from upthread.store.log import LogStore

WORKSTREAMS = 50
ROLES = 20
"""A thousand conversations in as many workstreams as hooks know."""


async def fill(workstreams: int, roles: int) -> None:
    """Open the project that the process is in, and write them."""
    async with upthread.open_project() as project:
        store = cast("LogStore", cast("ProjectStore", project.store).behind)
        for number in range(workstreams):
            first = open_place(store, f"many-{number}", project=project.project_id)
            for role in range(roles):
                place = first if role == 0 else _beside(store, first, f"role-{role}")
                for writes in commits_of(place, prepare_turn(place, number * roles + role)):
                    store.commit(writes)


def _beside(store: LogStore, first: Place, role: str) -> Place:
    known = first.conversation
    conversation = replace(
        known,
        conversation_id=ConversationId(f"{known.conversation_id}-{role}"),
        key=replace(known.key, role=role),
    )
    link = replace(
        first.link,
        conversation_id=conversation.conversation_id,
        upstream_session_id=UpstreamSessionId(f"{first.link.upstream_session_id}-{role}"),
    )
    store.commit((OpenConversation(conversation=conversation), OpenLink(link=link)))
    return dataclasses.replace(first, conversation=conversation, link=link)


if __name__ == "__main__":
    counts = [int(each) for each in sys.argv[1:]] or [WORKSTREAMS, ROLES]
    anyio.run(fill, *counts)
