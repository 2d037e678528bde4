"""A world for hostile clones: a person's home with upthread set up, a clone with work on record.

The template is made once: a run with a verdict, all three agents set up, a workstream in use. For
each clone it is laid out anew at the same place, and only then becomes hostile.
"""

import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.driver import Job, Start, looked_up, run_job, starts_in
from tests.hostile.entries import (
    CHANGING_HOME,
    DENIED,
    EVENTS,
    MCP_LAST,
    MCP_REQUESTS,
    SPECIFICATION,
    WORKSTREAM,
    Words,
)
from tests.support.hostile_clones import SECRET, Canary, HostileClone, make_ordinary_repository
from tests.support.world import SMALL_PIPELINE

LIMIT_S = float(os.environ.get("UPTHREAD_HOSTILE_LIMIT_S", "60"))
"""How long anything may take: a verb asks git a dozen times, on a machine that is shared."""

MEMORY_KIB_MAX = 400 * 1024
OUTPUT_BYTES_MAX = 8 * 1024 * 1024
EXIT_INTERRUPTED = 130
EXIT_CODES = frozenset({0, 1, 2, 3, 4, 5, 6})
CARELESS_PATH = (".", "./bin", "node_modules/.bin", ".venv/bin", "")
"""What people have before everything else in PATH; the empty one is the directory too."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor or hides what is written; none of it is ours to print."""

CONFIGURATION = """\
agent = "rehearsal"
[permissions]
edit = "allow"
execute = "{execute}"
other = "{execute}"

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an entry ended; `code` is None for one that a signal ended."""

    code: int | None
    has_hung: bool
    out: str
    err: str
    memory_kib: int = 0
    starts: tuple[Start, ...] = ()


