"""A person at the real agents' interactive interfaces: first start, prompts, answers, leaving.

What differs between the agents is a row here; a scenario is written once, in terms of what a person
does and sees. The words of their dialogs are those of the versions in `agents.json`.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live import claude_code, codex
from tests.live.set_up import AgentSetUp
from tests.live.terminal import Terminal
from tests.live.test_claude_code_hooks import Hooked as ClaudeCodeHooked
from tests.live.test_claude_code_hooks import delegate as claude_delegate
from tests.live.test_codex_hooks import WAIT, spawn, write_to
from tests.live.test_codex_hooks import Hooked as CodexHooked
from tests.live.test_opencode_plugin import Plugged

from upthread.core.decision.words import RESUME, START_FRESH, done_in_words
from upthread.testing.rehearsal_model import RehearsalModel

WORKSTREAM = "spec-1"
SEEN_WITHIN_S = 60.0
_MARKS = "[\u276f\u203a]"
"""What stands before the option that Enter takes."""
PRESSED_AGAIN_S = 15.0
"""A key too many would answer the next dialog: long enough for a machine under load."""
READ_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Interface:
    """How a person uses one agent's interface."""

    agent: str
    fixture: str
    set_up: Callable[[Path, RehearsalModel, Path], AgentSetUp]
    options: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    """What a newcomer picks in the dialogs of the first start, with the key that leads there."""
    ready: str
    leave: str
    delegate: Callable[[str], str]
    go_on: Callable[[str, str], str]
    """The step by which a role goes on after another start: its session, and the prompt."""
    told_again: str
    """How upthread's line ends then."""
    write: Callable[[Path, str], str]
    """The step of a sub-agent that writes a text to a file."""
    allowing: tuple[tuple[str, str], ...] = ()
    """What a person picks to allow it, where the agent asks."""
    registered: str
    """The agent's name in `--agent`."""
    binary_name: str
    tokens_at_95_percent: int


def _set_up_claude_code(binary: Path, model: RehearsalModel, directory: Path) -> AgentSetUp:
    made = ClaudeCodeHooked(binary, model, directory)
    del made.environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"]  # as it is for everybody
    # Its greeting wants the network before it shows anything; every dialog after it is answered.
    state = {"hasCompletedOnboarding": True, "theme": "dark"}
    (made.home / ".claude.json").write_text(json.dumps(state))
    return made


def _claude_write(path: Path, text: str) -> str:
    return claude_code.call("Write", file_path=str(path), content=text)


def _opencode_delegate(prompt: str) -> str:
    call = {"description": "plan", "prompt": prompt, "subagent_type": "planner"}
    return f"[[CALL task {json.dumps(call)}]]"


def _opencode_write(path: Path, text: str) -> str:
    return f"[[CALL write {json.dumps({'filePath': str(path), 'content': text})}]]"


def _codex_delegate(prompt: str) -> str:
    return f"{spawn(prompt)} {WAIT}"


def _codex_go_on(session: str, prompt: str) -> str:
    return f"{write_to(session, prompt)} {WAIT}"


RESUMED = f"{done_in_words(RESUME, '{session}')} · 2nd turn"
BRIEFED = (
    f"{done_in_words(START_FRESH, None)} · 2nd turn: "
    "the tool that was called takes no session to go on in"
)

INTERFACES = {
    each.agent: each
    for each in (
        Interface(
            agent="claude",
            fixture="claude_binary",
            set_up=_set_up_claude_code,
            choices=(("Yes, I trust this folder", "down"), ("Yes", "up")),
            ready="manual mode on",
            leave="/exit",
            delegate=claude_delegate,
            go_on=lambda _session, prompt: claude_delegate(prompt),
            told_again=BRIEFED,
            allowing=(("Yes", "up"),),
            registered="claude-code",
            binary_name="claude",
            tokens_at_95_percent=190_000,
            write=_claude_write,
        ),
        Interface(
            agent="opencode",
            fixture="opencode_binary",
            set_up=Plugged,
            ready="Ask anything",
            leave="/exit",
            delegate=_opencode_delegate,
            go_on=lambda _session, prompt: _opencode_delegate(prompt),
            told_again=RESUMED,
            registered="opencode",
            binary_name="opencode",
            tokens_at_95_percent=95_000,
            write=_opencode_write,
        ),
        Interface(
            agent="codex",
            fixture="codex_binary",
            set_up=CodexHooked,
            options=("--no-daemon",),
            choices=(("Trust and continue", "up"), ("Trust all and continue", "down")),
            ready="Ask Codex to do anything",
            leave="/quit",
            delegate=_codex_delegate,
            go_on=_codex_go_on,
            told_again=RESUMED,
            registered="codex",
            binary_name="codex",
            tokens_at_95_percent=258_400,
            write=lambda path, text: codex.command(f"echo {text} > {path}"),
        ),
    )
}


