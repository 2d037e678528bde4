"""Killing: waits for the planned moment beside a running command, and hits whom the plan names."""

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.laboratory.command import Command
from tests.support.laboratory.plan import Kill, Victim

LOOKS_EVERY_S = 0.001

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A kill that landed: on whom, and what the agents wrote last, empty for nothing."""

    victim: Victim
    after: str


class AgentLines:
    """What the agents have written into the journal, read as it grows."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._read_bytes = 0
        self._events: list[str] = []

    def events(self) -> list[str]:
        """The events told so far by agents, oldest first."""
        with self._journal.open("rb") as journal:
            journal.seek(self._read_bytes)
            whole, end, _torn = journal.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(end)
        entries: list[Json] = [json.loads(line) for line in whole.splitlines()]
        self._events += [entry["event"] for entry in entries if "pid" in entry]
        return self._events


class Killer:
    """Carries out the kills of a plan, in order, on whatever runs when they are due."""

    def __init__(self, kills: tuple[Kill, ...], journal: Path) -> None:
        self._due = list(kills)
        self._lines = AgentLines(journal)
        self.hits: list[Hit] = []

    def watch(self, command: Command) -> None:
        """Return when the command has ended, by itself or by a kill that was due."""
        self._before = len(self._lines.events())
        while self._due and self._wait_until_due(command, self._due[0]):
            if self._hit(command, self._due[0]):
                self._due.pop(0)
            else:
                time.sleep(LOOKS_EVERY_S)
        assert command.exit_code is not None

    def kill_after(self, command: Command, delay_s: float) -> None:
        """Kill upthread alone, that long after its start."""
        time.sleep(delay_s)
        with suppress(ProcessLookupError):  # it may have been quicker
            os.kill(command.pid, signal.SIGKILL)
        if command.was_killed:
            self.hits.append(Hit(victim=Victim.UPTHREAD, after=""))

    def _wait_until_due(self, command: Command, kill: Kill) -> bool:
        while not self._is_due(kill):
            if not command.is_running:
                return False
            time.sleep(LOOKS_EVERY_S)
        time.sleep(kill.delay_s)
        return command.is_running

    def _is_due(self, kill: Kill) -> bool:
        events = self._lines.events()
        after = events[kill.agent_lines :]
        return kill.event in after if kill.event else len(events) >= kill.agent_lines

    def _hit(self, command: Command, kill: Kill) -> bool:
        """Return whether it landed: an agent that is not there cannot be hit."""
        agents = [] if kill.victim is Victim.UPTHREAD else command.agents()
        if kill.victim is not Victim.UPTHREAD and not agents:
            return False
        events = self._lines.events()[self._before :]
        for pid in agents:
            with suppress(ProcessLookupError):
                (os.killpg if kill.takes_group else os.kill)(pid, signal.SIGKILL)
        if kill.victim is not Victim.AGENT:
            with suppress(ProcessLookupError):
                os.kill(command.pid, signal.SIGKILL)
            if not command.was_killed:
                return False
        self.hits.append(Hit(victim=kill.victim, after=events[-1] if events else ""))
        return True