class World:
    """One place on disk; `enter` makes it the world of one hostile clone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clone = folder / "world" / "clone"
        self.home = folder / "world" / "home"
        self.outside = folder / "world" / "outside"
        self._template = folder / "template"
        self.breaches: list[str] = []
        self.started = 0
        self.careless_path = CARELESS_PATH
        self.more_environment: dict[str, str] = {}
        self.address = ""
        self.hostile: HostileClone
        self.canary: Canary
        self._make_template()

    # --- the person ----------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """As people have it: a PATH with relative folders, an editor by name, a secret."""
        own = (str(self.home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
        path = ":".join((*self.careless_path, *own))
        return {
            "PATH": path,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder / "world" / "tmp"),
            "EDITOR": "vi",
            "PAGER": "less",
            "PERSONS_TOKEN": SECRET,
            "UPTHREAD_HOME": str(self.home / "upthread"),
            "UPTHREAD_REHEARSAL_HOME": str(self.home / "sessions"),
            **self.more_environment,
        }

    def upthread(self, *words: str) -> str:
        """One verb in a process of its own, while nothing is hostile yet."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "upthread", *words],
            cwd=self.clone,
            env={**self.environment, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def _make_template(self) -> None:
        for place in (self.home / "upthread", self.outside, self.folder / "world" / "tmp"):
            place.mkdir(parents=True)
        (self.home / "upthread").chmod(0o700)
        Canary(self.outside)
        editor = self.home / "bin" / "vi"
        editor.parent.mkdir()
        editor.write_text("#!/bin/sh\nexit 0\n")
        editor.chmod(0o755)
        settings = self.home / "upthread" / "config.toml"
        settings.write_text(CONFIGURATION.format(execute="allow") + SMALL_PIPELINE)
        make_ordinary_repository(self.clone)
        self.upthread("run", WORKSTREAM, SPECIFICATION)
        assert "approved" in self.upthread("show", WORKSTREAM), "a verdict is on record"
        for agent in ("claude", "codex", "opencode"):
            self.upthread("setup", agent, "--yes")
        self.upthread("use", WORKSTREAM)
        settings.write_text(CONFIGURATION.format(execute="deny") + SMALL_PIPELINE)
        self._read_what_setup_wrote()
        shutil.copytree(self.folder / "world", self._template, symlinks=True)

    def _read_what_setup_wrote(self) -> None:
        """Take every command from where the agents take it."""
        claude = json.loads((self.home / ".claude" / "settings.json").read_text())
        codex = json.loads((self.home / ".codex" / "hooks.json").read_text())
        plugin = (self.home / ".config" / "opencode" / "plugin" / "upthread.js").read_text()
        found = re.search(r"^const COMMAND = (\[.*\])$", plugin, re.MULTILINE)
        assert found is not None
        self.hooks: dict[str, list[str]] = {"opencode": json.loads(found[1])}
        for agent, settings in (("claude-code", claude), ("codex", codex)):
            line = settings["hooks"]["SessionStart"][0]["hooks"][0]["command"]
            self.hooks[agent] = ["/bin/sh", "-c", line]
        configuration = tomllib.loads((self.home / ".codex" / "config.toml").read_text())
        self.mcp = configuration["mcp_servers"]["upthread"]
        snippet = json.loads(self.upthread("status", "--snippet", "--json"))
        self.status_line: str = snippet["snippet"]["statusLine"]["command"]

    # --- a clone ----------------------------------------------------------------------

    def enter(self, hostile: HostileClone) -> None:
        """Lay the world out anew, and make the clone hostile."""
        self.lay_out()
        self.become(hostile)

    def lay_out(self) -> None:
        """Make everything as it was before anything became hostile."""
        self.breaches.clear()
        self.started = 0
        self.careless_path, self.more_environment = CARELESS_PATH, {}
        shutil.rmtree(self.folder / "world")
        shutil.copytree(self._template, self.folder / "world", symlinks=True)
        self.canary = Canary(self.outside)
        self.canary.command("denied")

    def become(self, hostile: HostileClone) -> None:
        """Make the clone hostile; from here on everything is judged."""
        hostile.build(self.clone, self.canary)
        self.hostile = hostile
        self._before = self._outside()

    @property
    def directory(self) -> Path:
        return self.clone / self.hostile.within

    def verb(self, words: Words) -> Ended:
        """One verb; it is judged, and what it left running is ended."""
        denied = str(self.canary.directory / "programs" / "denied")
        real = tuple(word.replace(DENIED, denied) for word in words)
        entry = f"upthread {' '.join(words[:2])}"[:60].replace("\n", " ")
        ended = self._forked(real)
        self._judge(entry, ended, is_home_changed=words[0] in CHANGING_HOME)
        return ended

    def library(self) -> None:
        self._judge("library", self._forked(()))

    def _forked(self, words: Words) -> Ended:
        folder = self.folder / "output"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        job = Job(
            words=words,
            directory=str(self.directory),
            environment=self.environment,
            folder=str(folder),
        )
        code, has_hung = run_job(job, LIMIT_S)
        return Ended(
            code=code,
            has_hung=has_hung,
            out=_text(folder / "stdout"),
            err=_text(folder / "stderr"),
            memory_kib=0 if has_hung else int(_text(folder / "memory")),
            starts=starts_in(folder / "starts"),
        )

    def hook(
        self, agent: str, directory: Path, *, first: int = 0, events_max: int | None = None
    ) -> None:
        """The events of a session, as the agent asks them, one process each; all or some."""
        events = EVENTS[agent](str(directory))
        begin = first % len(events)
        for event in [*events[begin:], *events[:begin]][:events_max]:
            name = event.get("hook_event_name") or event["event"]
            raw = json.dumps(event).encode()
            ended = self.program(self.hooks[agent], directory=directory, given=raw)
            self._judge(f"hook {agent} {name}", ended, codes=frozenset({0}))

    def start_mcp(self) -> None:
        command = [self.mcp["command"], *self.mcp["args"]]
        ended = self.program(command, more=self.mcp["env"], is_mcp=True)
        if not ended.has_hung and MCP_LAST not in ended.out and ended.code == 0:
            self._add("mcp status", f"no answer: {ended.err[-200:]}")
        self._judge("mcp status", ended)

    def show_status_line(self) -> None:
        asked = json.dumps({"cwd": str(self.directory), "session_id": "main-1"}).encode()
        ended = self.program(["/bin/sh", "-c", self.status_line], given=asked)
        self._judge("status line", ended, codes=frozenset({0}))

    def start_for_real(self, *words: str) -> None:
        """A verb as a person types it: the program beside the interpreter, started in the clone."""
        program = str(Path(sys.executable).with_name("upthread"))
        entry = f"upthread {words[0]}, started"
        self._judge(entry, self.program([program, *words]))

    def work(self, *, until: str) -> str:
        """Have a worker work on the clone until it says something, then end it; all it said."""
        program = str(Path(sys.executable).with_name("upthread"))
        process = subprocess.Popen(
            [program, "worker", "--agent", "rehearsal", "--grace", "5", "--db", self.address],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = _hear(process, until)
        process.terminate()
        try:
            rest, _ = process.communicate(timeout=LIMIT_S)
            has_hung = False
        except subprocess.TimeoutExpired:
            process.kill()
            rest, _ = process.communicate()
            has_hung = True
        told = os.fsdecode(said + rest)
        ended = Ended(code=process.returncode, has_hung=has_hung, out=told, err="")
        self._judge("worker", ended, codes=EXIT_CODES | {EXIT_INTERRUPTED})
        return told

    def program(
        self,
        command: list[str],
        *,
        directory: Path | None = None,
        given: bytes = b"",
        more: dict[str, str] | None = None,
        is_mcp: bool = False,
    ) -> Ended:
        """Run a program to its end, or to its limit."""
        process = subprocess.Popen(
            command,
            cwd=directory or self.directory,
            env={**self.environment, **(more or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        has_hung, head = False, b""
        if is_mcp:
            head = _converse(process)
            given = b""
        try:
            out, err = process.communicate(given, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            has_hung = True
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Ended(
            code=process.returncode if process.returncode >= 0 else None,
            has_hung=has_hung,
            out=(head + out).decode("utf-8", "surrogateescape"),
            err=err.decode("utf-8", "surrogateescape"),
        )

    # --- judging ----------------------------------------------------------------------

    def settle(self) -> None:
        """Wait for what was started in the background; what does not end has hung."""
        until = time.monotonic() + LIMIT_S
        while left := self.left_running():
            if time.monotonic() > until:
                for pid, line in left.items():
                    self._add("background", f"hung: {line[:120]}")
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.02)
        self._judge("background", Ended(code=0, has_hung=False, out="", err=""))

    def left_running(self) -> dict[int, str]:
        """Processes that have this world's home in their environment, by pid."""
        found: dict[int, str] = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_dead = b") Z " in (process / "stat").read_bytes()
                if not is_dead and os.fsencode(self.home) in (process / "environ").read_bytes():
                    words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(process.name)] = os.fsdecode(words)
        return found

    def _add(self, entry: str, what: str) -> None:
        self.breaches.append(f"{self.hostile.name} | {entry} | {what}")

    def _judge(
        self,
        entry: str,
        ended: Ended,
        *,
        codes: frozenset[int] = EXIT_CODES,
        is_home_changed: bool = False,
    ) -> None:
        traces = self._traces(is_home_changed=is_home_changed)
        self.started += len(ended.starts)
        for what in (*_faults(ended, codes), *looked_up(ended.starts, self.clone), *traces):
            self._add(entry, what)

    def _traces(self, *, is_home_changed: bool) -> Iterator[str]:
        for run in self.canary.runs()[:3]:
            chain = " < ".join(line[:70] for line in run.processes[1:4])
            yield f"RAN {run.name} {' '.join(run.arguments)[:60]} < {chain}"
        self.canary.forget()
        now = self._outside()
        changed = [
            path
            for path in {**self._before, **now}
            if self._before.get(path) != now.get(path)
            and not (is_home_changed and path.startswith(str(self.home)))
        ]
        self._before = now
        for path in changed[:3]:
            yield f"WROTE {path}"
        for path in self._kept():
            yield f"KEPT the person's secret in {path.relative_to(self.folder)}"

    def _kept(self) -> Iterator[Path]:
        """Files of ours that hold what only the person's environment and files hold."""
        needle = SECRET.encode()
        for path in (*_files(self.home / "upthread"), *_files(self.home / "sessions")):
            # A file may be written under a name of its own, then renamed: one that is gone before
            # it is read is met again by its last name.
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                continue
            if needle in raw:
                path.write_bytes(raw.replace(needle, b"x" * len(needle)))
                yield path

    def _outside(self) -> dict[str, tuple[int, int, int]]:
        """What lies outside of the clone and our home, by path."""
        ours = (self.home / "upthread", self.home / "sessions")
        found: dict[str, tuple[int, int, int]] = {}
        for top in (self.outside / "person", self.home):
            for folder, folders, files in os.walk(top):
                folders[:] = [each for each in folders if Path(folder, each) not in ours]
                for name in files:
                    path = f"{folder}/{name}"
                    seen = os.lstat(path)
                    found[path] = (stat.S_IFMT(seen.st_mode), seen.st_size, seen.st_mtime_ns)
        return found


def _faults(ended: Ended, codes: frozenset[int]) -> Iterator[str]:
    told = f"{ended.out}\n{ended.err}"
    last = " / ".join(ended.err.strip().splitlines()[-3:])[-220:]
    if ended.has_hung:
        yield f"HUNG for {LIMIT_S:.0f} s"
    elif ended.code not in codes:
        yield f"EXIT {ended.code}: {last}"
    if "Traceback (most recent call last)" in told or "this is a bug in upthread" in told:
        yield f"TRACEBACK: {last}"
    if ended.memory_kib > MEMORY_KIB_MAX:
        yield f"MEMORY: {ended.memory_kib // 1024} MB"
    if SECRET in told:
        yield "SHOWED the person's secret"
    if found := CONTROL.search(told):
        yield f"CONTROL character {found[0]!r} printed: {told[max(0, found.start() - 40) :][:80]!r}"


def _files(top: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(OUTPUT_BYTES_MAX).decode("utf-8", "surrogateescape")


def _converse(process: subprocess.Popen[bytes]) -> bytes:
    """Say what a client says, and wait for the answer to the last of it."""
    assert process.stdin is not None
    lines = [json.dumps({"jsonrpc": "2.0", **each}) for each in MCP_REQUESTS]
    with suppress(BrokenPipeError):
        process.stdin.write("\n".join([*lines, ""]).encode())
        process.stdin.flush()
    return _hear(process, MCP_LAST)


def _hear(process: subprocess.Popen[bytes], words: str) -> bytes:
    """Return what a process says until it has said the words, or says no more."""
    assert process.stdout is not None
    said, until = b"", time.monotonic() + LIMIT_S
    while words.encode() not in said and time.monotonic() < until:
        ready, _, _ = select.select([process.stdout], [], [], 0.2)
        if ready:
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                break
            said += piece
    return said
