"""Files as they are now: hashed only when they moved, never waited for, never an error."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from upthread.core.decision.freshness import ExaminedFile, changed_files
from upthread.runtime.turns import recording
from upthread.runtime.turns.recording import examine, look_again

OLD_S = 1_700_000_000


def put(path: Path, content: bytes | str, *, age: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if age:
        os.utime(path, (OLD_S, OLD_S))
    return path


def stale(root: Path, known: list[ExaminedFile]) -> dict[str, str]:
    return {each.path: each.how for each in changed_files(known, look_again(str(root), known))}


def read(root: Path, *paths: str) -> list[ExaminedFile]:
    return [examine(str(root), path, how="read") for path in paths]


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    put(tmp_path / "a.py", "print(1)\n")
    (known,) = read(tmp_path, "a.py")
    assert known == ExaminedFile(
        path="a.py",
        how="read",
        state="hashed",
        size_bytes=9,
        mtime_ns=OLD_S * 1_000_000_000,
        digest=hashlib.sha256(b"print(1)\n").hexdigest(),
    )
    assert stale(tmp_path, [known]) == {}


def test_a_touch_is_no_change_and_an_edit_of_the_same_size_is(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py", "one")
    known = read(tmp_path, "a.py")
    os.utime(path)
    assert stale(tmp_path, known) == {}
    put(path, "two", age=False)
    assert stale(tmp_path, known) == {"a.py": "changed"}


def test_a_second_change_within_the_same_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    """A file changed right after it was looked at may have the same size and time."""
    path = put(tmp_path / "a.py", "one", age=False)
    known = read(tmp_path, "a.py")
    stamp = path.stat().st_mtime_ns
    put(path, "two", age=False)
    os.utime(path, ns=(stamp, stamp))
    assert stale(tmp_path, known) == {"a.py": "changed"}


def test_unmoved_files_are_not_opened(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py", "one")
    known = read(tmp_path, "a.py")
    put(path, "two")  # with the size and the time of before: nothing tells that it moved
    assert stale(tmp_path, known) == {}


@pytest.mark.parametrize("content", [b"a\r\nb\r\n", b"a\r\nb\n", b"\r\n" * 700_000, b"a\r"])
def test_other_line_ends_are_the_same_text(tmp_path: Path, content: bytes) -> None:
    put(tmp_path / "a", content)
    known = read(tmp_path, "a")
    put(tmp_path / "a", content.replace(b"\r\n", b"\n"), age=False)
    assert stale(tmp_path, known) == {}
    put(tmp_path / "a", content + b"\r", age=False)
    assert stale(tmp_path, known) == {"a": "changed"}


@pytest.mark.parametrize("split", [1, 2, 3, 4])
def test_a_line_end_between_two_pieces_counts_as_one(tmp_path, monkeypatch, split):
    monkeypatch.setattr(recording, "PIECE_BYTES", split)
    put(tmp_path / "a", b"x\r\ny\r\r\nz\r")
    (known,) = read(tmp_path, "a")
    assert known.digest == hashlib.sha256(b"x\ny\r\nz\r").hexdigest()


def test_bytes_of_a_binary_file_all_count(tmp_path: Path) -> None:
    put(tmp_path / "a.bin", b"\0\r\n")
    known = read(tmp_path, "a.bin")
    put(tmp_path / "a.bin", b"\0\n", age=False)
    assert stale(tmp_path, known) == {"a.bin": "changed"}


def test_a_large_file_is_known_by_size_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "HASHED_BYTES_MAX", 10)
    path = put(tmp_path / "big", b"x" * 11)
    known = read(tmp_path, "big")
    assert (known[0].state, known[0].digest, known[0].size_bytes) == ("too_large", None, 11)
    assert stale(tmp_path, known) == {}
    put(path, b"y" * 12)
    assert stale(tmp_path, known) == {"big": "changed"}
    put(path, b"x" * 11)
    os.utime(path, (OLD_S + 1, OLD_S + 1))
    assert stale(tmp_path, known) == {"big": "changed"}


def test_a_file_that_goes_comes_or_becomes_something_else_is_told(tmp_path: Path) -> None:
    put(tmp_path / "goes", "1")
    put(tmp_path / "turns", "1")
    known = read(tmp_path, "goes", "turns", "comes", "never")
    (tmp_path / "goes").unlink()
    (tmp_path / "turns").unlink()
    (tmp_path / "turns").mkdir()
    put(tmp_path / "comes", "1")
    assert stale(tmp_path, known) == {"goes": "deleted", "turns": "changed", "comes": "created"}


def test_what_would_block_or_never_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dir").mkdir()
    states = {each.path: each.state for each in read(tmp_path, "pipe", "loop", "dir", "x\0y")}
    assert states == {
        "pipe": "no_file",
        "loop": "unreadable",
        "dir": "no_file",
        "x\0y": "unreadable",
    }
    assert examine(str(tmp_path), "half\ud800", how="read").state == "unreadable"


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    put(tmp_path / "one", "1")
    put(tmp_path / "two", "22")
    link = tmp_path / "link"
    link.symlink_to("one")
    known = read(tmp_path, "link")
    link.unlink()
    link.symlink_to("two")
    assert stale(tmp_path, known) == {"link": "changed"}
    (tmp_path / "two").unlink()
    assert stale(tmp_path, known) == {"link": "deleted"}


NOBODY = 65_534


@contextmanager
def as_somebody_who_may_not_read_everything() -> Iterator[None]:
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


def test_what_may_not_be_read_any_more_is_told() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own lie where only their owner may go
        root = Path(name)
        root.chmod(0o755)
        put(root / "file", "1").chmod(0o644)
        put(root / "dir" / "file", "1")
        known = read(root, "file", "dir/file")
        os.utime(root / "file")
        (root / "file").chmod(0)
        (root / "dir").chmod(0)
        with as_somebody_who_may_not_read_everything():
            assert stale(root, known) == {"file": "unreadable", "dir/file": "unreadable"}
        (root / "dir").chmod(0o755)


def test_a_file_of_mem_that_fails_while_it_is_read_is_unreadable() -> None:
    """A regular file whose reading fails, whoever reads: address 0 of this process's memory."""
    assert examine("/", "/proc/self/mem", how="read").state == "unreadable"
