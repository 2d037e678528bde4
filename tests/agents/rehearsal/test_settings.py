from __future__ import annotations

from pathlib import Path

import pytest

from upthread.agents.rehearsal.settings import SettingsError, read_settings


def test_sessions_live_under_the_xdg_data_directory_unless_told_otherwise() -> None:
    assert read_settings({"XDG_DATA_HOME": "/x"}).sessions_directory == Path(
        "/x/upthread-rehearsal"
    )
    told = {"XDG_DATA_HOME": "/x", "UPTHREAD_REHEARSAL_HOME": "/y"}
    assert read_settings(told).sessions_directory == Path("/y")


def test_capability_words_are_read_and_spaces_do_not_count() -> None:
    words = "no_resume, opaque_errors ,outlives,protocol_version=99"
    settings = read_settings({"UPTHREAD_REHEARSAL_CAPABILITIES": words})
    assert settings.switched_off == {"resume"}
    assert settings.has_opaque_errors
    assert settings.outlives_client
    assert settings.protocol_version == 99


@pytest.mark.parametrize("word", ["no_resum", "protocol_version=x", "protocol_version="])
def test_an_unknown_capability_word_is_refused_by_name(word: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({"UPTHREAD_REHEARSAL_CAPABILITIES": word})
    assert word in str(refused.value)
    assert "no_resume" in str(refused.value)
