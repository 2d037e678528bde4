"""Texts that stores lose: each comes back as it was."""

from __future__ import annotations

import asyncio

import pytest
from agent_framework import InMemoryCheckpointStorage, Message, WorkflowCheckpoint
from google.adk.events.event import Event
from google.genai import types
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest

from upthread.integrations.agent_framework import UpthreadCheckpointStorage, UpthreadHistoryProvider
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.pydantic_ai import UpthreadConversationStore

TEXTS = {
    "nul": "a\0b",
    "surrogate": "\ud800 alone",
    "astral": "\U0001f600 \u202e",
    "ten megabytes": "x" * 10_000_000,
}


async def checkpoint_of(storage, text):
    checkpoint = WorkflowCheckpoint(
        workflow_name="w", graph_signature_hash="h", state={"text": text}
    )
    await storage.save(checkpoint)
    return (await storage.load(checkpoint.checkpoint_id)).state["text"]


@pytest.mark.parametrize("name", TEXTS)
def test_in_a_checkpoint_of_the_agent_framework(record, name):
    told = asyncio.run(checkpoint_of(UpthreadCheckpointStorage(record=record), TEXTS[name]))
    assert told == asyncio.run(checkpoint_of(InMemoryCheckpointStorage(), TEXTS[name]))


@pytest.mark.parametrize("name", TEXTS)
def test_in_a_history_of_the_agent_framework(record, name):
    async def keep():
        history = UpthreadHistoryProvider(record=record)
        await history.save_messages("s", [Message("user", [TEXTS[name]])])
        return (await history.get_messages("s"))[0].text

    assert asyncio.run(keep()) == TEXTS[name]


async def event_of(service, text):
    where = {"app_name": "a", "user_id": "u", "session_id": "s"}
    session = await service.create_session(**where)
    content = types.Content(role="user", parts=[types.Part(text=text)])
    await service.append_event(session, Event(author="user", content=content))
    return (await service.get_session(**where)).events[0].content.parts[0].text


@pytest.mark.parametrize("name", TEXTS)
def test_in_an_event_of_the_adk(record, name):
    service = UpthreadSessionService(record=record)
    assert asyncio.run(event_of(service, TEXTS[name])) == TEXTS[name]


@pytest.mark.parametrize("name", TEXTS)
def test_in_a_message_of_pydantic_ai(record, name):
    async def keep():
        store = UpthreadConversationStore(record=record)
        message = ModelRequest.user_text_prompt(TEXTS[name])
        await store.save(Conversation(conversation_id="c", messages=[message]))
        return (await store.load("c")).messages[0].parts[0].content

    assert asyncio.run(keep()) == TEXTS[name]
