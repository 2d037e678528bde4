"""Texts that stores lose come back as they were, from the store of every framework."""

import asyncio

import pytest
from agent_framework import InMemoryCheckpointStorage, Message, WorkflowCheckpoint
from google.adk.events.event import Event
from google.genai import types
from pydantic_ai.messages import ModelRequest
from tests.integrations import test_every_type as every_type
from tests.support.sets import spread

from upthread.integrations.agent_framework import UpthreadCheckpointStorage

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
    found = await every_type.in_agent_frameworks(record, Message("user", [text]), "s")
    return found["contents"][0]["text"]


async def event(record, text):
    content = types.Content(role="user", parts=[types.Part(text=text)])
    found = await every_type.in_googles(record, Event(author="user", content=content), "s")
    return found.content.parts[0].text


async def message(record, text):
    found = await every_type.in_pydantic_ais(record, ModelRequest.user_text_prompt(text), "c")
    return found.parts[0].content


async def item(record, text):
    return (await every_type.in_openais(record, {"role": "user", "content": text}, "s"))["content"]


async def entry(record, text):
    return (await every_type.in_claudes(record, {"type": "user", "text": text}, "s"))["text"]


@pytest.mark.parametrize("name", spread(TEXTS, first=["nul", "surrogate", "ten megabytes"]))
@pytest.mark.parametrize("kept", [checkpoint, history, event, message, item, entry])
def test_a_hard_text_comes_back_as_it_was(record, kept, name):
    assert asyncio.run(kept(record, TEXTS[name])) == TEXTS[name]
