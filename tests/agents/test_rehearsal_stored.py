"""A session of the rehearsal agent, read from its file: as its `session/load` replays it."""

from __future__ import annotations

from pathlib import Path

from upthread.agents import stored
from upthread.agents.rehearsal.sessions import HOME_VARIABLE, SessionStore
from upthread.core.events import TextReceived, UserTextReplayed
from upthread.core.turns.hooked_call import StoredSession
from upthread.core.types import UpstreamSessionId


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    return stored.read_session({HOME_VARIABLE: str(home)}, "rehearsal", session)


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    return stored.stamp_of({HOME_VARIABLE: str(home)}, "rehearsal", session)


def test_a_session_is_read_as_it_is_replayed_and_known_by_its_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = UpstreamSessionId(store.create("/somewhere"))
    store.append(session, {"entry": "prompt", "text": "plan it", "messageId": "msg_1"})
    before = stamp_of(tmp_path, session)
    content = {"type": "text", "text": "planned"}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "msg_2"}
    store.append(session, {"entry": "update", "update": chunk})
    found = read_session(tmp_path, session)
    assert found is not None
    assert found.events == (
        UserTextReplayed(upstream_session_id=session, text="plan it", message_id="msg_1"),
        TextReceived(upstream_session_id=session, text="planned", message_id="msg_2"),
    )
    assert before
    assert stamp_of(tmp_path, session) not in {"", before}


def test_what_is_not_there_or_no_id_is_nothing(tmp_path: Path) -> None:
    for name in ("ses_abc", "../ses_abc", ""):
        session = UpstreamSessionId(name)
        assert read_session(tmp_path, session) is None
        assert stamp_of(tmp_path / "gone", session) == ""
