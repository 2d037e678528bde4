"""The adapter on a stand-in for the CLI: every promise, with all that it can be provoked to.

The same promises are kept on the real Claude Code in tests/live.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from upthread.agents._probes import remember
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.core.events import TextReceived
from upthread.core.types import Outcome
from upthread.errors import ConfigError, UpstreamError
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = pytest.mark.anyio

SCRIPTED = Path(__file__).parent / "scripted_claude.py"
LARGE = "many words, " * 20_000 + "the end"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CANNOT = {"opaque", "pieces", "child", "child_words", "permission", "leaves", "usage"}
"""What only the real one can be brought to, and does in tests/live."""

LISTING = "A17"
"""Claude Code cannot list its sessions."""


def scripted():
    return ClaudeCodeAdapter(command=[sys.executable, str(SCRIPTED)])


def program(text):
    return ClaudeCodeAdapter(command=[sys.executable, "-c", text])


AGENT = AgentUnderTest(
    name="claude-code (scripted)",
    adapter=scripted(),
    environment=lambda place: {"HOME": str(place)},
    unknown_session=UNKNOWN,
    bad_starts={
        "dies": program("raise SystemExit(3)"),
        "prints garbage": program("print('hello')"),
        "hangs": program("import time; time.sleep(60)"),
        "says no version": program("print()"),
    },
    outcomes={
        Outcome.OK: "hello",
        Outcome.PROCESS_DIED: "die",
        Outcome.UNKNOWN: "elsewhere",
        Outcome.RATE_LIMITED: "limited",
    },
    odd_text=("é 🎈 \0 \ud83d end", "é 🎈 \0 \ud83d end"),
    hang="hang",
    deaf="deaf",
    late="late",
    late_words="too late",
    resets="limited",
    large=(LARGE, LARGE),
    unstamped="unstamped",
    unknown_update="news",
    garbage="garbage",
)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
async def test_it_keeps_promise(promise, tmp_path):
    verdict = await promise.run(AGENT, tmp_path)
    assert (verdict is Verdict.ABSENT) == (promise.needs in CANNOT or promise.number == LISTING)


@pytest.fixture
def request_in(request_for, tmp_path):
    return structs.replace(request_for(), environment={"HOME": str(tmp_path)})


async def test_a_command_that_does_not_exist_is_a_matter_of_configuration(request_in):
    with pytest.raises(ConfigError):
        async with ClaudeCodeAdapter(command=["no-such-claude"]).open(request_in):
            pass


async def test_only_an_id_is_ever_resumed(request_in, tmp_path):
    """The CLI would open what a title or a path names."""
    named = tmp_path / ".claude" / "projects" / "work" / "spec-42.jsonl"
    named.parent.mkdir(parents=True)
    named.write_text("{}\n")
    async with scripted().open(request_in) as connection:
        for name in ("spec-42", str(named), "--help", ""):
            with pytest.raises(UpstreamError) as caught:
                await connection.resume_session(name)
            assert caught.value.outcome == Outcome.MISSING
        assert connection.process is None


async def test_a_transcript_the_agent_finds_nothing_in_is_missing(request_in, tmp_path):
    empty = tmp_path / ".claude" / "projects" / "work" / f"{UNKNOWN}.jsonl"
    empty.parent.mkdir(parents=True)
    empty.write_text("")
    async with scripted().open(request_in) as connection:
        with pytest.raises(UpstreamError) as caught:
            await connection.load_session(UNKNOWN)
    assert caught.value.outcome == Outcome.MISSING


async def test_a_session_whose_place_another_took_is_attached_again(request_in, recorded):
    async with scripted().open(request_in) as connection:
        first = await connection.new_session()
        await connection.new_session()
        result = await connection.prompt(first, "hello", on_event=recorded)
        assert result.outcome is Outcome.OK
        missing = await connection.prompt(UNKNOWN, "hello", on_event=recorded)
        assert missing.outcome is Outcome.MISSING


async def test_a_fork_has_the_history_and_an_id_of_its_own(request_in, recorded):
    async with scripted().open(request_in) as connection:
        session = await connection.new_session()
        await connection.prompt(session, "the word is KIWI", on_event=recorded)
        forked = await connection.fork_session(session)
        assert forked != session
        assert "KIWI" in str(await connection.load_session(forked))


@pytest.mark.parametrize("title", ["a/planner", ""])
async def test_a_new_session_and_a_fork_have_the_title_that_was_asked_for(
    request_in, tmp_path, title
):
    async with scripted().open(structs.replace(request_in, title=title)) as connection:
        session = await connection.new_session()
        forked = await connection.fork_session(session)
    for each in (session, forked):
        (transcript,) = (tmp_path / ".claude" / "projects").glob(f"*/{each}.jsonl")
        assert (f'"customTitle": "{title}"' in transcript.read_text()) == bool(title)


async def test_the_end_of_a_subscriptions_limit_is_told(request_in, recorded):
    async with scripted().open(request_in) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, "limited", on_event=recorded)
        assert (result.outcome, result.reset_at_ms) == (Outcome.RATE_LIMITED, 1_800_000_000_000)
        assert not any(isinstance(event, TextReceived) for event in recorded)


async def test_what_the_agent_asks_beside_permissions_is_refused(request_in, recorded):
    async with scripted().open(request_in) as connection:
        session = await connection.new_session()
        await connection.prompt(session, "ask", on_event=recorded)
    assert recorded.text == "error: upthread does not do this"


async def test_the_last_words_of_an_agent_that_died_are_told(request_in, recorded):
    async with scripted().open(request_in) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, "die", on_event=recorded)
    assert result.outcome is Outcome.PROCESS_DIED
    assert "exited with code 3" in result.detail


async def test_it_lists_no_sessions_and_says_so(request_in):
    async with scripted().open(request_in) as connection:
        assert not connection.capabilities.can_list
        with pytest.raises(UpstreamError):
            await connection.list_sessions()


def test_a_person_resumes_with_the_command_that_is_used():
    assert scripted().resume_command("x") == (sys.executable, str(SCRIPTED), "--resume", "x")
    assert scripted().resume_command("--help") is None
    assert scripted().resume_command("a742ea7680ae1c821") is None, "a sub-agent's"


async def test_the_version_is_the_number_whoever_remembered_what_was_printed(
    request_in, tmp_path, monkeypatch
):
    monkeypatch.setenv("UPTHREAD_HOME", str(tmp_path))
    claude = tmp_path / "claude"
    claude.write_bytes(b"\x7fELF")
    claude.chmod(0o755)
    # As `upthread agents` keeps it, which shows a person all that was printed.
    remember((str(claude), "--version"), "2.1.330 (Claude Code)")
    adapter = ClaudeCodeAdapter(command=(str(claude),))
    async with adapter.open(request_in) as connection:
        assert connection.capabilities.version == "2.1.330"
