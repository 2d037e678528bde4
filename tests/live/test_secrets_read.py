"""What the real agents' own tools make of a file with secrets, and that none of it is kept.

Each reads a key and a configuration with every tool it has for it, by way of `upthread tell`. What
the tools emitted is what the model was sent; it lies in tests/core/redaction/recorded/ and is tried
there again in milliseconds. `UPTHREAD_WRITE_RECORDED=1` records it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.redaction.recording import FILES, RECORDED, Recording, secrets_in
from tests.live import claude_code, codex
from tests.live.claude_code import claude_environment
from tests.live.codex import codex_environment
from tests.live.opencode import pinned_version
from tests.live.shell import Shell, agents_left, only

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ADDRESS = "spec-42/planner"
CLAUDE_SETTINGS = {"permissions": {"allow": ["Read", "Grep", "Bash"]}}
COMMANDS = (
    "cat {}",
    "cat -n {}",
    "nl -ba {}",
    "grep -n '' {}",
    "grep -n -C 40 -e KEY -e host {}",
    "sed -n 1,12p {}",
    "tail -n 8 {}",
    "head -n 9 {}",
    "git diff --no-index /dev/null {}",
)


def call(tool: str, **arguments: object) -> str:
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def place(project: Path) -> list[Path]:
    for name, content in FILES.items():
        (project / name).write_text(content)
    return [project / name for name in FILES]


def lines_of(paths: list[Path]) -> list[str]:
    return [line.format(path) for path in paths for line in COMMANDS]


@pytest.fixture
def claude_shell(
    claude_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[Shell]:
    home = tmp_path / "home"
    environment = claude_environment(home, model)
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(CLAUDE_SETTINGS))
    yield from _only(claude_binary, "claude", environment, project, tmp_path)


@pytest.fixture
def codex_shell(
    codex_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[Shell]:
    environment = codex_environment(tmp_path / "home", model)
    yield from _only(codex_binary, "codex", environment, project, tmp_path)


def _only(
    binary: Path, name: str, environment: dict[str, str], project: Path, tmp_path: Path
) -> Iterator[Shell]:
    """Let one agent be all there is on PATH, so that upthread chooses it without being told."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / name).symlink_to(binary)
    found = {"PATH": f"{binaries}:/usr/bin:/bin", "UPTHREAD_HOME": str(tmp_path / "upthread")}
    yield Shell(project, {**environment, **found})
    assert agents_left(tmp_path) == []


def test_opencode_reads_a_key_and_none_of_it_is_kept(opencode_shell, model, project, tmp_path):
    paths = place(project)
    steps = [call("read", filePath=str(path)) for path in paths]
    steps += [call("read", filePath=str(path), offset=3, limit=5) for path in paths]
    steps += [call("grep", pattern=".", path=str(project))]
    steps += [call("bash", command=line, description="look") for line in lines_of(paths)]
    emitted = tell_all(opencode_shell, model, steps)
    hold_to_recorded("opencode", pinned_version(), emitted, project)
    assert_nothing_kept(tmp_path / "upthread", emitted)


def test_claude_code_reads_a_key_and_none_of_it_is_kept(claude_shell, model, project, tmp_path):
    paths = place(project)
    steps = [call("Read", file_path=str(path)) for path in paths]
    steps += [call("Read", file_path=str(path), offset=3, limit=5) for path in paths]
    shown = {"output_mode": "content", "-n": True, "-C": 40}
    steps += [call("Grep", pattern="KEY|host", path=str(project), **shown)]
    steps += [call("Bash", command=line, description="look") for line in lines_of(paths)]
    emitted = tell_all(claude_shell, model, steps)
    hold_to_recorded("claude-code", claude_code.pinned_version(), emitted, project)
    assert_nothing_kept(tmp_path / "upthread", emitted)


def test_codex_reads_a_key_and_none_of_it_is_kept(codex_shell, model, project, tmp_path):
    paths = place(project)
    steps = [codex.call("exec_command", cmd=line, yield_time_ms=30_000) for line in lines_of(paths)]
    emitted = tell_all(codex_shell, model, steps)
    hold_to_recorded("codex", codex.pinned_version(), emitted, project)
    assert_nothing_kept(tmp_path / "upthread", emitted)


def tell_all(shell: Shell, model: RehearsalModel, steps: list[str]) -> list[str]:
    """Have the agent carry out the steps; return what its tools gave the model."""
    ended = only(shell.lines("tell", ADDRESS, "Look.\n\n" + "\n".join(steps)), "turn_ended")
    assert ended["outcome"] == "ok"
    emitted = tool_results(model.model_requests[-1].body)
    assert len(emitted) >= len(steps)
    return emitted


def tool_results(body: dict) -> list[str]:
    """The texts of tool results in a request of any of the three protocols, in order."""
    found: list[str] = []
    for message in [*body.get("messages", []), *body.get("input", [])]:
        if message.get("role") == "tool":
            found.append(text_of(message["content"]))
        elif message.get("type") == "function_call_output":
            found.append(text_of(message["output"]))
        elif isinstance(message.get("content"), list):
            blocks = [each for each in message["content"] if each.get("type") == "tool_result"]
            found += [text_of(block["content"]) for block in blocks]
    return found


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "\n".join(str(block.get("text", "")) for block in content)


def hold_to_recorded(agent: str, version: str, emitted: list[str], project: Path) -> None:
    """What was recorded is of this version; with the variable set, it is recorded anew."""
    path = RECORDED / f"{agent}.json"
    if os.environ.get("UPTHREAD_WRITE_RECORDED"):
        neutral = [text.replace(str(project), "/project") for text in emitted]
        told = {"agent": agent, "version": version, "emitted": neutral}
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    recording = Recording.read(path)
    assert len(recording.emitted) == len(emitted)
    if "UPTHREAD_TEST_AGENTS" not in os.environ:  # otherwise newer agents are tried
        assert recording.version == version


def assert_nothing_kept(home: Path, emitted: list[str]) -> None:
    """No line of a key, and no password, in any file that upthread has written."""
    assert set(secrets_in(emitted)) == set(secrets_in(FILES.values()))  # the tools did show them
    kept = b"\n".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"[redacted:private-key:" in kept
    assert [secret for secret in secrets_in(FILES.values()) if secret.encode() in kept] == []
