"""`upthread demo`: kills a rehearsal agent in the middle of its work, and starts it again.

Each shown line that begins with an address is what `upthread tell` printed, with shorter ids.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import click
from msgspec import Struct

from upthread.boundary import programs
from upthread.boundary.git.process import start_repository
from upthread.errors import UpthreadError, UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call

EXAMPLE = "greeter"
ROLE = "planner"
ADDRESS = f"spec-42/{ROLE}"
CALLS_BEFORE_KILL = 2
STEP_TIMEOUT_S = 120.0
PACE_MS = 150
"""How long the rehearsal agent waits before each tool call, so that the kill finds it at work."""

# A repository cannot agree to this for you: your own configuration does, and upthread asks you.
SETTINGS = '[permissions]\nedit = "allow"\nexecute = "allow"\n'

NEXT = {
    "Next: what your agents have on this machine": "upthread",
    "      the same in the agents you already run": "upthread setup claude",
}

_SHOWN_ID = re.compile(r"\b(ses_[0-9a-f]{8})[0-9a-f]+")

Line: TypeAlias = Mapping[str, Any]
"""A line of JSON that a step printed."""

Say = Callable[[str, str], None]
"""Prints a line in a style."""


@options.verb
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep everything below this new directory.",
)
def main(call: Call, *, keep: Path | None) -> None:
    """Watch a killed rehearsal agent continue its work."""
    output = call.output
    told: list[str] = []

    def say(text: str, style: str = "") -> None:
        for line in text.split("\n"):
            told.append(line)
            output.line(line, style)

    # Never into a directory that exists: it is removed or filled as a whole.
    if keep is not None and keep.exists():
        raise UsageError(f"{keep} exists", hint="name a new directory")
    with (
        nullcontext(str(keep.resolve()))
        if keep
        else TemporaryDirectory(prefix="upthread-demo-", ignore_cleanup_errors=True)
    ) as directory:
        say("A rehearsal: the agent has rules in place of a model. All else is real.", "dim")
        say("")
        shown = _play(Path(directory, "kill"), say)
    output.json({"told": told, **shown})
    for what, words in NEXT.items():
        output.command(f"{what:<50}", words)


def set_up(directory: Path) -> tuple[Path, Mapping[str, str]]:
    """Copy the example into a new repository below a directory.

    Returns the repository, and an environment in which every path of upthread and its agent is
    below that directory.
    """
    directory.mkdir(mode=0o700, parents=True)
    project, home = directory / EXAMPLE, directory / "home"
    # Beside the package when it is installed, in `examples/` in a checkout.
    package = Path(__file__).resolve().parents[3]
    installed = package / "examples" / EXAMPLE
    checkout = package.parents[1] / "examples" / EXAMPLE
    shutil.copytree(installed if installed.is_dir() else checkout, project)
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(SETTINGS, encoding="utf-8")
    start_repository(project)
    # None of the person's own settings: the demo must not write to their record.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("UPTHREAD_")}
    return project, {
        **kept,
        "UPTHREAD_HOME": str(home),
        "UPTHREAD_REHEARSAL_HOME": str(directory / "sessions"),
        "UPTHREAD_REHEARSAL_PACE_MS": str(PACE_MS),
    }


# --- the story ---------------------------------------------------------------------------------


def _play(directory: Path, say: Say) -> dict[str, str]:
    """Play the story below a directory, and return what was shown.

    Raises UpthreadError for another end.
    """
    stage = set_up(directory)
    say(f'$ upthread tell {ADDRESS} "Plan it. $(cat spec.md)"', "bold")
    text = (stage[0] / "spec.md").read_text(encoding="utf-8")
    specification = text.partition("\n")[2]
    prompt = f"Plan it.\n\n# Specification\n{specification}"
    killed = _tell(stage, prompt, kill_after_calls=CALLS_BEFORE_KILL)
    _show(killed, say)
    if not killed.was_killed:
        raise UpthreadError("the turn ended before it could be killed")
    say(f"  ✗ kill -9 {killed.pid}, in the middle of its work\n", "red")
    say(f"$ upthread tell {ADDRESS} --continue", "bold")
    again = _tell(stage, "--continue")
    _show(again, say)
    before, after = (_started(each)["upstream_session_id"] for each in (killed, again))
    result = again.last("result") or {}
    if before != after or result.get("status") != "done":
        raise UpthreadError(f"{before} was not gone on with: {after}, {result.get('status')}")
    say(
        f"\nKilled in the middle of its work, the {ROLE} went on in the session it had, "
        f"{_short(before)}, and made its plan.",
        "green",
    )
    return {"session": before, "line": _started(again)["line"], "reply": str(result["reply"])}


def _is_call(line: Line) -> bool:
    return line.get("type") == "part" and line.get("kind") == "tool_call"


def _show(done: _Finished, say: Say) -> None:
    say(_short(str(_started(done)["line"])), "cyan")
    for line in done.lines:
        if _is_call(line):
            say(f"  {line['title']}", "dim")
    ended = done.last("turn_ended")
    if ended is not None:
        reply = str(ended["reply"])
        for step in reply.splitlines():
            if step[:1].isdigit():  # of the plan, its steps
                say(f"  {step.partition(':')[0]}", "")


def _started(done: _Finished) -> Line:
    started = done.last("turn_started")
    if started is None:
        raise UpthreadError(f"a turn did not begin: {done.lines[-1:]}")
    return started


def _short(text: str) -> str:
    return _SHOWN_ID.sub(r"\1", text)


# --- processes ---------------------------------------------------------------------------------


class _Finished(Struct, frozen=True, kw_only=True):
    """How a child ended: its JSON lines in order, and whether we killed it."""

    pid: int
    lines: tuple[Line, ...]
    was_killed: bool

    def last(self, kind: str) -> Line | None:
        """Return the last line of a type, None when there was none."""
        found = [line for line in self.lines if line.get("type") == kind]
        return found[-1] if found else None


def _tell(
    stage: tuple[Path, Mapping[str, str]], said: str, *, kill_after_calls: int = 0
) -> _Finished:
    """Run `upthread tell` to its end, or kill it once the agent has begun so many calls."""
    words = ("upthread", "tell", ADDRESS, said, "--agent", "rehearsal", "--json")
    project, environment = stage
    lines: list[Line] = []
    was_killed = False
    child = subprocess.Popen(
        programs.own_module(*words),
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with child:
        try:
            assert child.stdout is not None
            for line in child.stdout:
                try:
                    lines.append(json.loads(line))
                except json.JSONDecodeError as error:
                    raise UpthreadError(
                        f"a step printed something that is not JSON: {line!r}"
                    ) from error
                # Read on after the kill: what was in the pipe by then is part of what happened.
                if kill_after_calls and sum(map(_is_call, lines)) >= kill_after_calls:
                    was_killed = True
                    child.kill()
            child.wait(timeout=STEP_TIMEOUT_S)
        finally:
            child.kill()  # a step that hangs must not outlive the demo
    return _Finished(pid=child.pid, lines=tuple(lines), was_killed=was_killed)
