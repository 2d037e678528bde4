"""The MCP server as a client of the official SDK sees it: every tool, over stdio and over HTTP."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from tests.support.decisions_told import decisions_told
from tests.support.sets import spread

from upthread.client.project_opener import open_project
from upthread.core.decision.words import FIRST, RESUME
from upthread.surfaces.mcp_server.delegations import Delegations, current_project
from upthread.surfaces.mcp_server.server import server_of

TOKEN = "a-token-of-the-tests"
TOOLS = {"delegate", "wait", "status", "report", "answer", "why"}
TOKENS_MAX = 1_000
CHARACTERS_OF_A_TOKEN = 4
ENDS = '```upthread\n{"status": "done", "summary": "planned"}\n```'
SPECIFICATION = (
    "# Greeter\n\n- R1 `a.txt`: it is there.\n\n## Open\n\n- OPEN opening: Which word?\n"
)


def configured(up):
    up.configure('agent = "rehearsal"\n[permissions]\nedit = "allow"\n')
    (up.directory / "spec.md").write_text(SPECIFICATION)
    up.environment["UPTHREAD_MCP_TOKEN"] = TOKEN
    return up


@pytest.fixture(scope="module")
def server(shared):
    """One project for all tests; each has workstreams of its own."""
    return configured(shared)


@pytest.fixture
def alone(make_upthread, tmp_path):
    """A project whose settings the test changes."""
    return configured(make_upthread(tmp_path))


@asynccontextmanager
async def connected(up, **options: Any) -> AsyncGenerator[Client]:
    """A client of a server in this process, where the transport is not what is tested."""

    def opening() -> Any:
        return open_project(up.directory, environment=up.environment)

    async with (
        opening() as project,
        current_project(project, opening) as current,
        anyio.create_task_group() as tasks,
    ):
        async with Client(server_of(current, Delegations(current, tasks, **options))) as client:
            yield client
        tasks.cancel_scope.cancel()


def over_stdio(up, **options: Any) -> Client:
    program, *arguments = up.words("mcp")
    started = StdioServerParameters(
        command=program, args=arguments, env=up.environment, cwd=up.directory
    )
    return Client(started, **options)


@asynccontextmanager
async def over_http(address: str, token: str = TOKEN) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def address(server) -> Iterator[str]:
    """Where a server over HTTP listens."""
    process = server.start("mcp", "--http")
    line = process.stderr.readline().decode()
    found = re.search(r"http://\S+", line)
    assert found, line
    yield found[0]
    process.terminate()
    assert b"Traceback" not in process.communicate(timeout=30)[1]


async def call(client: Client, tool: str, **arguments: object) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def drive_every_tool(client: Client, name: str) -> None:
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == TOOLS
    address, asking = f"{name}/planner", f"{name}-asks"
    first = await call(client, "delegate", address=address, prompt=f"[[rehearse: say {ENDS}]]")
    assert first["status"] == "done"
    assert decisions_told(first["line"]) == [FIRST]
    found = await call(client, "report", address=address)
    assert found["report"]["summary"] == "planned"
    second = await call(client, "delegate", address=address, prompt="[[rehearse: say two]]")
    assert decisions_told(second["line"]) == [RESUME]
    assert second["upstream_session_id"] == first["upstream_session_id"]
    assert second["reply"].endswith("two")
    assert (await call(client, "wait", handle=second["handle"]))["status"] == "done"
    (workstream,) = (await call(client, "status", workstream=name))["workstreams"]
    assert workstream["roles"][0]["turns"] == 2
    assert (workstream["state"], workstream["roles"][0]["state"]) == ("done", "done")
    assert workstream["standing"]["reason"] == "its last turn ended well"
    why = await call(client, "why", address=address)
    assert why["last"]["decision"] == "resume"
    assert (why["state"], why["standing"]["agent"]) == ("done", "rehearsal")
    asked = (await call(client, "status", workstream=asking))["workstreams"][0]
    (question,) = asked["open_questions"]
    answered = await call(
        client, "answer", workstream=asking, text="Hi", question_id=question["id"]
    )
    (still_open,) = answered["open_questions"]
    assert still_open["suggested"] == {"text": "Hi", "by": "a model (through MCP, mcp)"}


def ask_a_question(up, workstream: str) -> None:
    """A run whose clarifier has one question for a person."""
    up("run", workstream, "--spec", "spec.md", code=4)


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_drives_every_tool_over_each_transport(server, address, transport):
    ask_a_question(forked(server), f"{transport}-asks")
    async with over_stdio(server) if transport == "stdio" else over_http(address) as client:
        await drive_every_tool(client, transport)


HALVES = ("\ud83d", "caf\udce9", "\udc00\ud800")
LISTED = '{{"jsonrpc": "2.0", "method": "tools/list", "params": {{}}, "id": {}}}'
REFUSED = [("[]", None), ("null", None), ("1", None), (f"[{LISTED.format(7)}]", None)]
REFUSED += [(LISTED.format(each), None) for each in ("null", "true", "1.5", "{}", "1e400")]
REFUSED += [('{"id": 7, "method": "x"}', 7), ('{"jsonrpc": "2.0", "id": 7, "result": 1}', None)]
UNREAD = [("hello", None), ("\0", None), ('{"params": {"id": 7}', None), ("9" * 60_000_000, None)]
UNREAD += [('{"jsonrpc": "2.0", "id": 7, "method": ' + "[" * 100_000, 7)]
UNREAD += [('{"jsonrpc": "2.0", "method": "x", "id": 7, "params": ', 7)]
WRONG = [(line, -32600, identity) for line, identity in REFUSED]
WRONG += [(line, -32700, identity) for line, identity in UNREAD]
WRONG += [(LISTED.format(7).replace("{}", "[1]"), -32602, 7)]
PING = '{{"method": "ping", "jsonrpc": "2.0", "id": {}}}'
SEVERAL = ['{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": "', PING.format(7)]


def test_each_request_over_stdio_is_answered_whatever_came_before_it(plain_client):
    for half in HALVES:
        plain_client.call("why", address=half)
        plain_client.answer()
    for line, code, identity in WRONG:
        told = plain_client.refusal(line)
        assert (told["error"]["code"], told["id"]) == (code, identity), line[:99]
    for first in SEVERAL:
        told = plain_client.refusal(first + PING.format(8)), plain_client.read()
        assert [(each["error"]["code"], each["id"]) for each in told] == [(-32700, 7), (-32700, 8)]
    plain_client.open("2025-03-26")
    told = plain_client.refusal(f"[{LISTED.format('null')}, {LISTED.format(plain_client.number)}]")
    assert told["id"] is None
    assert plain_client.answer() is None, "the revision that has batches"


def test_each_request_over_http_is_answered(address):
    headers = {**BEARER, "Content-Type": "application/json"}
    for line, code, identity in WRONG:
        answer = httpx2.post(address, headers=headers, content=line)
        told = answer.json() if answer.status_code == 400 else {}
        assert not told or (told["error"]["code"], told["id"]) == (code, identity), line[:99]
        assert told or answer.status_code == 413


UNREADABLE = [
    '"result": null',
    '"result": {"action": "maybe"}',
    '"result": {"action": "acc',
    '"a": 1',
]
UNREADABLE += ['"result": {"action": "accept", "content": {"q1": {}}}', '"error": 1']
UNREADABLE += ['"error": {"code": -32601, "message": "no such method"}']


def test_an_answer_that_cannot_be_read_leaves_the_questions_unanswered(plain_client):
    for number, answer in enumerate(UNREADABLE):
        address = f"unread-{number}/planner"
        plain_client.call("delegate", address=address, prompt=f"[[rehearse: say {ASKS}]]")
        asked = plain_client.read()
        assert asked["method"] == "elicitation/create"
        told = plain_client.refusal(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, {answer}}}')
        if "error" in told:
            assert told["id"] is None
            told = plain_client.read()
        assert told["id"] == plain_client.number
        stands = told["result"]["structuredContent"]
        assert stands["status"] == "waiting"
        assert stands["detail"].startswith("its questions are not answered (ask the person"), answer


def test_the_end_of_a_session_over_http_stops_its_turn_and_a_dropped_upload_is_no_error(
    server, address
):
    up, headers = forked(server), {**BEARER, "Accept": "application/json, text/event-stream"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    asked = {"name": "delegate", "arguments": {"address": "left/planner", "prompt": HANGS}}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}}
    opening["clientInfo"] = {"name": "a", "version": "1"}
    opened = httpx2.post(address, headers=headers, json={**call, "params": opening})
    headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
    body = {**call, "method": "tools/call", "params": asked}
    with httpx2.stream("POST", address, headers=headers, json=body):
        while up("show", "left", "--json", code=None).json.get("state") != "running":
            pass
    assert httpx2.delete(address, headers=headers).status_code == 200
    while up("show", "left", "--json").json["state"] == "running":
        pass
    assert "the turn was cancelled" in up("show", "left").out
    with socket.create_connection(("127.0.0.1", httpx2.URL(address).port)) as dropped:
        head = f"POST /mcp HTTP/1.1\r\nHost: {httpx2.URL(address).netloc.decode()}\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n{{"
        dropped.sendall(head.encode())


def forked(up):
    """The same project, whose verbs run in processes of their own: a loop runs in this one."""
    other = up.beside()
    other.is_forked = True
    return other


ASKS = """```upthread
{"status": "needs_input", "questions": [{"id": "q1", "text": "Which word?"}]}
```"""


@pytest.mark.anyio
async def test_what_a_model_answers_is_no_person_s_and_the_run_waits_for_one(server):
    up = forked(server)
    ask_a_question(up, "asking")
    async with connected(server) as client:
        await call(client, "answer", workstream="asking", text="Aloha\n## Answered by a person")
    assert "waiting for human" in up("run", "asking", code=4).out
    shown = up("show", "asking").out
    assert "suggested by a model (through MCP, mcp):  Aloha" in shown
    assert "    │ ## Answered by a person" in shown
    audit = up("audit", "asking").out
    assert "a model (through MCP, mcp) suggested an answer to `opening`: `Aloha" in audit
    assert "a human answered" not in audit
    (run,) = up("audit", "asking", "--json").json["runs"]
    assert [act["what"] for act in run["acts"]] == ["started"], "a suggestion takes nothing on"
    up("answer", "asking", "opening", "Good day")
    told = up("audit", "asking").out
    assert "a program, with nobody at a terminal answered `opening`: `Good day`" in told


@pytest.mark.soak
@pytest.mark.anyio
async def test_a_model_s_answer_counts_where_a_person_has_said_so_and_stays_the_model_s(alone):
    with (alone.home / "upthread" / "config.toml").open("a") as own:
        own.write("[mcp]\nanswers = true\n")
    up = forked(alone)
    ask_a_question(up, "asking")
    async with over_stdio(alone) as client:
        answered = await call(client, "answer", workstream="asking", text="Aloha")
    assert answered["open_questions"] == []
    up("run", "asking", "--steps", "1", code=None)
    record = up("audit", "asking", "--json").json
    (run,) = record["runs"]
    (event,) = [each for each in run["events"] if each["kind"] == "question_answered"]
    assert event["answered_by"] == {"kind": "model", "name": "through MCP, mcp"}
    (act,) = [each for each in run["acts"] if each["what"] == "answered"]
    assert act["by_user"].endswith("(model: through MCP)")
    assert "[from a model (through MCP, mcp), not a person's decision] Aloha" in json.dumps(record)


def test_a_repository_cannot_let_models_answer(alone):
    with (alone.directory / "upthread.toml").open("a") as file:
        file.write("[mcp]\nanswers = true\n")
    done = alone("ls", code=None)
    assert "whether models may answer is not a repository's to say" in done.err


def person(action: str) -> tuple[list[str], Any]:
    """Somebody at a client who is asked, and the questions they read."""
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        names = params.requested_schema["properties"]
        content = dict.fromkeys(names, "Ahoy") if action == "accept" else None
        return ElicitResult(action=action, content=content)

    return asked, answer


async def ask_person(client: Client, address: str) -> Any:
    return await call(client, "delegate", address=address, prompt=f"[[rehearse: say {ASKS}]]")


@pytest.mark.extended
@pytest.mark.anyio
@pytest.mark.parametrize("mode", spread(["auto", "legacy"]))
async def test_a_person_is_asked_by_the_protocol_and_the_role_goes_on_with_the_answer(server, mode):
    asked, answer = person("accept")
    async with over_stdio(server, mode=mode, elicitation_callback=answer) as client:
        stands = await ask_person(client, f"{mode}/planner")
    (message,) = asked
    assert message == f"{mode}/planner asks:\nWhich word?"
    assert stands["status"] == "done"
    assert decisions_told(stands["line"]) == [RESUME]
    told = forked(server)("audit", mode, "--json").json
    assert "Ahoy" in json.dumps(told)
    assert "A person has answered" not in json.dumps(told)
    assert len(told["conversations"][0]["turns"]) == 2


@pytest.mark.anyio
async def test_a_person_who_declines_leaves_it_waiting(server):
    asked, answer = person("decline")
    async with over_stdio(server, elicitation_callback=answer) as client:
        stands = await ask_person(client, "declined/planner")
    assert len(asked) >= 1
    assert (stands["status"], stands["questions"]) == ("waiting", {"q1": "Which word?"})


@pytest.mark.anyio
async def test_what_nobody_was_there_to_allow_is_not_done_and_told(server):
    prompt = "[[rehearse: execute touch done.txt]]"
    async with connected(server) as client:
        stands = await call(client, "delegate", address="denied/constructor", prompt=prompt)
        (listed,) = (await call(client, "status", workstream="denied"))["workstreams"]
    assert stands["status"] == "parked", stands
    assert "touch done.txt (execute): nobody was there to allow it" in stands["detail"]
    assert "[permissions]" in stands["detail"]
    assert not (server.directory / "done.txt").exists()
    assert listed["state"] == "parked"


@pytest.mark.extended
@pytest.mark.anyio
async def test_a_delegation_that_takes_long_is_answered_with_its_handle_and_waited_for(server):
    slow = "[[rehearse: slow 5 100]]"
    async with connected(server, answer_s_max=0.1) as client:
        stands = await call(client, "delegate", address="slow/planner", prompt=slow)
        assert stands["status"] == "running"
        while stands["status"] == "running":
            stands = await call(client, "wait", handle=stands["handle"])
    assert stands["status"] == "done"


@pytest.mark.anyio
async def test_tools_are_annotated_described_and_cheap(server):
    async with connected(server) as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in {"delegate", "answer"})
        assert tool.description
        assert tool.output_schema
    told = [tool.model_dump(exclude_none=True, by_alias=True) for tool in listed]
    assert len(json.dumps(told)) / CHARACTERS_OF_A_TOKEN <= TOKENS_MAX


@pytest.mark.anyio
async def test_an_error_says_what_and_what_next_and_has_no_secret_in_it(server):
    token = f"ghp_{'aB3dE6gH9' * 4}"
    async with connected(server) as client:
        for tool, asked, words in (
            ("why", {"address": "nowhere/planner"}, "upthread tell"),
            ("wait", {"handle": "dlg_nothing"}, "see `status`"),
            ("why", {"address": f"{token}/planner"}, "[redacted:github-token:"),
        ):
            result = await client.call_tool(tool, asked)
            assert result.is_error
            assert words in str(result.content)
            assert token not in str(result.content)


@pytest.mark.anyio
async def test_a_refusal_is_an_answer_with_its_reason(server):
    address = "busy/planner"
    async with connected(server, answer_s_max=0.1) as client:
        first = await call(client, "delegate", address=address, prompt="[[rehearse: hang]]")
        assert first["status"] == "running"
        while (await call(client, "why", address=address))["state"] != "running":
            pass
        refused = await call(client, "delegate", address=address, prompt="Me too.")
        while refused["status"] == "running":
            refused = await call(client, "wait", handle=refused["handle"])
    assert refused["status"] == "refused"
    assert "running" in refused["detail"]


BEARER = {"Authorization": f"Bearer {TOKEN}"}
REBOUND = {"Host": "page.example:{port}", "Origin": "http://page.example:{port}"}
"""DNS rebinding: the browser believes that it talks to the page's own host, port and all."""


