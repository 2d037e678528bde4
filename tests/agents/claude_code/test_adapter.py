"""The adapter on a stand-in for the CLI: every promise, with all that it can be provoked to.

The same promises are kept on the real Claude Code in tests/live.
"""

from pathlib import Path

import pytest
from tests.agents.scripted_suite import CANNOT, UNKNOWN, scripted_agent, spread_promises

from upthread.agents._process import remember
from upthread.agents.claude_code.adapter import TOOLS, UNATTENDED, ClaudeCodeAdapter, limiting_words
from upthread.core.decision.rollover import says_not_started
from upthread.core.events import TextReceived
from upthread.core.roles.limits import NO_LIMITS, RoleLimits
from upthread.core.roles.role import limits_of_codex, limits_of_front_matter
from upthread.core.types import Outcome
from upthread.errors import UpstreamError
from upthread.testing.agent_conformance import Verdict

pytestmark = pytest.mark.anyio

SCRIPTED = Path(__file__).parent / "scripted_claude.py"
LISTING = "A17"
"""Claude Code cannot list its sessions."""

AGENT = scripted_agent(
    ClaudeCodeAdapter,
    SCRIPTED,
    no_version="print()",
    outcomes={
        Outcome.OK: "hello",
        Outcome.PROCESS_DIED: "die",
        Outcome.UNKNOWN: "elsewhere",
        Outcome.RATE_LIMITED: "limited",
    },
    odd_text="é 🎈 \0 \ud83d end",
)


@pytest.mark.extended
@pytest.mark.parametrize("promise", spread_promises())
async def test_it_keeps_promise(promise, tmp_path):
    verdict = await promise.run(AGENT, tmp_path)
    assert (verdict is Verdict.ABSENT) == (promise.needs in CANNOT or promise.number == LISTING)


@pytest.fixture
def home(tmp_path):
    home = tmp_path / ".claude" / "projects" / "work"
    home.mkdir(parents=True)
    return home


@pytest.fixture
async def connection(request_for, tmp_path):
    async with AGENT.adapter.open(request_for(environment={"HOME": str(tmp_path)})) as connection:
        yield connection


async def test_only_an_id_of_a_transcript_with_messages_is_ever_resumed(connection, home):
    """The CLI would open a session by its title or by a path."""
    (home / "spec-42.jsonl").write_text("{}\n")
    (home / f"{UNKNOWN}.jsonl").write_text("")
    for name in ("spec-42", str(home / "spec-42.jsonl"), "--help", "", UNKNOWN):
        attach = connection.load_session if name == UNKNOWN else connection.resume_session
        with pytest.raises(UpstreamError) as caught:
            await attach(name)
        assert caught.value.outcome == Outcome.MISSING
        assert connection.process is None or name == UNKNOWN


async def test_what_dies_of_its_session_is_told_from_what_does_not_start(
    request_for, tmp_path, home
):
    request = request_for(environment={"HOME": str(tmp_path), "DIES_OF_ITS_SESSION": "1"})
    async with AGENT.adapter.open(request) as connection:
        session = await connection.new_session()
        with pytest.raises(UpstreamError, match="exited with code 134 during --resume") as caught:
            await connection.load_session(session)
        assert not says_not_started(caught.value.message)


async def test_what_ends_its_start_with_an_error_result_is_told_with_its_words(
    request_for, tmp_path, home
):
    request = request_for(environment={"HOME": str(tmp_path), "ENDS_WITH_ERROR": "it is frozen"})
    async with AGENT.adapter.open(request) as connection:
        session = await connection.new_session()
        with pytest.raises(UpstreamError, match="during --resume") as caught:
            await connection.load_session(session)
        assert "it is frozen" in caught.value.hint


async def test_a_session_whose_place_another_took_is_attached_again(connection, recorded):
    first = await connection.new_session()
    await connection.new_session()
    assert (await connection.prompt(first, "hello", on_event=recorded)).outcome is Outcome.OK
    missing = await connection.prompt(UNKNOWN, "hello", on_event=recorded)
    assert missing.outcome is Outcome.MISSING


