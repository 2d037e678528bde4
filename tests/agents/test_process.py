"""A child process: its lines, its environment, its end."""

import os
import signal
import sys

import anyio
import pytest
from tests.core.redaction.secrets_of import planted

from upthread.agents import _process
from upthread.agents._guard import MARK_VARIABLE
from upthread.agents._process import (
    TAIL_BYTES,
    ChildStart,
    StderrLog,
    child_environment,
    end_process_group,
    started_at_ticks,
    started_child,
)
from upthread.core.quotas import Limit
from upthread.core.redaction.redactor import Redactor
from upthread.errors import ConfigError, QuotaExceededError

pytestmark = pytest.mark.anyio


def python(code, tmp_path, stderr_path=None):
    """A start of a program, without the stderr of anybody else."""
    command = (sys.executable, "-I", "-c", code)
    return ChildStart(
        command=command, working_directory=str(tmp_path), stderr_path=stderr_path, redactor=None
    )


async def lines_of(child):
    lines = []
    while (line := await child.read_line()) is not None:
        lines.append(line)
    return lines


async def test_lines_come_whole_however_they_are_cut(tmp_path):
    code = (
        "import os,time\nfor c in b'ab\\n\\nc\\xff\\n': os.write(1, bytes([c])); time.sleep(.002)"
    )
    async with started_child(python(code + "\nos.write(1, b'rest')", tmp_path)) as child:
        assert await lines_of(child) == [b"ab", b"", b"c\xff", b"rest"]


async def test_a_line_beyond_the_maximum_is_an_error_and_the_lines_after_it_can_be_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(_process, "FRAME", Limit("a frame", 1000, "bytes"))
    code = "print('x' * 900); print('y' * 200_000); print('after'); print('it')"
    lines, passed = [], 0
    async with started_child(python(code, tmp_path)) as child:
        while True:
            try:
                line = await child.read_line()
            except QuotaExceededError:
                passed += 1
                continue
            if line is None:
                break
            lines.append(line)
    assert (lines[0], lines[-2:]) == (b"x" * 900, [b"after", b"it"])
    assert passed


async def test_what_is_written_arrives_whole_and_in_order(tmp_path):
    code = "import sys\nfor line in sys.stdin: print(len(line), flush=True)"
    async with started_child(python(code, tmp_path)) as child:
        for size in (1, 3_000_000, 7):
            await child.write_line(b"z" * size)
        assert [await child.read_line() for _ in range(3)] == [b"2", b"3000001", b"8"]


async def test_writing_to_a_dead_child_is_no_error(tmp_path):
    async with started_child(python("", tmp_path)) as child:
        assert await child.wait() == 0
        for _ in range(3):
            await child.write_line(b"hello?")


async def test_the_death_of_the_leader_ends_what_holds_its_pipes(tmp_path):
    code = (
        "import subprocess, sys\n"
        "idle = [sys.executable, '-I', '-c', 'import time; time.sleep(600)']\n"
        "subprocess.Popen(idle); subprocess.Popen(idle, start_new_session=True); sys.exit(3)"
    )
    async with started_child(python(code, tmp_path)) as child:
        with anyio.fail_after(30):
            assert await child.read_line() is None
            assert await child.wait() == 3


@pytest.mark.extended
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("print(flush=True); sys.stdin.read()", 0),
        ("print(flush=True); time.sleep(600)", -signal.SIGTERM),
        ("signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)", -signal.SIGKILL),
    ],
)
async def test_stop_asks_then_insists(tmp_path, code, exit_code, monkeypatch):
    """A patience is long where the child uses it, and short where it would be waited out."""
    monkeypatch.setattr(_process, "EOF_PATIENCE_S", 30 if exit_code == 0 else 0.1)
    monkeypatch.setattr(_process, "TERM_PATIENCE_S", 30 if exit_code == -signal.SIGTERM else 0.1)
    async with started_child(python(f"import signal, sys, time; {code}", tmp_path)) as child:
        await child.read_line()
        await child.stop()
        assert child.exit_code == exit_code
        await child.stop()


async def test_the_environment_is_the_named_few_and_the_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv(MARK_VARIABLE, "outer")
    seen = child_environment({"GIVEN": "1", "LC_TIME": "POSIX"}, "inner")
    assert "SECRET_OF_THE_HOST" not in seen
    assert (seen["OPENAI_API_KEY"], seen["GIVEN"], seen["LC_TIME"]) == ("key", "1", "POSIX")
    assert seen[MARK_VARIABLE] == "outer:inner"
    code = "import os; print('SECRET_OF_THE_HOST' in os.environ)"
    async with started_child(python(code, tmp_path)) as child:
        assert await child.read_line() == b"False"


