"""How an agent's process ended, and what it said last, in the words an error has for a person."""

import sys

import pytest

from upthread.agents import _process_end
from upthread.agents._process import ChildStart, started_child
from upthread.agents._process_end import died, exit_code_of, how_it_ended, last_words
from upthread.core.types import Outcome

pytestmark = pytest.mark.anyio


def running(tmp_path, code):
    command = (sys.executable, "-I", "-c", code)
    start = ChildStart(
        command=command,
        working_directory=str(tmp_path),
        stderr_path=str(tmp_path / "stderr"),
        redactor=None,
    )
    return started_child(start)


@pytest.mark.parametrize(
    ("exit_code", "more", "words"),
    [
        (3, {}, "exited with code 3"),
        (0, {}, "exited with code 0"),
        (-9, {}, "was ended by signal 9"),
        (None, {}, "closed its output without exiting and was ended"),
        (None, {"closed": "socket"}, "closed its socket without exiting and was ended"),
    ],
)
def test_each_way_to_end_has_its_words(exit_code, more, words):
    assert how_it_ended(exit_code, **more) == words


async def test_an_agent_that_exited_is_told_with_its_code_and_pid(tmp_path):
    async with running(tmp_path, "raise SystemExit(7)") as child:
        error = await died(child, agent="the agent", during="session/prompt", hint="run it again")
        assert str(error).startswith("the agent exited with code 7 during session/prompt")
        assert (error.outcome, error.hint) == (Outcome.PROCESS_DIED, "run it again")
        assert error.ids == {"pid": str(child.pid)}


async def test_an_agent_that_closed_its_side_and_stays_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(_process_end, "EXIT_CODE_PATIENCE_S", 0.05)
    code = "import os, time\nos.close(1)\ntime.sleep(60)"
    async with running(tmp_path, code) as child:
        assert await child.read_line() is None
        assert await exit_code_of(child) is None
        error = await died(child, agent="the agent", during="initialize", hint="")
        assert "closed its output without exiting and was ended" in str(error)
        assert child.exit_code is not None


@pytest.mark.parametrize(
    ("code", "more", "words"),
    [
        ("", {}, "it wrote nothing to stderr"),
        ("import sys; sys.stderr.write('no licence')", {}, "its stderr ends with: no licence"),
        (
            "",
            {"unreadable": "Hello!", "spoken": "JSON lines"},
            "it wrote nothing to stderr; its stdout held what is not JSON lines, first: Hello!",
        ),
    ],
)
async def test_what_it_said_last_is_in_the_words(tmp_path, code, more, words):
    async with running(tmp_path, code) as child:
        await child.wait()
        await died(child, agent="the agent", during="initialize", hint="")
        assert last_words(child, **more) == words