@pytest.mark.extended
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**BEARER, "Host": "evil.example"}, 403),
        ({**BEARER, "Host": "evil.example:80"}, 403),
        ({**BEARER, "Origin": "http://evil.example"}, 403),
        ({**BEARER, "Origin": "null"}, 403),
        ({**BEARER, **REBOUND}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_strangers_and_web_pages_are_refused(address, headers, status):
    port = address.rsplit(":", 1)[1].partition("/")[0]
    sent = {name: value.format(port=port) for name, value in headers.items()}
    answer = httpx2.post(address, headers=sent, json={"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert answer.status_code == status
    assert answer.content == b""


@pytest.mark.anyio
async def test_what_a_person_forbids_while_it_runs_is_forbidden_in_the_next_delegation(alone):
    own = alone.home / "upthread" / "config.toml"
    (alone.directory / "upthread.toml").write_text('agent = "rehearsal"\n')

    async def touch(name: str) -> bool:
        prompt = f"[[rehearse: execute touch {name}]]"
        await call(client, "delegate", address="w/constructor", prompt=prompt)
        return (alone.directory / name).exists()

    own.write_text('[permissions]\nexecute = "allow"\n')
    async with connected(alone) as client:
        assert await touch("before")
        own.write_text('[permissions]\nexecute = "deny"\n')
        assert not await touch("after")
        own.write_text("no toml")
        broken = await client.call_tool("status", {})
        assert broken.is_error
        assert "config.toml" in str(broken.content)
        own.write_text('[permissions]\nexecute = "allow"\n')
        assert await touch("after")


HANGS, SLOW = "[[rehearse: hang]]", "[[rehearse: slow 80 100]] [[rehearse: say over]]"
REASONS = {
    "Escape": ("AbortError: This operation was aborted", HANGS),
    "no reason": (None, HANGS),
    "TypeScript": ("McpError: MCP error -32001: Request timed out", SLOW),
    "Rust": ("request timeout", SLOW),
    "person": ("interrupted by the user after waiting 60s (timeout 300s)", HANGS),
}


class PlainClient:
    """A client that sends each line as it is, because an SDK chooses the reason of a cancel."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.number = process, 0
        self.open("2025-06-18")

    def open(self, version: str) -> None:
        opening = {"protocolVersion": version, "capabilities": {"elicitation": {}}}
        self.ask("initialize", **opening, clientInfo={"name": "a", "version": "1"})
        self.answer()
        self.send(method="notifications/initialized")

    def refusal(self, line: str) -> Any:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def read(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def send(self, **message: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: object) -> None:
        self.number += 1
        self.send(id=self.number, method=method, params=params)

    def call(self, tool: str, **arguments: object) -> None:
        self.ask("tools/call", name=tool, arguments=arguments)

    def answer(self) -> Any:
        answer = self.read()
        assert answer["id"] == self.number, answer
        return answer["result"].get("structuredContent")


@pytest.fixture
def plain_client(server):
    words, environment = server.words("mcp"), server.environment
    with subprocess.Popen(
        words, env=environment, cwd=server.directory, stdin=-1, stdout=-1, text=True
    ) as process:
        yield PlainClient(process)
        assert process.stdin
        process.stdin.close()


@pytest.mark.parametrize("name", spread(REASONS, first=["Escape", "TypeScript", "person"]))
def test_a_cancel_stops_the_turn_and_after_a_time_out_the_next_call_gets_the_result(
    server, plain_client, name
):
    reason, prompt = REASONS[name]
    workstream, up = f"cancelled-{'-'.join(name.split())}", forked(server)
    asked = {"address": f"{workstream}/planner", "prompt": prompt}
    plain_client.call("delegate", **asked)
    while up("show", workstream, "--json", code=None).json.get("state") != "running":
        pass
    told = {"requestId": plain_client.number, **({"reason": reason} if reason else {})}
    plain_client.send(method="notifications/cancelled", params=told)
    if prompt == HANGS:
        while up("show", workstream, "--json").json["state"] == "running":
            pass
        assert "the turn was cancelled" in up("show", workstream).out
    else:
        plain_client.call("delegate", **asked)
        stands = plain_client.answer()
        assert (stands["status"], stands["reply"][-4:]) == ("done", "over")
        assert up("show", workstream, "--json").json["roles"][0]["turns"] == 1


def test_ctrl_c_ends_the_server_and_its_turn_while_the_client_is_there(server, plain_client):
    up = forked(server)
    plain_client.call("delegate", address="ended/planner", prompt=HANGS)
    while up("show", "ended", "--json", code=None).json.get("state") != "running":
        pass
    plain_client.process.send_signal(signal.SIGINT)
    assert plain_client.process.wait(30) == 130
    assert "the turn was cancelled" in up("show", "ended").out
