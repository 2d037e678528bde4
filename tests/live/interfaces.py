"""A person at the real agents' interactive interfaces: first start, prompts, answers, leaving.

What differs between the agents is a row here; a scenario is written once, in terms of what a person
does and sees. The words of their dialogs are those of the versions in `agents.json`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.hooked import SET_UPS, SetUp
from tests.live.terminal import Terminal

from upthread.core.decision.words import RESUME, START_FRESH, done_in_words
from upthread.testing.rehearsal_model import RehearsalModel

WORKSTREAM = "spec-1"
SEEN_WITHIN_S = 60.0
_MARKS = "[\u276f\u203a]"
"""What stands before the option that Enter takes."""
PRESSED_AGAIN_S = 15.0
"""A key too many would answer the next dialog: long enough for a machine under load."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """How a person uses one agent's interface.

    `choices` are the options that a newcomer picks in the dialogs of the first start, each with the
    key that leads there. `told_again` is how upthread's line ends once a role continues after
    another start.
    """

    agent: str
    options: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    ready: str
    leave: str = "/exit"
    told_again: str
    tokens_at_95_percent: int

    def set_up(self, binary: Path, model: RehearsalModel, directory: Path) -> SetUp:
        made = SET_UPS[self.agent](binary, model, directory)
        if self.agent == "claude-code":
            del made.environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"]  # as people have it
            # Its greeting needs the network; the tests answer every dialog after the greeting.
            state = {"hasCompletedOnboarding": True, "theme": "dark"}
            (made.home / ".claude.json").write_text(json.dumps(state))
        return made

    def continue_(self, desk: Desk, session: str, prompt: str) -> str:
        """Return the step by which a role continues after another start."""
        if self.agent == "codex":
            return desk.agent.continue_(session, prompt)
        return desk.agent.delegate(prompt)


RESUMED = f"{done_in_words(RESUME, '{session}')} · 2nd turn"
BRIEFED = (
    f"{done_in_words(START_FRESH, None)} · 2nd turn: "
    "the tool that was called takes no session to go on in"
)

INTERFACES = {
    each.agent: each
    for each in (
        Interface(
            agent="claude-code",
            options=("--permission-mode", "default"),  # 'auto' needs an answer of Anthropic's
            choices=(("Yes, I trust this folder", "down"), ("Yes", "up")),
            ready="manual mode on",
            told_again=BRIEFED,
            tokens_at_95_percent=950_000,
        ),
        Interface(
            agent="opencode",
            ready="Ask anything",
            told_again=RESUMED,
            tokens_at_95_percent=95_000,
        ),
        Interface(
            agent="codex",
            options=("--no-daemon",),
            choices=(("Trust and continue", "up"), ("Trust all and continue", "down")),
            ready="Ask Codex to do anything",
            leave="/quit",
            told_again=RESUMED,
            tokens_at_95_percent=258_400,
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
        self.agent = interface.set_up(binary, model, directory)
        self.project = self.agent.project
        self.agent.upthread("use", WORKSTREAM)
        self._is_newcomer = True

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
        wide = {**self.agent.environment, "COLUMNS": "400"}
        return " ".join(self.agent.output_of([*self.agent.program, *words], wide).split())

    def has_answered(self, text: str) -> bool:
        """Whether the model has given this answer to anybody."""
        return any(request.response.get("text") == text for request in self.model.model_requests)


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
