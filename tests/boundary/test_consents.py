"""The file of consents: exactly one text each, whole or not at all, and nobody else's."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from upthread.boundary import consents
from upthread.boundary.consents import (
    FILE,
    TEXT_BYTES_MAX,
    TEXTS_PER_NAME_MAX,
    Consent,
    Consents,
    change_consents,
    kept_text,
    read_consents,
)
from upthread.core.trust import Item
from upthread.errors import ConfigError

REPOSITORY = "/somewhere/project"


def item(text: str = "edit = allow", name: str = "permissions.edit") -> Item:
    return Item(kind="setting", name=name, text=text)


def consent(to: Item, *, is_given: bool = True, repository: str = REPOSITORY) -> Consent:
    return Consent(
        repository=repository,
        kind=to.kind,
        name=to.name,
        sha256=to.digest,
        text=kept_text(to.text),
        decided_at_ms=1,
        is_given=is_given,
    )


def add(home: Path, *given: Consent) -> None:
    change_consents(home, lambda known: (*known, *given))


def test_a_consent_holds_for_its_text_its_name_and_its_repository_alone(tmp_path: Path) -> None:
    add(tmp_path, consent(item()))
    assert Consents(tmp_path, REPOSITORY).cover(item())
    assert not Consents(tmp_path, REPOSITORY).cover(item("execute = allow"))
    assert not Consents(tmp_path, REPOSITORY).cover(item(name="permissions.execute"))
    assert not Consents(tmp_path, "/elsewhere").cover(item())


def test_a_change_is_told_with_the_text_that_was_agreed_to_last(tmp_path: Path) -> None:
    add(tmp_path, consent(item("one")), consent(item("two")), consent(item("no"), is_given=False))
    asked = Consents(tmp_path, REPOSITORY)
    assert not asked.cover(item("three"))
    assert not asked.cover(item("no"))
    pending = [(each.was, each.is_declined) for each in asked.pending]
    assert pending == [("two", False), ("two", True)]


def test_the_last_word_on_a_text_holds(tmp_path: Path) -> None:
    add(tmp_path, consent(item(), is_given=False), consent(item()))
    assert Consents(tmp_path, REPOSITORY).cover(item())
    add(tmp_path, consent(item(), is_given=False))
    assert not Consents(tmp_path, REPOSITORY).cover(item())


def test_without_a_question_no_file_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("garbled")
    assert Consents(tmp_path, REPOSITORY).pending == ()


def test_of_a_long_text_only_the_digest_is_kept(tmp_path: Path) -> None:
    long = item("x" * (TEXT_BYTES_MAX + 1))
    add(tmp_path, consent(long))
    assert Consents(tmp_path, REPOSITORY).cover(long)
    assert (tmp_path / FILE).stat().st_size < TEXT_BYTES_MAX


def test_of_a_name_the_newest_texts_are_remembered(tmp_path: Path) -> None:
    add(tmp_path, *(consent(item(str(number))) for number in range(TEXTS_PER_NAME_MAX + 2)))
    kept = [each.text for each in read_consents(tmp_path)]
    assert kept == [str(number) for number in range(2, TEXTS_PER_NAME_MAX + 2)]


def test_the_file_is_for_its_person_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        add(tmp_path, consent(item()))
    finally:
        os.umask(before)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == [FILE, consents.LOCK]


def forged(home: Path) -> None:
    raw = json.loads((home / FILE).read_text())
    raw["consents"][0]["text"] = "another text"
    (home / FILE).write_text(json.dumps(raw))


def linked(home: Path) -> None:
    (home / FILE).rename(home / "real")
    (home / FILE).symlink_to("real")


def piped(home: Path) -> None:
    (home / FILE).unlink()
    os.mkfifo(home / FILE)


SPOILT: dict[str, Callable[[Path], object]] = {
    "forged": forged,
    "garbled": lambda home: (home / FILE).write_bytes(b"\xff{"),
    "another schema": lambda home: (home / FILE).write_text('{"schema": 2, "consents": []}'),
    "nested": lambda home: (home / FILE).write_text("[" * 100_000),
    "linked": linked,
    "a pipe": piped,
    "writable by others": lambda home: (home / FILE).chmod(0o620),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_file_that_is_not_as_we_wrote_it_is_an_error_with_the_cure(tmp_path, how):
    add(tmp_path, consent(item()))
    SPOILT[how](tmp_path)
    with pytest.raises(ConfigError, match=FILE) as caught:
        Consents(tmp_path, REPOSITORY).cover(item())
    assert "move it away" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_an_error(tmp_path: Path) -> None:
    add(tmp_path, consent(item()))
    os.chown(tmp_path / FILE, 12345, 12345)
    with pytest.raises(ConfigError, match="of yours"):
        read_consents(tmp_path)


def test_a_file_that_is_too_large_is_neither_read_nor_written(tmp_path, monkeypatch):
    add(tmp_path, consent(item()))
    monkeypatch.setattr(consents, "FILE_BYTES_MAX", 100)
    with pytest.raises(ConfigError, match="more than 100 bytes"):
        read_consents(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(ConfigError, match="would have"):
        add(tmp_path, consent(item()))
    assert not (tmp_path / FILE).exists()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / consents.LOCK).symlink_to("/dev/null")
    with pytest.raises(ConfigError, match="cannot be opened"):
        add(tmp_path, consent(item()))


HOLD = """
import fcntl, os, signal, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_suspended_holder_of_the_lock_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consents, "LOCK_WAIT_S", 0.1)
    command = [sys.executable, "-I", "-c", HOLD, str(tmp_path / consents.LOCK)]
    with subprocess.Popen(command) as holder:
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(ConfigError, match=f"process {holder.pid}, which is susp") as caught:
            add(tmp_path, consent(item()))
        assert caught.value.hint == f"let it continue: kill -CONT {holder.pid}"
        holder.send_signal(signal.SIGCONT)
    add(tmp_path, consent(item()))


def _agree_often(home: str, name: str) -> None:
    for number in range(TEXTS_PER_NAME_MAX):
        add(Path(home), consent(item(str(number), name)))


@pytest.mark.extended
def test_two_processes_that_agree_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_agree_often, args=(str(tmp_path), name)) for name in ("a", "b")]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert len(read_consents(tmp_path)) == 2 * TEXTS_PER_NAME_MAX
