"""Attaching exactly the session asked for: promises A3 to A5.

A session is not loaded in the minute in which that would empty it.
"""

import sys
from pathlib import Path

import anyio
import pytest
from tests.agents.acp.conftest import SESSION
from tests.agents.conftest import SCRIPTED

from upthread.agents.acp import AcpAdapter
from upthread.agents.acp.adapter import wait_ms
from upthread.agents.acp.wire import quirk_for
from upthread.errors import UpstreamError

pytestmark = pytest.mark.anyio


async def attach_error(connection, session, method="resume_session"):
    with pytest.raises(UpstreamError) as caught:
        await getattr(connection, method)(session)
    assert caught.value.ids["upstream_session_id"] == session
    return caught.value


async def test_a4_an_unknown_session_is_missing_never_new(connection):
    for method in ("resume_session", "load_session"):
        error = await attach_error(connection, "ses_gone", method)
        assert error.outcome == "missing"
        assert "scripted refused session/" in error.message
        assert "ses_gone" in error.message


async def test_a4_an_opaque_error_is_missing_only_when_no_page_lists_it(scripted, request_for):
    listed = {"SCRIPTED_LISTED": "ses_a,ses_b,ses_c"}
    async with scripted("opaque").open(request_for(environment=listed)) as connection:
        kept = await attach_error(connection, "ses_c")
        assert (kept.outcome, "still lists this session" in kept.message) == ("unknown", True)
        gone = await attach_error(connection, "ses_gone")
        assert (gone.outcome, "does not list this session" in gone.message) == ("missing", True)


async def test_a4_a_list_whose_pages_do_not_end_has_one_deadline_and_says_of_no_session_it_is_gone(
    scripted, request_for
):
    request = request_for(environment={"SCRIPTED_LISTED": "ses_a,ses_b"}, start_timeout_s=2)
    unfinished = "scripted did not answer session/list to its end within 2 s"
    async with scripted("endless_list").open(request) as connection:
        with anyio.fail_after(20):
            kept = await attach_error(connection, "ses_b")
            assert (kept.outcome, "still lists this session" in kept.message) == ("unknown", True)
            gone = await attach_error(connection, "ses_gone")
            assert (gone.outcome, unfinished in gone.message) == ("unknown", True)
            with pytest.raises(UpstreamError, match=unfinished):
                await connection.list_sessions()


async def test_a4_another_session_than_asked_for_is_an_error(scripted, request_for):
    async with scripted("other_session").open(request_for()) as connection:
        error = await attach_error(connection, SESSION)
        assert error.outcome == "unknown"
        assert (
            "answered with session ses_other when asked for session ses_scripted" in error.message
        )
        assert (await attach_error(connection, "ses_gone")).outcome == "missing"


async def test_a4_what_an_agent_attaches_though_it_is_gone_is_missing(request_for):
    """codex-acp does (2.6.0): its list tells whether a session is there."""
    command = (sys.executable, "-I", str(SCRIPTED), "attaches_all")
    async with AcpAdapter(agent="codex", command=command).open(request_for()) as connection:
        await connection.resume_session(SESSION)
        for method in ("resume_session", "load_session"):
            assert (await attach_error(connection, "ses_gone", method)).outcome == "missing"
    async with AcpAdapter(agent="other", command=command).open(request_for()) as connection:
        await connection.resume_session("ses_gone")


async def test_every_page_of_the_list_is_read(scripted, request_for):
    listed = {"SCRIPTED_LISTED": "ses_a,ses_b,ses_c"}
    async with scripted().open(request_for(environment=listed)) as connection:
        assert await connection.list_sessions() == ("ses_a", "ses_b", "ses_c")


async def test_a3_a_new_session_without_an_id_is_an_error(scripted, request_for):
    async with scripted("no_id").open(request_for()) as connection:
        with pytest.raises(UpstreamError, match="answered session/new without a session id"):
            await connection.new_session()


BEGUN = "68315079-f927-493b-b356-0cb52f30e6fd"
NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z
PATTERN = quirk_for("gemini").file_of_minute


def begun(home: Path, minute: str, head: str = BEGUN[:8]) -> None:
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
    assert wait_ms(tmp_path, PATTERN, BEGUN, now_ms=NOON_MS + past_ms) == wait


@pytest.mark.parametrize("session", ["other000-f927", "../../..", "*", "", "6831"])
def test_another_session_does_not_wait(tmp_path, session):
    begun(tmp_path, "2026-11-21T12-00")
    assert wait_ms(tmp_path, PATTERN, session, now_ms=NOON_MS) == 0


def test_an_agent_that_was_never_here_makes_nobody_wait(tmp_path):
    assert wait_ms(tmp_path / "none", PATTERN, BEGUN, now_ms=NOON_MS) == 0
