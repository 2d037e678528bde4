"""Each framework's messages and parts of every type, with optional fields left out, come back.

Its own serializer is the oracle: what that loads again is what the store gives back, and what it
cannot load is refused before anything of it is kept.
"""

import asyncio
import contextlib
import inspect
import math
import typing
from contextlib import closing

import apsw
import pytest
from agent_framework import Content, Message
from agent_framework._types import ContentType
from agents.items import TResponseInputItem
from claude_agent_sdk import SessionStoreEntry
from claude_agent_sdk import types as claude
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core import messages as langchain
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import messages as pydantic_ai
from pydantic_ai.conversation import Conversation
from tests.support.variants import members, minimal, variants

from upthread.errors import StoreError, UsageError
from upthread.integrations.agent_framework import UpthreadHistoryProvider
from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.langgraph import UpthreadSaver
from upthread.integrations.openai_agents import UpthreadSession
from upthread.integrations.pydantic_ai import UpthreadConversationStore

pytestmark = pytest.mark.filterwarnings("ignore")  # of what is deprecated, and of what is new


def with_parts(message, kinds, *more):
    for part in (*(each for kind in members(kinds) for each in variants(kind)), *more):
        with contextlib.suppress(ValueError):  # one that the library itself refuses there
            yield message(parts=[part])
    yield from variants(message)


def of_pydantic_ai():
    contents = map(minimal, members(pydantic_ai.UserContent))
    prompts = [pydantic_ai.UserPromptPart([each]) for each in contents]
    spoken = pydantic_ai.SpeechPart(speaker="assistant")
    yield from with_parts(pydantic_ai.ModelRequest, pydantic_ai.ModelRequestPart, *prompts)
    yield from with_parts(pydantic_ai.ModelResponse, pydantic_ai.ModelResponsePart, spoken)


async def in_pydantic_ais(record, message, name):
    store = UpthreadConversationStore(record=record)
    await store.save(Conversation(conversation_id=name, messages=[message]))
    return (await store.load(name)).messages[0]


def by_pydantic_ai(message):
    adapter = pydantic_ai.ModelMessagesTypeAdapter
    for mode in (
        "python",
        "json",
    ):  # values that are loaded from its JSON alone are of a wrong type
        (found,) = adapter.validate_python(adapter.dump_python([message], mode=mode))
    return found


def of_langgraph():
    for kind in (getattr(langchain, name) for name in langchain.__all__):
        if inspect.isclass(kind) and issubclass(kind, langchain.BaseMessage):
            is_mark = kind is langchain.RemoveMessage
            yield from [kind("1")] if is_mark else variants(kind)


async def in_langgraphs(record, message, name):
    return by_langgraph(message, UpthreadSaver(record=record), name)


def by_langgraph(message, saver=None, name="t"):
    saver, key = (
        saver or InMemorySaver(),
        {"configurable": {"thread_id": name, "checkpoint_ns": ""}},
    )
    saved = {"v": 1, "id": "1", "ts": "", "channel_versions": {"c": "1"}, "versions_seen": {}}
    saver.put(key, {**saved, "channel_values": {"c": [message]}}, {}, {"c": "1"})
    return saver.get_tuple(key).checkpoint["channel_values"]["c"][0]


def of_openai():
    return (each for kind in members(TResponseInputItem) for each in variants(kind))


async def in_openais(record, item, name):
    session = UpthreadSession(name, record=record)
    await session.add_items([item])
    (found,) = await session.get_items()
    is_lone_result = "call_id" in item and "is not on record" in str(found)
    return await session.pop_item() if is_lone_result else found


def of_google():
    yield from (each for each in variants(Event) if not each.partial)
    yield from (Event(author="a", actions=each) for each in variants(EventActions))
    for each in variants(types.Part):
        yield Event(author="a", content=types.Content(parts=[each]))


async def in_googles(record, event, name):
    service = UpthreadSessionService(record=record)
    where = {"app_name": "a", "user_id": "u", "session_id": name}
    await service.append_event(await service.create_session(**where), event)
    return (await service.get_session(**where)).events[0]


def of_agent_framework():
    return (Message("user", [Content(each)]) for each in typing.get_args(ContentType))


async def in_agent_frameworks(record, message, name):
    provider = UpthreadHistoryProvider(record=record)
    await provider.save_messages(name, [message])
    return (await provider.get_messages(name))[0].to_dict()


def of_claude():
    blocks = [vars(minimal(each)) for each in typing.get_args(claude.ContentBlock)]
    for content in (None, "", 7, [], [None, "x", {}], blocks):
        yield {"type": "user", "message": {"content": content}}
    yield from [*variants(SessionStoreEntry), {"type": "user", "message": None}]


async def in_claudes(record, entry, name):
    store, key = UpthreadSessionStore(record=record), {"project_key": "p", "session_id": name}
    await store.append(key, [entry])
    return (await store.load(key))[0]


