"""The tools: read a file, write a file, run a command. Each is announced, done for real, told.

Writing and running ask for permission first. A tool that fails says why in its result and the turn
goes on. Writes stay inside the session's working directory.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from upthread.agents.rehearsal.protocol import POLL_S
from upthread.agents.rehearsal.turn import ToolCall, Turn, TurnCancelledError

if TYPE_CHECKING:
    import subprocess

READ_BYTES_MAX: Final = 1024 * 1024
OUTPUT_BYTES_MAX: Final = 256 * 1024
LATE_OUTPUT_S: Final = 1.0
COMMAND_TIMEOUT_S: Final = 300.0


class CommandResult(NamedTuple):
    """How a command ended. `exit_code` is None when it never ran or had to be ended."""

    exit_code: int | None
    output: str


def read_file(turn: Turn, path: str) -> str | None:
    """Return a file's text, cut to a mebibyte; None when it cannot be read."""
    target = turn.cwd / path
    call = turn.begin_call(f"Read {path}", kind="read", raw_input={"path": path}, path=target)
    call.begin()
    try:
        with target.open("rb") as file:
            text = file.read(READ_BYTES_MAX).decode("utf-8", "replace")
    except OSError as error:
        turn.log("read", path=path, status="failed")
        call.end("failed", text=f"{path} cannot be read: {error.strerror}")
        return None
    turn.log("read", path=path, status="completed")
    call.end("completed", text=text)
    return text


def write_file(
    turn: Turn,
    path: str,
    text: str,
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> bool:
    """Write a file and return whether it is written.

    `before` is called when the call runs and nothing is written yet, `after` when the file is
    written and the result not told yet.
    """
    target = turn.cwd / path
    raw_input = {"path": path, "content": text}
    call = turn.begin_call(f"Write {path}", kind="edit", raw_input=raw_input, path=target)
    if not call.ask_and_begin():
        return False
    if before:
        before()
    try:
        diff = _write_inside(turn.cwd, target, text)
    except OSError as error:
        turn.log("write", path=path, status="failed")
        call.end("failed", text=f"{path} cannot be written: {error.strerror or error}")
        return False
    turn.log("write", path=path, status="completed")
    if after:
        after()
    call.end("completed", text=f"wrote {path}", content=[diff])
    return True


def title_of(words: Sequence[str]) -> str:
    """Return the title under which a command is announced."""
    return f"Run {shlex.join(words)}"


def run_command(turn: Turn, words: Sequence[str]) -> CommandResult:
    """Run a program without a shell in the working directory; its output, both streams together.

    `python` is the interpreter this agent runs on: many machines have only `python3`.
    """
    line = shlex.join(words)
    call = turn.begin_call(title_of(words), kind="execute", raw_input={"command": line})
    if not call.ask_and_begin():
        return CommandResult(None, "permission was not given")
    program = sys.executable if words[0] == "python" else words[0]
    try:
        result = _run([program, *words[1:]], turn=turn)
    except OSError as error:
        result = CommandResult(None, f"{line} cannot be run: {error.strerror}")
    except TurnCancelledError:
        call.end("failed", text="cancelled, and the command was ended")
        raise
    turn.log("execute", command=line, exit_code=result.exit_code)
    _end_command(call, result)
    return result


def _end_command(call: ToolCall, result: CommandResult) -> None:
    call.end(
        "completed" if result.exit_code == 0 else "failed",
        text=result.output,
        raw_output={"exitCode": result.exit_code, "output": result.output},
    )


def _write_inside(cwd: Path, target: Path, text: str) -> dict[str, object]:
    """Write the file and return the diff; OSError when it is outside of the directory."""
    # Where links lead: one that lies in the directory may lead out of it.
    resolved = target.resolve()
    if not resolved.is_relative_to(cwd.resolve()):
        raise OSError(f"it is outside the working directory {cwd}")
    old_text = resolved.read_text("utf-8", "replace") if resolved.exists() else None
    resolved.parent.mkdir(parents=True, exist_ok=True)
    resolved.write_bytes(text.encode("utf-8", "surrogatepass"))
    return {"type": "diff", "path": str(target), "oldText": old_text, "newText": text}


def _run(words: list[str], *, turn: Turn) -> CommandResult:
    # Costs a quarter of the agent's start, and most processes never run a command.
    import subprocess  # noqa: PLC0415

    process = subprocess.Popen(
        words,
        cwd=turn.cwd,
        # Not the agent's own, which is the wire: a command would read frames from it.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ended_with_us = turn.agent.connection.at_exit
    # The agent may end without unwinding, and its command would go on.
    ended_with_us.append(process.kill)
    try:
        return _watch(process, turn=turn)
    finally:
        process.kill()
        process.wait()
        ended_with_us.remove(process.kill)


def _watch(process: subprocess.Popen[bytes], *, turn: Turn) -> CommandResult:
    """Wait for the program itself, not for children of it that keep the pipe open."""
    assert process.stdout is not None
    output = bytearray()
    reader = threading.Thread(target=_drain, args=(process.stdout, output), daemon=True)
    reader.start()
    waited_s = 0.0
    while process.poll() is None:
        turn.wait(POLL_S)
        waited_s += POLL_S
        if waited_s > COMMAND_TIMEOUT_S:
            return CommandResult(None, f"ended after {COMMAND_TIMEOUT_S:.0f} s\n{_text(output)}")
    reader.join(timeout=LATE_OUTPUT_S)
    return CommandResult(process.returncode, _text(output))


def _drain(pipe: IO[bytes], output: bytearray) -> None:
    """Read all there is, so that the program never waits for us, and keep the end of it."""
    with pipe:
        while piece := os.read(pipe.fileno(), 64 * 1024):
            output += piece
            del output[:-OUTPUT_BYTES_MAX]


def _text(output: bytearray) -> str:
    return bytes(output).decode("utf-8", "replace")
