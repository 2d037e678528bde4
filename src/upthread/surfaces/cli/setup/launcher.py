"""The launcher: the one program of ours that agents are told to call, and what it starts.

An agent's settings name a file in upthread's own home, which no virtual environment takes with it
and no upgrade moves. It names the interpreter and the package that were set up last; `setup` writes
it anew, and the settings stay as they are, so that trust a person has given to hooks stays as well.
"""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

from msgspec import ValidationError, convert

from upthread.boundary import own_files, programs
from upthread.boundary.files import NOWHERE, written_by_others
from upthread.client.file_permissions import OTHER_HOME
from upthread.core.agents import AGENTS
from upthread.core.codec import text_at
from upthread.errors import UpthreadError, UsageError
from upthread.surfaces.cli.setup.changes import Change, as_json_object, read_file
from upthread.surfaces.cli.terminal.phrases import one_line

SHELL = "/bin/sh"
NAME = "hooks/upthread-launcher"
"""Its place in upthread's home, and how a command is known to be ours."""

GONE = "hooks/gone"
"""Where it remembers which sessions were told."""

LIBRARIES = (
    *("msgspec", "apsw", "anyio", "idna", "sniffio", "typing_extensions", "re2", "yaml"),
    *("tree_sitter", "tree_sitter_bash", "psycopg", "psycopg_binary"),
)
"""The packages that a hook may import, those that are installed."""

PROBE = "probe"
PROBE_TIME_MAX_S = 10.0

_PYTHON = re.compile(rb"^python=(.+)$", re.MULTILINE)


def path_of(home: Path) -> Path:
    """Return where the launcher lies."""
    return home.absolute() / NAME


def command(home: Path, *words: str) -> tuple[str, ...]:
    """Return how the launcher is called."""
    return (SHELL, str(path_of(home)), *words)


def is_ours(text: str) -> bool:
    """Return whether a command calls a launcher of ours, wherever its home is."""
    return NAME in text


def change(home: Path) -> Change:
    """Return what makes the launcher start the upthread that is asked now."""
    path = path_of(home)
    before = read_file(path)
    python = sys.executable
    what = f"starts {one_line(python)}"
    if before is not None:
        named = _PYTHON.search(before)
        was = "".join(shlex.split(named[1].decode("utf-8", "surrogateescape"))[:1]) if named else ""
        what += f", no longer {one_line(was)}" if was != python else ""
    return Change(path=path, before=before, after=_text(home.absolute(), python), what=what)


def make_room(home: Path) -> None:
    """Make its directories, for nobody else. Raises UsageError where somebody else may write."""
    path, home = path_of(home), home.absolute()
    try:
        own_files.make_directory(str(home / GONE))
        others = written_by_others(path, within=home)
    except OSError as error:
        raise UpthreadError(
            f"{home / GONE} cannot be made: {error.strerror}", hint=OTHER_HOME
        ) from error
    if others:
        raise UsageError(
            f"{others}, and agents would run what stands there",
            hint=f"chmod -R go-w {shlex.quote(str(home))}, or set UPTHREAD_HOME to another place",
        )


def forget_told(home: Path) -> None:
    """Forget which sessions were told that the former upthread was gone."""
    for mark in (home / GONE).glob("*"):
        mark.unlink(missing_ok=True)


def remove(home: Path) -> None:
    """Take the launcher away: no agent is set up any more."""
    forget_told(home)
    path_of(home).unlink(missing_ok=True)
    if (home / GONE).is_dir():
        (home / GONE).rmdir()


