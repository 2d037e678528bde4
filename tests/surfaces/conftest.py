"""What the tests of the surfaces share: the program in a project of its own, with a home."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import in_process, trusting, warm_process
from tests.support.warm_process import Done
from tests.support.world import git

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 110.0

AGENT = """\
#!/bin/sh
# An agent with an interface of its own: `{name} acp` speaks, anything else opens it.
case "$1" in
  acp) exec {python} -I -m upthread.agents.rehearsal ;;
  --version) echo "{name} 9.9" ;;
  *) echo "opened $* in $PWD" ;;
esac
"""


class Upthread:
    """The program in a directory, with a home of its own.

    A verb runs inside the test's process, where nothing has to start. `is_forked` gives it a process
    of its own, for a test about processes; `is_cold` starts it as a person does, for a test about
    what a start imports or reads.
    """

    def __init__(self, directory: Path, home: Path, **environment: str) -> None:
        self.directory = directory
        self.home = home
        self.is_cold = False
        self.is_forked = False
        self.environment = {
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY / "src"),
            "UPTHREAD_HOME": str(home / "upthread"),
            "UPTHREAD_REHEARSAL_HOME": str(home / "sessions"),
            **environment,
        }

    def words(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "upthread", *arguments]

    def __call__(self, *arguments: str, stdin: bytes = b"", code: int | None = 0) -> Done:
        """Run to the end; `code` None takes any exit code."""
        ended = self._cold(arguments, stdin) if self.is_cold else self._warm(arguments, stdin)
        assert code is None or ended.code == code, ended
        return ended

    def _warm(self, arguments: tuple[str, ...], stdin: bytes) -> Done:
        ours = {name for name in self.environment if name.startswith("PYTHON")}
        assert ours <= {"PYTHONPATH"}, "only a cold start heeds these"
        needs_process = self.is_forked or in_process.REPLACES_ITS_PROCESS in arguments
        run = warm_process.done if needs_process else in_process.done
        return run(*arguments, directory=self.directory, environment=self.environment, stdin=stdin)

    def _cold(self, arguments: tuple[str, ...], stdin: bytes) -> Done:
        finished = subprocess.run(
            self.words(*arguments),
            cwd=self.directory,
            env=self.environment,
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Done(finished.stdout.decode(), finished.stderr.decode(), finished.returncode)

    def beside(self, **environment: str) -> Upthread:
        """The same project seen from another environment."""
        return Upthread(self.directory, self.home, **environment)

    def configure(self, text: str) -> None:
        """Write the project's configuration; its person agrees to it."""
        trusting.configure(self.directory, Path(self.environment["UPTHREAD_HOME"]), text)

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def on_terminal(self, *arguments: str, **environment: str) -> Terminal:
        return Terminal(self.words(*arguments), self.directory, {**self.environment, **environment})


class Terminal:
    """A child on a pseudo-terminal: what a person sees, and types."""

    def __init__(self, words: list[str], directory: Path, environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            words,
            cwd=directory,
            env={"TERM": "xterm-256color", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            # What makes it a person's: the terminal this session is controlled from.
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(theirs)

    def wait_for(self, text: str) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self.seen:
            assert time.monotonic() < deadline_s, self.seen
            if not self._read():
                raise AssertionError(f"it ended without {text!r}: {self.seen!r}")

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def press(self, keys: str) -> None:
        """Type without a line's end."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._ours)
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], TIMEOUT_S)
        try:
            raw = os.read(self._ours, 65536) if ready else b""
        except OSError:  # the other end is closed
            return False
        self.seen += raw.decode("utf-8", "replace")
        return bool(raw)


def _tidy(text: str) -> str:
    """Name sessions in the order they appear, and no estimate, so that a snapshot can be read."""
    seen: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"ses_{len(seen) + 1}")

    return re.sub(r"~\d+k?\b", "~N", re.sub(r"ses_[0-9a-f]{24}", name, text))


def _build(place: Path) -> None:
    """Make a project in git, and the home beside it with an agent called opencode on PATH."""
    project, home = place / "project", place / "home"
    shutil.copytree(REPOSITORY / "examples" / "greeter", project)
    (home / "bin").mkdir(parents=True)
    agent = home / "bin" / "opencode"
    agent.write_text(AGENT.format(name="opencode", python=sys.executable))
    agent.chmod(0o755)
    # The stand-in speaks ACP and nothing else; OpenCode itself is driven through its server.
    (home / "upthread").mkdir(mode=0o700)
    settings = '[agents.opencode]\ncommand = ["opencode", "acp"]\n'
    (home / "upthread" / "config.toml").write_text(settings)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "seed")):
        git(project, *words)


@pytest.fixture(scope="session")
def tidy() -> Callable[[str], str]:
    return _tidy


@pytest.fixture(scope="session")
def make_upthread(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Upthread]:
    """Make a project and a home in a directory: a copy, because git takes long to make the first."""
    template = tmp_path_factory.mktemp("template")
    _build(template)

    def make(place: Path) -> Upthread:
        for name in ("project", "home"):
            shutil.copytree(template / name, place / name, symlinks=True)
        return Upthread(place / "project", place / "home")

    return make


@pytest.fixture
def up(make_upthread: Callable[[Path], Upthread], tmp_path: Path) -> Upthread:
    """A project of the test's own."""
    return make_upthread(tmp_path)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, make_upthread: Callable[[Path], Upthread]
) -> Upthread:
    """One project for all tests of a module; each uses a workstream of its own."""
    return make_upthread(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def with_gemini(
    tmp_path_factory: pytest.TempPathFactory, make_upthread: Callable[[Path], Upthread]
) -> Upthread:
    """A project on a machine with two agents, the second of a version of its own."""
    made = make_upthread(tmp_path_factory.mktemp("two"))
    agent = made.home / "bin" / "gemini"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} -I -m upthread.agents.rehearsal\n")
    agent.chmod(0o755)
    return made
