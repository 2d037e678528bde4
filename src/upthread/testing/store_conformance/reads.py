"""S7, S8, S12, S15, S19: what reads return."""

from __future__ import annotations

from msgspec import structs

from upthread.core import types
from upthread.core.commands import (
    EndLink,
    EnqueueTransition,
    OpenConversation,
    OpenLink,
    RecordDecision,
    RecordProject,
    RecordQuarantine,
    Write,
)
from upthread.core.events import QuestionAnswered, TurnEnded
from upthread.runtime.record.store_copy import due_runs
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, TURN

_HARD_TEXTS = (
    "",
    "\0",
    "a\0b",
    " \tblanks round it \r\n",
    "\ud800",
    "\ud83d\ude00",  # two lone surrogates, which are not the one character they would make
    "\U0001f600",
    "e\u0301",
    "\u00e9",
    "\u202e\u2028\ufeff\uffff",
    "'; DROP TABLE part; --",
    "x" * 1_000_000,
)


def order_is_by_seq_and_never_by_time(trial: Trial) -> None:
    trial.store.commit([*samples.home(), samples.run()])
    times = (9_000, 1_000, 5_000, -1, 5_000)
    numbered = tuple(enumerate(times, 1))
    happened = tuple(structs.replace(samples.happened(n), recorded_at_ms=t) for n, t in numbered)
    moved = tuple(structs.replace(samples.moved(n), recorded_at_ms=t) for n, t in numbered)
    for seq, at_ms in numbered:
        trial.store.commit([structs.replace(samples.said(seq), recorded_at_ms=at_ms)])
        trial.store.commit([happened[seq - 1], moved[seq - 1]])
    trial.reopen()
    messages = trial.store.messages(CONVERSATION)
    assert [message.seq for message in messages] == [1, 2, 3, 4, 5]
    assert tuple(message.recorded_at_ms for message in messages) == times
    assert trial.store.turn_events(CONVERSATION, TURN) == happened
    assert trial.store.run_events(samples.RUN) == moved


def messages_can_be_read_from_either_end(trial: Trial) -> None:
    trial.store.commit([*samples.home(), *(samples.said(seq) for seq in range(1, 31))])
    store = trial.store

    def seqs(
        *, after_seq: int = 0, first: int | None = None, newest: int | None = None
    ) -> list[int]:
        found = store.messages(CONVERSATION, after_seq=after_seq, first=first, newest=newest)
        return [message.seq for message in found]

    assert seqs() == list(range(1, 31))
    assert seqs(after_seq=28) == [29, 30]
    assert seqs(newest=3) == [28, 29, 30]
    assert seqs(newest=99) == list(range(1, 31))
    assert seqs(newest=0) == []
    assert seqs(after_seq=29, newest=20) == [30]
    assert seqs(after_seq=10, newest=2) == [29, 30]
    assert seqs(after_seq=30) == []
    assert seqs(first=3) == [1, 2, 3]
    assert seqs(after_seq=10, first=2) == [11, 12]
    assert seqs(after_seq=29, first=20) == [30]
    assert seqs(first=0) == []
    contents = store.said_in_messages(CONVERSATION, first=30)
    assert [each and each.decode() for each in contents] == [
        f'[{{"type":"text","text":"message {seq}"}}]' for seq in range(1, 31)
    ]
    assert store.said_in_messages(CONVERSATION, after_seq=10, first=2) == contents[10:12]
    assert store.said_in_messages(CONVERSATION, after_seq=30, first=1) == ()
    assert store.message_count(CONVERSATION) == 30


def turns_can_be_read_from_their_end(trial: Trial) -> None:
    names = [types.TurnId(f"trn_{number}") for number in range(5)]
    trial.store.commit([*samples.home(), *map(samples.turn, names)])
    assert [turn.turn_id for turn in trial.store.turns(CONVERSATION)] == [TURN, *names]
    for name in (TURN, *names):
        assert trial.store.owner(PROJECT, turn_id=name) == samples.conversation()
    assert trial.store.owner(types.ProjectId("prj_two"), turn_id=TURN) is None
    assert [turn.turn_id for turn in trial.store.turns(CONVERSATION, newest=2)] == names[-2:]
    assert trial.store.turns(CONVERSATION, newest=0) == ()


