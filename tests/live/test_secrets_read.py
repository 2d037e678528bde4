"""The real agents' own tools read a file with secrets, and upthread keeps none of the secrets.

Each agent reads a key and a configuration with every tool that can, through `upthread tell`. The
tools' output is what the model was sent; tests/core/redaction/recorded/ has it, and the tests there
try it in milliseconds. `UPTHREAD_WRITE_RECORDED=1` records it again.
"""

import json
import os
from pathlib import Path

import pytest
from tests.core.redaction.recording import FILES, RECORDED, Recording, secrets_in
from tests.live import claude_code, opencode
from tests.live.agents import AGENTS
from tests.live.shell import Shell
from tests.support.sets import spread

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

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


def by_tools(name: str, paths: list[Path], project: Path) -> list[str]:
    """Return the steps that read with an agent's own tools; Codex has a shell alone."""
    part = {"offset": 3, "limit": 5}
    if name == "claude-code":
        read = [{"file_path": str(path)} for path in paths]
        steps = [claude_code.call("Read", **each, **more) for more in ({}, part) for each in read]
        shown = {"output_mode": "content", "-n": True, "-C": 40}
        return [*steps, claude_code.call("Grep", pattern="KEY|host", path=str(project), **shown)]
    if name == "opencode":
        read = [{"filePath": str(path)} for path in paths]
        steps = [opencode.call("read", **each, **more) for more in ({}, part) for each in read]
        return [*steps, opencode.call("grep", pattern=".", path=str(project))]
    return []


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_an_agent_reads_a_key_and_none_of_it_is_kept(name, shell, model):
    project = shell.project
    for file, content in FILES.items():
        (project / file).write_text(content)
    paths = [project / file for file in FILES]
    steps = by_tools(name, paths, project)
    steps += [AGENTS[name].command(line.format(path)) for path in paths for line in COMMANDS]
    emitted = tell_all(shell, model, steps)
    hold_to_recorded(name, emitted, project)
    assert_nothing_kept(shell.own, emitted)


def tell_all(shell: Shell, model: RehearsalModel, steps: list[str]) -> list[str]:
    """Have the agent carry out the steps; return what its tools gave the model."""
    assert shell.tell("Look.\n\n" + "\n".join(steps))["outcome"] == "ok"
    emitted = tool_results(model.model_requests[-1].body)
    assert len(emitted) >= len(steps)
    return emitted


def tool_results(body: dict) -> list[str]:
    """Return the texts of tool results in a request of either protocol, in order."""
    found: list[str] = []
    for message in [*body.get("messages", []), *body.get("input", [])]:
        if message.get("type") == "function_call_output":
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


def hold_to_recorded(name: str, emitted: list[str], project: Path) -> None:
    """The recording is of this version; with the variable set, it is recorded again."""
    path, version = RECORDED / f"{name}.json", AGENTS[name].version
    if os.environ.get("UPTHREAD_WRITE_RECORDED"):
        neutral = [text.replace(str(project), "/project") for text in emitted]
        told = {"agent": name, "version": version, "emitted": neutral}
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    recording = Recording.read(path)
    assert len(recording.emitted) == len(emitted)
    if "UPTHREAD_TEST_AGENTS" not in os.environ:  # otherwise newer agents are tried
        assert recording.version == version


def assert_nothing_kept(own: Path, emitted: list[str]) -> None:
    """No line of a key, and no password, is in any file that upthread has written."""
    assert set(secrets_in(emitted)) == set(secrets_in(FILES.values())), "the tools did show them"
    kept = b"\n".join(path.read_bytes() for path in own.rglob("*") if path.is_file())
    assert b"[redacted:private-key:" in kept
    assert [secret for secret in secrets_in(FILES.values()) if secret.encode() in kept] == []
