"""Pydantic AI's conversation store: beside its own in-memory one as oracle."""

import asyncio

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.models.test import TestModel

from upthread.integrations.pydantic_ai import UpthreadConversationStore

pytestmark = pytest.mark.anyio

AGENT = Agent(TestModel(custom_output_text="answered"))


@pytest.fixture(params=["theirs", "ours"])
def store(request, place):
    if request.param == "theirs":
        yield InMemoryConversationStore()
        return
    with place.open() as opened:
        yield UpthreadConversationStore(record=opened)


async def said(store, conversation_id, text, **more):
    conversation = await store.load(conversation_id)
    conversation = conversation or Conversation(conversation_id=conversation_id)
    result = await AGENT.run(text, conversation=conversation)
    await store.save(result, **more)


async def texts(store, conversation_id):
    conversation = await store.load(conversation_id)
    return conversation and [
        part.content for message in conversation.messages for part in message.parts
    ]


async def revision(store):
    return (await store.load("c")).revision


async def test_of_two_that_save_one_is_told_to_load_again(store):
    await said(store, "c", "one")
    first, second = await store.load("c"), await store.load("c")
    one = await AGENT.run("mine", conversation=first)
    other = await AGENT.run("no, mine", conversation=second)
    await store.save(one)
    with pytest.raises(ConversationConflict):
        await store.save(other)
    found = await texts(store, "c")
    assert found == ["one", "answered", "mine", "answered"]


async def test_a_branch_leaves_what_it_left_and_can_go_back(store):
    await said(store, "c", "one")
    await said(store, "c", "two")
    left = (await store.list_conversations())[0].head_id
    await store.branch("c", at=2, expected_revision=await revision(store))
    await said(store, "c", "instead")
    instead = await texts(store, "c")
    await store.branch("c", from_entry=left, expected_revision=await revision(store))
    found = instead, await texts(store, "c")
    assert found == (
        ["one", "answered", "instead", "answered"],
        ["one", "answered", "two", "answered"],
    )


async def test_a_fork_stays_whole_when_what_it_came_from_is_deleted(store):
    await said(store, "c", "one")
    await said(store, "c", "two")
    await store.fork("c", at=2, new_conversation_id="f")
    await store.delete("c")
    await said(store, "f", "three")
    found = await texts(store, "c"), await texts(store, "f")
    assert found == (None, ["one", "answered", "three", "answered"])


async def test_records_are_listed_by_scope_the_newest_first(store):
    for name, scope in (("a", "me"), ("b", "you"), ("c", "me")):
        await said(store, name, "hi", scope=scope)
    mine = [each.conversation_id for each in await store.list_conversations(scope="me")]
    newest = [each.conversation_id for each in await store.list_conversations(limit=1)]
    found = mine, newest, await store.load("b", scope="me")
    assert found == (["c", "a"], ["c"], None)


async def test_a_deleted_conversation_can_be_begun_anew_and_an_old_copy_not_saved_over_it(store):
    await said(store, "c", "one")
    old = await AGENT.run("old", conversation=await store.load("c"))
    await store.delete("c")
    await said(store, "c", "new")
    with pytest.raises(ConversationConflict):
        await store.save(old)
    found = await texts(store, "c")
    assert found == ["new", "answered"]


def test_bytes_of_a_message_come_back_equal(place):
    async def talk(store):
        prompt = [BinaryContent(b"\xff\0", media_type="application/pdf")]
        result = await AGENT.run(prompt, conversation=Conversation(conversation_id="c"))
        await store.save(result)
        return result.all_messages()

    with place.open() as opened:
        sent = asyncio.run(talk(UpthreadConversationStore(record=opened)))
    with place.open() as opened:
        store = UpthreadConversationStore(record=opened)
        assert asyncio.run(store.load("c")).messages == sent
