"""Every way in: verbs, hooks, the MCP server, status line, library, as they are installed.

Verbs come from the command line's own list, so that a new one is tested by itself: one that is not
in `CALLS` is called with what its arguments are named for.
"""

import json
from collections.abc import Mapping
from typing import Any

from upthread.surfaces.cli.program import ALIASES, VERBS, load_verb

WORKSTREAM = "spec-42"
ADDRESS = "spec-42/planner"
OF_METAVAR = {"WS": WORKSTREAM, "ADDRESS": ADDRESS, "WS|ADDRESS": WORKSTREAM}
DENIED = "DENIED"
"""Stands for a program that the person has denied; the world puts its path in."""

SPECIFICATION = (
    "# A file\n## Requirements\n- R1 `hello.txt`: it says hello.\n  ```\n  hello\n  ```\n"
)
Words = tuple[str, ...]
Named = dict[str, Any]

CALLS: Mapping[str, tuple[Words, ...]] = {
    "ls": ((), (WORKSTREAM,), ("--json",)),
    "show": ((WORKSTREAM,), (ADDRESS,), (WORKSTREAM, "--effects"), (WORKSTREAM, "--json")),
    "why": ((ADDRESS,), (ADDRESS, "--agent", "rehearsal")),
    "open": ((ADDRESS, "--dry-run"), (ADDRESS,)),
    "tell": (
        (ADDRESS, f"[[rehearse: execute {DENIED}]]", "--agent", "rehearsal"),
        ("spec-7/validator", "[[rehearse: say hi]]", "--agent", "rehearsal", "--fresh"),
        ("spec-8/planner", "[[rehearse: say hi]]"),
    ),
    "run": (
        ("spec-10", SPECIFICATION, "--agent", "rehearsal", "--steps", "1"),
        *(
            (f"spec-{name}", "--spec", f"docs/{name}.md", "--agent", "rehearsal", "--steps", "1")
            for name in ("spec", "endless", "waiting", "huge")
        ),
        ("spec-12", SPECIFICATION, "--agent", "rehearsal", "--worktree", "--steps", "1"),
    ),
    "answer": ((WORKSTREAM, "opening", "yes"),),
    "setup": (
        *((agent, "--yes") for agent in ("claude", "codex", "opencode")),
        ("claude", "--yes", "--role", "planner=resume"),
    ),
    "use": (("spec-42",),),
    "status": ((), ("--snippet",)),
    "agents": ((),),
    "brief": ((ADDRESS,), (ADDRESS, "--edit")),
    "adopt": (
        ("spec-13/planner", "ses_000000000000000000000000", "--agent", "rehearsal"),
        ("--pick",),
        ("--pick", "--yes"),
    ),
    "fork": ((ADDRESS, "--as", "spec-14/planner", "--yes"),),
    "audit": ((WORKSTREAM,), (WORKSTREAM, "--format", "json")),
    "effects": ((WORKSTREAM,), (WORKSTREAM, "done")),
    "doctor": ((), ("codex",), ("--probe", "rehearsal", "--yes")),
    "repair": (("codex", "--into", "repaired"), (ADDRESS, "--dry-run")),
    "worktree": ((), (WORKSTREAM,), ("spec-12", "--remove", "--yes")),
    "keep": (("--yes",),),
    "forget": ((WORKSTREAM, "--role", "constructor", "--yes"), ("--dry-run",)),
    "reset": ((ADDRESS, "--yes"),),
    "demo": (("--help",),),
    "export": (("not-there",),),  # what is there goes to a collector: tests/surfaces/exports
    "web": (("--help",),),  # serves until it is ended: tests/surfaces/web
}
LAST = ("repair", "keep", "setup", "use", "reset", "forget", "encrypt", "migrate")
"""Verbs after which there is less to attack."""

CHANGING_HOME = frozenset({"setup"})


def calls() -> list[Words]:
    """Every call of every verb, those that leave less behind at the end."""
    names = [name for name in (*VERBS, *ALIASES) if name not in LAST]
    names += [name for name in LAST if name in VERBS]
    return [(name, *words) for name in names for words in CALLS.get(name) or (_usual(name),)]


