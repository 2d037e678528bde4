"""The adapter on a stand-in for the server: every promise, with all that it can be provoked to.

The same promises are kept on the real Codex in tests/live.
"""

import hashlib
import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import anyio
import pytest
from tests.agents.scripted_suite import CANNOT, UNKNOWN, scripted_agent, spread_promises

from upthread.agents.base import PermissionAnswer
from upthread.agents.codex import adapter
from upthread.agents.codex.adapter import TIMEOUT_S, CodexAdapter, Hook, hook_words, hooks_in
from upthread.core.events import ChildStarted, PermissionAnswered, TextReceived, UnknownReceived
from upthread.core.types import Outcome
from upthread.errors import UpstreamError
from upthread.testing.agent_conformance import Verdict

pytestmark = pytest.mark.anyio

LONE_SURROGATES = "A12_an_odd_prompt_is_kept_identical"
"""Codex holds no half of a surrogate pair: see below."""

AGENT = scripted_agent(
    CodexAdapter,
    Path(__file__).parent / "scripted_codex.py",
    no_version='input(); print(\'{"id": 1, "result": {}}\'); input()',
    outcomes={
        Outcome.OK: "hello",
        Outcome.PROCESS_DIED: "die",
        Outcome.RATE_LIMITED: "limited",
        Outcome.CANCELLED: "interrupted",
    },
    odd_text="é 🎈 \0 end",
)


@pytest.mark.parametrize("promise", spread_promises(leaving_out=[LONE_SURROGATES]))
async def test_it_keeps_promise(promise, tmp_path):
    verdict = await promise.run(AGENT, tmp_path)
    assert (verdict is Verdict.ABSENT) == (promise.needs in CANNOT)


@pytest.fixture
def opened(request_for, tmp_path):
    """Start the stand-in; a request and more variables may be given."""

    def open_agent(request=None, **environment):
        given = {"HOME": str(tmp_path), **environment}
        return AGENT.adapter.open(request_for(environment=given, **(request or {})))

    return open_agent


@pytest.fixture
async def connection(opened):
    async with opened() as connection:
        yield connection


@pytest.fixture
async def prompted(connection, recorded):
    """Prompt a new session; the events are in `recorded`."""

    async def prompt(text):
        session = await connection.new_session()
        return await connection.prompt(session, text, on_event=recorded)

    return prompt


@pytest.mark.extended
async def test_half_a_surrogate_pair_is_sent_as_the_replacement_character(prompted, recorded):
    """Codex would drop the whole message without a word."""
    assert (await prompted("half \ud83d a pair")).outcome is Outcome.OK
    assert recorded.text == "said: half \ufffd a pair"


async def test_an_error_that_has_its_words_in_its_data_is_told_with_them(opened):
    async with opened(SCRIPTED_SAYS_IN_DATA="1") as connection:
        session = await connection.new_session()
        with pytest.raises(UpstreamError, match=r"no .*it is frozen"):
            await connection.resume_session(session)


async def test_only_an_id_is_ever_resumed(connection, recorded):
    """Codex would take a name, and begin a new thread where it knows none of that name."""
    for name in ("spec-42", "--last", "", "urn:uuid:" + UNKNOWN):
        with pytest.raises(UpstreamError) as caught:
            await connection.resume_session(name)
        assert caught.value.outcome == Outcome.MISSING
    result = await connection.prompt(UNKNOWN, "hello", on_event=recorded)
    assert result.outcome is Outcome.MISSING, "it was never attached"


@pytest.mark.parametrize(
    ("refusals", "role"), [(0, "explorer"), (3, "explorer"), (1_000_000, "subagent")]
)
async def test_a_sub_agent_whose_thread_is_not_written_yet_is_asked_about_again(
    prompted, recorded, monkeypatch, refusals, role
):
    """Its work is recorded without a role where none is ever reported."""
    patience_s = 0.3 if role == "subagent" else 30
    monkeypatch.setattr(adapter, "ROLE_PATIENCE_S", patience_s)
    assert (await prompted(f"spawn {refusals}")).outcome is Outcome.OK
    assert [each.role for each in recorded if isinstance(each, ChildStarted)] == [role]


