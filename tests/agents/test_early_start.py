"""An agent is started while others decide, taken by who opens it, and always ended."""

from __future__ import annotations

import sys
import time

import anyio
import pytest
from msgspec import structs

from upthread.agents._process_group import started_at_ticks
from upthread.agents.early_start import started_early
from upthread.errors import ConfigError, UpstreamError

pytestmark = pytest.mark.anyio
EOF_PATIENCE_S = 1.0


def is_running(process) -> bool:
    return started_at_ticks(process.pid) == process.started_at_ticks


async def test_whoever_opens_it_gets_the_agent_that_was_started_before(
    scripted, request_for, recorded
):
    adapter, request = scripted(), request_for()
    async with started_early(adapter, request) as early:
        assert (early.agent, early.resume_command("ses_1")) == ("scripted", None)
        await anyio.sleep(0.3)  # what the caller does meanwhile
        async with await anyio.open_process([sys.executable, "-I", "-S", "-c", ""]) as later:
            later_ticks = started_at_ticks(later.pid)
        async with early.open(request) as connection:
            assert connection.process.started_at_ticks < later_ticks
            session = await connection.new_session()
            result = await connection.prompt(session, "[[echo hello]]", on_event=recorded)
            assert result.outcome == "ok"
            process = connection.process
        assert process is not None
    assert not is_running(process)


async def test_its_end_is_waited_for_by_nobody_but_who_started_it(scripted, request_for):
    """This one is told to end by a signal, a second after it should have ended by itself."""
    request = request_for()
    async with started_early(scripted("never_exits"), request) as early:
        async with early.open(request) as connection:
            process = connection.process
            began_s = time.monotonic()
        left_s = time.monotonic() - began_s
        assert is_running(process)
    assert left_s < EOF_PATIENCE_S / 2
    assert time.monotonic() - began_s >= EOF_PATIENCE_S
    assert not is_running(process)


@pytest.mark.parametrize("word", ["well", "hangs"])
async def test_one_that_nobody_opens_is_ended_wherever_it_is(scripted, request_for, word):
    """`no_process_is_left` is the proof; one in the middle of its start is not waited for."""
    with anyio.fail_after(8):
        async with started_early(scripted(word), request_for()):
            await anyio.sleep(0.5)


async def test_what_went_wrong_is_told_to_who_opens_it_and_to_nobody_else(scripted, request_for):
    request = request_for()
    async with started_early(scripted("dies"), request) as early:
        with pytest.raises(UpstreamError, match="initialize"):
            async with early.open(request):
                pass
    nowhere = structs.replace(request, working_directory="/nowhere")
    async with started_early(scripted(), nowhere):
        await anyio.sleep(0.1)


async def test_a_second_opening_is_a_process_of_its_own_after_the_first_has_ended(
    scripted, request_for
):
    request = request_for()
    async with started_early(scripted(), request) as early:
        async with early.open(request) as connection:
            first = connection.process
        async with early.open(request) as connection:
            assert not is_running(first)
            assert connection.process != first
            assert is_running(connection.process)


async def test_one_that_is_wanted_otherwise_is_started_anew(scripted, request_for, tmp_path):
    request = request_for()
    (tmp_path / "other").mkdir()
    other = request_for(working_directory=str(tmp_path / "other"))
    async with started_early(scripted(), request) as early, early.open(other) as connection:
        assert connection.process is not None
        cwd = f"/proc/{connection.process.pid}/cwd"
        assert (await anyio.Path(cwd).readlink()).name == "other"


async def test_a_caller_that_is_cancelled_leaves_no_agent(scripted, request_for):
    request = request_for()
    with anyio.move_on_after(1):
        async with started_early(scripted(), request) as early, early.open(request):
            await anyio.sleep_forever()


async def test_an_error_of_the_callers_comes_through_as_it_is(scripted, request_for):
    request = request_for()
    with pytest.raises(ConfigError, match="mine"):
        async with started_early(scripted(), request) as early, early.open(request):
            raise ConfigError("mine", hint="")
