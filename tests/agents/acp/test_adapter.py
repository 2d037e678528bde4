"""How the ACP adapter starts and ends an agent: promises A1 and A2, against a misbehaving one."""

import os
import time

import anyio
import pytest

from upthread.agents._process_group import started_at_ticks
from upthread.agents.acp import AcpAdapter
from upthread.errors import ConfigError, UpstreamError

pytestmark = pytest.mark.anyio


async def start_error(adapter, request, within_s):
    began = time.monotonic()
    with pytest.raises(UpstreamError) as caught:
        async with adapter.open(request):
            pytest.fail("it must not open")
    assert time.monotonic() - began < within_s
    return caught.value


@pytest.mark.parametrize(
    ("word", "outcome", "message", "hint"),
    [
        ("dies", "process_died", "scripted exited with code 7 during initialize", "says hello"),
        ("hangs", "timed_out", "scripted did not answer initialize within 0.5 s", "says hello"),
        ("garbage", "timed_out", "did not answer initialize", "Welcome to the agent!"),
        ("closes_stdout", "process_died", "closed its output without exiting", "says hello"),
        ("other_version", "unknown", "speaks ACP version 99, and upthread speaks version 1", ""),
        ("not_acp", "unknown", "answered `initialize` with what is not ACP", "`acp`"),
    ],
)
async def test_a2_an_agent_that_does_not_start_says_why(
    scripted, request_for, word, outcome, message, hint
):
    error = await start_error(scripted(word), request_for(start_timeout_s=0.5), within_s=6)
    assert error.outcome == outcome
    assert message in error.message
    assert hint in error.hint


async def test_a2_a_command_that_does_not_exist_starts_nothing(request_for, tmp_path):
    adapter = AcpAdapter(agent="ghost", command=["no-such-agent-anywhere"])
    with pytest.raises(ConfigError, match=r"'no-such-agent-anywhere' was not found on PATH"):
        async with adapter.open(request_for()):
            pass
    assert not (tmp_path / "log").exists()


async def test_a2_a_file_that_is_no_program_says_so(request_for, tmp_path):
    broken = tmp_path / "agent"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    adapter = AcpAdapter(agent="broken", command=[str(broken)])
    with pytest.raises((ConfigError, UpstreamError), match=r"cannot be started|exited with"):
        async with adapter.open(request_for()):
            pass


async def test_a_working_directory_that_is_gone_is_its_own_outcome(scripted, request_for, tmp_path):
    error = await start_error(
        scripted(), request_for(working_directory=str(tmp_path / "gone")), within_s=2
    )
    assert error.outcome == "workspace_changed"


async def test_a_banner_before_the_protocol_is_forgiven(scripted, request_for):
    async with scripted("banner").open(request_for()) as connection:
        assert connection.capabilities.version == "1.2.3"


async def test_capabilities_are_what_the_agent_announced(scripted, request_for):
    async with scripted("no_list").open(request_for()) as connection:
        said = connection.capabilities
        assert (said.agent, said.can_load, said.can_resume) == ("scripted", True, True)
        assert not said.can_list
        with pytest.raises(UpstreamError, match=r"scripted 1\.2\.3 cannot list sessions"):
            await connection.list_sessions()


async def test_a1_the_agent_leads_its_own_group_and_is_known_by_its_start(scripted, request_for):
    async with scripted().open(request_for()) as connection:
        process = connection.process
        assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
        assert process.started_at_ticks == started_at_ticks(process.pid)
    assert started_at_ticks(process.pid) is None


@pytest.mark.parametrize(
    ("word", "longest_s"), [("well", 1), ("grandchild", 1), ("never_exits", 6), ("ignores_term", 6)]
)
async def test_a1_leaving_ends_all_the_agent_started(scripted, request_for, word, longest_s):
    async with scripted(word).open(request_for()):
        began = time.monotonic()
    assert time.monotonic() - began < longest_s  # and no_process_is_left looks at the rest


async def test_a1_an_error_of_the_caller_comes_through_as_itself(scripted, request_for):
    with pytest.raises(KeyError, match="mine"):
        async with scripted("grandchild").open(request_for()):
            raise KeyError("mine")


async def test_a1_a_cancelled_caller_leaves_nothing(scripted, request_for):
    with anyio.move_on_after(0.5) as scope:
        async with scripted("grandchild").open(request_for()):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a1_a_start_that_is_cancelled_leaves_nothing(scripted, request_for):
    with anyio.move_on_after(0.5) as scope:
        async with scripted("hangs").open(request_for()):
            pass
    assert scope.cancelled_caught


async def test_two_agents_at_once_do_not_meet(scripted, request_for, recorded):
    async with (
        scripted().open(request_for()) as one,
        scripted().open(request_for()) as other,
    ):
        session = await one.new_session()
        await other.new_session()
        assert one.process.pid != other.process.pid
        await one.prompt(session, "only here", on_event=recorded)
        assert (recorded.text, other.late_events) == ("only here", 0)


def test_a_person_gets_the_agents_own_command():
    adapter = AcpAdapter(agent="opencode", command=["opencode", "acp"])
    assert adapter.resume_command("ses_1") == ("opencode", "--session", "ses_1")
    assert adapter.resume_command("--auto-approve") is None
    assert AcpAdapter(agent="acp:x", command=["x"]).resume_command("1") is None
