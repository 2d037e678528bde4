"""A store closes the record that it opened, and leaves one open that it was given."""

import warnings

import pytest

from upthread.errors import StoreError
from upthread.integrations.agent_framework import UpthreadCheckpointStorage, UpthreadHistoryProvider
from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.langgraph import UpthreadSaver
from upthread.integrations.openai_agents import UpthreadSession
from upthread.integrations.pydantic_ai import UpthreadConversationStore

STORES = {
    "langgraph": UpthreadSaver,
    "openai-agents": lambda **more: UpthreadSession("chat", **more),
    "claude-agent-sdk": UpthreadSessionStore,
    "pydantic-ai": UpthreadConversationStore,
    "google-adk": UpthreadSessionService,
    "agent-framework": UpthreadCheckpointStorage,
    "agent-framework history": UpthreadHistoryProvider,
}


@pytest.mark.parametrize("make", STORES.values(), ids=list(STORES))
def test_one_that_was_given_stays_open(sqlite_place, make):
    with sqlite_place.open() as record:
        with make(record=record):
            pass
        assert list(record.threads("langgraph")) == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("make", STORES.values(), ids=list(STORES))
def test_one_of_its_own_is_closed(sqlite_place, make):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of what should have been awaited
        with make(directory=sqlite_place.repository, database=sqlite_place.database) as store:
            record = store._record
            assert list(record.threads("langgraph")) == []
    with pytest.raises(StoreError, match="closed"):
        list(record.threads("langgraph"))
