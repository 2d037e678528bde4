from __future__ import annotations

import json
import stat
from pathlib import Path

from upthread.agents.rehearsal.settings import TEXT_CHARACTERS_MAX, EventLog, size_of


def test_events_are_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for number in (1, 2):
        EventLog(path).write("prompt", session_id="ses_a", role="", bytes=number)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["bytes"] for line in lines] == [1, 2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_long_text_is_cut_and_an_odd_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    EventLog(path).write("prompt", session_id="ses_a", text="\ud83d" * (TEXT_CHARACTERS_MAX + 1))
    assert json.loads(path.read_text())["text"] == "\ud83d" * TEXT_CHARACTERS_MAX


def test_size_is_in_bytes_of_utf_8() -> None:
    assert (size_of("é"), size_of("\ud83d"), size_of("")) == (2, 3, 0)
