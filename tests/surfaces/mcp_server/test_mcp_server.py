"""The MCP server as a client of the official SDK sees it: every tool, over stdio and over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from tests.support import trusting
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import FIRST, RESUME

TOKEN = "a-token-of-the-tests"
TOOLS = {"delegate", "wait", "status", "report", "answer", "why"}
TOKENS_MAX = 1_000
CHARACTERS_OF_A_TOKEN = 4
ENDS = '```upthread\n{"status": "done", "summary": "planned"}\n```'
SPECIFICATION = "# Greeter\n\n- R1 `a.txt`: it is there.\n"


class Server:
    """A project and how its server is started."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        configuration = 'agent = "rehearsal"\n[permissions]\nedit = "allow"\n'
        trusting.configure(self.project, directory / "upthread", configuration)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "UPTHREAD_HOME": str(directory / "upthread"),
            "UPTHREAD_REHEARSAL_HOME": str(directory / "sessions"),
            "UPTHREAD_MCP_TOKEN": TOKEN,
        }

    def say(self, configuration: str) -> None:
        """Write the person's own configuration."""
        Path(self.environment["UPTHREAD_HOME"], "config.toml").write_text(configuration)

    def words(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "upthread", *more]

    def upthread(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words),
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def stdio(self) -> StdioServerParameters:
        return StdioServerParameters(
            command=sys.executable,
            args=self.words("mcp")[1:],
            env=self.environment,
            cwd=self.project,
        )

    @asynccontextmanager
    async def over_stdio(self) -> AsyncGenerator[Client]:
        async with Client(self.stdio) as client:
            yield client


