"""What runs enclosed reaches loopback alone, and what it opens or leaves is told."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED, spread

pytestmark = EXTENDED

TOOL = Path(__file__).resolve().parents[2] / "tools" / "enclosed.py"
OUTSIDE = "192.0.2.1"  # for documentation: nobody has it


def enclosed(*command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(TOOL), *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def in_python(program: str) -> subprocess.CompletedProcess[str]:
    return enclosed(sys.executable, "-I", "-c", program)


@pytest.fixture(scope="module", autouse=True)
def allowed():
    """Where the machine allows no namespaces, the tool says so, and so does this."""
    done = enclosed(sys.executable, "-I", "-c", "")
    if "NOT ENCLOSED" in done.stdout:
        pytest.skip(done.stdout.splitlines()[0])


def test_a_command_that_opens_and_leaves_nothing_ends_as_it_would():
    done = in_python("raise SystemExit(0)")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "--- network: loopback only",
            "--- HOME, 17 decoys: opened nothing",
            "--- /tmp: left nothing",
        ],
    )
    assert in_python("raise SystemExit(7)").returncode == 7


def test_loopback_is_reached_and_nothing_else_is():
    program = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
try:
    socket.create_connection(("{OUTSIDE}", 80), timeout=5)
except OSError as error:
    print("interfaces", [name for _, name in socket.if_nameindex()], error.strerror)
"""
    assert "interfaces ['lo'] Network is unreachable" in in_python(program).stdout


OPENINGS = {
    ".codex/config.toml": "read_text()",
    ".claude/new": "touch()",
    ".netrc": "unlink()",
}


@pytest.mark.parametrize("name", spread(OPENINGS))
def test_whatever_is_opened_in_its_home_is_told_and_fails(name):
    done = in_python(f"import pathlib; (pathlib.Path.home() / {name!r}).{OPENINGS[name]}")
    assert f"--- HOME, 17 decoys: opened {name}" in done.stdout
    assert done.returncode == 1


def test_a_walk_through_it_from_outside_is_told_and_is_not_the_commands_doing():
    before = set(Path("/tmp").glob("enclosed-*"))
    running = subprocess.Popen(
        [sys.executable, str(TOOL), sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert running.stdout
    running.stdout.readline()
    for directory in set(Path("/tmp").glob("enclosed-*")) - before:
        list(directory.rglob("*"))
    told, _ = running.communicate(b"\n", timeout=60)
    assert b"opened from outside too" in told
    assert (running.returncode, b"opened nothing" in told) == (0, True)


def test_what_it_leaves_in_tmp_is_told_and_goes_away():
    name = "left-by-an-enclosed-test"
    done = in_python(f"open('/tmp/{name}', 'w').close()")
    assert f"--- /tmp: left {name}" in done.stdout
    assert done.returncode == 1
    assert not Path("/tmp", name).exists()