def _usual(verb: str) -> Words:
    required = [each for each in load_verb(verb).params if each.required]
    return tuple(OF_METAVAR.get(each.metavar, "hostile") for each in required)


# --- hooks ---------------------------------------------------------------------------------------

CHILD = "01a1ffcd-b1df-7510-ac01-aa4c3f66f4d9"


def _session(
    seen: Named, tool: Named, response: object, stopped: Named, *then: tuple[str, Named]
) -> list[Named]:
    last = {"agent_type": "planner", "last_assistant_message": "Planned."}
    events: list[tuple[str, Named]] = [
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "On spec-42: plan it."}),
        ("PreToolUse", tool),
        ("PostToolUse", {**tool, "tool_response": response}),
        ("SubagentStop", {**last, **stopped}),
        *then,
        ("SessionEnd", {"reason": "exit"}),
    ]
    return [{"hook_event_name": name, **seen, **more} for name, more in events]


def claude_events(directory: str) -> list[Named]:
    """What Claude Code 2.1.330 says in a session with a sub-agent, its transcript in the clone."""
    seen = {
        "session_id": "main-1",
        "cwd": directory,
        "transcript_path": f"{directory}/transcript.jsonl",
    }
    task = {"subagent_type": "planner", "prompt": "Plan it.", "description": "x"}
    tool = {"tool_name": "Agent", "tool_use_id": "toolu_1", "tool_input": task}
    message = {"to": "child1", "message": "Go on.", "summary": "x"}
    writing = {"tool_name": "SendMessage", "tool_use_id": "toolu_2", "tool_input": message}
    stopped = {
        "agent_id": "child2",
        "agent_transcript_path": f"{directory}/transcript/subagents/agent-child2.jsonl",
    }
    failed = ("PostToolUseFailure", {**writing, "error": "no", "is_interrupt": False})
    response = {"agentId": "child1", "content": []}
    return _session(seen, tool, response, stopped, ("PreToolUse", writing), failed)


def codex_events(directory: str) -> list[Named]:
    """What Codex 0.169 says in a session with a sub-agent, its rollout in the clone."""
    seen = {"session_id": "main-2", "cwd": directory}
    given = {"message": "Plan it.", "agent_type": "planner", "fork_context": False}
    tool = {"tool_name": "spawn_agent", "tool_use_id": "call_1", "tool_input": given}
    more = {"target": CHILD, "message": "Go on."}
    writing = {
        "tool_name": "multi_agent_v1send_input",
        "tool_use_id": "call_2",
        "tool_input": more,
    }
    stopped = {"agent_id": CHILD, "agent_transcript_path": f"{directory}/transcript.jsonl"}
    response = json.dumps({"agent_id": CHILD})
    return _session(seen, tool, response, stopped, ("PreToolUse", writing))


def opencode_events(directory: str) -> list[Named]:
    """What the plug-in in OpenCode 1.18 asks in a session with a sub-agent."""
    call = {"cwd": directory, "session": "ses_m", "call_id": "c1", "role": "planner", "pid": 1}
    prompt = {**call, "prompt": "Plan it."}
    files = [
        {"path": f"{directory}/{name}", "how": "read"}
        for name in ("examined.txt", "waiting.txt", "greeter.py", "../outside/person/secret.txt")
    ]
    return [
        {**prompt, "event": "prompt"},
        {**prompt, "event": "before"},
        {**prompt, "event": "started", "child": "ses_c"},
        {
            **prompt,
            "event": "ended",
            "child": "ses_c",
            "outcome": "ok",
            "reply": "Planned.",
            "files": files,
        },
        {**prompt, "event": "before", "call_id": "c2"},
        {**prompt, "event": "replaced"},
    ]


EVENTS = {"claude-code": claude_events, "codex": codex_events, "opencode": opencode_events}
"""By the agent's name, how its hooks are asked in a directory."""


def _tool(number: int, name: str, **arguments: str) -> Named:
    params = {"name": name, "arguments": arguments}
    return {"id": number, "method": "tools/call", "params": params}


MCP_REQUESTS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "hostile", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    _tool(2, "status", workstream=WORKSTREAM),
    _tool(3, "delegate", address=ADDRESS, prompt="[[rehearse: say hi]]"),
)
MCP_LAST = '"id":3'
