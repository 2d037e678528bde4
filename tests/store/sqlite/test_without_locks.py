"""A directory in which no file can be locked, as on some network homes."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from upthread.store.sqlite.database import has_locks

WITHOUT_LOCKS = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
#define WITHOUT(name) int name(int file, int command, ...) { \\
  va_list all; va_start(all, command); void *more = va_arg(all, void *); va_end(all); \\
  if (command != F_SETLK && command != F_SETLKW) return syscall(SYS_fcntl, file, command, more); \\
  errno = FAULT; return -1; }
WITHOUT(fcntl) WITHOUT(fcntl64)
int flock(int file, int command) { errno = FAULT; return -1; }
"""
OPENING = """
import sys
from pathlib import Path
from upthread.boundary.consents import change_consents
from upthread.errors import ConfigError, StoreError
from upthread.store.sqlite.backup import copy_to
from upthread.store.sqlite.store import SqliteStore
def backup(path):
    path.with_name("old.db").write_bytes(b"SQLite format 3")
    copy_to(path.with_name("old.db"), path.with_name("copy.db"), key=None)
for needs_lock in (SqliteStore, backup, lambda path: change_consents(path.parent, list)):
    try:
        needs_lock(Path(sys.argv[1]))
    except (ConfigError, StoreError) as error:
        print(error)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("cc"), reason="takes a C compiler"
)
@pytest.mark.parametrize("fault", "ENOLCK ENOSYS EOPNOTSUPP EIO EINVAL EACCES EPERM".split())
def test_a_place_without_file_locks_is_named_at_once(tmp_path: Path, fault: str) -> None:
    (tmp_path / "without.c").write_text(WITHOUT_LOCKS)
    library = tmp_path / "without.so"
    compiling = [
        "cc",
        "-shared",
        "-fPIC",
        f"-DFAULT={fault}",
        "-o",
        str(library),
        str(tmp_path / "without.c"),
    ]
    subprocess.run(compiling, check=True, capture_output=True, cwd=tmp_path)
    started_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(tmp_path / "upthread.db")],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("no file can be locked there (set UPTHREAD_HOME") == 2
    assert "trust.lock cannot be locked: " in done.stdout
    assert time.monotonic() - started_s < 15, "no lock is waited for"


def test_a_usual_place_has_locks_and_one_that_is_not_there_is_not_blamed(tmp_path: Path) -> None:
    assert has_locks(tmp_path / "upthread.db")
    assert has_locks(tmp_path / "not there" / "upthread.db")
