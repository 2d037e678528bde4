"""What the environment asks of the agent, and the log of what it was asked."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from upthread.agents.rehearsal.sessions import (
    TEXT_CHARACTERS_MAX,
    EventLog,
    SettingsError,
    read_settings,
    size_of,
)


def test_sessions_live_under_the_xdg_data_directory_unless_told_otherwise() -> None:
    assert read_settings({"XDG_DATA_HOME": "/x"}).sessions_directory == Path(
        "/x/upthread-rehearsal"
    )
    told = {"XDG_DATA_HOME": "/x", "UPTHREAD_REHEARSAL_HOME": "/y"}
    assert read_settings(told).sessions_directory == Path("/y")


def test_capability_words_are_read_and_spaces_do_not_count() -> None:
    words = "no_resume, opaque_errors ,outlives,protocol_version=99"
    settings = read_settings({"UPTHREAD_REHEARSAL_CAPABILITIES": words})
    assert settings.words >= {"no_resume", "opaque_errors", "outlives"}
    assert settings.protocol_version == 99


@pytest.mark.parametrize("word", ["no_resum", "protocol_version=x", "protocol_version="])
def test_an_unknown_capability_word_is_refused_by_name(word: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({"UPTHREAD_REHEARSAL_CAPABILITIES": word})
    assert word in str(refused.value)
    assert "no_resume" in str(refused.value)


def test_events_are_appended_to_a_private_file_long_texts_cut_and_odd_ones_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    EventLog(path).write("prompt", session_id="ses_a", role="", bytes=1)
    EventLog(path).write("prompt", session_id="ses_a", text="\ud83d" * (TEXT_CHARACTERS_MAX + 1))
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["bytes"], second["text"]) == (1, "\ud83d" * TEXT_CHARACTERS_MAX)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (size_of("é"), size_of("\ud83d"), size_of("")) == (2, 3, 0), "in bytes of UTF-8"