def unknown_ids_read_as_nothing(trial: Trial) -> None:
    store, nobody = trial.store, types.ConversationId("con_nobody")
    assert store.resolve(KEY) is None
    assert store.conversation(nobody) is None
    assert store.workstream(PROJECT, "nowhere") is None
    assert store.lease("nothing") is None
    assert store.owner(PROJECT, "ses_nobody") is None
    assert store.owner(PROJECT, turn_id=types.TurnId("trn_nobody")) is None
    assert store.run(types.RunId("run_nobody")) is None
    assert store.message_count(nobody) == 0
    for nothing in (
        store.conversations(PROJECT, "nowhere"),
        store.workstreams(PROJECT),
        store.projects(types.ProjectIdentity(path="/nowhere")),
        store.links(nobody),
        store.messages(nobody),
        store.messages(nobody, newest=20),
        store.turns(nobody),
        store.turn_events(CONVERSATION, types.TurnId("trn_nobody")),
        store.runs(PROJECT, "nowhere"),
        store.run_events(types.RunId("run_nobody")),
        store.refusals(nobody),
        store.quarantined(CONVERSATION, types.TurnId("trn_nobody")),
    ):
        assert nothing == ()


def every_part_comes_back_identical(trial: Trial) -> None:
    parts: list[types.Part] = [types.TextPart(text=text) for text in _HARD_TEXTS]
    for text in _HARD_TEXTS:
        arguments: types.JsonValue = {text: [text, None, True, 1, -1.5, 2**70, {"deep": [text]}]}
        parts += [
            types.ReasoningPart(text=text),
            types.ToolCallPart(
                call_id=text, title=text, tool_kind="x", arguments=arguments, locations=(text, text)
            ),
            types.ToolResultPart(call_id=text, status="failed", text=text),
            types.FilePart(uri=text, mime_type=text),
            types.UnknownPart(kind=text, raw=arguments),
        ]
    trial.store.commit([*samples.home(), samples.said(1, *parts)])
    assert trial.store.messages(CONVERSATION)[0].parts == tuple(parts)
    trial.reopen()
    assert trial.store.messages(CONVERSATION)[0].parts == tuple(parts)
    assert trial.store.verify(CONVERSATION) is None


def every_event_comes_back_identical(trial: Trial) -> None:
    endings = [
        TurnEnded(outcome=types.Outcome.OK, detail=text, report={"key": [text]})
        for text in _HARD_TEXTS
    ]
    answers = [QuestionAnswered(question_id=text, text=text) for text in _HARD_TEXTS]
    trial.store.commit([*samples.home(), samples.run()])
    happened = tuple(samples.happened(seq, each) for seq, each in enumerate(endings, 1))
    moved = tuple(samples.moved(seq, each) for seq, each in enumerate(answers, 1))
    trial.store.commit([*happened, *moved])
    trial.reopen()
    assert trial.store.turn_events(CONVERSATION, TURN) == happened
    assert trial.store.run_events(samples.RUN) == moved


def numbers_that_are_not_finite_come_back(trial: Trial) -> None:
    infinite = types.UnknownPart(kind="x", raw=[float("inf"), -float("inf")])
    trial.store.commit([*samples.home(), samples.said(1, infinite)])
    assert trial.store.messages(CONVERSATION)[0].parts == (infinite,)


def what_was_read_is_the_readers_own(trial: Trial) -> None:
    arguments: dict[str, types.JsonValue] = {"paths": ["a"]}
    call = types.ToolCallPart(call_id="c", title="t", tool_kind="read", arguments=arguments)
    trial.store.commit([*samples.home(), samples.said(1, call)])
    arguments["paths"] = ["changed by the writer"]
    first = trial.store.messages(CONVERSATION)[0].parts[0]
    assert isinstance(first, types.ToolCallPart)
    assert first.arguments == {"paths": ["a"]}
    assert isinstance(first.arguments, dict)
    first.arguments["paths"] = ["changed by a reader"]
    again = trial.store.messages(CONVERSATION)[0].parts[0]
    assert isinstance(again, types.ToolCallPart)
    assert again.arguments == {"paths": ["a"]}


def resolve_returns_the_newest_generation(trial: Trial) -> None:
    trial.store.commit(samples.home())
    for generation in (3, 2):
        later = samples.conversation(
            types.ConversationId(f"con_{generation}"), generation=generation
        )
        trial.store.commit([OpenConversation(conversation=later)])
    resolved = trial.store.resolve(KEY)
    assert resolved is not None
    assert resolved.conversation == samples.conversation(
        types.ConversationId("con_3"), generation=3
    )
    assert resolved.link is None


