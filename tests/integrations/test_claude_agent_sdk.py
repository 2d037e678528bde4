"""The Claude Agent SDK's session store: its own suite, and what that does not ask."""

import asyncio
import time

from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.testing import run_session_store_conformance

from upthread.client.framework_record import FrameworkRecord
from upthread.integrations.claude_agent_sdk import UpthreadSessionStore
from upthread.runtime.system import new_id

KEY = {"project_key": "-home-me", "session_id": "11111111-2222-3333-4444-555555555555"}
SECRET = "AKIA" + "IOSFODNN7EXAMPLF"


def said(text, **more):
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": new_id("ent"), "message": message, **more}


class Fresh:
    """A record for each contract, as their suite wants it: a project of its own."""

    def __init__(self, place):
        self.place, self.opened = place, []

    def __call__(self):
        number = len(self.opened)
        directory = self.place.directory / f"fresh-{number}"
        directory.mkdir()
        record = FrameworkRecord(
            directory, database=self.place.database, environment=self.place.environment
        )
        self.opened.append(record)
        return UpthreadSessionStore(record=record)


def test_all_fourteen_contracts_of_their_suite_are_kept(place):
    fresh = Fresh(place)
    asyncio.run(run_session_store_conformance(fresh))
    assert len(fresh.opened) >= 14
    for each in fresh.opened:
        each.close()


def test_an_entry_comes_back_equal_though_the_record_is_redacted(place):
    entry = said(SECRET, thinking={"signature": "a" * 500})
    with place.open() as opened:
        asyncio.run(UpthreadSessionStore(record=opened).append(KEY, [entry]))
    with place.open() as opened:
        assert asyncio.run(UpthreadSessionStore(record=opened).load(KEY)) == [entry]


def test_what_search_and_audit_read_of_it_is_redacted(record):
    asyncio.run(UpthreadSessionStore(record=record).append(KEY, [said(f"my key is {SECRET}")]))
    log = record.log("claude-agent-sdk", f"{KEY['project_key']}/{KEY['session_id']}")
    (text,) = log.texts()
    assert "my key is" in text
    assert SECRET not in text


def test_of_a_batch_that_comes_again_only_what_is_not_there_is_added(place):
    batch = [said("one"), said("two")]
    for part in (batch[:1], batch, batch):
        with place.open() as opened:
            asyncio.run(UpthreadSessionStore(record=opened).append(KEY, part))
    with place.open() as opened:
        assert asyncio.run(UpthreadSessionStore(record=opened).load(KEY)) == batch


def test_the_time_of_a_session_never_goes_back(record, monkeypatch):
    store = UpthreadSessionStore(record=record)
    asyncio.run(store.append(KEY, [said("one")]))
    ((before,),) = (asyncio.run(store.list_sessions(KEY["project_key"])),)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    asyncio.run(store.append(KEY, [said("two")]))
    ((after,),) = (asyncio.run(store.list_sessions(KEY["project_key"])),)
    assert after["mtime"] > before["mtime"]


def test_the_summary_is_what_the_sdk_folds_of_all_batches(record):
    store, summary = UpthreadSessionStore(record=record), None
    for text in ("one", "two", "three"):
        batch = [said(text, timestamp="2026-01-01T00:00:00Z", gitBranch=text)]
        asyncio.run(store.append(KEY, batch))
        summary = fold_session_summary(summary, KEY, batch)
    (found,) = asyncio.run(store.list_session_summaries(KEY["project_key"]))
    assert found["data"] == summary["data"]
