"""`upthread demo`: one kill; with `--full` the whole job in three parts, then the table."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import to_builtins

from upthread.config import load_settings
from upthread.core.text import command
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.demo import one_kill, with_upthread, without
from upthread.surfaces.cli.demo.counts import Counts
from upthread.surfaces.cli.demo.stage import BRIEFED, EXAMPLE, WORKSTREAM, set_stage

NEXT = {
    "Next: what your agents have on this machine": "upthread",
    "      the same in the agents you already run": "upthread setup claude",
    "      a whole job, and the same without upthread": "upthread demo --full",
}

ROWS = (
    ("ended", "status"),
    ("prompts", "prompts"),
    ("sessions opened", "sessions"),
    ("questions asked you", "questions"),
    ("questions asked again", "questions_again"),
    ("files read", "reads"),
    ("files read again", "reads_again"),
    ("tool calls", "tool_calls"),
    ("tool calls repeated", "tool_calls_again"),
    ("bytes sent to the agent", "bytes_sent"),
    ("seconds", "seconds"),
)


@options.verb
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep everything below this new directory.",
)
@click.option(
    "--full", "is_full", is_flag=True, help="The whole job, and the same without continuity."
)
def main(call: Call, *, keep: Path | None, is_full: bool) -> int:
    """Watch a killed rehearsal agent continue its work. --full shows more."""
    if is_full:
        return _play_all(call, keep)
    output = call.output
    told: list[str] = []

    def say(text: str, style: str = "") -> None:
        for line in text.split("\n"):
            told.append(line)
            if not output.is_json:
                output.line(line, style)

    with _place(keep) as directory:
        say("A rehearsal: the agent has rules in place of a model. All else is real.", "dim")
        say("")
        shown = one_kill.play(set_stage(directory / "kill"), say)
    if output.is_json:
        output.json({"told": told, **shown})
        return 0
    for what, words in NEXT.items():
        output.command(f"{what:<50}", words)
    return 0


def _play_all(call: Call, keep: Path | None) -> int:
    output = call.output
    told: list[str] = []

    def say(text: str) -> None:
        output.document(f"{text}\n")

    with _place(keep) as directory:
        parts = _play(directory, say=told.append if output.is_json else say)
    if output.is_json:
        output.json({"told": told, **{name: to_builtins(part) for name, part in parts.items()}})
        return _exit_code(parts["with"])
    say(_table(tuple(parts.values())))
    if keep is not None:
        project, home = directory / "with" / EXAMPLE, directory / "with" / "home"
        words = ("env", f"UPTHREAD_HOME={home}", "upthread", "-C", str(project), "audit")
        output.command("kept; try: ", command(*words, WORKSTREAM))
    return _exit_code(parts["with"])


@contextmanager
def _place(keep: Path | None) -> Generator[Path]:
    """Give a new directory, which is taken away afterwards unless somebody keeps it."""
    # Never into a directory that is there: it is taken away or filled as a whole.
    if keep is not None and keep.exists():
        raise UsageError(f"{keep} exists", hint="name a new directory")
    directory = keep.resolve() if keep else Path(tempfile.mkdtemp(prefix="upthread-demo-"))
    try:
        yield directory
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)


def _exit_code(ours: Counts) -> int:
    return 0 if ours.status == "approved" else 1


def _play(directory: Path, say: with_upthread.Say) -> dict[str, Counts]:
    say("This is a rehearsal: a rule-based agent, no model. Everything else is real:")
    say("processes, sessions, files, git, the kill. Every figure is counted in this run.")
    say("The rehearsal remembers only what its session holds, so lost continuity shows.\n")
    say("── With upthread: every line is a new process ──")
    stage = set_stage(directory / "with")
    ours = with_upthread.play(stage, say)
    say("\n── Without continuity: the same prompts, every session new ──")
    stage = set_stage(directory / "without")
    settings = load_settings(stage.project, environment=stage.environment)
    theirs = without.play(stage, settings, say)
    say("\n── With upthread, every session new, from a briefing ──")
    stage = set_stage(directory / "briefed", settings=BRIEFED)
    briefed = with_upthread.play(stage, say)
    return {"with": ours, "briefed": briefed, "without": theirs}


def _table(parts: Sequence[Counts]) -> str:
    head = ("", "resumed", "from a briefing", "without upthread")
    cells = [(label, *(_cell(getattr(part, name)) for part in parts)) for label, name in ROWS]
    rows = (head, *cells)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n" + "\n".join(lines)


def _cell(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
