"""How an agent's process ended, and what it said last, in the words an error has for a person."""

import anyio
import pytest
from tests.agents.test_process import python

from upthread.agents._connection import RunningAgent, how_it_ended
from upthread.agents._process import started_child
from upthread.core.types import Outcome
from upthread.errors import UpstreamError

pytestmark = pytest.mark.anyio

SILENT = "it wrote nothing to stderr"


class Spoken(RunningAgent):
    """An agent that is to speak more than JSON."""

    speaks = "JSON lines"


def agent(child, kind=RunningAgent):
    return kind(child, agent="the agent", timeout_s=1.5)


def running(tmp_path, code):
    return started_child(python(code, tmp_path, stderr_path=str(tmp_path / "stderr")))


def test_each_way_to_end_has_its_words():
    words = [how_it_ended(exit_code) for exit_code in (3, 0, -9)]
    assert words == ["exited with code 3", "exited with code 0", "was ended by signal 9"]
    assert how_it_ended(None) == "closed its output without exiting and was ended"
    assert how_it_ended(None, closed="socket").startswith("closed its socket without exiting")


async def test_an_agent_that_exited_is_told_with_its_code_and_pid(tmp_path):
    async with running(tmp_path, "raise SystemExit(7)") as child:
        error = await agent(child).died("session/prompt")
        assert str(error).startswith("the agent exited with code 7 during session/prompt")
        assert (error.outcome, error.hint) == (Outcome.PROCESS_DIED, SILENT)
        assert error.ids == {"pid": str(child.pid)}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("code", "unreadable", "words"),
    [
        ("", "", SILENT),
        ("import sys; sys.stderr.write('no licence')", "", "its stderr ends with: no licence"),
        ("", "Hello!", f"{SILENT}; its stdout held what is not JSON lines, first: Hello!"),
    ],
)
async def test_what_it_said_last_is_in_the_words(tmp_path, code, unreadable, words):
    async with running(tmp_path, code) as child:
        await child.wait()
        running_agent = agent(child, Spoken)
        for each in filter(None, (unreadable, unreadable and "the first counts")):
            running_agent.note_unreadable(each)
        error = await running_agent.died("initialize")
        assert (running_agent.last_words(), error.hint) == (words, words)


async def test_a_question_to_a_person_that_ends_in_no_line_is_in_the_words(tmp_path):
    code = (
        "import sys, time\nsys.stdout.write('Install? [y/N] '); sys.stdout.flush(); time.sleep(9)"
    )
    async with running(tmp_path, code) as child:
        with anyio.move_on_after(2):
            await child.read_line()
        assert agent(child, Spoken).last_words().endswith("first: Install? [y/N]")


async def test_an_error_names_the_session_it_is_about_and_another_session_is_used_for_nothing(
    tmp_path,
):
    async with running(tmp_path, "") as child:
        asked = agent(child)
        assert asked.session_named("ses_1", "new") == "ses_1"
        assert asked.fork_named("ses_2", "ses_1", "fork") == "ses_2"
        for given in (None, "", 7):
            with pytest.raises(UpstreamError, match="answered new without a session id"):
                asked.session_named(given, "new")
        with pytest.raises(UpstreamError, match="answered the fork of session ses_1 with that"):
            asked.fork_named("ses_1", "ses_1", "fork")
        other = asked.opened_another("ses_2", "ses_1")
        assert str(other).startswith(
            "the agent answered with session ses_2 when asked for session ses_1"
        )
        refused = asked.refused("attach", "no", outcome=Outcome.BUSY, session="ses_1", hint="wait")
        assert str(refused).startswith("the agent refused attach for session ses_1: no")
        assert (refused.outcome, refused.hint) == (Outcome.BUSY, "wait")
        late = asked.timed_out("attach", session="ses_1")
        assert str(late).startswith(
            "the agent did not answer attach for session ses_1 within 1.5 s"
        )
        assert other.ids == refused.ids == late.ids == {"upstream_session_id": "ses_1"}