def resolve_returns_the_newest_open_link(trial: Trial) -> None:
    trial.store.commit(samples.home())

    def upstream() -> str | None:
        resolved = trial.store.resolve(KEY)
        assert resolved is not None
        return None if resolved.link is None else resolved.link.upstream_session_id

    def end(seq: int) -> EndLink:
        return EndLink(
            conversation_id=CONVERSATION, seq=seq, ended_because="expired", ended_at_ms=9
        )

    assert upstream() == "ses_a"
    trial.store.commit([OpenLink(link=samples.link(2, "ses_b"))])
    assert upstream() == "ses_b"
    trial.store.commit([end(2)])
    assert upstream() == "ses_a"
    trial.store.commit([end(1)])
    assert upstream() is None
    ended = structs.replace(samples.link(3, "ses_c"), ended_because="imported", ended_at_ms=8)
    trial.store.commit([OpenLink(link=ended)])
    assert upstream() is None
    assert trial.store.links(CONVERSATION)[2] == ended
    trial.reopen()
    assert upstream() is None


def siblings_resolve_apart(trial: Trial) -> None:
    trial.store.commit(samples.home())
    sibling = samples.conversation(types.ConversationId("con_two"), key=samples.sibling_key(2))
    trial.store.commit([OpenConversation(conversation=sibling)])
    for key, expected in ((KEY, CONVERSATION), (samples.sibling_key(2), "con_two")):
        resolved = trial.store.resolve(key)
        assert resolved is not None
        assert resolved.conversation.conversation_id == expected


def the_owner_of_an_upstream_session_holds_it_in_its_newest_link(trial: Trial) -> None:
    other = types.ConversationId("con_other")
    trial.store.commit(
        [
            *samples.home(),
            OpenConversation(
                conversation=samples.conversation(other, key=samples.sibling_key(role="auditor"))
            ),
        ]
    )

    def owner() -> str | None:
        found = trial.store.owner(PROJECT, "ses_a")
        return None if found is None else found.conversation_id

    assert owner() == CONVERSATION
    assert trial.store.owner(types.ProjectId("prj_two"), "ses_a") is None
    trial.store.commit([OpenLink(link=samples.link(owner=other))])
    assert owner() == other
    trial.store.commit([OpenLink(link=samples.link(2, "ses_b", owner=other))])
    assert owner() == CONVERSATION
    trial.store.commit([OpenLink(link=samples.link(2, "ses_c"))])
    assert owner() is None


def a_project_is_found_by_path_or_root_commit(trial: Trial) -> None:
    known = types.ProjectIdentity(path="/srv/a", root_commit="abc", remote="git.example/a")
    bare = types.ProjectIdentity(path="/srv/b")
    trial.store.commit(
        [
            RecordProject(project_id=PROJECT, identity=known),
            RecordProject(project_id=types.ProjectId("prj_two"), identity=bare),
        ]
    )

    def found(identity: types.ProjectIdentity) -> list[str]:
        return [each.project_id for each in trial.store.projects(identity)]

    assert found(known) == [PROJECT]
    assert found(types.ProjectIdentity(path="/moved", root_commit="abc")) == [PROJECT]
    assert found(types.ProjectIdentity(path="/srv/a")) == [PROJECT]
    assert found(types.ProjectIdentity(path="/srv/b", root_commit="abc")) == [PROJECT, "prj_two"]
    assert found(types.ProjectIdentity(path="/elsewhere")) == []
    assert trial.store.projects(known)[0].identity == known


def a_transition_is_due_until_its_run_moves_on(trial: Trial) -> None:
    second = types.RunId("run_two")
    trial.store.commit(
        [
            *samples.home(),
            *(samples.run(), samples.run(second), samples.moved(1)),
            EnqueueTransition(run_id=second, run_seq=0, due_at_ms=50),
            EnqueueTransition(run_id=samples.RUN, run_seq=1, due_at_ms=10),
        ]
    )

    def due(before_ms: int) -> list[types.RunId]:
        return due_runs(trial.store, PROJECT, before_ms=before_ms)

    assert due(9) == []
    assert due(10) == [samples.RUN]
    assert due(50) == [samples.RUN, second]
    trial.store.commit([samples.moved(2)])
    assert due(50) == [second]
    again = EnqueueTransition(run_id=samples.RUN, run_seq=2, due_at_ms=60)
    trial.store.commit([again])
    trial.reopen()
    assert due(60) == [second, samples.RUN]