FRAMEWORKS = {
    "pydantic-ai": (of_pydantic_ai, in_pydantic_ais, by_pydantic_ai),
    "langgraph": (of_langgraph, in_langgraphs, by_langgraph),
    "openai-agents": (of_openai, in_openais, lambda item: item),
    "google-adk": (
        of_google,
        in_googles,
        lambda it: Event.model_validate(it.model_dump(mode="json", exclude_none=True)),
    ),
    "agent-framework": (
        of_agent_framework,
        in_agent_frameworks,
        lambda it: Message.from_dict(it.to_dict()).to_dict(),
    ),
    "claude-agent-sdk": (of_claude, in_claudes, lambda entry: entry),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_value_of_every_type_comes_back_or_is_refused_at_once(sqlite_place, framework):
    values, kept, theirs = FRAMEWORKS[framework]
    with sqlite_place.open() as record:
        for at, value in enumerate(values()):
            try:
                expected = theirs(value)
            except ValueError:
                with pytest.raises(UsageError, match="cannot be kept"):
                    asyncio.run(kept(record, value, f"s{at}"))
            else:
                assert asyncio.run(kept(record, value, f"s{at}")) == expected
    assert at > 5


RETRY = pydantic_ai.RetryInfo(cause="validation_error")


@pytest.mark.parametrize(
    "part",
    [
        lambda errors: pydantic_ai.RetryFeedbackPart(content=errors, retry=RETRY),
        lambda errors: pydantic_ai.RetryPromptPart(content=errors),
        lambda errors: pydantic_ai.RetryPromptPart(content=errors, tool_name="t"),
    ],
)
def test_errors_without_their_input_come_back_without_it(record, part):
    """Pydantic AI's own adapter dumps such a retry, and cannot load it."""
    errors = [{"type": "missing", "loc": ("a",), "msg": "gone"} for _ in range(2)]
    errors.insert(1, {**errors[0], "input": {"b": 1}})
    message = pydantic_ai.ModelRequest(parts=[pydantic_ai.UserPromptPart("said"), part(errors)])
    found = asyncio.run(in_pydantic_ais(record, message, "c")).parts[1].content
    assert [{**each, "loc": tuple(each["loc"])} for each in found] == errors


def nested(depth):
    return [nested(depth - 1)] if depth else 1


CALL = {"type": "function_call", "call_id": "1", "name": "f"}
CARRIERS = {
    "pydantic-ai": lambda it: pydantic_ai.ModelResponse([pydantic_ai.ToolCallPart("f", it)]),
    "google-adk": lambda it: Event(author="a", actions=EventActions(state_delta=it)),
    "openai-agents": lambda it: {**CALL, "arguments": it},
    "claude-agent-sdk": lambda it: {"type": "user", "message": it},
    "agent-framework": lambda it: Message("user", [Content("text", additional_properties=it)]),
}


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, b"ab", {1: 2}, {1, 2}, print, nested(250)], ids=repr
)
@pytest.mark.parametrize("framework", CARRIERS)
def test_a_value_comes_back_equal_or_is_refused_at_once(sqlite_place, framework, value):
    item, kept = CARRIERS[framework]({"a": value}), FRAMEWORKS[framework][1]
    with sqlite_place.open() as record:
        try:
            found = asyncio.run(kept(record, item, "s"))
        except UsageError:
            assert not [log for log in record.threads(framework) if list(log.texts())]
        else:
            given = item.to_dict() if isinstance(item, Message) else item
            assert repr(found) == repr(given)  # NaN equals nothing


@pytest.mark.parametrize("framework", CARRIERS)
def test_a_damaged_thread_names_its_cure_after_which_its_id_is_usable(sqlite_place, framework):
    item, kept = CARRIERS[framework]({"a": 1}), FRAMEWORKS[framework][1]
    with sqlite_place.open() as record:
        found = asyncio.run(kept(record, item, "s"))
        (*_, log) = (
            each for each in record.threads(framework) if "order" not in each.key.workstream
        )
    with closing(apsw.Connection(sqlite_place.database)) as database:
        database.execute("UPDATE entry SET said = '{' WHERE said LIKE '%\"a\":1%'")
    cure = f"upthread forget '{log.key.workstream}'"
    with sqlite_place.open() as record, pytest.raises(StoreError) as caught:
        asyncio.run(kept(record, item, "s"))
    assert caught.value.hint.endswith(cure)
    sqlite_place.upthread("forget", log.key.workstream, "--yes")
    with sqlite_place.open() as record:
        assert repr(asyncio.run(kept(record, item, "s"))) == repr(found)


@pytest.mark.parametrize("framework", ["google-adk", "claude-agent-sdk", "pydantic-ai"])
def test_an_id_that_is_no_text_is_refused(sqlite_place, framework):
    with sqlite_place.open() as record, pytest.raises((UsageError, ValueError), match="7"):
        asyncio.run(FRAMEWORKS[framework][1](record, CARRIERS[framework]({}), 7))
