"""How the ACP adapter starts and ends an agent: promises A1 and A2, against a misbehaving one.

The conformance suite has the other sides of both promises.
"""

import anyio
import pytest

from upthread.agents import _process
from upthread.agents.acp import AcpAdapter
from upthread.errors import ConfigError, UpstreamError

pytestmark = pytest.mark.anyio


@pytest.mark.extended
@pytest.mark.parametrize(
    ("word", "outcome", "message", "hint"),
    [
        ("dies", "process_died", "scripted exited with code 7 during initialize", "says hello"),
        ("garbage", "process_died", "exited with code 7", "Welcome to the agent!"),
        ("closes_stdout", "process_died", "closed its output without exiting", "says hello"),
        ("other_version", "unknown", "speaks ACP version 99, and upthread speaks version 1", ""),
        ("not_acp", "unknown", "answered `initialize` with what is not ACP", "`acp`"),
    ],
)
async def test_a2_an_agent_that_does_not_start_says_why(
    scripted, request_for, word, outcome, message, hint
):
    with pytest.raises(UpstreamError) as caught:
        async with scripted(word).open(request_for()):
            pass
    assert caught.value.outcome == outcome
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.extended
async def test_a2_an_agent_that_hangs_has_the_time_it_is_given(scripted, request_for):
    with pytest.raises(UpstreamError, match=r"did not answer initialize within 0\.2 s") as caught:
        async with scripted("hangs").open(request_for(start_timeout_s=0.2)):
            pass
    assert caught.value.outcome == "timed_out"


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


@pytest.mark.extended
@pytest.mark.parametrize("word", ["grandchild", "ignores_term"])
async def test_a1_an_error_of_the_caller_ends_all_the_agent_started(
    scripted, request_for, word, monkeypatch
):
    """`no_process_is_left` looks for what is left."""
    monkeypatch.setattr(_process, "EOF_PATIENCE_S", 0.1)
    monkeypatch.setattr(_process, "TERM_PATIENCE_S", 0.1)
    with pytest.raises(KeyError, match="mine"):
        async with scripted(word).open(request_for()):
            raise KeyError("mine")


@pytest.mark.soak
async def test_a1_a_start_that_is_cancelled_leaves_nothing(scripted, request_for):
    with anyio.move_on_after(0.3) as scope:
        async with scripted("hangs").open(request_for()):
            pass
    assert scope.cancelled_caught
