"""An OpenAI Agents run whose history the next run has; no model is called, its replies are given.

pip install 'upthread[openai-agents]'
python openai_agents_chat.py; python openai_agents_chat.py
"""

from __future__ import annotations

import asyncio

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

from upthread.integrations.openai_agents import UpthreadSession


async def main() -> None:
    """Say one thing, and count what the session holds."""
    set_tracing_disabled(disabled=True)
    session = UpthreadSession("chat-7")  # in place of SQLiteSession("chat-7", "chat.db")
    known = len(await session.get_items())
    print(f"the session had {known} items")
    model = ScriptedModel([[assistant_message(f"I remember {known} items.")]])
    result = await Runner.run(Agent(name="helper", model=model), "Hello.", session=session)
    print(result.final_output)
    session.close()


asyncio.run(main())
