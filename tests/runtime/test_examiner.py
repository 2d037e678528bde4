"""What a session reads and writes is kept as it was at that moment, once."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.world import git, make_repository

from upthread.core.commands import RecordExamined
from upthread.core.decision.freshness import UNNAMED, ExaminedFile, changed_files
from upthread.core.types import (
    ConversationId,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
)
from upthread.runtime.turns.recording import Examiner, first_file_after, look_again
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

OWN, CHILD = samples.CONVERSATION, ConversationId("con_child")


class Session:
    """One turn of a session in a directory, its examiner, and the store that keeps it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = SqliteStore(root.parent / "examined.db")
        self.store.commit(samples.home())
        self.calls = self.sends = 0
        self.examiner = self.take_up(TurnId("trn_one"))

    def take_up(self, turn_id: TurnId) -> Examiner:
        self.sends += 1
        self.examiner = Examiner(
            root=str(self.root),
            link=samples.link(),
            turn_id=turn_id,
            known=self.store.examined(OWN, upstream_session_id="ses_a"),
            first_ordinal=first_file_after(self.sends),
            environment={},
        )
        return self.examiner

    def begin(self, kind: str, *paths: str, owner: ConversationId = OWN) -> str:
        self.calls += 1
        call_id = f"call_{self.calls}"
        part = ToolCallPart(call_id=call_id, title="", tool_kind=kind, locations=paths)
        self.say(part, owner=owner)
        return call_id

    def end(self, call_id: str, status: str = "completed", owner: ConversationId = OWN) -> None:
        self.say(ToolResultPart(call_id=call_id, status=status, text=""), owner=owner)

    def do(self, kind: str, *paths: str, status: str = "completed") -> None:
        self.end(self.begin(kind, *paths), status)

    def say(self, part: Part, *, owner: ConversationId = OWN) -> None:
        said = samples.said(1, part, speaker=Speaker.ASSISTANT, owner=owner)
        self.examiner.notice((said,))

    def keep(self) -> tuple[ExaminedFile, ...]:
        writes = self.examiner.look(at_ms=5)
        self.store.commit(writes)
        return tuple(f for w in writes if isinstance(w, RecordExamined) for f in w.files)

    @property
    def stale(self) -> set[str]:
        known = self.store.examined(OWN, upstream_session_id="ses_a")
        return {each.path for each in changed_files(known, look_again(str(self.root), known))}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(make_repository(tmp_path / "project"))


def put(session: Session, path: str, text: str) -> None:
    place = session.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def test_a_read_is_kept_and_a_later_change_is_told(session: Session) -> None:
    put(session, "a.py", "1")
    session.do("read", str(session.root / "a.py"))
    assert [(each.path, each.how) for each in session.keep()] == [("a.py", "read")]
    assert session.keep() == ()
    assert session.stale == set()
    put(session, "a.py", "2")
    assert session.stale == {"a.py"}


def test_what_the_session_wrote_itself_is_no_change(session: Session) -> None:
    put(session, "a.py", "1")
    session.do("read", "a.py")
    session.keep()
    put(session, "a.py", "2")
    session.do("edit", "a.py")
    assert [each.how for each in session.keep()] == ["wrote"]
    assert session.stale == set()
    put(session, "a.py", "3")
    assert session.stale == {"a.py"}


def test_reading_the_same_again_keeps_nothing_more(session: Session) -> None:
    put(session, "a.py", "1")
    os.utime(session.root / "a.py", (1, 1))
    session.do("read", "a.py")
    assert len(session.keep()) == 1
    session.do("read", "a.py")
    assert session.keep() == ()


def test_a_call_that_failed_examined_nothing_and_one_cut_off_may_have(session: Session) -> None:
    put(session, "a.py", "1")
    put(session, "b.py", "1")
    session.do("read", "a.py", status="failed")
    session.do("read", "b.py", status="unknown")
    assert [each.path for each in session.keep()] == ["b.py"]


def test_a_child_and_a_directory_are_not_examined_for_the_parent(session: Session) -> None:
    put(session, "a.py", "1")
    session.end(session.begin("read", "a.py", owner=CHILD), owner=CHILD)
    session.say(TextPart(text="read a.py"))
    session.end("call_nobody_made")
    assert session.keep() == ()
    (session.root / "src").mkdir()
    session.do("read", "src")
    assert session.keep() == ()


