"""An hour-old copy of the record is put back: on the real agents, what it lacks is read back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.far_ends import Pushes
from tests.live.shell import Shell, agents_left, only
from tests.live.ways import WAYS, Way, desk_of

from upthread.agents.stored import stamp_of
from upthread.core.events import TurnEnded
from upthread.core.types import ConversationId, UpstreamSessionId
from upthread.store.sqlite import SqliteStore

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ADDRESS = "spec-42/planner"
OLDER = "older_record"


@pytest.fixture(params=["claude-code", "codex", "opencode"])
def way(request) -> Way:
    return WAYS[request.param]


@pytest.fixture
def shell(request, way, model, tmp_path) -> Iterator[Shell]:
    yield desk_of(way, request.getfixturevalue(f"{way.fixture}_binary"), model, tmp_path)
    assert agents_left(tmp_path) == []


@pytest.fixture
def pushes(shell, tmp_path) -> Iterator[Pushes]:
    pushes = Pushes(tmp_path, shell.project)
    pushes.let_go()
    yield pushes
    pushes.close()


def database(shell: Shell) -> Path:
    return Path(shell.environment["UPTHREAD_HOME"]) / "upthread.db"


def copied(shell: Shell) -> Path:
    copy = database(shell).with_name("copy.db")
    shutil.copyfile(database(shell), copy)
    return copy


def put_back(shell: Shell, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        database(shell).with_name(f"upthread.db{suffix}").unlink(missing_ok=True)
    shutil.copyfile(copy, database(shell))


def tell(shell: Shell, way: Way, text: str, exit_code: int = 0) -> list[dict]:
    return shell.lines("tell", ADDRESS, text, "--agent", way.agent, exit_code=exit_code)


def session_of(shell: Shell) -> UpstreamSessionId:
    (found,) = shell.lines("id", ADDRESS)
    return UpstreamSessionId(found["upstream_session_id"])


def kept_stamp(shell: Shell) -> str:
    """What the newest turn's end keeps of the session: while it is the same, nothing is read."""
    (found,) = shell.lines("id", ADDRESS)
    store = SqliteStore(database(shell))
    (newest,) = store.turns(ConversationId(found["conversation_id"]), newest=1)
    (ended,) = [e for e in store.turn_events(newest.turn_id) if isinstance(e, TurnEnded)]
    store.close()
    return ended.session_stamp


def test_what_an_older_record_lacks_is_said_and_read_back(shell, way, pushes):
    tell(shell, way, "Remember KIWI-1.")
    copy = copied(shell)
    tell(shell, way, f"Do it. {way.step(pushes.words)}")
    tell(shell, way, "Remember KIWI-3.")
    assert pushes.count == 1
    put_back(shell, copy)
    (why,) = shell.lines("why", ADDRESS)
    assert (why["now"]["reasons"][0], why["now"]["turns_lacking"]) == (OLDER, 2)
    (shown,) = shell.lines("show", ADDRESS)
    assert (shown["turns"], shown["turns_lacking"]) == (1, 2)
    pushes.prepare()
    lines = tell(shell, way, f"Do it. {way.step(pushes.other_words)}", exit_code=4)
    assert OLDER in only(lines, "turn_started")["reasons"]
    parked = only(lines, "turn_ended")["parked"]
    assert (parked["reason"], pushes.count) == ("held_back", 1)
    (shown,) = shell.lines("show", ADDRESS)
    assert (shown["turns"], shown["turns_lacking"]) == (4, 0)
    (done,) = shell.lines("show", ADDRESS, "--effects")
    assert pushes.words in done["effects"][0]["title"]


def test_what_is_whole_is_not_read_and_not_called_older(shell, way):
    for number in range(3):
        lines = tell(shell, way, f"Remember KIWI-{number}.")
        assert OLDER not in only(lines, "turn_started")["reasons"]
    (why,) = shell.lines("why", ADDRESS)
    assert why["now"]["reasons"] == ["unchanged"]
    assert kept_stamp(shell) == stamp_of(shell.environment, way.agent, session_of(shell)) != ""
