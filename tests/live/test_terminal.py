"""The terminal that tests read interfaces on, with small programs that draw as those do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.live.interfaces import told
from tests.live.shell import is_alive, wait_until
from tests.live.terminal import Terminal
from tests.support.sets import EXTENDED

pytestmark = EXTENDED


def drawing(tmp_path: Path, program: str) -> Terminal:
    command = [sys.executable, "-c", program]
    return Terminal(command, environment=dict(os.environ), cwd=tmp_path)


def written(text: str) -> str:
    return f"import sys, time; sys.stdout.write({text!r}); sys.stdout.flush(); time.sleep(60)"


@pytest.mark.parametrize(
    ("drawn", "seen"),
    [
        ("draft\x1b[1;1H\x1b[2Kfinal", "final"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38:2::1:2:3mmore", "red and more"),
        ("\x1b[>1u\x1b[?2026$p\x1bP+q544e\x1b\\\x1b_Gi=1\x1b\\\x1b]0;title\x07plain", "plain"),
        ("one\r\ntwo\r\nthree\x1b[1S\x1b[1;1H", "two three"),
        ("one\x1b[1T", "one"),
        ("a\U0001f600b", "a\U0001f600b"),
    ],
)
def test_what_stands_on_the_screen_is_what_a_person_would_read(tmp_path, drawn, seen):
    with drawing(tmp_path, written(drawn)) as terminal:
        terminal.wait_until(lambda: terminal.screen.split() == seen.split(), seen, within_s=20)


def test_a_wait_in_vain_ends_and_shows_the_screen(tmp_path):
    with drawing(tmp_path, written("something else")) as terminal:
        terminal.wait_for("something else", within_s=20)
        with pytest.raises(AssertionError, match=r"no 'hello' within 0.2 s.*\n.*something else"):
            terminal.wait_for("hello", within_s=0.2)


def test_a_kill_takes_all_that_runs_below_also_in_sessions_of_their_own(tmp_path):
    program = (
        "import subprocess, time\n"
        "below = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(f'below={below.pid};', flush=True)\n"
        "time.sleep(600)\n"
    )
    with drawing(tmp_path, program) as terminal:
        terminal.wait_for(";", within_s=20)
        below = int(terminal.text.partition("below=")[2].partition(";")[0])
        terminal.kill()
    wait_until(lambda: not is_alive(below), "end of the program below")


@pytest.mark.parametrize(
    ("screen", "line"),
    [
        (
            """● planner(plan)
  ⎿  PreToolUse:Agent says: upthread: w/planner: STARTED FRESH · turn 2: the agent
     has no such session
  ⎿  Backgrounded agent""",
            "upthread: w/planner: STARTED FRESH · turn 2: the agent has no such session",
        ),
        (
            """  ┃  Go. [[CALL task {"desc ┃                           ┃  Context
  ┃  "planner"}]]           ┃  upthread: w/planner:     ┃  8%
  ┃                         ┃  RESUMED ses_1 · turn 2   ┃
     ✓ Planner Task         ┃                           ┃  $0
     it was KIWI""",
            "upthread: w/planner: RESUMED ses_1 · turn 2",
        ),
        (
            "↳ Hook · upthread: w/planner: STARTED\n\n• Spawned 01a2 (rehearsal-1)",
            "upthread: w/planner: STARTED",
        ),
    ],
)
def test_a_line_of_ours_is_read_whole_however_an_interface_breaks_it(screen, line):
    assert told(screen) == [line]
