"""An old database is converted whole, is never written to, and a killed conversion begins anew."""

import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from signal import SIGKILL as KILL
from signal import SIGTERM as TERM

import pytest
from tools.convert_database import LAST_WITH_TABLES, _code_of

from upthread.core.types import ErasedPart
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance.copies import CONVERSATIONS, FORGOTTEN
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import os
import sys
from pathlib import Path
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance.copies import everything
store = SqliteStore(Path(sys.argv[1]))
store.commit(everything())
if "killed" in sys.argv:
    os._exit(0)
store.close()
"""

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def old_code(tmp_path_factory):
    return _code_of(LAST_WITH_TABLES, tmp_path_factory.mktemp("code"))


@pytest.fixture(params=["closed", "killed"])
def old(request, tmp_path, old_code, monkeypatch):
    """An old database; of a process that was killed, with its log beside it."""
    (tmp_path / "private").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "private"))
    path = tmp_path / "old" / "upthread.db"
    environment = {"PYTHONPATH": str(old_code), "PATH": ""}
    making = [sys.executable, "-c", MAKE, str(path), request.param]
    subprocess.run(making, env=environment, check=True)
    path.with_name("upthread.db.key").write_bytes(b"k" * 32)
    return path


def conversion(old, new):
    return [sys.executable, str(ROOT / "tools" / "convert_database.py"), str(old), str(new)]


def digest(path):
    files = [path, *path.parent.glob(f"{path.name}-wal")]
    return [sha256(each.read_bytes()).hexdigest() for each in files]


def left_of(tmp_path):
    """Return the private copies that conversions have left."""
    return list((tmp_path / "private").iterdir())


def test_what_was_in_tables_is_in_the_log_and_the_old_file_is_as_it_was(old, tmp_path):
    before, new = digest(old), tmp_path / "new.db"
    done = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "converted and compared" in done.stdout
    assert digest(old) == before
    assert left_of(tmp_path) == []
    assert new.with_name("new.db.key").read_bytes() == b"k" * 32
    store = SqliteStore(new)
    assert all(store.verify(each) is None for each in CONVERSATIONS)
    assert store.message_count(CONVERSATION) == 2
    assert all(isinstance(part, ErasedPart) for part in store.messages(FORGOTTEN)[0].parts)
    assert len(store.run_events(RUN)) == 3
    assert store.once(PROJECT, "deploy").receipt["url"]
    store.close()
    again = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.mark.parametrize("old", ["closed"], indirect=True)
@pytest.mark.parametrize(
    ("after_s", "kill"), [(0.6, KILL), (1.2, KILL), (1.8, KILL), (0.9, TERM), (None, TERM)]
)
def test_killed_at_any_moment_it_leaves_the_old_file_and_can_be_started_again(
    old, tmp_path, after_s, kill
):
    before, new = digest(old), tmp_path / "new.db"
    killed = subprocess.Popen(conversion(old, new), stdout=subprocess.DEVNULL)
    while after_s is None and not new.exists():
        time.sleep(0.001)
    try:
        killed.wait(after_s or 0.003)  # then the conversion removes its private copy
    except subprocess.TimeoutExpired:
        killed.send_signal(kill)
        killed.wait()
        assert kill == KILL or not left_of(tmp_path)
    new.unlink(missing_ok=True)  # it takes its name when it is whole, just before the end
    assert digest(old) == before
    done = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert digest(old) == before
    assert sorted(each.name for each in tmp_path.glob("new*")) == ["new.db", "new.db.key"]
    assert left_of(tmp_path) == []