class Desk:
    """One person, one project, one agent that upthread was set up for, and a shell beside it."""

    def __init__(
        self, interface: Interface, binary: Path, model: RehearsalModel, directory: Path
    ) -> None:
        self.interface = interface
        self.binary = binary
        self.model = model
        self.directory = directory
        self.agent = interface.set_up(binary, model, directory)
        self.project = self.agent.project
        self._put_on_path()
        self.agent.upthread("use", WORKSTREAM)
        self._is_newcomer = True

    def _put_on_path(self) -> None:
        """So that `upthread tell` finds this agent, and no other of its kind."""
        binaries = self.directory / "bin"
        binaries.mkdir(exist_ok=True)
        link = binaries / self.interface.binary_name
        if not link.exists():
            link.symlink_to(self.binary)
        self.agent.environment["PATH"] = f"{binaries}:{self.agent.environment['PATH']}"

    @contextmanager
    def at_the_agent(self, *words: str) -> Iterator[Terminal]:
        """Start the agent and sit before its empty prompt; once, its dialogs come before."""
        command = [str(self.binary), *self.interface.options, *words]
        with Terminal(command, environment=self.agent.environment, cwd=self.project) as terminal:
            if self._is_newcomer:
                for option, key in self.interface.choices:
                    choose(terminal, option, key=key)
                self._is_newcomer = False
            terminal.wait_for(self.interface.ready, within_s=SEEN_WITHIN_S)
            yield terminal

    def ask(self, terminal: Terminal, prompt: str) -> None:
        """Type a prompt of one line and send it; returns when the model was asked."""
        before, written = len(self.model.model_requests), json.dumps(prompt)[1:-1]

        def is_asked() -> bool:
            return any(written in json.dumps(r.body) for r in self.model.model_requests[before:])

        terminal.paste(prompt)
        press_until(terminal, "enter", is_asked, "request to the model with the prompt")

    def leave(self, terminal: Terminal) -> None:
        """Quit as the agent wants it, and see it end by itself."""
        terminal.type(self.interface.leave)
        terminal.wait_for(self.interface.leave, within_s=SEEN_WITHIN_S)
        press_until(terminal, "enter", lambda: terminal.is_over, "end")
        terminal.wait_ended()

    def says(self, *words: str) -> str:
        """What `upthread` prints at a person's prompt, with single spaces."""
        done = subprocess.run(
            [*self.agent.program, *words],
            cwd=self.project,
            env={**self.agent.environment, "COLUMNS": "400"},
            capture_output=True,
            text=True,
            timeout=READ_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return " ".join(done.stdout.split())

    def wait_for_file(self, terminal: Terminal, file: Path) -> None:
        """Wait until the agent has written a file."""
        terminal.wait_until(file.exists, f"file {file.name}", within_s=SEEN_WITHIN_S)

    def has_answered(self, text: str) -> bool:
        """Whether the model has given this answer to anybody."""
        return any(request.response.get("text") == text for request in self.model.model_requests)

    def is_model_silent(self) -> bool:
        """Whether the model was last asked for something that it never answers."""
        return self.model.model_requests[-1].status is None


def choose(terminal: Terminal, option: str, *, key: str) -> None:
    """Answer a dialog: wait for the option, move to it, take it, see the dialog gone."""
    there = re.compile(rf"^\W*(?:\d\. )?{re.escape(option)}(?:  |$)", re.MULTILINE)
    marked = re.compile(rf"^\W*{_MARKS} +(?:\d\. )?{re.escape(option)}(?:  |$)", re.MULTILINE)
    terminal.wait_until(
        lambda: there.search(terminal.screen) is not None,
        f"option {option!r}",
        within_s=SEEN_WITHIN_S,
    )

    terminal.wait_settled()

    def mark() -> str:
        shown = terminal.screen
        return "gone" if not there.search(shown) else "on" if marked.search(shown) else "off"

    until_s = time.monotonic() + SEEN_WITHIN_S
    while (stands := mark()) != "gone":
        assert time.monotonic() < until_s, f"{option!r} is not taken:\n{terminal.screen}"
        terminal.press("enter" if stands == "on" else key)
        _wait_a_moment(lambda before=stands: mark() != before)


def press_until(terminal: Terminal, key: str, holds: Callable[[], bool], what: str) -> None:
    """Press a key, and again when nothing comes of it."""
    until_s = time.monotonic() + SEEN_WITHIN_S
    while not holds():
        assert time.monotonic() < until_s, f"no {what}; the screen:\n{terminal.screen}"
        terminal.press(key)
        _wait_a_moment(holds)


def _wait_a_moment(holds: Callable[[], bool]) -> None:
    again_s = time.monotonic() + PRESSED_AGAIN_S
    while not holds() and time.monotonic() < again_s:
        time.sleep(0.05)


# --- what stands on the screen -------------------------------------------------------------------

_SAYS = "upthread: "
_BOX = "┃│"


def wait_told(terminal: Terminal, *parts: str) -> str:
    """Wait for a line of ours that has all these parts; returns it."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [line for line in told(terminal.screen) if all(part in line for part in parts)]
        return bool(found)

    terminal.wait_until(is_there, f"line of upthread with {parts}", within_s=SEEN_WITHIN_S)
    return found[-1]


def wait_replied(terminal: Terminal, reply: str) -> None:
    """Wait until the agent's reply has a row of its own: the prompt holds the same words."""
    row = re.compile(rf"^\W*{re.escape(reply)}(?:  |$)", re.MULTILINE)
    terminal.wait_until(
        lambda: row.search(terminal.screen) is not None, f"reply {reply!r}", within_s=SEEN_WITHIN_S
    )


def told(screen: str) -> list[str]:
    """Every line of upthread's that stands there, however the interface has broken it."""
    rows = screen.splitlines()
    places = ((row, rows[row].find(_SAYS)) for row in range(len(rows)))
    return [_broken(rows[row:], at) for row, at in places if at >= 0]


def _broken(rows: list[str], at: int) -> str:
    """The text that begins in the first row at a column and goes on below, in a box or not."""
    if rows[0][max(0, at - 4) : at].strip(" ") in tuple(_BOX):
        cut = [re.split(f"[{_BOX}]", row[at:])[0].strip() for row in rows]
    else:
        cut = [rows[0][at:].strip()]
        cut += [row.strip() if re.match(r" {3,}\w", row) else "" for row in rows[1:]]
    end = next((n for n, words in enumerate(cut) if not words), len(cut))
    return " ".join(cut[:end])
