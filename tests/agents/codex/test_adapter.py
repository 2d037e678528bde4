"""The adapter on a stand-in for the server: every promise, with all that it can be provoked to.

The same promises are kept on the real Codex in tests/live.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from upthread.agents.base import PermissionAnswer
from upthread.agents.codex import adapter, server
from upthread.agents.codex.adapter import CodexAdapter
from upthread.core.events import ChildStarted, PermissionAnswered, TextReceived, UnknownReceived
from upthread.core.types import Outcome
from upthread.errors import ConfigError, UpstreamError
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = pytest.mark.anyio

SCRIPTED = Path(__file__).parent / "scripted_codex.py"
LARGE = "many words, " * 20_000 + "the end"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CANNOT = {"opaque", "pieces", "child", "child_words", "permission", "leaves", "usage"}
"""What only the real one can be brought to, and does in tests/live."""
LONE_SURROGATES = "A12_an_odd_prompt_is_kept_identical"
"""Codex holds no half of a surrogate pair: see below."""


def scripted():
    return CodexAdapter(command=[sys.executable, str(SCRIPTED)])


def program(text):
    return CodexAdapter(command=[sys.executable, "-c", text])


AGENT = AgentUnderTest(
    name="codex (scripted)",
    adapter=scripted(),
    environment=lambda place: {"HOME": str(place)},
    unknown_session=UNKNOWN,
    bad_starts={
        "dies": program("raise SystemExit(3)"),
        "prints garbage": program("print('hello')"),
        "hangs": program("import time; time.sleep(60)"),
        "says no version": program('input(); print(\'{"id": 1, "result": {}}\'); input()'),
    },
    outcomes={
        Outcome.OK: "hello",
        Outcome.PROCESS_DIED: "die",
        Outcome.RATE_LIMITED: "limited",
        Outcome.CANCELLED: "interrupted",
    },
    odd_text=("é 🎈 \0 end", "é 🎈 \0 end"),
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


@pytest.mark.parametrize(
    "promise", [each for each in PROMISES if each.name != LONE_SURROGATES], ids=lambda p: p.name
)
async def test_it_keeps_promise(promise, tmp_path):
    verdict = await promise.run(AGENT, tmp_path)
    assert (verdict is Verdict.ABSENT) == (promise.needs in CANNOT)


@pytest.fixture
def request_in(request_for, tmp_path):
    return structs.replace(request_for(), environment={"HOME": str(tmp_path)})


async def test_a_command_that_does_not_exist_is_a_matter_of_configuration(request_in):
    with pytest.raises(ConfigError):
        async with CodexAdapter(command=["no-such-codex"]).open(request_in):
            pass


async def test_half_a_surrogate_pair_is_sent_as_what_stands_for_none(request_in, recorded):
    """Codex would drop the whole message without a word."""
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        result = await connected.prompt(session, "half \ud83d a pair", on_event=recorded)
    assert result.outcome is Outcome.OK
    assert recorded.text == "said: half \ufffd a pair"


async def test_only_an_id_is_ever_resumed(request_in):
    """Codex would take a name, and begin a new thread where it knows none of that name."""
    async with scripted().open(request_in) as connected:
        for name in ("spec-42", "--last", "", "urn:uuid:" + UNKNOWN):
            with pytest.raises(UpstreamError) as caught:
                await connected.resume_session(name)
            assert caught.value.outcome == Outcome.MISSING
    assert scripted().resume_command("spec-42") is None
    assert scripted().resume_command(UNKNOWN) == ("codex", "resume", "--no-daemon", UNKNOWN)


@pytest.mark.parametrize(
    ("refusals", "role"), [(0, "explorer"), (3, "explorer"), (1_000_000, "subagent")]
)
async def test_a_sub_agent_whose_thread_is_not_written_yet_is_asked_about_again(
    request_in, recorded, monkeypatch, refusals, role
):
    """And its work is recorded without a role where none is ever told."""
    monkeypatch.setattr(server, "ROLE_PATIENCE_S", 0.5)
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        result = await connected.prompt(session, f"spawn {refusals}", on_event=recorded)
    assert result.outcome is Outcome.OK
    assert [each.role for each in recorded if isinstance(each, ChildStarted)] == [role]


async def test_another_thread_than_the_one_asked_for_is_never_used(request_in):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
    moved = structs.replace(
        request_in, environment={**request_in.environment, "SCRIPTED_MOVES": UNKNOWN}
    )
    async with scripted().open(moved) as connected:
        with pytest.raises(UpstreamError) as caught:
            await connected.resume_session(session)
    assert caught.value.outcome == Outcome.UNKNOWN
    assert UNKNOWN in caught.value.message
    assert session in caught.value.message


async def test_a_fork_has_the_history_and_an_id_of_its_own(request_in, recorded):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        await connected.prompt(session, "the word is KIWI", on_event=recorded)
        forked = await connected.fork_session(session)
        assert forked != session
        assert "KIWI" in str(await connected.load_session(forked))


@pytest.mark.parametrize(("title", "named"), [("a/planner", "a/planner"), ("", "upthread")])
async def test_a_new_session_and_a_fork_have_the_title_that_was_asked_for(request_in, title, named):
    async with scripted().open(structs.replace(request_in, title=title)) as connected:
        session = await connected.new_session()
        forked = await connected.fork_session(session)
        titles = {each.upstream_session_id: each.title for each in await connected.list_sessions()}
        assert titles[session] == named
        assert titles[forked] == (title or "p"), "what Codex calls it"


async def test_a_history_of_many_pages_is_read_whole_and_in_order(request_in, recorded):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        for number in range(5):
            await connected.prompt(session, f"number {number}", on_event=recorded)
        history = await connected.load_session(session)
    replies = [event.text for event in history if isinstance(event, TextReceived)]
    assert replies == [f"said: number {number}" for number in range(5)]


async def test_a_thread_that_was_never_attached_is_missing(request_in, recorded):
    async with scripted().open(request_in) as connected:
        result = await connected.prompt(UNKNOWN, "hello", on_event=recorded)
    assert result.outcome is Outcome.MISSING


async def test_words_of_an_earlier_turn_are_no_reply(request_in, recorded):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        await connected.prompt(session, "stale", on_event=recorded)
        assert recorded.text == "said: stale"
        assert connected.late_events == 1


async def test_a_limit_of_the_subscription_says_when_it_ends(request_in, recorded):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        result = await connected.prompt(session, "limited", on_event=recorded)
    assert (result.outcome, result.reset_at_ms) == (Outcome.RATE_LIMITED, 1_800_000_000_000)


async def test_a_limit_that_is_waited_out_in_silence_ends_the_turn(
    request_in, recorded, monkeypatch
):
    monkeypatch.setattr(adapter, "RETRY_WAIT_MAX_S", 0.2)
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        with anyio.fail_after(5):
            result = await connected.prompt(session, "waits", on_event=recorded)
        assert result.outcome is Outcome.RATE_LIMITED
        after = await connected.prompt(session, "hello", on_event=recorded)
        assert after.outcome is Outcome.OK


async def test_a_question_of_the_agents_own_is_dismissed_in_the_open(request_in, recorded):
    async with scripted().open(request_in) as connected:
        session = await connected.new_session()
        result = await connected.prompt(session, "question", on_event=recorded)
    assert result.outcome is Outcome.OK
    kinds = [event.kind for event in recorded if isinstance(event, UnknownReceived)]
    assert kinds == ["question_dismissed"]


# --- permissions -------------------------------------------------------------------------------

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
MORE = "item/permissions/requestApproval"
TOOL = "mcpServer/elicitation/request"
WANTED = {"network": {"enabled": True}}


@pytest.mark.parametrize(
    ("method", "members", "answer", "sent"),
    [
        (COMMAND, {"command": "touch x"}, "allow", {"decision": "accept"}),
        (COMMAND, {"command": "touch x"}, "reject", {"decision": "decline"}),
        (COMMAND, {"command": "touch x"}, None, {"decision": "cancel"}),
        (FILES, {}, "allow", {"decision": "accept"}),
        (FILES, {}, "reject", {"decision": "decline"}),
        (MORE, {"permissions": WANTED}, "allow", {"permissions": WANTED, "scope": "turn"}),
        (MORE, {"permissions": WANTED}, "reject", {"permissions": {}, "scope": "turn"}),
        (TOOL, {"message": "Run it?"}, "allow", {"action": "accept", "content": {}, "_meta": None}),
        (
            TOOL,
            {"message": "Run it?"},
            "reject",
            {"action": "decline", "content": None, "_meta": None},
        ),
    ],
)
async def test_a_permission_is_answered_in_codexs_own_words(
    request_in, recorded, method, members, answer, sent
):
    asked = []

    async def decide(request):
        asked.append(request)
        return PermissionAnswer(option_id=answer, answered_by="test")

    async with scripted().open(structs.replace(request_in, answer_permission=decide)) as connected:
        session = await connected.new_session()
        prompt = f"permission {method} {json.dumps(members)}"
        await connected.prompt(session, prompt, on_event=recorded)
    assert json.loads(recorded.text) == sent
    (event,) = (each for each in recorded if isinstance(each, PermissionAnswered))
    kinds = {"allow": "allow_once", "reject": "reject_once", None: "cancelled"}
    assert (event.answer, event.answered_by) == (kinds[answer], "test")
    assert [kind for _, kind in asked[0].options] == ["allow_once", "reject_once"]


async def test_what_a_file_change_would_change_is_in_its_request(request_in, recorded):
    asked = []

    async def decide(request):
        asked.append(request)
        return PermissionAnswer(option_id="reject", answered_by="test")

    async with scripted().open(structs.replace(request_in, answer_permission=decide)) as connected:
        session = await connected.new_session()
        await connected.prompt(session, f"permission {FILES} {{}}", on_event=recorded)
    (request,) = asked
    assert (request.tool_kind, request.locations) == ("edit", ("/work/a.txt",))
    assert (request.title, request.call_id) == ("edit /work/a.txt", "call-1")
    assert request.arguments["changes"][0]["diff"] == "hello\n"


@pytest.mark.parametrize(
    ("method", "members"),
    [
        (TOOL, {"message": "Name?", "requestedSchema": {"properties": {"name": {}}}}),
        (TOOL, {"message": "Open this.", "url": "https://example.com"}),
        ("item/tool/call", {}),
        ("account/chatgptAuthTokens/refresh", {}),
    ],
)
async def test_what_upthread_cannot_answer_is_refused_and_nobody_is_asked(
    request_in, recorded, method, members
):
    async def decide(_request):
        raise AssertionError("nobody is asked")

    async with scripted().open(structs.replace(request_in, answer_permission=decide)) as connected:
        session = await connected.new_session()
        prompt = f"permission {method} {json.dumps(members)}"
        result = await connected.prompt(session, prompt, on_event=recorded)
    assert result.outcome is Outcome.OK
    assert json.loads(recorded.text)["message"] == "upthread does not do this"


@pytest.mark.parametrize("cursor", ["1", "another each time"])
async def test_a_history_whose_pages_do_not_end_is_no_history(request_in, monkeypatch, cursor):
    monkeypatch.setattr(server, "PAGES_MAX", 20)
    number = iter(range(1_000))

    async def ask(self, method, asked, **_more):
        if method != "thread/list":
            return await whole(self, method, asked, **_more)
        return {"data": [], "nextCursor": cursor if cursor == "1" else str(next(number))}

    whole = server.CodexServer.ask
    monkeypatch.setattr(server.CodexServer, "ask", ask)
    async with scripted().open(request_in) as connection:
        with pytest.raises(UpstreamError, match="pages that do not end"):
            await connection.list_sessions()