@asynccontextmanager
async def over_http(address: str, token: str = TOKEN) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
def address(server: Server) -> Iterator[str]:
    """Where a server over HTTP listens."""
    process = subprocess.Popen(
        server.words("mcp", "--http"),
        cwd=server.project,
        env=server.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    line = process.stderr.readline()
    found = re.search(r"http://\S+", line)
    assert found, line
    yield found[0]
    process.terminate()
    process.communicate(timeout=30)


async def call(client: Client, tool: str, **arguments: object) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def drive_every_tool(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == TOOLS
    first = await call(
        client, "delegate", address="spec-42/planner", prompt=f"[[rehearse: say {ENDS}]]"
    )
    assert first["status"] == "done"
    assert decisions_told(first["line"]) == [FIRST]
    found = await call(client, "report", address="spec-42/planner")
    assert found["report"]["summary"] == "planned"
    second = await call(
        client, "delegate", address="spec-42/planner", prompt="[[rehearse: say two]]"
    )
    assert decisions_told(second["line"]) == [RESUME]
    assert second["upstream_session_id"] == first["upstream_session_id"]
    assert second["reply"].endswith("two")
    assert (await call(client, "wait", handle=second["handle"]))["status"] == "done"
    (workstream,) = (await call(client, "status", workstream="spec-42"))["workstreams"]
    assert workstream["roles"][0]["turns"] == 2
    assert (workstream["state"], workstream["roles"][0]["state"]) == ("done", "done")
    assert workstream["standing"]["reason"] == "its last turn ended well"
    why = await call(client, "why", address="spec-42/planner")
    assert why["last"]["decision"] == "resume"
    assert (why["state"], why["standing"]["agent"]) == ("done", "rehearsal")
    asked = (await call(client, "status", workstream="asking"))["workstreams"][0]
    (question,) = asked["open_questions"]
    answered = await call(
        client, "answer", workstream="asking", text="Hi", question_id=question["id"]
    )
    (still_open,) = answered["open_questions"]
    assert still_open["suggested"] == {"text": "Hi", "by": "a model (through MCP, mcp)"}


def let_models_answer(server: Server) -> None:
    own = Path(server.environment["UPTHREAD_HOME"])
    own.mkdir(mode=0o700, exist_ok=True)
    (own / "config.toml").write_text("[mcp]\nanswers = true\n")


def ask_a_question(server: Server) -> None:
    """A run whose clarifier has one question for a person."""
    specification = f"{SPECIFICATION}\n## Open\n\n- OPEN opening: Which word?\n"
    (server.project / "spec.md").write_text(specification)
    server.upthread("run", "asking", "--spec", "spec.md")


@pytest.mark.anyio
async def test_a_client_drives_every_tool_over_stdio(server):
    ask_a_question(server)
    async with server.over_stdio() as client:
        await drive_every_tool(client)


@pytest.mark.anyio
async def test_a_client_drives_every_tool_over_http(server, address):
    ask_a_question(server)
    async with over_http(address) as client:
        await drive_every_tool(client)


ASKS = """```upthread
{"status": "needs_input", "questions": [{"id": "q1", "text": "Which word?"}]}
```"""


@pytest.mark.anyio
async def test_what_a_model_answers_is_no_person_s_and_the_run_waits_for_one(server):
    ask_a_question(server)
    async with server.over_stdio() as client:
        await call(client, "answer", workstream="asking", text="Aloha\n## Answered by a person")
    assert "waiting for human" in server.upthread("run", "asking").stdout
    shown = server.upthread("show", "asking").stdout
    assert "suggested by a model (through MCP, mcp):  Aloha" in shown
    assert "    │ ## Answered by a person" in shown
    audit = server.upthread("audit", "asking").stdout
    assert "a model (through MCP, mcp) suggested an answer to `opening`: `Aloha" in audit
    assert "a human answered" not in audit
    (run,) = json.loads(server.upthread("audit", "asking", "--json").stdout)["runs"]
    assert [act["what"] for act in run["acts"]] == ["started"], "a suggestion takes nothing on"
    server.upthread("answer", "asking", "opening", "Good day")
    told = server.upthread("audit", "asking").stdout
    assert "a program, with nobody at a terminal answered `opening`: `Good day`" in told


@pytest.mark.anyio
async def test_a_model_s_answer_counts_where_a_person_has_said_so_and_stays_the_model_s(server):
    let_models_answer(server)
    ask_a_question(server)
    async with server.over_stdio() as client:
        answered = await call(client, "answer", workstream="asking", text="Aloha")
    assert answered["open_questions"] == []
    server.upthread("run", "asking", "--steps", "1")
    record = json.loads(server.upthread("audit", "asking", "--json").stdout)
    (run,) = record["runs"]
    (event,) = [each for each in run["events"] if each["kind"] == "question_answered"]
    assert event["answered_by"] == {"kind": "model", "name": "through MCP, mcp"}
    (act,) = [each for each in run["acts"] if each["what"] == "answered"]
    assert act["by_user"].endswith("(model: through MCP)")
    assert "[from a model (through MCP, mcp), not a person's decision] Aloha" in json.dumps(record)


def test_a_repository_cannot_let_models_answer(server):
    with (server.project / "upthread.toml").open("a") as file:
        file.write("[mcp]\nanswers = true\n")
    done = server.upthread("ls")
    assert "whether models may answer is not a repository's to say" in done.stderr


def person(action: str) -> tuple[list[str], Any]:
    """Somebody at a client who is asked, and what they were asked."""
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        names = params.requested_schema["properties"]
        content = dict.fromkeys(names, "Ahoy") if action == "accept" else None
        return ElicitResult(action=action, content=content)

    return asked, answer


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_person_is_asked_by_the_protocol_and_the_role_goes_on_with_the_answer(server, mode):
    asked, answer = person("accept")
    async with Client(server.stdio, mode=mode, elicitation_callback=answer) as client:
        stands = await call(
            client, "delegate", address="w/planner", prompt=f"[[rehearse: say {ASKS}]]"
        )
    (message,) = asked
    assert message == "w/planner asks:\nWhich word?"
    assert stands["status"] == "done"
    assert decisions_told(stands["line"]) == [RESUME]
    told = json.loads(server.upthread("audit", "w", "--json").stdout)
    assert "Ahoy" in json.dumps(told)
    assert "A person has answered" not in json.dumps(told)
    assert len(told["conversations"][0]["turns"]) == 2


@pytest.mark.anyio
async def test_a_person_who_declines_leaves_it_waiting(server):
    asked, answer = person("decline")
    async with Client(server.stdio, elicitation_callback=answer) as client:
        stands = await call(
            client, "delegate", address="w/planner", prompt=f"[[rehearse: say {ASKS}]]"
        )
    assert len(asked) >= 1
    assert (stands["status"], stands["questions"]) == ("waiting", {"q1": "Which word?"})


@pytest.mark.anyio
async def test_a_client_that_can_ask_nobody_gets_the_questions(server):
    async with server.over_stdio() as client:
        stands = await call(
            client, "delegate", address="w/planner", prompt=f"[[rehearse: say {ASKS}]]"
        )
    assert (stands["status"], stands["questions"]) == ("waiting", {"q1": "Which word?"})


@pytest.mark.anyio
async def test_what_nobody_was_there_to_allow_is_not_done_and_told(server):
    async with server.over_stdio() as client:
        stands = await call(
            client,
            "delegate",
            address="w/constructor",
            prompt="[[rehearse: execute touch done.txt]]",
        )
    assert stands["status"] == "parked", stands
    assert "touch done.txt (execute): nobody was there to allow it" in stands["detail"]
    assert "[permissions]" in stands["detail"]
    assert not (server.project / "done.txt").exists()
    assert "parked" in server.upthread("ls", "w").stdout


@pytest.mark.anyio
async def test_a_delegation_that_takes_long_is_answered_with_its_handle_and_waited_for(server):
    async with server.over_stdio() as client:
        started_s = time.monotonic()
        stands = await call(
            client, "delegate", address="w/planner", prompt="[[rehearse: slow 35 1000]]"
        )
        assert time.monotonic() - started_s < 30
        assert stands["status"] == "running"
        over = await call(client, "wait", handle=stands["handle"])
        assert over["status"] == "done"


@pytest.mark.anyio
async def test_tools_are_annotated_described_and_cheap(server):
    async with server.over_stdio() as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in {"delegate", "answer"})
        assert tool.description
        assert tool.output_schema
    told = [tool.model_dump(exclude_none=True, by_alias=True) for tool in listed]
    tokens = len(json.dumps(told)) / CHARACTERS_OF_A_TOKEN
    print(f"tools cost {tokens:.0f} tokens")  # noqa: T201
    assert tokens <= TOKENS_MAX


@pytest.mark.anyio
async def test_an_error_says_what_and_what_next(server):
    async with server.over_stdio() as client:
        result = await client.call_tool("why", {"address": "nowhere/planner"})
        unknown = await client.call_tool("wait", {"handle": "dlg_nothing"})
    assert result.is_error
    assert "upthread tell" in str(result.content)
    assert unknown.is_error
    assert "see `status`" in str(unknown.content)


@pytest.mark.anyio
async def test_an_error_has_no_secret_in_it(server):
    token = f"ghp_{'aB3dE6gH9' * 4}"
    async with server.over_stdio() as client:
        result = await client.call_tool("why", {"address": f"{token}/planner"})
    assert result.is_error
    assert "[redacted:github-token:" in str(result.content)
    assert token not in str(result.content)


@pytest.mark.anyio
async def test_a_refusal_is_an_answer_with_its_reason(server):
    async with server.over_stdio() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(
            lambda: call(
                client, "delegate", address="w/planner", prompt="[[rehearse: slow 20 200]]"
            )
        )
        while True:
            listed = (await call(client, "status"))["workstreams"]
            if any(role["state"] == "running" for each in listed for role in each["roles"]):
                break
            await anyio.sleep(0.1)
        refused = await call(client, "delegate", address="w/planner", prompt="Me too.")
        assert refused["status"] == "refused"
        assert "running" in refused["detail"]


@pytest.mark.anyio
async def test_eight_clients_at_once_each_get_their_own_answer(address):
    answers: dict[int, Any] = {}

    async def one(number: int) -> None:
        async with over_http(address) as client:
            answers[number] = await call(
                client,
                "delegate",
                address=f"w{number}/planner",
                prompt=f"[[rehearse: say {number}]]",
            )

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(one, number)
    assert all(answers[n]["reply"].endswith(str(n)) for n in range(8))
    assert len({each["upstream_session_id"] for each in answers.values()}) == 8


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example:80"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_strangers_and_web_pages_are_refused(address, headers, status):
    answer = httpx2.post(address, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert answer.status_code == status
    assert answer.content == b""


def test_a_name_that_was_bound_anew_to_loopback_is_refused(address):
    """DNS rebinding: the browser believes it talks to the page's own host, port and all."""
    port = address.rsplit(":", 1)[1].partition("/")[0]
    rebound = {"Host": f"page.example:{port}", "Origin": f"http://page.example:{port}"}
    answer = httpx2.post(address, headers={"Authorization": f"Bearer {TOKEN}", **rebound}, json={})
    assert answer.status_code == 403


@pytest.mark.anyio
async def test_what_a_person_forbids_while_it_runs_is_forbidden_in_the_next_delegation(server):
    server.say('[permissions]\nexecute = "allow"\n')
    (server.project / "upthread.toml").write_text('agent = "rehearsal"\n')
    async with server.over_stdio() as client:
        done = "[[rehearse: execute touch before]]"
        await call(client, "delegate", address="w/constructor", prompt=done)
        assert (server.project / "before").exists()
        server.say('[permissions]\nexecute = "deny"\n')
        again = "[[rehearse: execute touch after]]"
        await call(client, "delegate", address="w/constructor", prompt=again)
        assert not (server.project / "after").exists()
        server.say("no toml")
        broken = await client.call_tool("status", {})
        assert broken.is_error
        assert "config.toml" in str(broken.content)
        server.say('[permissions]\nexecute = "allow"\n')
        await call(client, "delegate", address="w/constructor", prompt=again)
        assert (server.project / "after").exists()
