"""Which session moved last is told by the record, and not by the clocks of the hosts."""

import asyncio
import datetime as dt
import time

import apsw
import pytest
from claude_agent_sdk.types import SessionKey
from google.adk.events.event import Event
from pydantic_ai.conversation_store import ConversationRecord

from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.integrations.google_adk import UpthreadSessionService
from upthread.integrations.pydantic_ai import UpthreadConversationStore


class Claude:
    def __init__(self, record):
        self.store = UpthreadSessionStore(record=record)

    async def move(self, name, _):
        await self.store.append(SessionKey(project_key="p", session_id=name), [{"type": "user"}])

    async def listed(self):
        found = await self.store.list_sessions("p")
        summaries = await self.store.list_session_summaries("p")
        assert [each["mtime"] for each in summaries] == [each["mtime"] for each in found]
        return [each["session_id"] for each in sorted(found, key=lambda each: -each["mtime"])]


class Google:
    def __init__(self, record):
        self.service = UpthreadSessionService(record=record)

    async def move(self, name, now_s):
        where = {"app_name": "a", "user_id": "u", "session_id": name}
        session = await self.service.get_session(**where)
        session = session or await self.service.create_session(**where)
        await self.service.append_event(session, Event(author="u", timestamp=now_s))

    async def listed(self):
        found = await self.service.list_sessions(app_name="a", user_id="u")
        return [each.id for each in found.sessions][::-1]


class PydanticAi:
    def __init__(self, record):
        self.store = UpthreadConversationStore(record=record)

    async def move(self, name, now_s):
        before, now = await self.store.read_record(name), dt.datetime.fromtimestamp(now_s, dt.UTC)
        await self.store.write_record(
            ConversationRecord(conversation_id=name, head_id=None, updated_at=now),
            expected_revision=before and before.revision,
        )

    async def listed(self):
        return [each.conversation_id for each in await self.store.read_records()]


@pytest.mark.parametrize("make", [Claude, Google, PydanticAi])
def test_the_session_that_moved_last_is_the_newest_whatever_the_clocks_say(
    place, monkeypatch, make
):
    real_s = time.time()  # noqa: TID251  # the clock itself

    def turn(record, name, hours_ahead):
        now_s = real_s + 3_600 * hours_ahead
        monkeypatch.setattr(time, "time_ns", lambda: int(now_s * 10**9))
        asyncio.run(make(record).move(name, now_s))

    with place.open() as one, place.open() as ahead:
        for name in "abc":
            turn(one, name, 0)
        assert asyncio.run(make(one).listed()) == ["c", "b", "a"]
        turn(ahead, "a", 1)
        assert asyncio.run(make(one).listed()) == ["a", "c", "b"]
        for _ in range(2):
            turn(one, "b", 0)
        assert asyncio.run(make(ahead).listed()) == ["b", "a", "c"]


@pytest.mark.parametrize("make", [Claude, Google, PydanticAi])
def test_a_damaged_session_hides_no_other(sqlite_place, make):
    with sqlite_place.open() as record:
        for name in "abc":
            asyncio.run(make(record).move(name, 1.0))
    connection = apsw.Connection(sqlite_place.database)
    connection.execute("UPDATE entry SET said = replace(said, '\"b\"', '\"x\"')")
    connection.close()
    with sqlite_place.open() as record, pytest.warns(RuntimeWarning, match="not what was recorded"):
        assert asyncio.run(make(record).listed()) == ["c", "a"]
