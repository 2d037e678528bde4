"""An old database is converted whole, is never written to, and a killed conversion begins anew."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tools.convert_database import LAST_WITH_TABLES, _code_of

from upthread.core.types import ErasedPart
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance.copies import CONVERSATIONS, FORGOTTEN
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import sys
from pathlib import Path
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance.copies import everything
store = SqliteStore(Path(sys.argv[1]))
store.commit(everything())
store.close()
"""

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def old_code(tmp_path_factory):
    return _code_of(LAST_WITH_TABLES, tmp_path_factory.mktemp("code"))


@pytest.fixture
def old(tmp_path, old_code):
    path = tmp_path / "old" / "upthread.db"
    environment = {"PYTHONPATH": str(old_code), "PATH": ""}
    subprocess.run([sys.executable, "-c", MAKE, str(path)], env=environment, check=True)
    path.with_name("upthread.db.key").write_bytes(b"k" * 32)
    return path


def conversion(old, new):
    return [sys.executable, str(ROOT / "tools" / "convert_database.py"), str(old), str(new)]


def digest(path):
    return sha256(path.read_bytes()).hexdigest()


def test_what_was_in_tables_is_in_the_log_and_the_old_file_is_as_it_was(old, tmp_path):
    before, new = digest(old), tmp_path / "new.db"
    with pytest.raises(StoreError, match="of an older version") as caught:
        SqliteStore(old)
    assert "tools/convert_database.py" in caught.value.hint
    done = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "converted and compared" in done.stdout
    assert digest(old) == before
    assert new.with_name("new.db.key").read_bytes() == b"k" * 32
    store = SqliteStore(new)
    assert all(store.verify(each).damaged_seq is None for each in CONVERSATIONS)
    assert store.message_count(CONVERSATION) == 2
    assert all(isinstance(part, ErasedPart) for part in store.messages(FORGOTTEN)[0].parts)
    assert len(store.run_events(RUN)) == 3
    assert store.once(PROJECT, "deploy").receipt["url"]
    store.close()
    again = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.mark.parametrize("after_s", [0.6, 1.2, 1.8])
def test_killed_at_any_moment_it_leaves_the_old_file_and_can_be_started_again(
    old, tmp_path, after_s
):
    before, new = digest(old), tmp_path / "new.db"
    killed = subprocess.Popen(conversion(old, new), stdout=subprocess.DEVNULL)
    try:
        killed.wait(after_s)
    except subprocess.TimeoutExpired:
        killed.kill()
        killed.wait()
    new.unlink(missing_ok=True)  # it takes its name when it is whole, just before the end
    assert digest(old) == before
    done = subprocess.run(conversion(old, new), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert digest(old) == before
    assert sorted(each.name for each in tmp_path.glob("new*")) == ["new.db", "new.db.key"]
