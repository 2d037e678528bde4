"""Files in the agents' folders that are no sessions: nothing breaks, hangs, or is changed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent_homes import Months, make_home

FEW, MANY = 300, 100_000
SECONDS_MAX_FEW = 20
SECONDS_MAX_MANY = 300
HUGE_BYTES = 10 * 1024**3
SOUND = Months(claude_code=3, codex=3, opencode=3, sub_agents=3, session_bytes=4_000, projects=1)

LINE = json.dumps(
    {"type": "user", "uuid": "u", "sessionId": "s", "cwd": "/src", "version": "2.1.330",
     "message": {"role": "user", "content": "words " * 50}}
)  # fmt: skip


def folders(home: Path) -> list[Path]:
    claude = home / ".claude" / "projects"
    sub_agents = claude / "-damaged" / "00000000-0000-4000-8000-000000000000" / "subagents"
    codex = home / ".codex"
    dated = codex / "sessions" / "2026" / "11" / "25"
    return [claude / "-damaged", sub_agents, dated, codex / "archived_sessions"]


def name_of(folder: Path, number: int) -> str:
    uuid = f"{number:08x}-0000-4000-8000-{number:012x}"
    if ".codex" in folder.parts:
        suffix = ".jsonl.zst" if number % 3 == 0 else ".jsonl"
        return f"rollout-2026-11-25T10-00-00-{uuid}{suffix}"
    return f"agent-{number:x}.jsonl" if folder.name == "subagents" else f"{uuid}.jsonl"


def write_one(path: Path, number: int, chance: random.Random) -> None:
    """Write the number-th file: each kind of damage comes again and again."""
    kind = number % 12
    if kind == 0:
        path.write_bytes(chance.randbytes(2_000))
    elif kind == 1:
        path.write_bytes(LINE.encode()[: chance.randrange(1, len(LINE))])
    elif kind == 2:
        path.write_bytes(b"")
    elif kind == 3:
        path.write_text("[" * 5_000)
    elif kind == 4:
        path.write_bytes(b"\0" * 4_096)
    elif kind == 5:
        path.write_text(f"{LINE}\n" + '{"type": "from a version nobody knows"}\n' * 3)
    elif kind == 6:
        path.symlink_to("/dev/zero")
    elif kind == 7:
        path.symlink_to(path)
    elif kind == 8:
        path.mkdir()
    elif kind == 9:
        path.write_text('{"sessionId": 7, "timestamp": "never", "message": [[]], "cwd": null}\n')
    elif kind == 10:
        os.mkfifo(path)
    else:
        path.write_text(LINE.replace("words ", "\u202e\x1b[2J") + "\n")
        path.chmod(0)


def damage(home: Path, count: int) -> None:
    chance = random.Random(count)
    for folder in folders(home):
        folder.mkdir(parents=True, exist_ok=True)
    places = folders(home)
    for number in range(count):
        folder = places[number % len(places)]
        # As many in one folder as people have: not all of them beside each other.
        folder = (
            folder / f"{number // 4_000}" if folder.name == "-damaged" and count == MANY else folder
        )
        folder.mkdir(exist_ok=True)
        write_one(folder / name_of(folder, number), number // len(places), chance)
    with (places[0] / name_of(places[0], 1_000_000)).open("wb") as huge:
        huge.write(f"{LINE}\n".encode())
        huge.truncate(HUGE_BYTES)


def entries(home: Path) -> Iterator[str]:
    """Each file's name, kind, size, mode and times, and the content of those that are small."""
    for top, folders_, names in os.walk(home):
        for name in sorted([*folders_, *names]):
            path = Path(top) / name
            at = path.lstat()
            yield f"{path} {at.st_mode} {at.st_size} {at.st_mtime_ns}"
            if path.is_file() and not path.is_symlink() and at.st_size < HUGE_BYTES:
                yield hashlib.sha256(path.read_bytes()).hexdigest()
        folders_.sort()


def digest(home: Path) -> str:
    return hashlib.sha256("\n".join(entries(home)).encode("utf-8", "replace")).hexdigest()


def check(up, count: int, seconds_max: float) -> None:
    make_home(up.home, SOUND)
    damage(up.home, count)
    stores = [up.home / ".claude", up.home / ".codex"]
    before = [digest(each) for each in stores]
    began = time.monotonic()
    told = up("--json").json
    took = time.monotonic() - began
    people = up().out
    searched = up("search", "zebra")
    up("keep", "--soon", "--dry-run")
    whole = time.monotonic() - began
    assert told["passed_over"]
    assert sum(each["everywhere"]["sessions"] for each in told["agents"]) >= 9
    (line,) = [each for each in people.splitlines() if re.search(r"\d+ files?\b", each)][:1]
    assert "\x1b" not in people
    assert "\u202e" not in people
    assert re.search(r"\d+ files could not be read", searched.err)
    assert [digest(each) for each in stores] == before
    assert whole <= seconds_max
    sys.stdout.write(f"\n{count:,} files: upthread {took:.1f} s, all four {whole:.1f} s: {line}\n")


@pytest.fixture
def up(make_upthread, tmp_path):
    return make_upthread(tmp_path)


@pytest.mark.timeout(120)
def test_a_few_hundred_damaged_files_are_counted_and_left_as_they_are(up):
    check(up, FEW, SECONDS_MAX_FEW)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_damaged_files_are_counted_and_left_as_they_are(up):
    check(up, MANY, SECONDS_MAX_MANY)
