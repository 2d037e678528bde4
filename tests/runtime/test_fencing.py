"""Who lost a lease can write nothing: any process, any write, any order of taking over."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from upthread.core import commands
from upthread.core.decision.examined import ExaminedFile
from upthread.core.events import RunResumed, TurnIntended
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Link,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import FencedError
from upthread.store.sqlite import SqliteStore

PROJECT = ProjectId("prj_1")
OWN = ConversationId("con_own")
TURN = TurnId("trn_own")
RUN = RunId("run_own")
DUE = RunId("run_due")
EVENTS_DUE = 30
LEASE = "conversation prj_1 spec-42/planner"
HOLDERS = 3


def conversation(name: str, role: str) -> Conversation:
    return Conversation(
        conversation_id=ConversationId(name),
        key=ConversationKey(project_id=PROJECT, workstream="spec-42", role=role),
        generation=1,
        base_name="Kael",
        opened_at_ms=1,
    )


def link(seq: int) -> Link:
    return Link(
        conversation_id=OWN,
        seq=seq,
        upstream_session_id=UpstreamSessionId(f"ses_{seq}"),
        agent="rehearsal",
        agent_version="1",
        working_directory="/",
        opened_because="none_yet",
        opened_at_ms=1,
    )


def parts(seq: int) -> commands.RecordParts:
    return commands.RecordParts(
        conversation_id=OWN,
        seq=seq,
        first_ordinal=0,
        speaker=Speaker.USER,
        turn_id=TURN,
        upstream_session_id=None,
        recorded_at_ms=1,
        parts=(TextPart(text=f"message {seq}"),),
    )


def resumed(run_id: RunId, seq: int) -> commands.RecordRunEvent:
    event = RunResumed(because=str(seq))
    return commands.RecordRunEvent(run_id=run_id, seq=seq, event=event, recorded_at_ms=1)


NEXT: dict[type[Any], Callable[[int], commands.Write]] = {
    commands.RecordProject: lambda n: commands.RecordProject(
        project_id=PROJECT, identity=ProjectIdentity(path=f"/{n}")
    ),
    commands.OpenWorkstream: lambda n: commands.OpenWorkstream(
        project_id=PROJECT, workstream=f"work-{n}", base_name=f"Kael{n}", opened_at_ms=1
    ),
    commands.OpenConversation: lambda n: commands.OpenConversation(
        conversation=conversation(f"con_{n}", f"role{n}")
    ),
    commands.OpenLink: lambda n: commands.OpenLink(link=link(n + 1)),
    commands.EndLink: lambda _: commands.EndLink(
        conversation_id=OWN, seq=1, ended_because="missing", ended_at_ms=1
    ),
    commands.OpenTurn: lambda n: commands.OpenTurn(
        turn_id=TurnId(f"trn_{n}"), conversation_id=OWN, opened_at_ms=1
    ),
    commands.RecordParts: parts,
    commands.RecordTurnEvent: lambda n: commands.RecordTurnEvent(
        turn_id=TURN,
        seq=n,
        event=TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=n),
        recorded_at_ms=1,
    ),
    commands.OpenRun: lambda n: commands.OpenRun(
        run_id=RunId(f"run_{n}"), project_id=PROJECT, workstream="spec-42", opened_at_ms=1
    ),
    commands.RecordRunEvent: lambda n: resumed(RUN, n),
    commands.EnqueueTransition: lambda n: commands.EnqueueTransition(
        run_id=DUE, run_seq=min(n, EVENTS_DUE), due_at_ms=1
    ),
    commands.RecordQuarantine: lambda n: commands.RecordQuarantine(
        turn_id=TURN, ordinal=n - 1, reason="no session id", raw=None, recorded_at_ms=1
    ),
    commands.RecordDecision: lambda n: commands.RecordDecision(
        conversation_id=OWN, decision="refuse", reasons=("busy",), inputs=n, decided_at_ms=n
    ),
    commands.RecordExamined: lambda n: commands.RecordExamined(
        conversation_id=OWN,
        turn_id=TURN,
        first_ordinal=n - 1,
        upstream_session_id=UpstreamSessionId("ses_1"),
        files=(ExaminedFile(path=f"file-{n}.py", how="read", state="missing"),),
        recorded_at_ms=1,
    ),
    commands.RecordBriefingEdit: lambda n: commands.RecordBriefingEdit(
        conversation_id=OWN, seq=n, edit={}, recorded_at_ms=1
    ),
    commands.RecordOnce: lambda n: commands.RecordOnce(
        project_id=PROJECT, key=f"key {n}", attempt_id="att_1", state="intent", recorded_at_ms=1
    ),
    commands.RecordAct: lambda n: commands.RecordAct(
        conversation_id=OWN, what="told", by_user="ada", detail=str(n), recorded_at_ms=n
    ),
    commands.EraseConversation: lambda n: commands.EraseConversation(
        conversation_id=OWN, before_ms=-n
    ),
    commands.EraseRun: lambda n: commands.EraseRun(run_id=RUN, before_ms=-n),
}
"""The n-th write of every kind there is, counted from 1."""


def test_every_kind_of_write_is_tried() -> None:
    assert set(NEXT) == set(commands.Write.__args__)  # type: ignore[attr-defined]


class Fencing(RuleBasedStateMachine):
    """Holders take a lease from each other and write under tokens they got at any time."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.store = SqliteStore(self.directory / "store" / "upthread.db")
        self.store.commit(
            [
                commands.OpenWorkstream(
                    project_id=PROJECT, workstream="spec-42", base_name="Kael", opened_at_ms=1
                ),
                commands.OpenConversation(conversation=conversation(OWN, "planner")),
                commands.OpenLink(link=link(1)),
                commands.OpenTurn(turn_id=TURN, conversation_id=OWN, opened_at_ms=1),
                commands.OpenRun(
                    run_id=RUN, project_id=PROJECT, workstream="spec-42", opened_at_ms=1
                ),
                commands.OpenRun(
                    run_id=DUE, project_id=PROJECT, workstream="spec-42", opened_at_ms=1
                ),
                *(resumed(DUE, number) for number in range(1, EVENTS_DUE + 1)),
            ]
        )
        self.fences: dict[int, list[Fence]] = {number: [] for number in range(HOLDERS)}
        self.current: Fence | None = None
        self.written = dict.fromkeys(NEXT, 0)

    def dump(self) -> Any:
        connection = self.store.database.connection
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return [connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names]

    @rule(number=st.integers(0, HOLDERS - 1))
    def take_over(self, number: int) -> None:
        holder = Holder(host="here", boot_id="b", pid=number + 1, started_at_ticks=1)
        lease = self.store.acquire_lease(LEASE, holder, seen=self.store.lease(LEASE))
        assert lease is not None
        self.current = Fence(name=LEASE, token=lease.token)
        self.fences[number].append(self.current)

    def fence_of(self, number: int, age: int) -> Fence | None:
        held = self.fences[number]
        return held[max(0, len(held) - 1 - age)] if held else None

    @rule(
        number=st.integers(0, HOLDERS - 1),
        age=st.integers(0, 3),
        kinds=st.lists(st.sampled_from(sorted(NEXT, key=str)), min_size=1, max_size=4, unique=True),
    )
    def write(self, number: int, age: int, kinds: list[type[Any]]) -> None:
        fence = self.fence_of(number, age)
        if fence is None:
            return
        batch = [NEXT[kind](self.written[kind] + 1) for kind in kinds]
        if fence == self.current:
            self.store.commit(batch, fences=(fence,))
            for kind in kinds:
                self.written[kind] += 1
            return
        before = self.dump()
        try:
            self.store.commit(batch, fences=(fence,))
        except FencedError:
            assert self.dump() == before
        else:
            raise AssertionError(f"{fence} wrote {kinds} while {self.current} is held")

    @rule(number=st.integers(0, HOLDERS - 1), age=st.integers(0, 3))
    def beat(self, number: int, age: int) -> None:
        fence = self.fence_of(number, age)
        if fence is None or fence == self.current:
            return
        before = self.dump()
        try:
            self.store.heartbeat(fence)
        except FencedError:
            assert self.dump() == before
        else:
            raise AssertionError(f"{fence} shows life while {self.current} is held")

    @precondition(lambda self: self.current is not None)
    @rule()
    def release(self) -> None:
        assert self.current is not None
        self.store.release_lease(self.current)
        self.current = None

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.verify(OWN) is None
            self.store.close()
            shutil.rmtree(self.directory)


Fencing.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestFencing = Fencing.TestCase
