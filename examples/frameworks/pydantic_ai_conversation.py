"""A Pydantic AI conversation that the next run goes on with; the model is the library's TestModel.

pip install 'upthread[pydantic-ai]'
python pydantic_ai_conversation.py; python pydantic_ai_conversation.py
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

from upthread.integrations.pydantic_ai import UpthreadConversationStore

agent = Agent(TestModel(custom_output_text="Noted."))


async def main() -> None:
    """Say one thing in the conversation, and save it."""
    store = UpthreadConversationStore()  # in place of InMemoryConversationStore()
    conversation = await store.load("chat-7") or Conversation(conversation_id="chat-7")
    print(f"the conversation had {len(conversation.messages)} messages")
    result = await agent.run("The colour is teal.", conversation=conversation)
    await store.save(result)
    print(result.output)
    store.close()


asyncio.run(main())
