"""A Google ADK runner whose session the next run finds again; the model is a few lines of ours.

pip install 'upthread[google-adk]'
python google_adk_runner.py; python google_adk_runner.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from upthread.integrations.google_adk import UpthreadSessionService


class Counting(BaseLlm):
    """A model that says how many messages it was given."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Reply once."""
        text = f"I was given {len(llm_request.contents)} messages."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def main() -> None:
    """Say one thing in the session."""
    service = UpthreadSessionService()  # in place of DatabaseSessionService(…)
    agent = LlmAgent(name="helper", model=Counting(model="counting"))
    runner = Runner(app_name="app", agent=agent, session_service=service)
    where = {"user_id": "me", "session_id": "chat-7"}
    if await service.get_session(app_name="app", **where) is None:
        await service.create_session(app_name="app", **where)
    said = types.Content(role="user", parts=[types.Part(text="Hello.")])
    async for event in runner.run_async(new_message=said, **where):
        print(event.content.parts[0].text)
    await service.close()


asyncio.run(main())