@pytest.mark.parametrize("title", ["a/planner", ""])
async def test_a_new_session_and_a_fork_have_the_title_that_was_asked_for(
    request_for, tmp_path, home, title
):
    request = request_for(environment={"HOME": str(tmp_path)}, title=title)
    async with AGENT.adapter.open(request) as connection:
        session = await connection.new_session()
        forked = await connection.fork_session(session)
    for each in (session, forked):
        (transcript,) = home.parent.glob(f"*/{each}.jsonl")
        assert (f'"customTitle": "{title}"' in transcript.read_text()) == bool(title)


async def test_an_agents_question_is_refused_a_limit_is_no_reply_and_its_end_is_reported(
    connection, recorded
):
    session = await connection.new_session()
    await connection.prompt(session, "ask", on_event=recorded)
    assert recorded.text == "error: upthread does not do this"
    recorded.clear()
    result = await connection.prompt(session, "limited", on_event=recorded)
    assert (result.outcome, result.reset_at_ms) == (Outcome.RATE_LIMITED, 1_800_000_000_000)
    assert not any(isinstance(event, TextReceived) for event in recorded)
    result = await connection.prompt(session, "die", on_event=recorded)
    assert "exited with code 3" in result.detail
    with pytest.raises(UpstreamError):
        await connection.list_sessions()


async def test_the_version_is_the_number_in_the_text_that_was_remembered(
    request_for, tmp_path, monkeypatch
):
    monkeypatch.setenv("UPTHREAD_HOME", str(tmp_path))
    claude = tmp_path / "claude"
    claude.write_bytes(b"\x7fELF")
    claude.chmod(0o755)
    # As `upthread agents` keeps it, which shows a person all that was printed.
    remember((str(claude), "--version"), "2.1.330 (Claude Code)")
    adapter = ClaudeCodeAdapter(command=(str(claude),))
    async with adapter.open(request_for(environment={"HOME": str(tmp_path)})) as connection:
        assert connection.capabilities.version == "2.1.330"


# --- A role's limits as words of Claude Code's command line: only ever such as take away ----------


USUAL = f"--disallowedTools={','.join(UNATTENDED)}"


def words(of: RoleLimits) -> tuple[str, ...]:
    return limiting_words(of, agent="claude-code")


def front(**fields: object) -> RoleLimits:
    return limits_of_front_matter(fields, "a")


def test_without_limits_only_what_waits_for_a_person_is_off():
    assert words(NO_LIMITS) == (USUAL,)


def test_what_is_denied_wholly_is_not_offered():
    of = front(disallowedTools="Bash, mcp__a__b, WebFetch")
    assert words(of) == (f"{USUAL},Bash,PowerShell,WebFetch,mcp__a__b",)
    assert words(front(permission={"bash": {"rm *": "deny"}})) == (USUAL,)
    assert words(limits_of_codex({"sandbox_mode": "read-only"}, "a")) == (
        f"{USUAL},Bash,Edit,MultiEdit,NotebookEdit,PowerShell,Write",
    )


def test_where_only_named_tools_are_left_no_other_is_offered():
    disallowed, offered = words(front(tools="Read, Grep"))
    assert offered == "--tools=Grep,NotebookRead,Read"
    denied = disallowed.removeprefix(f"{USUAL},").split(",")
    assert {*denied, "Grep", "NotebookRead", "Read"} == set(TOOLS)
    assert words(front(tools=[]))[1] == "--tools="


def test_its_model_is_named_and_no_other_agents():
    assert words(front(model="haiku")) == (USUAL, "--model=haiku")
    assert words(front(model="a/b")) == (USUAL,)


@pytest.mark.parametrize(
    "fields",
    [
        {"permissionMode": "bypassPermissions"},
        {"permissionMode": "acceptEdits"},
        {"permission": "allow"},
        {"permission": {"bash": "allow"}},
    ],
)
def test_what_a_file_allows_becomes_no_word(fields: dict[str, object]):
    assert words(front(**fields)) == (USUAL,)
