"""How a server is started, and one that does not start as it should."""

from __future__ import annotations

import pytest

from upthread.agents.opencode.adapter import OpenCodeAdapter
from upthread.agents.registry import adapter_for
from upthread.core.types import Outcome
from upthread.errors import ConfigError, UpstreamError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("word", "outcome", "says"),
    [
        ("exits", Outcome.PROCESS_DIED, "exited with code 7 before it listened"),
        ("mute", Outcome.TIMED_OUT, "did not say where it listens"),
        ("listens_to_all", Outcome.TIMED_OUT, "did not say where it listens"),
        ("another_version", Outcome.UNKNOWN, "says its version is '2.0.0'"),
    ],
)
async def test_a_bad_start_is_an_error_in_time(scripted_opencode, request_for, word, outcome, says):
    with pytest.raises(UpstreamError, match=says) as failed:
        async with scripted_opencode(word).open(request_for(start_timeout_s=3)):
            pass
    assert failed.value.outcome == outcome
    assert failed.value.hint


async def test_what_it_wrote_to_stderr_is_in_the_hint(scripted_opencode, request_for):
    with pytest.raises(UpstreamError) as failed:
        async with scripted_opencode("exits").open(request_for()):
            pass
    assert "cannot bind" in failed.value.hint


async def test_a_command_that_does_not_exist_is_a_matter_of_configuration(request_for):
    with pytest.raises(ConfigError):
        async with OpenCodeAdapter(command=("no-such-opencode",)).open(request_for()):
            pass


async def test_it_says_what_it_can_do(scripted_opencode, request_for):
    async with scripted_opencode().open(request_for()) as connection:
        can = connection.capabilities
    assert (can.agent, can.version) == ("opencode", "1.18.33")
    assert (can.can_resume, can.can_load, can.can_list, can.can_fork) == (True, True, True, True)


def test_it_is_the_way_opencode_is_driven():
    assert isinstance(adapter_for("opencode"), OpenCodeAdapter)


def test_a_session_opens_in_opencodes_own_interface_and_never_as_an_option():
    adapter = OpenCodeAdapter()
    assert adapter.resume_command("ses_1") == ("opencode", "--session", "ses_1")
    assert adapter.resume_command("--print-logs") is None