async def test_another_thread_than_the_one_asked_for_is_never_used(opened):
    async with opened() as connected:
        session = await connected.new_session()
    async with opened(SCRIPTED_MOVES=UNKNOWN) as connected:
        with pytest.raises(UpstreamError) as caught:
            await connected.resume_session(session)
    assert caught.value.outcome == Outcome.UNKNOWN
    assert UNKNOWN in caught.value.message
    assert session in caught.value.message


@pytest.mark.parametrize(("title", "named"), [("a/planner", "a/planner"), ("", "upthread")])
async def test_a_new_session_and_a_fork_have_the_title_that_was_asked_for(opened, title, named):
    async with opened({"title": title}) as connected:
        session = await connected.new_session()
        forked = await connected.fork_session(session)
        listed = (await connected._server.ask("thread/list", {}))["data"]
    names = {each["id"]: each.get("name") for each in listed}
    assert (names[session], names[forked] or "") == (named, title), "else what Codex calls it"


async def test_a_history_of_many_pages_is_read_whole_and_in_order(connection, recorded):
    session = await connection.new_session()
    for number in range(5):
        await connection.prompt(session, f"number {number}", on_event=recorded)
    history = await connection.load_session(session)
    replies = [event.text for event in history if isinstance(event, TextReceived)]
    assert replies == [f"said: number {number}" for number in range(5)]


async def test_words_of_an_earlier_turn_are_no_reply(connection, prompted, recorded):
    await prompted("stale")
    assert recorded.text == "said: stale"
    assert connection.late_events == 1


async def test_a_limit_that_is_waited_out_in_silence_ends_the_turn(prompted, monkeypatch):
    monkeypatch.setitem(adapter.RETRY_WAIT_MAX_S, Outcome.RATE_LIMITED, 0.2)
    with anyio.fail_after(30):
        assert (await prompted("waits")).outcome is Outcome.RATE_LIMITED
    assert (await prompted("hello")).outcome is Outcome.OK


async def test_a_network_that_stays_away_ends_the_turn_as_a_passing_failure(prompted, monkeypatch):
    monkeypatch.setitem(adapter.RETRY_WAIT_MAX_S, Outcome.TRANSIENT, 0.5)
    with anyio.fail_after(30):
        ended = await prompted("offline")
    assert (ended.outcome, ended.detail[:15]) == (Outcome.TRANSIENT, "Reconnecting...")


async def test_a_question_of_the_agents_own_is_dismissed_in_the_open(prompted, recorded):
    assert (await prompted("question")).outcome is Outcome.OK
    kinds = [event.kind for event in recorded if isinstance(event, UnknownReceived)]
    assert kinds == ["question_dismissed"]


# --- permissions -------------------------------------------------------------------------------

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
MORE = "item/permissions/requestApproval"
TOOL = "mcpServer/elicitation/request"
TOUCH = {"command": "touch x"}
RUN = {"message": "Run it?"}
WANTED = {"network": {"enabled": True}}
ACCEPTED = {"action": "accept", "content": {}, "_meta": None}
DECLINED = {"action": "decline", "content": None, "_meta": None}
CASES = (
    (COMMAND, TOUCH, "allow", {"decision": "accept"}),
    (COMMAND, TOUCH, "reject", {"decision": "decline"}),
    (COMMAND, TOUCH, None, {"decision": "cancel"}),
    (FILES, {}, "allow", {"decision": "accept"}),
    (FILES, {}, "reject", {"decision": "decline"}),
    (MORE, {"permissions": WANTED}, "allow", {"permissions": WANTED, "scope": "turn"}),
    (MORE, {"permissions": WANTED}, "reject", {"permissions": {}, "scope": "turn"}),
    (TOOL, RUN, "allow", ACCEPTED),
    (TOOL, RUN, "reject", DECLINED),
)


async def test_a_permission_is_answered_in_codexs_own_words(opened, recorded):
    kinds = {"allow": "allow_once", "reject": "reject_once", None: "cancelled"}
    asked, answers = [], [answer for _, _, answer, _ in CASES]

    async def decide(request):
        asked.append(request)
        return PermissionAnswer(option_id=answers[len(asked) - 1], answered_by="test")

    async with opened({"answer_permission": decide}) as connected:
        session = await connected.new_session()
        for method, members, answer, sent in CASES:
            recorded.clear()
            prompt = f"permission {method} {json.dumps(members)}"
            await connected.prompt(session, prompt, on_event=recorded)
            assert json.loads(recorded.text) == sent
            (event,) = (each for each in recorded if isinstance(each, PermissionAnswered))
            assert (event.answer, event.answered_by) == (kinds[answer], "test")
            assert [kind for _, kind in asked[-1].options] == ["allow_once", "reject_once"]
    request = asked[3]
    assert (request.tool_kind, request.locations) == ("edit", ("/work/a.txt",))
    assert (request.title, request.call_id) == ("edit /work/a.txt", "call-1")
    assert request.arguments["changes"][0]["diff"] == "hello\n", "what the file change would change"