def probe(home: Path) -> str:
    """Start the launcher as an agent does. Blocking.

    Returns what is wrong, empty where it starts and answers.
    """
    path = path_of(home)
    if read_file(path) is None:
        return f"{path} is gone"
    # Before it is started: what somebody else can write there would run as this person.
    others = written_by_others(path, within=home.absolute())
    if others:
        return f"{others}, and agents run what stands there"
    try:
        done = subprocess.run(
            command(home, PROBE),
            # Never in a repository, where a module of its own could lie.
            cwd=NOWHERE,
            env=programs.own_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIME_MAX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} does not answer: {type(error).__name__}"
    try:
        answer: object = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if text_at(answer, "version"):
        return ""
    if gone := text_at(answer, "gone"):
        return one_line(gone.removeprefix("upthread: ").partition(", so ")[0])
    said = one_line(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
    return f"{path} does not answer: {said or f'exit code {done.returncode}'}"


def _text(home: Path, python: str) -> bytes:
    """Return the launcher. What it says is JSON, so what it names is written as JSON's."""
    package = str(resources.files("upthread"))
    template = resources.files("upthread").joinpath("surfaces/cli/setup/launcher.sh")
    values = {
        "__HOME__": str(home),
        "__PYTHON__": python,
        "__PACKAGE__": package,
        "__PYTHON_IN_JSON__": json.dumps(one_line(python))[1:-1],
        "__PACKAGE_IN_JSON__": json.dumps(one_line(package))[1:-1],
    }
    text = template.read_text(encoding="utf-8")
    for name, value in values.items():
        # Quoted for the shell: a path may have a blank or a quote in it.
        text = text.replace(f"={name}\n", f"={shlex.quote(value)}\n")
    text = text.replace("__LIBRARIES__", shlex.join(libraries()))
    return text.encode("utf-8", "surrogateescape")


def libraries() -> list[str]:
    """Return the directories that hold what a hook imports beside upthread itself.

    Named one by one: a hook runs without the site, which may be anybody's to add to.
    """
    found = (importlib.util.find_spec(name) for name in LIBRARIES)
    places = (spec.origin for spec in found if spec is not None and spec.origin)
    # A package's origin is its `__init__`, a module's the file itself.
    folders = (
        Path(place).parent.parent if Path(place).stem == "__init__" else Path(place).parent
        for place in places
    )
    return list(dict.fromkeys(map(str, folders)))


# --- hook entries -------------------------------------------------------------------------------
# Hooks in a JSON file of the user's own, beside those that are there already.
#
# Claude Code and Codex read the same form: events, each with entries that say for which tools and
# run commands.

STARTING = "SessionStart"
BEFORE = "PreToolUse"
GUARD = "Guard"
"""What the launcher is called with for the guard's hook: surfaces/hook/program.py."""

_INDENT = re.compile(rb"^\{\s*?\n([ \t]+)\"")


TIMEOUT_S = 5
"""What an agent gives a hook of ours, far more than it takes."""

TIMEOUT_S_OF = {"PreToolUse": 10, "SessionEnd": 3}
"""A call that begins may have to read back the call before it. At a session's end
Codex gives no more than 3 s, and tells the person where more was asked for (0.169.0)."""


def with_hooks(
    path: Path,
    before: bytes | None,
    *,
    agent: str,
    home: Path,
    events: Mapping[str, str],
    guarded: str,
) -> bytes:
    """Return a file with our command for each event, and the tools it is asked for, at its end.

    `guarded` are the tools that may act beyond this machine, about which the guard is asked.
    """
    settings = without_hooks(path, before)
    hooks = cast("dict[str, list[Any]]", settings.setdefault("hooks", {}))
    wanted = [(event, matcher, event) for event, matcher in events.items()]
    for event, matcher, called in (*wanted, (BEFORE, guarded, GUARD)):
        line = hook_line(agent, home, called)
        hook = {"type": "command", "command": line, "timeout": TIMEOUT_S_OF.get(event, TIMEOUT_S)}
        entry = {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}
        # At the end: hooks of the person's own come first, as they did.
        hooks.setdefault(event, []).append(entry)
    return written(settings, like=before)


def without_hooks(path: Path, content: bytes | None) -> dict[str, Any]:
    """Return a file's settings without our hooks, everything else as it is now.

    An event that is left empty is left out. Raises UsageError for hooks of another form.
    """
    settings = as_json_object(path, content)
    try:
        known = convert(settings.pop("hooks", {}), dict[str, list[Any]])
    except ValidationError as error:
        raise UsageError(f"{path}: hooks: {error}", hint="mend it first") from error
    hooks = {
        event: kept
        for event, entries in known.items()
        if (kept := [entry for entry in entries if not is_ours(json.dumps(entry))])
    }
    return {**settings, "hooks": hooks} if hooks else settings


def hook_line(agent: str, home: Path, event: str) -> str:
    """Return the shell line of a hook. Without a launcher a session is told so at its start."""
    words = command(home, agent, event)
    path = shlex.quote(words[1])
    # Looked for each time: a launcher that is gone must cost the agent nothing.
    line = f"[ -f {path} ] && exec {shlex.join(words)}"
    if event != STARTING:
        return f"{line} || exit 0"
    setup = f"upthread setup {AGENTS[agent].setup_name}"
    told = (
        f"upthread: {one_line(words[1])} is gone, so this session goes on without it; "
        f"{setup} mends it, {setup} --remove takes the hooks away"
    )
    return f"{line} || printf '%s\\n' {shlex.quote(json.dumps({'systemMessage': told}))}"


def written(settings: Mapping[str, Any], *, like: bytes | None) -> bytes:
    """Return settings as text, indented as the file was."""
    found = _INDENT.match(like or b"")
    indent = found[1].decode() if found else "  "
    end = "\n" if like is None or like.endswith(b"\n") else ""
    # As it was indented and without escapes, so that the diff shows our lines and no others.
    return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()