async def test_stderr_is_appended_in_private_and_only_ours_is_the_tail(tmp_path):
    path = tmp_path / "log" / "stderr"
    path.parent.mkdir(mode=0o700)
    path.write_text("of an earlier agent\n")
    path.chmod(0o644)
    code = "import sys; sys.stderr.write('a' * 3000 + 'end\\n')"
    async with started_child(python(code, tmp_path, stderr_path=str(path))) as child:
        await child.wait()
        tail = child.tail_of_stderr()
    assert tail.endswith("aaaend")
    assert len(tail) < 1001
    assert path.read_text().startswith("of an earlier agent\na")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.extended
async def test_a_left_over_agent_is_ended_only_when_it_is_the_one(tmp_path, monkeypatch):
    monkeypatch.setattr(_process, "TERM_PATIENCE_S", 0.1)
    code = (
        "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'],\n"
        "                 start_new_session=True); print(flush=True); time.sleep(600)"
    )
    async with started_child(python(code, tmp_path)) as child:
        await child.read_line()
        assert not await end_process_group(child.pid, child.started_at_ticks + 1)
        assert started_at_ticks(child.pid) == child.started_at_ticks
        assert await end_process_group(child.pid, child.started_at_ticks)
        assert await child.wait() == -signal.SIGKILL
        assert not await end_process_group(child.pid, child.started_at_ticks)


async def test_a_process_that_leads_no_group_is_never_ended():
    assert not await end_process_group(1, started_at_ticks(1) or 0)
    ours = os.getpid()
    if os.getpgid(0) != ours:
        assert not await end_process_group(ours, started_at_ticks(ours) or 0)


@pytest.mark.parametrize("trap", ["symlink", "directory_symlink", "writable", "a_directory"])
async def test_an_unsafe_place_for_stderr_starts_nothing(tmp_path, trap):
    log = tmp_path / "log"
    log.mkdir(mode=0o700)
    path = log / "stderr"
    if trap == "symlink":
        path.symlink_to(tmp_path / "elsewhere")
    elif trap == "directory_symlink":
        (tmp_path / "link").symlink_to(log)
        path = tmp_path / "link" / "stderr"
    elif trap == "writable":
        log.chmod(0o777)
    else:
        path.mkdir()
    with pytest.raises(ConfigError, match=r"stderr|log|link"):
        async with started_child(python("", tmp_path, stderr_path=str(path))):
            pass
    assert not (tmp_path / "elsewhere").exists()


async def test_what_an_agent_leaves_in_its_session_is_ended_with_it_and_nothing_else(tmp_path):
    """Codex starts MCP servers so: a group of their own, and an environment without our mark."""
    code = """
import subprocess, sys
idle = [sys.executable, '-I', '-c', 'import time; time.sleep(60)']
servers = [subprocess.Popen(idle, env={}, stdout=2, process_group=0),
           subprocess.Popen(idle, env={}, stdout=2, start_new_session=True)]
print(*(each.pid for each in servers), flush=True)
sys.stdin.read()
"""
    async with started_child(python(code, tmp_path)) as child:
        server, daemon = map(int, (await child.read_line()).split())
    with anyio.fail_after(5):  # a signal sent is not yet an end
        while started_at_ticks(server) is not None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert started_at_ticks(daemon) is not None
    os.kill(daemon, signal.SIGKILL)


# --- what an agent writes to stderr, on its way into a file ---------------------------------------


REDACTOR = Redactor(b"k" * 32)


def test_a_secret_in_pieces_reaches_neither_the_file_nor_the_tail(tmp_path):
    path = tmp_path / "err.log"
    with path.open("ab", buffering=0) as file:
        log = StderrLog(file, REDACTOR)
        secret = planted(8)[6][1]
        for piece in (f"using {secret[:9]}", secret[9:], " now\nlast wor"):
            log.write(piece.encode())
            assert secret not in log.tail()
        assert path.read_text() == f"using {REDACTOR.redact(secret)} now\nlast "
        assert log.tail().endswith("last wor")
        log.close()
    assert path.read_text().endswith("last wor")


def test_the_tail_is_the_end_and_no_longer():
    log = StderrLog(None, None)
    log.write(b"x" * 5_000 + b"the end\n")
    assert len(log.tail()) == TAIL_BYTES - 1
    assert log.tail().endswith("xthe end")
    log.close()


def test_a_file_that_takes_no_more_is_said_in_the_tail():
    log = StderrLog(os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0), None)
    log.write(b"hello\n")
    log.write(b"again\n")
    assert log.tail() == "hello\nagain (no more of its stderr is kept: No space left on device)"
    log.close()