async def test_what_upthread_cannot_answer_is_refused_and_nobody_is_asked(opened, recorded):
    async def decide(_request):
        raise AssertionError("nobody is asked")

    async with opened({"answer_permission": decide}) as connected:
        session = await connected.new_session()
        for method, members in (
            (TOOL, {"message": "Name?", "requestedSchema": {"properties": {"name": {}}}}),
            (TOOL, {"message": "Open this.", "url": "https://example.com"}),
            ("item/tool/call", {}),
            ("account/chatgptAuthTokens/refresh", {}),
        ):
            recorded.clear()
            prompt = f"permission {method} {json.dumps(members)}"
            result = await connected.prompt(session, prompt, on_event=recorded)
            assert result.outcome is Outcome.OK
            assert json.loads(recorded.text)["message"] == "upthread does not do this"


@pytest.mark.parametrize("cursor", ["1", "another each time"])
async def test_a_history_whose_pages_do_not_end_is_no_history(opened, monkeypatch, cursor):
    monkeypatch.setattr(adapter, "PAGES_MAX", 20)
    async with opened(SCRIPTED_CURSOR=cursor) as connection:
        with pytest.raises(UpstreamError, match="pages that do not end"):
            await connection.list_sessions()


# --- more -----------------------------------------------------------------------------------------

# What Codex's command line says for a hook of ours: readable TOML, and trusted as Codex counts.
#
# The hooks Codex lists: which of them it would run. The real one is asked in tests/live.


def given() -> dict:
    """What the words after each `-c` add up to."""
    words = hook_words()
    assert words[::2] == ("-c",) * (len(words) // 2)
    return tomllib.loads("\n".join(words[1::2]))["hooks"]


def test_one_hook_stands_before_every_tool():
    ((matcher),) = given()["PreToolUse"]
    (hook,) = matcher["hooks"]
    assert (matcher["matcher"], hook["type"]) == ("*", "command")
    assert hook["timeout"] == TIMEOUT_S


def test_it_runs_isolated_by_absolute_path_and_is_there():
    ((matcher),) = given()["PreToolUse"]
    python, *options, program = shlex.split(matcher["hooks"][0]["command"])
    assert Path(python).is_absolute()
    assert options == ["-I", "-S"]
    assert Path(program).is_file()
    done = subprocess.run(
        [python, *options, program], input="{}", capture_output=True, text=True, check=False
    )
    assert "deny" in done.stdout, done


def test_the_trust_is_of_exactly_that_hook():
    """As Codex 0.169.0 counts it: sorted keys, no spaces, the event's name in lower case."""
    ((matcher),) = given()["PreToolUse"]
    hooks = [{"async": False, **matcher["hooks"][0]}]
    identity = {"event_name": "pre_tool_use", "hooks": hooks, "matcher": "*"}
    text = json.dumps(identity, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    ((key, trusted),) = given()["state"].items()
    assert key.endswith(":pre_tool_use:0:0")
    assert trusted == {"trusted_hash": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


def listed(**more):
    return {"eventName": "preToolUse", "command": "look", "enabled": True, **more}


@pytest.mark.parametrize(
    ("more", "is_run"),
    [
        ({"trustStatus": "trusted"}, True),
        ({"trustStatus": "managed"}, True),
        ({"trustStatus": "untrusted"}, False),
        ({"trustStatus": "modified"}, False),
        ({"trustStatus": "trusted", "enabled": False}, False),
        ({}, False),
    ],
)
def test_a_hook_is_run_when_it_is_on_and_somebody_trusts_it(more, is_run):
    answer = {"data": [{"cwd": "/p", "hooks": [listed(**more)]}]}
    assert hooks_in(answer) == (Hook(event="preToolUse", command="look", is_run=is_run),)


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": [{"hooks": "none"}]}])
def test_an_answer_without_hooks_lists_none(answer):
    assert hooks_in(answer) == ()
