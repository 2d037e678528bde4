"""What the real Gemini CLI does about sessions, as far as that shows without a model."""

import json
from pathlib import Path

import anyio
import pytest
from tests.live.conftest import found
from tests.live.gemini import find_gemini, gemini_environment, pinned_version
from tests.live.shell import agents_left

from upthread.agents._guard import MARK_VARIABLE, marked_processes
from upthread.agents.acp import AcpAdapter
from upthread.agents.base import OpenRequest, PermissionAnswer
from upthread.errors import UpstreamError

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(240)]


@pytest.fixture
def gemini(tmp_path):
    command = found(f"Gemini CLI {pinned_version()}", find_gemini())
    yield AcpAdapter(agent="gemini", command=command)
    assert agents_left(tmp_path) == []


@pytest.fixture
def opening(project, tmp_path):
    async def nobody(_request):
        return PermissionAnswer(option_id=None, answered_by="test")

    return OpenRequest(
        working_directory=str(project),
        stderr_path=str(tmp_path / "stderr"),
        answer_permission=nobody,
        environment=gemini_environment(tmp_path / "home"),
    )


async def test_it_is_one_process_and_knows_which_sessions_it_has(gemini, opening):
    """Left alone it starts itself again, and SIGKILL leaves that one behind."""
    async with gemini.open(opening) as connection:
        capabilities = connection.capabilities
        assert capabilities.version == pinned_version()
        assert (capabilities.can_load, capabilities.can_resume) == (True, False)
        assert await connection.new_session()
        with pytest.raises(UpstreamError) as caught:
            await connection.load_session("00000000-0000-4000-8000-000000000000")
        assert caught.value.outcome == "missing"
        process = connection.process
        assert process is not None
        (mark,) = await anyio.to_thread.run_sync(marks_of, process.pid)
        assert marked_processes(mark) == (process.pid,)


def marks_of(pid: int) -> list[str]:
    """Return the mark that upthread gave a process, from its environment."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    named = [entry for entry in environment if entry.startswith(MARK_VARIABLE)]
    return [entry.partition("=")[2].rpartition(":")[2] for entry in named]


@pytest.mark.soak
async def test_a_session_made_a_moment_ago_is_loaded_whole(gemini, opening, tmp_path):
    """Without the wait this load would empty it, for good."""
    async with gemini.open(opening) as connection:
        session = await connection.new_session()
    chats = tmp_path / "home" / ".gemini" / "tmp"
    (stored,) = chats.glob(f"*/chats/session-*-{session[:8]}.jsonl")
    said = {"id": "m1", "type": "user", "content": [{"text": "Remember KIWI-42."}]}
    answered = {"id": "m2", "type": "gemini", "content": "noted"}
    with stored.open("a") as file:
        file.writelines(
            json.dumps({**each, "timestamp": "2026-11-21T12:00:00.000Z"}) + "\n"
            for each in (said, answered)
        )
    async with gemini.open(opening) as connection:
        history = str(await connection.load_session(session))
    assert "KIWI-42" in history
    minutes = chats.glob(f"*/chats/session-*-{session[:8]}.jsonl")
    assert len(list(minutes)) == 2, "the load's own recording is another minute's"
