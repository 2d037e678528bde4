"""When hooks were last heard from, and that a hook makes nothing where nothing was set up."""

from __future__ import annotations

import os
import time
from pathlib import Path

from upthread.runtime.bindings import last_run


def test_an_agent_is_heard_from_when_its_hook_runs(tmp_path: Path):
    assert last_run.at_ms(str(tmp_path), "codex") is None
    before_ms = time.time_ns() // 1_000_000 - 1_000
    last_run.note(str(tmp_path), "codex")
    at_ms = last_run.at_ms(str(tmp_path), "codex")
    assert at_ms is not None
    assert at_ms >= before_ms
    os.utime(tmp_path / "heard" / "codex", (1, 1))
    last_run.note(str(tmp_path), "codex")
    assert (last_run.at_ms(str(tmp_path), "codex") or 0) >= before_ms
    assert last_run.at_ms(str(tmp_path), "opencode") is None


def test_a_word_that_is_no_agent_and_a_home_that_is_not_there_leave_nothing(tmp_path: Path):
    last_run.note(str(tmp_path), "../escaped")
    last_run.note(str(tmp_path / "nobody" / "hooks"), "codex")
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_stops_no_hook(tmp_path: Path):
    (tmp_path / "heard").write_text("in the way")
    last_run.note(str(tmp_path), "codex")
    assert last_run.at_ms(str(tmp_path), "codex") is None
