"""A session is not loaded in the minute in which that would empty it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from msgspec import structs
from tests.agents.conftest import SCRIPTED

from upthread.agents.acp import AcpAdapter
from upthread.agents.acp.quirks import quirk_for
from upthread.agents.acp.sessions import wait_ms

SESSION = "68315079-f927-493b-b356-0cb52f30e6fd"
NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z
PATTERN = quirk_for("gemini").file_of_minute


def begun(home: Path, minute: str, head: str = SESSION[:8]) -> None:
    chats = home / ".gemini" / "tmp" / "project" / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats / f"session-{minute}-{head}.jsonl").touch()


@pytest.mark.parametrize(
    ("minute", "past_ms", "wait"),
    [
        ("2026-11-21T12-00", 0, 60_000),
        ("2026-11-21T12-00", 59_999, 1),
        ("2026-11-21T12-00", 60_000, 0),
        ("2026-11-21T11-59", 0, 0),
        ("2026-11-20T12-00", 0, 0),
    ],
)
def test_a_load_waits_as_long_as_the_minute_lasts_that_has_a_file_of_the_session(
    tmp_path, minute, past_ms, wait
):
    begun(tmp_path, minute)
    assert wait_ms(tmp_path, PATTERN, SESSION, now_ms=NOON_MS + past_ms) == wait


@pytest.mark.parametrize("session", ["other000-f927", "../../..", "*", "", "6831"])
def test_another_session_does_not_wait(tmp_path, session):
    begun(tmp_path, "2026-11-21T12-00")
    assert wait_ms(tmp_path, PATTERN, session, now_ms=NOON_MS) == 0


def test_an_agent_that_was_never_here_makes_nobody_wait(tmp_path):
    assert wait_ms(tmp_path / "none", PATTERN, SESSION, now_ms=NOON_MS) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("variable", ["HOME", "GEMINI_CLI_HOME"])
async def test_a_load_begins_when_the_minute_is_over(request_for, tmp_path, variable):
    begun(tmp_path, "2026-11-21T12-00")
    scripted = AcpAdapter(
        agent="gemini",
        command=(sys.executable, "-I", str(SCRIPTED)),
        now_ms=lambda: NOON_MS + 59_000,
    )
    environment = {variable: str(tmp_path), "SCRIPTED_LISTED": SESSION}
    request = structs.replace(request_for(), environment=environment)
    async with scripted.open(request) as connection:
        began_s = time.monotonic()
        assert await connection.load_session(SESSION)
        assert time.monotonic() - began_s >= 1.0
