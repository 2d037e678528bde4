import json
import stat
from pathlib import Path

import pytest

from upthread.agents.rehearsal.sessions import (
    TEXT_CHARACTERS_MAX,
    EventLog,
    SessionStore,
    SettingsError,
    UnknownSessionError,
    UnsafeDirectoryError,
    read_settings,
    size_of,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sessions"


@pytest.fixture
def store(directory: Path) -> SessionStore:
    return SessionStore(directory)


def _prompt(text: str) -> dict[str, object]:
    return {"entry": "prompt", "text": text, "messageId": "msg_1"}


def test_files_and_directory_are_private_even_where_the_directory_was_open(directory):
    directory.mkdir(parents=True, mode=0o755)
    session_id = SessionStore(directory).create("/work")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / f"{session_id}.jsonl").stat().st_mode) == 0o600


def test_a_linked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeDirectoryError) as refused:
        SessionStore(tmp_path / "link")
    assert "link" in str(refused.value)


@pytest.mark.parametrize(
    "session_id", ["ses_none", "../ses_a", "ses_a/../../b", "ses_a\n", "", "ses_", "SES_a"]
)
def test_an_unknown_or_odd_id_is_an_unknown_session_and_no_file_outside(
    store, directory, session_id
):
    (directory.parent / "ses_a.jsonl").write_text('{"entry": "session"}\n')
    for use in (
        lambda: store.read(session_id),
        lambda: store.append(session_id, _prompt("x")),
        lambda: store.create("/work", forked_from=session_id),
    ):
        with pytest.raises(UnknownSessionError):
            use()


def test_a_line_cut_off_by_a_kill_is_skipped_and_the_next_one_is_whole(
    store: SessionStore, directory: Path
) -> None:
    session_id = store.create("/work")
    with (directory / f"{session_id}.jsonl").open("ab") as file:
        file.write(b'{"entry": "prompt", "te')
    store.append(session_id, _prompt("after"))
    assert [entry["entry"] for entry in store.read(session_id)] == ["session", "prompt"]


def test_odd_text_is_kept_and_a_deleted_session_is_not_brought_back_by_an_append(store):
    session_id = store.create("/work")
    store.append(session_id, _prompt("\ud83d \x00 \u2028 é"))
    assert store.read(session_id)[-1]["text"] == "\ud83d \x00 \u2028 é"
    store.delete(session_id)
    with pytest.raises(UnknownSessionError):
        store.append(session_id, _prompt("x"))
    with pytest.raises(UnknownSessionError):
        store.read(session_id)


def test_a_list_can_be_of_one_directory(store: SessionStore) -> None:
    here, there = store.create("/here"), store.create("/there")
    assert list(store.listed("/here")) == [{"sessionId": here, "cwd": "/here"}]
    assert {one["sessionId"] for one in store.listed(None)} == {here, there}


# --- what the environment asks of the agent, and the log of what it was asked ---------------------


def test_sessions_live_under_the_xdg_data_directory_unless_told_otherwise() -> None:
    assert read_settings({"XDG_DATA_HOME": "/x"}).sessions_directory == Path(
        "/x/upthread-rehearsal"
    )
    told = {"XDG_DATA_HOME": "/x", "UPTHREAD_REHEARSAL_HOME": "/y"}
    assert read_settings(told).sessions_directory == Path("/y")


def test_capability_words_are_read_and_spaces_do_not_count() -> None:
    words = "no_resume, opaque_errors ,outlives"
    settings = read_settings({"UPTHREAD_REHEARSAL_CAPABILITIES": words})
    assert settings.words >= {"no_resume", "opaque_errors", "outlives"}


@pytest.mark.parametrize("word", ["no_resum", "protocol_version=2"])
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