def test_what_a_command_of_the_session_did_is_its_own_doing(session: Session) -> None:
    paths = [f"{number}.py" for number in range(8)]
    for path in (*paths, "moved.py", "gone.py", "dir/gone.py"):
        put(session, path, "1")
        session.do("read", path)
    session.keep()
    put(session, "0.py", "by a person, before the command")
    time.sleep(0.1)
    session.say(TextPart(text="now I format"))
    call = session.begin("execute")
    script = (
        "for n in 1 2 3 4 5 6 7; do echo formatted > $n.py; done;"
        "echo older > x; touch -d 2001-01-01 x; mv x moved.py; rm -r gone.py dir"
    )
    subprocess.run(["sh", "-c", script], cwd=session.root, check=True)
    session.end(call)
    kept = session.keep()
    assert UNNAMED in kept, "what the script may have shown"
    changed = [each for each in kept if each != UNNAMED]
    assert {each.path for each in changed} == {*paths[1:], "moved.py", "gone.py", "dir/gone.py"}
    assert {each.how for each in changed} == {"ran"}
    assert session.stale == {"0.py"}
    put(session, "1.py", "by a person, after it")
    assert session.stale == {"0.py", "1.py"}


def test_a_branch_the_session_switched_itself_is_its_own_doing(session: Session) -> None:
    put(session, "a.py", "1")
    git(session.root, "add", "-A")
    git(session.root, "commit", "-qm", "a")
    session.do("read", "a.py")
    session.keep()
    put(session, "a.py", "2")
    git(session.root, "checkout", "-qb", "other")
    git(session.root, "commit", "-qam", "b")
    session.do("read", "a.py")
    session.keep()
    call = session.begin("execute")
    git(session.root, "checkout", "-q", "main")
    session.end(call)
    session.keep()
    assert session.stale == set()


def test_a_turn_that_is_gone_on_with_goes_on_counting(session: Session) -> None:
    put(session, "a.py", "1")
    put(session, "b.py", "1")
    session.do("read", "a.py")
    session.keep()
    session.take_up(TurnId("trn_one"))
    session.do("read", "b.py")
    session.keep()
    known = session.store.examined(OWN)
    assert [each.path for each in known] == ["a.py", "b.py"]


def test_a_file_that_vanished_before_it_was_looked_at_is_kept_as_missing(session: Session) -> None:
    session.do("read", "never.py")
    assert [each.state for each in session.keep()] == ["missing"]
    assert session.stale == set()
    put(session, "never.py", "1")
    assert session.stale == {"never.py"}


def run(session: Session, line: str, *, status: str = "completed", **more: str) -> None:
    session.calls += 1
    call_id = f"call_{session.calls}"
    arguments = {"command": line, **more}
    session.say(ToolCallPart(call_id=call_id, title=line, tool_kind="execute", arguments=arguments))
    session.end(call_id, status)


def shown(session: Session) -> list[str]:
    session.keep()
    return [each.path for each in session.store.examined(OWN) if each.how == "shown"]


def test_a_file_that_a_command_showed_is_known_and_told_apart(session: Session) -> None:
    (session.root / "a.py").write_text("a = 1\n")
    run(session, "sed -n 1,80p a.py")
    assert shown(session) == ["a.py"]
    put(session, "a.py", "a = 2\n")
    assert session.stale == {"a.py"}


def test_a_pattern_means_the_files_it_matches(session):
    for name in ("a.py", "b.py", ".c.py", "d.txt"):
        (session.root / name).write_text(name)
    run(session, "grep -n main *.py")
    assert shown(session) == ["a.py", "b.py"]


def test_what_is_no_file_was_not_shown(session):
    (session.root / "src").mkdir()
    run(session, "cat gone.py; grep -rn main src; rg pattern")
    assert shown(session) == [UNNAMED.path]


def test_a_look_through_a_command_does_not_undo_having_read(session):
    (session.root / "a.py").write_text("a = 1\n")
    session.do("read", "a.py")
    session.keep()
    run(session, "cat a.py")
    assert shown(session) == []
