"""A home with months of Claude Code, Codex and OpenCode in it, as the real ones lay them out.

Made from a number alone, so that two runs have the same; sizes are those of real sessions. Times
count back from `now_ms`. What a session says is filler, but for its first prompt and its end.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
from tests.agent_stores.opencode_database import MESSAGES

MINUTE_MS = 60_000
DAY_MS = 86_400_000
ROLES = ("planner", "reviewer", "constructor", "explorer")
WORDS = "export parser retry invoice token cache queue schema login upload".split()
FILLER = "The rows are written one after the other, and each is looked at before the next. "

OPENCODE_TABLES = f"""{MESSAGES}
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text,
    slug text NOT NULL, directory text NOT NULL, title text NOT NULL, version text NOT NULL,
    agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL,
    time_archived integer);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Months:
    """How much there is: main sessions of each agent, sub-agents in all, bytes of one session."""

    claude_code: int = 700
    codex: int = 250
    opencode: int = 500
    sub_agents: int = 300
    session_bytes: int = 110_000
    projects: int = 20
    directory: str = "/src"


MONTHS = Months()


def make_home(home: Path, months: Months = MONTHS, *, now_ms: int | None = None) -> Path:
    """Fill a home, and return it. A third of the sub-agents are each agent's."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    each = months.sub_agents // 3
    write_claude_code(home / ".claude", months, each, now_ms)
    write_codex(home / ".codex", months, each, now_ms)
    write_opencode(home / ".local" / "share" / "opencode", months, each, now_ms)
    return home


def directory_of(number: int, months: Months) -> str:
    return f"{months.directory}/project-{number % months.projects}"


def prompt_of(number: int) -> str:
    one, other = WORDS[number % len(WORDS)], WORDS[(number // 3) % len(WORDS)]
    return f"Make the {one} go on after the {other} fails, part {number}"


def used_at_ms(number: int, now_ms: int) -> int:
    """The newest is the first; 29 days in all, so that some are near their end."""
    return now_ms - 5 * MINUTE_MS - (number * 55 * MINUTE_MS) % (29 * DAY_MS)


def stamp(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1000)) + ".000Z"


def uuid_of(number: int, kind: int) -> str:
    return f"{kind:08x}-0000-7000-8000-{number:012x}"


def line(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def write_file(path: Path, text: str | bytes, at_ms: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


# --- Claude Code -------------------------------------------------------------------------------


def write_claude_code(home: Path, months: Months, sub_agents: int, now_ms: int) -> None:
    for number in range(months.claude_code):
        session, at_ms = uuid_of(number, 1), used_at_ms(number, now_ms)
        cwd = directory_of(number, months)
        folder = home / "projects" / cwd.replace("/", "-")
        text = "".join(claude_lines(number, session, cwd, at_ms, months.session_bytes))
        write_file(folder / f"{session}.jsonl", text, at_ms)
        if number < sub_agents:
            beneath = folder / session / "subagents"
            lines = claude_lines(number, session, cwd, at_ms, 20_000, sub_agent=f"a{number:016x}")
            write_file(beneath / f"agent-a{number:016x}.jsonl", "".join(lines), at_ms)
            meta = {"agentType": ROLES[number % len(ROLES)], "toolUseId": f"toolu_{number}"}
            write_file(beneath / f"agent-a{number:016x}.meta.json", json.dumps(meta), at_ms)


def claude_lines(
    number: int, session: str, cwd: str, at_ms: int, size: int, *, sub_agent: str = ""
) -> Iterator[str]:
    common = {
        "isSidechain": bool(sub_agent),
        "cwd": cwd,
        "sessionId": session,
        "version": "2.1.330",
        "gitBranch": f"feature/{WORDS[number % len(WORDS)]}",
        **({"agentId": sub_agent} if sub_agent else {}),
    }
    begun_ms = at_ms - 40 * MINUTE_MS
    prompt = {"role": "user", "content": prompt_of(number)}
    yield line({"parentUuid": None, **common, "type": "user", "message": prompt, "uuid": "u0",
                "timestamp": stamp(begun_ms)})  # fmt: skip
    written, index = 0, 0
    while written < size:
        index += 1
        said = {
            "id": f"msg_{index}",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [{"type": "text", "text": FILLER * 40}],
            "usage": {
                "input_tokens": 12,
                "cache_creation_input_tokens": 400,
                "cache_read_input_tokens": 1000 * index,
                "output_tokens": 300,
            },
            "stop_reason": "end_turn",
        }
        told = line({"parentUuid": f"u{index - 1}", **common, "type": "assistant", "message": said,
                     "uuid": f"u{index}", "timestamp": stamp(at_ms)})  # fmt: skip
        written += len(told)
        yield told
    if not sub_agent and number % 2:
        yield line({"type": "ai-title", "aiTitle": prompt_of(number), "sessionId": session})


# --- Codex -------------------------------------------------------------------------------------


def write_codex(home: Path, months: Months, sub_agents: int, now_ms: int) -> None:
    """Every other one is compressed, as Codex does with what is older than a week."""
    for number in range(months.codex + sub_agents):
        thread, at_ms = uuid_of(number, 2), used_at_ms(number, now_ms)
        parent = uuid_of(number - months.codex, 2) if number >= months.codex else ""
        text = "".join(codex_lines(number, thread, parent, months, at_ms))
        day = time.strftime("%Y/%m/%d", time.gmtime(at_ms // 1000))
        when = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(at_ms // 1000))
        path = home / "sessions" / day / f"rollout-{when}-{thread}.jsonl"
        if number % 2:
            write_file(path.with_name(path.name + ".zst"), compressed(text.encode()), at_ms)
        else:
            write_file(path, text, at_ms)


def compressed(raw: bytes) -> bytes:
    from backports import zstd

    return zstd.compress(raw, 3)


def codex_lines(number: int, thread: str, parent: str, months: Months, at_ms: int) -> Iterator[str]:
    def told(kind: str, payload: dict[str, Any]) -> str:
        return line({"timestamp": stamp(at_ms), "type": kind, "payload": payload})

    role = ROLES[number % len(ROLES)]
    spawn = {"parent_thread_id": parent, "depth": 1, "agent_role": role}
    yield told("session_meta", {
        "id": thread,
        "cwd": directory_of(number, months),
        "cli_version": "0.169.0",
        "source": {"subagent": {"thread_spawn": spawn}} if parent else "cli",
        "git": {"branch": "main"},
        "base_instructions": {"text": FILLER * 100},
    })  # fmt: skip
    yield told("turn_context", {"model": "gpt-5.5-codex", "cwd": directory_of(number, months)})
    context = [{"type": "input_text", "text": "<environment_context></environment_context>"}]
    yield told("response_item", {"type": "message", "role": "user", "content": context})
    asked = [{"type": "input_text", "text": prompt_of(number)}]
    yield told("response_item", {"type": "message", "role": "user", "content": asked})
    yield told("event_msg", {"type": "user_message", "message": prompt_of(number)})
    written, index = 0, 0
    while written < (20_000 if parent else months.session_bytes):
        index += 1
        said = [{"type": "output_text", "text": FILLER * 40}]
        item = told("response_item", {"type": "message", "role": "assistant", "content": said})
        written += len(item)
        yield item
    usage = {"last_token_usage": {"total_tokens": 700 * index}, "model_context_window": 272_000}
    yield told("event_msg", {"type": "token_count", "info": usage})
    yield told("event_msg", {"type": "task_complete", "turn_id": "t"})


# --- OpenCode ----------------------------------------------------------------------------------


def write_opencode(directory: Path, months: Months, sub_agents: int, now_ms: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    connection: Any = apsw.Connection(str(directory / "opencode.db"))
    connection.execute(OPENCODE_TABLES)
    connection.execute("BEGIN")
    for number in range(months.opencode + sub_agents):
        parent = number - months.opencode if number >= months.opencode else None
        at_ms = used_at_ms(number, now_ms)
        role = ROLES[number % len(ROLES)] if parent is not None else "build"
        row = (
            f"ses_{number:026d}", "global", None if parent is None else f"ses_{parent:026d}", "s",
            directory_of(number, months), prompt_of(number), "1.18.33", role,
            '{"id":"glm-5","providerID":"zai"}', at_ms - 40 * MINUTE_MS, at_ms, None,
        )  # fmt: skip
        connection.execute(f"INSERT INTO session VALUES ({','.join('?' * len(row))})", row)
        size = 20_000 if parent is not None else months.session_bytes
        _write_opencode_messages(connection, number, size, at_ms)
    connection.execute("COMMIT")
    connection.close()


def _write_opencode_messages(connection: Any, number: int, size: int, at_ms: int) -> None:
    session = f"ses_{number:026d}"
    asked = {"role": "user", "time": {"created": at_ms - 40 * MINUTE_MS}}
    said = {
        "role": "assistant",
        "modelID": "glm-5",
        "finish": "stop",
        "tokens": {"input": 20_000, "output": 30, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "time": {"created": at_ms, "completed": at_ms},
    }
    rows = [(f"msg_{number:020d}_0", asked, prompt_of(number))]
    texts = max(1, size // len(FILLER * 40))
    rows += [(f"msg_{number:020d}_{each + 1:04d}", said, FILLER * 40) for each in range(texts)]
    for index, (message, data, text) in enumerate(rows):
        created = at_ms - 40 * MINUTE_MS + index
        connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
            (message, session, created, created, json.dumps(data)),
        )
        part = json.dumps({"type": "text", "text": text})
        connection.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
            (f"prt{message[3:]}", message, session, created, created, part),
        )