def refusals_and_quarantine_are_kept_in_order(trial: Trial) -> None:
    decisions = [
        RecordDecision(
            conversation_id=CONVERSATION,
            decision="refuse",
            reasons=("busy", text),
            inputs={"text": text},
            decided_at_ms=at_ms,
        )
        for at_ms, text in ((9, "\ud800"), (1, "\0"))
    ]
    strays: list[Write] = [
        RecordQuarantine(
            conversation_id=CONVERSATION,
            turn_id=TURN,
            ordinal=n,
            reason="\ud800",
            raw=[n, "\0"],
            recorded_at_ms=1,
        )
        for n in (3, 1)
    ]
    trial.store.commit([*samples.home(), *decisions, *strays])
    trial.reopen()
    assert trial.store.refusals(CONVERSATION) == tuple(decisions)
    found = trial.store.quarantined(CONVERSATION, TURN)
    assert [(each.ordinal, each.reason, each.raw) for each in found] == [
        (1, "\ud800", [1, "\0"]),
        (3, "\ud800", [3, "\0"]),
    ]


def names_are_data_and_stay_apart(trial: Trial) -> None:
    names = [text[:4_096] for text in _HARD_TEXTS]
    names += ["../../etc/passwd", "/", '"', "%", "_", "Spec", "spec", "spec ", "a" * 4_096]
    opened: list[types.Conversation] = []
    for number, name in enumerate(dict.fromkeys(names)):
        new = samples.conversation(
            types.ConversationId(f"con_{name}"),
            key=structs.replace(KEY, workstream=name, role=name),
            base_name=f"{number}{name}",
        )
        opened.append(new)
        trial.store.commit(
            [
                samples.workstream(name, base_name=new.base_name),
                OpenConversation(conversation=new),
                OpenLink(link=samples.link(upstream=name, owner=new.conversation_id)),
            ]
        )
    trial.reopen()
    for new in opened:
        name = new.key.workstream
        resolved = trial.store.resolve(new.key)
        assert resolved is not None
        assert resolved.conversation == new
        assert resolved.link is not None
        assert resolved.link.upstream_session_id == name
        assert trial.store.conversations(PROJECT, name) == (new,)
        assert trial.store.owner(PROJECT, name) == new
        assert trial.store.acquire_lease(name, samples.HOLDER) is not None
        lease = trial.store.lease(name)
        assert lease is not None
        assert lease.name == name
    assert len(trial.store.workstreams(PROJECT)) == len(opened)
    left = {path.name for path in trial.place.parent.iterdir()}
    assert all(name.startswith(trial.place.name) for name in left), left


def a_part_keeps_an_upstream_id_that_is_no_link(trial: Trial) -> None:
    strange = types.UpstreamSessionId("ses_\ud800")
    trial.store.commit(
        [
            *samples.home(),
            structs.replace(samples.said(1), upstream_session_id=None),
            structs.replace(samples.said(2), upstream_session_id=strange),
        ]
    )
    found = trial.store.messages(CONVERSATION)
    assert [message.upstream_session_id for message in found] == [None, strange]


READING_PROMISES = promises(
    {
        "S7": [
            order_is_by_seq_and_never_by_time,
            messages_can_be_read_from_either_end,
            turns_can_be_read_from_their_end,
            unknown_ids_read_as_nothing,
            refusals_and_quarantine_are_kept_in_order,
            a_project_is_found_by_path_or_root_commit,
        ],
        "S8": [
            every_part_comes_back_identical,
            every_event_comes_back_identical,
            numbers_that_are_not_finite_come_back,
            what_was_read_is_the_readers_own,
            a_part_keeps_an_upstream_id_that_is_no_link,
        ],
        "S12": [
            resolve_returns_the_newest_generation,
            resolve_returns_the_newest_open_link,
            siblings_resolve_apart,
            the_owner_of_an_upstream_session_holds_it_in_its_newest_link,
        ],
        "S15": [a_transition_is_due_until_its_run_moves_on],
        "S19": [names_are_data_and_stay_apart],
    }
)
