"""Texts that stores lose come back as they were, from the store of every framework."""

from __future__ import annotations

import asyncio

import pytest
from agent_framework import InMemoryCheckpointStorage, Message, WorkflowCheckpoint
from google.adk.events.event import Event
from google.genai import types
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest
from tests.support.sets import spread

from upthread.integrations.agent_framework import UpthreadCheckpointStorage, UpthreadHistoryProvider
from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.openai_agents import UpthreadSession
from upthread.integrations.pydantic_ai import UpthreadConversationStore

TEXTS = {
    "nul": "a\0b",
    "surrogate": "\ud800 alone",
    "astral": "\U0001f600 \u202e",
    "ten megabytes": "x" * 10_000_000,
}


async def checkpoint(record, text):
    """Return the text out of a checkpoint; their own storage must return the same."""
    found = []
    for storage in (InMemoryCheckpointStorage(), UpthreadCheckpointStorage(record=record)):
        saved = WorkflowCheckpoint(
            workflow_name="w", graph_signature_hash="h", state={"text": text}
        )
        await storage.save(saved)
        found.append((await storage.load(saved.checkpoint_id)).state["text"])
    assert found[0] == text
    return found[1]


async def history(record, text):
    provider = UpthreadHistoryProvider(record=record)
    await provider.save_messages("s", [Message("user", [text])])
    return (await provider.get_messages("s"))[0].text


async def event(record, text):
    service = UpthreadSessionService(record=record)
    where = {"app_name": "a", "user_id": "u", "session_id": "s"}
    session = await service.create_session(**where)
    content = types.Content(role="user", parts=[types.Part(text=text)])
    await service.append_event(session, Event(author="user", content=content))
    return (await service.get_session(**where)).events[0].content.parts[0].text


async def message(record, text):
    store = UpthreadConversationStore(record=record)
    sent = ModelRequest.user_text_prompt(text)
    await store.save(Conversation(conversation_id="c", messages=[sent]))
    return (await store.load("c")).messages[0].parts[0].content


async def item(record, text):
    session = UpthreadSession("s", record=record)
    await session.add_items([{"role": "user", "content": text}])
    return (await session.get_items())[0]["content"]


async def entry(record, text):
    store, key = UpthreadSessionStore(record=record), {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "user", "uuid": "1", "text": text}])
    return (await store.load(key))[0]["text"]


@pytest.mark.parametrize("name", spread(TEXTS, first=["nul", "surrogate", "ten megabytes"]))
@pytest.mark.parametrize("kept", [checkpoint, history, event, message, item, entry])
def test_a_hard_text_comes_back_as_it_was(record, kept, name):
    assert asyncio.run(kept(record, TEXTS[name])) == TEXTS[name]
