"""Where a database may lie: private, ours, local; everything else is refused in words."""

import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.files import refuse_network
from upthread.testing.store_conformance import samples

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

# Lines of /proc/self/mountinfo, as Linux 6.1 writes them.
MOUNTS = """\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 21 0:26 / /home rw - nfs4 files.example:/home rw,vers=4.2
31 21 0:27 / /mnt/share rw - cifs //files.example/share rw
32 21 0:28 / /mnt/far rw - fuse.sshfs me@far.example:/ rw
33 21 0:29 / /mnt/with\\040space rw - nfs files.example:/x rw
34 30 0:30 / /home/local rw - tmpfs tmpfs rw
35 21 0:31 / /mnt/over rw - nfs files.example:/x rw
36 35 0:32 / /mnt/over rw - xfs /dev/vdb rw
"""


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes_below(directory):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_files_and_directories_are_private_whatever_the_umask(tmp_path, mask):
    directory = tmp_path / "state" / "upthread"
    with umask(mask):
        store = SqliteStore(directory / "store.db")
        store.commit(samples.home())
    names = ("store.db", "store.db-wal", "store.db-shm", "store.db-queue")
    assert modes_below(directory) == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    store.close()


def test_a_file_that_others_can_read_is_made_private(tmp_path):
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    path.chmod(0o644)
    SqliteStore(path).close()
    assert modes_below(tmp_path) == {"store.db": 0o600, "store.db-queue": 0o600}


def test_a_symlinked_directory_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StoreError, match="symbolic link") as caught:
        SqliteStore(tmp_path / "link" / "store.db")
    assert str(tmp_path / "link") in caught.value.message
    assert caught.value.hint
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm", "store.db-journal"])
@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_symlinked_file_is_refused_and_its_target_left_alone(tmp_path, name, target):
    (tmp_path / "there").write_bytes(b"precious")
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    (directory / name).symlink_to(tmp_path / target)
    with pytest.raises(StoreError, match="symbolic link"):
        SqliteStore(directory / "store.db")
    assert (tmp_path / "there").read_bytes() == b"precious"
    assert not (tmp_path / "missing").exists()


def in_place_of_the_file(path):
    path.mkdir(parents=True)


def in_place_of_the_directory(path):
    path.parent.write_text("")


def open_to_everybody(path):
    path.parent.mkdir()
    path.parent.chmod(0o777)


def foreign_directory(path):
    path.parent.mkdir(mode=0o700)
    os.chown(path.parent, NOBODY, NOBODY)


def foreign_file(path):
    SqliteStore(path).close()
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (in_place_of_the_file, "is not a file"),
        (in_place_of_the_directory, "is not a directory"),
        (open_to_everybody, "written by everybody"),
        pytest.param(foreign_directory, f"belongs to user {NOBODY}", marks=needs_root),
        pytest.param(foreign_file, f"belongs to user {NOBODY}", marks=needs_root),
    ],
)
def test_a_place_that_is_not_ours_alone_is_refused_even_to_root(tmp_path, made, told):
    path = tmp_path / "state" / "store.db"
    made(path)
    with pytest.raises(StoreError, match=told):
        SqliteStore(path)


@pytest.fixture
def plain_user_directory():
    """A directory of an ordinary user, who we are for the time: root may write anywhere."""
    directory = Path(tempfile.mkdtemp(prefix="upthread-"))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield directory
    if was_root:
        os.seteuid(0)
    for path in (directory, *directory.iterdir()):
        path.chmod(0o700)
    shutil.rmtree(directory)


def test_a_read_only_directory_is_an_error_with_the_cure(plain_user_directory):
    plain_user_directory.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied") as caught:
        SqliteStore(plain_user_directory / "store.db")
    assert "you may write to" in caught.value.hint


def test_a_read_only_file_is_an_error_and_stays_as_it_is(plain_user_directory):
    path = plain_user_directory / "store.db"
    store = SqliteStore(path)
    store.commit(samples.home())
    store.close()
    before = path.read_bytes()
    path.chmod(0o400)
    plain_user_directory.chmod(0o500)
    with pytest.raises(StoreError) as caught:
        SqliteStore(path)
    assert "writable" in caught.value.hint
    assert path.read_bytes() == before
    plain_user_directory.chmod(0o700)
    path.chmod(0o600)
    reopened = SqliteStore(path)
    assert reopened.resolve(samples.KEY) is not None
    reopened.close()


@pytest.mark.parametrize(
    ("path", "file_system"),
    [
        ("/home/me/.local", "nfs4"),
        ("/mnt/share/x", "cifs"),
        ("/mnt/far", "fuse.sshfs"),
        ("/mnt/with space/x", "nfs"),
    ],
)
def test_a_network_file_system_is_refused_by_name(path, file_system):
    with pytest.raises(StoreError, match=rf"network file system \({file_system}\)") as caught:
        refuse_network(Path(path), MOUNTS)
    assert "local" in caught.value.hint


@pytest.mark.parametrize("path", ["/srv", "/home/local/me", "/homework", "/mnt/over/x", "/mnt"])
def test_a_local_file_system_is_accepted(path):
    refuse_network(Path(path), MOUNTS)
    refuse_network(Path(path), "")  # without a mount table, too


def test_a_name_with_url_characters_is_one_file(tmp_path):
    store = SqliteStore(tmp_path / "a b?mode=memory#%20'.db")
    store.close()
    name = "a b?mode=memory#%20'.db"
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}-queue"}
