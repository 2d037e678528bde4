"""Each framework's messages and parts of every type, with optional fields left out, come back.

Its own serializer is the oracle: what that loads again is what the store gives back, and what it
cannot load is refused before anything of it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import typing

import pytest
from agent_framework import Content, Message, WorkflowCheckpoint
from agent_framework._types import ContentType
from agents.items import TResponseInputItem
from claude_agent_sdk import SessionStoreEntry
from claude_agent_sdk import types as claude_types
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core import messages as langchain
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError
from pydantic_ai import messages as pydantic_ai
from pydantic_ai.conversation import Conversation
from tests.support.variants import members, minimal, variants

from upthread.core.history.model import OPENAI_AGENTS
from upthread.errors import UsageError
from upthread.integrations.agent_framework import UpthreadCheckpointStorage, UpthreadHistoryProvider
from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.langgraph import UpthreadSaver
from upthread.integrations.openai_agents import UpthreadSession
from upthread.integrations.pydantic_ai import UpthreadConversationStore

pytestmark = pytest.mark.filterwarnings("ignore")  # of what is deprecated, and of what is new


@pytest.fixture
def opened(sqlite_place):
    with sqlite_place.open() as record:
        yield record


def with_parts(message, kinds, *more):
    for part in (*(each for kind in members(kinds) for each in variants(kind)), *more):
        with contextlib.suppress(ValueError):  # one that the library itself refuses there
            yield message(parts=[part])
    yield from variants(message)


def requests():
    contents = map(minimal, members(pydantic_ai.UserContent))
    prompts = [pydantic_ai.UserPromptPart([each]) for each in contents]
    return with_parts(pydantic_ai.ModelRequest, pydantic_ai.ModelRequestPart, *prompts)


def responses():
    spoken = pydantic_ai.SpeechPart(speaker="assistant")
    return with_parts(pydantic_ai.ModelResponse, pydantic_ai.ModelResponsePart, spoken)


@pytest.mark.parametrize("messages", [requests, responses])
def test_pydantic_ais_messages(opened, messages):
    adapter = pydantic_ai.ModelMessagesTypeAdapter

    async def kept(message, name):
        store = UpthreadConversationStore(record=opened)
        dumped = adapter.dump_python([message], mode="json")
        try:
            expected = adapter.validate_python(dumped)
        except ValidationError:
            with pytest.raises(UsageError, match="could not load it"):
                await store.save(Conversation(conversation_id=name, messages=[message]))
            assert await store.load(name) is None
            return
        await store.save(Conversation(conversation_id=name, messages=[message]))
        assert (await store.load(name)).messages == expected

    for at, message in enumerate(messages()):
        asyncio.run(kept(message, f"c{at}"))


@pytest.mark.parametrize("kind", ["feedback", "prompt", "prompt of a tool"])
def test_pydantic_ais_errors_without_their_input_come_back_without_it(opened, kind):
    """Its own adapter dumps such a retry, and cannot load it."""
    errors = [{"type": "missing", "loc": ("a",), "msg": "gone"} for _ in range(2)]
    errors.insert(1, {**errors[0], "input": {"b": 1}})
    retry = pydantic_ai.RetryInfo(cause="validation_error")
    part = {
        "feedback": lambda: pydantic_ai.RetryFeedbackPart(content=errors, retry=retry),
        "prompt": lambda: pydantic_ai.RetryPromptPart(content=errors),
        "prompt of a tool": lambda: pydantic_ai.RetryPromptPart(content=errors, tool_name="t"),
    }[kind]()
    store = UpthreadConversationStore(record=opened)

    async def kept():
        message = pydantic_ai.ModelRequest(parts=[pydantic_ai.UserPromptPart("said"), part])
        await store.save(Conversation(conversation_id="c", messages=[message]))
        return (await store.load("c")).messages[0].parts[1].content

    found = [{**each, "loc": tuple(each["loc"])} for each in asyncio.run(kept())]
    assert found == errors


def test_langchains_messages(opened):
    theirs, ours = InMemorySaver(), UpthreadSaver(record=opened)
    named = (getattr(langchain, each) for each in langchain.__all__)
    kinds = [
        each for each in named if inspect.isclass(each) and issubclass(each, langchain.BaseMessage)
    ]
    kinds.remove(langchain.RemoveMessage)
    found = [langchain.RemoveMessage("1"), *(m for kind in kinds for m in variants(kind))]
    key = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saved = {"v": 1, "id": "1", "ts": "", "channel_versions": {"c": "1"}, "versions_seen": {}}
    for each in (theirs, ours):
        each.put(key, {**saved, "channel_values": {"c": found}}, {}, {"c": "1"})
    values = [each.get_tuple(key).checkpoint["channel_values"] for each in (ours, theirs)]
    assert values[0] == values[1]
    assert len(kinds) > 8


def test_openais_items(opened):
    async def kept(item, name):
        session = UpthreadSession(name, record=opened)
        await session.add_items([item])
        found = await session.get_items()
        assert await session.pop_item() == item
        return found

    for at, kind in enumerate(members(TResponseInputItem)):
        for number, item in enumerate(variants(kind)):
            (found,) = asyncio.run(kept(item, f"s{at}-{number}"))
            is_result = "The result of a tool call that is not on record" in str(found)
            assert found == item or (is_result and "call_id" in item)
    assert list(opened.threads(OPENAI_AGENTS))


def events():
    yield from (each for each in variants(Event) if not each.partial)
    yield from (Event(author="a", actions=each) for each in variants(EventActions))
    for each in variants(types.Part):
        yield Event(author="a", content=types.Content(parts=[each]))


def test_googles_events(opened):
    async def kept(event, name):
        service = UpthreadSessionService(record=opened)
        where = {"app_name": "a", "user_id": "u", "session_id": name}
        await service.append_event(await service.create_session(**where), event)
        return (await service.get_session(**where)).events

    for at, event in enumerate(events()):
        expected = Event.model_validate(event.model_dump(mode="json", exclude_none=True))
        assert asyncio.run(kept(event, f"s{at}")) == [expected]


def test_the_agent_frameworks_contents_and_checkpoints(opened):
    async def kept():
        provider = UpthreadHistoryProvider(record=opened)
        said = [Message("user", [Content(each)]) for each in typing.get_args(ContentType)]
        await provider.save_messages("s", said)
        found = await provider.get_messages("s")
        assert [each.to_dict() for each in found] == [
            Message.from_dict(each.to_dict()).to_dict() for each in said
        ]
        storage = UpthreadCheckpointStorage(record=opened)
        checkpoint = WorkflowCheckpoint(workflow_name="w", graph_signature_hash="h")
        await storage.save(checkpoint)
        assert await storage.load(checkpoint.checkpoint_id) == checkpoint

    asyncio.run(kept())


def test_claudes_entries(opened):
    async def kept(entries):
        store, key = UpthreadSessionStore(record=opened), {"project_key": "p", "session_id": "s"}
        await store.append(key, entries)
        return await store.load(key)

    blocks = [minimal(each) for each in typing.get_args(claude_types.ContentBlock)]
    contents = [None, "", 7, [], [None, "x", {}], [vars(each) for each in blocks]]
    entries = [{"type": "user", "message": {"content": each}} for each in contents]
    entries += [*variants(SessionStoreEntry), {"type": "user", "message": None}, {"type": "x"}]
    assert asyncio.run(kept(entries)) == entries
