"""S7-S9, S12, S15, S19: what reads return, and what they leave out, which is nothing."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar, get_args

from msgspec.structs import replace

from upthread.core import types
from upthread.core.commands import (
    EnqueueTransition,
    OpenConversation,
    OpenLink,
    RecordAct,
    RecordOnce,
    Write,
)
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.events import QuestionAnswered, TurnEnded
from upthread.core.types import Conversation, ConversationId, RunId, TurnId
from upthread.errors import StoreError
from upthread.runtime.record.store_copy import due_runs
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import (
    DAMAGED_MESSAGE,
    Damage,
    Tampering,
    Trial,
    promise,
    refused,
)
from upthread.testing.store_conformance.copies import answer_of, answers
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, TURN, home, said

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


@promise("S7")
def order_is_by_seq_and_never_by_time(trial: Trial) -> None:
    trial.commit(*home(), samples.run())
    times = (9_000, 1_000, 5_000, -1, 5_000)
    numbered = tuple(enumerate(times, 1))
    happened = tuple(replace(samples.happened(n), recorded_at_ms=t) for n, t in numbered)
    moved = tuple(replace(samples.moved(n), recorded_at_ms=t) for n, t in numbered)
    for seq, at_ms in numbered:
        trial.commit(replace(said(seq), recorded_at_ms=at_ms))
        trial.commit(happened[seq - 1], moved[seq - 1])
    trial.reopen()
    messages = trial.store.messages(CONVERSATION)
    assert [message.seq for message in messages] == [1, 2, 3, 4, 5]
    assert tuple(message.recorded_at_ms for message in messages) == times
    assert trial.store.turn_events(CONVERSATION, TURN) == happened
    assert trial.store.run_events(samples.RUN) == moved


@promise("S7")
def messages_can_be_read_from_either_end(trial: Trial) -> None:
    trial.commit(*home(), *(said(seq) for seq in range(1, 31)))
    store = trial.store

    every = range(1, 31)
    for after in (0, 10, 28, 29, 30):
        there = [seq for seq in every if seq > after]
        for count in (None, 0, 2, 3, 99):
            first = store.messages(CONVERSATION, after_seq=after, first=count)
            assert [message.seq for message in first] == there[:count]
            newest = store.messages(CONVERSATION, after_seq=after, newest=count)
            low = 0 if count is None else max(len(there) - count, 0)
            assert [message.seq for message in newest] == there[low:]
    contents = store.said_in_messages(CONVERSATION, first=30)
    assert [each and each.decode() for each in contents] == [
        f'[{{"type":"text","text":"message {seq}"}}]' for seq in range(1, 31)
    ]
    assert store.said_in_messages(CONVERSATION, after_seq=10, first=2) == contents[10:12]
    assert store.said_in_messages(CONVERSATION, after_seq=30, first=1) == ()
    assert store.message_count(CONVERSATION) == 30


@promise("S7")
def turns_can_be_read_from_their_end(trial: Trial) -> None:
    names = [types.TurnId(f"trn_{number}") for number in range(5)]
    trial.commit(*home(), *map(samples.turn, names))
    assert [turn.turn_id for turn in trial.store.turns(CONVERSATION)] == [TURN, *names]
    for name in (TURN, *names):
        assert trial.store.owner(PROJECT, turn_id=name) == samples.conversation()
    assert trial.store.owner(types.ProjectId("prj_two"), turn_id=TURN) is None
    assert [turn.turn_id for turn in trial.store.turns(CONVERSATION, newest=2)] == names[-2:]
    assert trial.store.turns(CONVERSATION, newest=0) == ()


@promise("S7")
def unknown_ids_read_as_nothing(trial: Trial) -> None:
    """Also beside somebody else's."""
    trial.commit(samples.workstream("other", project_id=types.ProjectId("prj_two")))
    for name, found in answers(trial.store).items():
        assert found in (None, (), 0), f"{name}: {found!r}"
    assert trial.store.owner(PROJECT, turn_id=TURN) is None
    assert trial.store.lease("nothing") is None


@promise("S8")
def every_part_comes_back_identical(trial: Trial) -> None:
    parts: list[types.Part] = [types.TextPart(text=text) for text in _HARD_TEXTS]
    for text in _HARD_TEXTS:
        arguments: types.JsonValue = {
            text: [text, None, True, 1, -1.5, 2**70, float("inf"), -float("inf"), {"deep": [text]}]
        }
        parts += [
            types.ReasoningPart(text=text),
            types.ToolCallPart(
                call_id=text, title=text, tool_kind="x", arguments=arguments, locations=(text, text)
            ),
            types.ToolResultPart(call_id=text, status="failed", text=text),
            types.FilePart(uri=text, mime_type=text),
            types.UnknownPart(kind=text, raw=arguments),
        ]
    # Of a session that is no link, and of none.
    session = types.UpstreamSessionId("ses_\ud800")
    told = replace(said(1, *parts), upstream_session_id=session)
    trial.commit(*home(), told)
    # One of which only the outline was ever given.
    outline = types.ErasedPart(kind="text")
    trial.commit(replace(said(2, outline), upstream_session_id=None))
    for _ in range(2):
        first, second = trial.store.messages(CONVERSATION)
        assert (first.parts, second.parts) == (tuple(parts), (outline,))
        assert (first.upstream_session_id, second.upstream_session_id) == (session, None)
        trial.reopen()
    assert trial.store.verify(CONVERSATION) is None


@promise("S8")
def every_event_comes_back_identical(trial: Trial) -> None:
    endings = [
        TurnEnded(outcome=types.Outcome.OK, detail=text, report={"key": [text]})
        for text in _HARD_TEXTS
    ]
    answers = [QuestionAnswered(question_id=text, text=text) for text in _HARD_TEXTS]
    trial.commit(*home(), samples.run())
    happened = tuple(samples.happened(seq, each) for seq, each in enumerate(endings, 1))
    moved = tuple(samples.moved(seq, each) for seq, each in enumerate(answers, 1))
    trial.commit(*happened, *moved)
    trial.reopen()
    assert trial.store.turn_events(CONVERSATION, TURN) == happened
    assert trial.store.run_events(samples.RUN) == moved


@promise("S8")
def what_was_read_is_the_readers_own(trial: Trial) -> None:
    arguments: dict[str, types.JsonValue] = {"paths": ["a"]}
    call = types.ToolCallPart(call_id="c", title="t", tool_kind="read", arguments=arguments)
    trial.commit(*home(), said(1, call))
    arguments["paths"] = ["changed by the writer"]
    first = trial.store.messages(CONVERSATION)[0].parts[0]
    assert isinstance(first, types.ToolCallPart)
    assert first.arguments == {"paths": ["a"]}
    assert isinstance(first.arguments, dict)
    first.arguments["paths"] = ["changed by a reader"]
    again = trial.store.messages(CONVERSATION)[0].parts[0]
    assert isinstance(again, types.ToolCallPart)
    assert again.arguments == {"paths": ["a"]}


@promise("S12")
def resolve_returns_the_newest_generation(trial: Trial) -> None:
    trial.commit(*home())
    for generation in (3, 2):
        later = samples.conversation(
            types.ConversationId(f"con_{generation}"), generation=generation
        )
        trial.commit(OpenConversation(conversation=later))
    resolved = samples.resolved(trial.store)
    assert resolved.conversation == samples.conversation(
        types.ConversationId("con_3"), generation=3
    )
    assert resolved.link is None
    sibling = samples.conversation(types.ConversationId("con_two"), key=samples.sibling_key(2))
    trial.commit(OpenConversation(conversation=sibling))
    assert samples.resolved(trial.store, sibling.key).conversation == sibling
    assert samples.resolved(trial.store) == resolved


@promise("S12")
def resolve_returns_the_newest_open_link(trial: Trial) -> None:
    trial.commit(*home())

    def upstream() -> str | None:
        link = samples.resolved(trial.store).link
        return None if link is None else link.upstream_session_id

    assert upstream() == "ses_a"
    trial.commit(OpenLink(link=samples.link(2, "ses_b")))
    assert upstream() == "ses_b"
    trial.commit(samples.end_of(2))
    assert upstream() == "ses_a"
    trial.commit(samples.end_of(1))
    assert upstream() is None
    ended = replace(samples.link(3, "ses_c"), ended_because="imported", ended_at_ms=8)
    trial.commit(OpenLink(link=ended))
    assert upstream() is None
    assert trial.store.links(CONVERSATION)[2] == ended
    trial.reopen()
    assert upstream() is None


@promise("S12")
def the_owner_of_an_upstream_session_holds_it_in_its_newest_link(trial: Trial) -> None:
    other = types.ConversationId("con_other")
    trial.commit(
        *home(),
        OpenConversation(
            conversation=samples.conversation(other, key=samples.sibling_key(role="auditor"))
        ),
    )

    def owner() -> str | None:
        found = trial.store.owner(PROJECT, "ses_a")
        return None if found is None else found.conversation_id

    assert owner() == CONVERSATION
    assert trial.store.owner(types.ProjectId("prj_two"), "ses_a") is None
    trial.commit(OpenLink(link=samples.link(owner=other)))
    assert owner() == other
    trial.commit(OpenLink(link=samples.link(2, "ses_b", owner=other)))
    assert owner() == CONVERSATION
    trial.commit(OpenLink(link=samples.link(2, "ses_c")))
    assert owner() is None


@promise("S15")
def a_transition_is_due_until_its_run_moves_on(trial: Trial) -> None:
    second = types.RunId("run_two")
    trial.commit(
        *home(),
        *(samples.run(), samples.run(second), samples.moved(1)),
        EnqueueTransition(run_id=second, run_seq=0, due_at_ms=50),
        EnqueueTransition(run_id=samples.RUN, run_seq=1, due_at_ms=10),
    )

    def due(before_ms: int) -> list[types.RunId]:
        return due_runs(trial.store, PROJECT, before_ms=before_ms)

    assert due(9) == []
    assert due(10) == [samples.RUN]
    assert due(50) == [samples.RUN, second]
    trial.commit(samples.moved(2))
    assert due(50) == [second]
    again = EnqueueTransition(run_id=samples.RUN, run_seq=2, due_at_ms=60)
    trial.commit(again)
    trial.reopen()
    assert due(60) == [second, samples.RUN]


@promise("S7")
def refusals_and_quarantine_are_kept_in_order(trial: Trial) -> None:
    decisions = [samples.refusal({"text": text}, ms) for ms, text in ((9, "\ud800"), (1, "\0"))]
    strays = [samples.stray(ordinal, [ordinal, "\0"]) for ordinal in (3, 1)]
    trial.commit(*home(), *decisions, *strays)
    trial.reopen()
    assert trial.store.refusals(CONVERSATION) == tuple(decisions)
    assert trial.store.quarantined(CONVERSATION, TURN) == tuple(reversed(strays))


@promise("S19")
def names_are_data_and_stay_apart(trial: Trial) -> None:
    names = [text[:4_096] for text in _HARD_TEXTS]
    names += ["../../etc/passwd", "/", '"', "%", "_", "Spec", "spec", "spec ", "a" * 4_096]
    opened: list[types.Conversation] = []
    for number, name in enumerate(dict.fromkeys(names)):
        new = samples.conversation(
            types.ConversationId(f"con_{name}"),
            key=replace(KEY, workstream=name, role=name),
            base_name=f"{number}{name}",
        )
        opened.append(new)
        trial.commit(
            samples.workstream(name, base_name=new.base_name),
            OpenConversation(conversation=new),
            OpenLink(link=samples.link(upstream=name, owner=new.conversation_id)),
            samples.step("intent", key=name),
        )
    trial.reopen()
    for new in opened:
        name = new.key.workstream
        resolved = samples.resolved(trial.store, new.key)
        assert resolved.conversation == new
        assert resolved.link is not None
        assert resolved.link.upstream_session_id == name
        assert trial.store.conversations(PROJECT, name) == (new,)
        assert trial.store.owner(PROJECT, name) == new
        assert trial.store.once(PROJECT, name) == samples.step("intent", key=name)
        assert trial.store.acquire_lease(name, samples.HOLDER) is not None
        lease = trial.store.lease(name)
        assert lease is not None
        assert lease.name == name
    assert len(trial.store.workstreams(PROJECT)) == len(opened)
    left = {path.name for path in trial.place.parent.iterdir()}
    assert all(name.startswith(trial.place.name) for name in left), left


# --- what reads leave out -------------------------------------------------------------------------


Way = TypeVar("Way", bound=Tampering)

_MANY = 1_100
"""More rows than a store that reads by pages would read at once."""


@promise("S7")
def what_was_opened_comes_in_the_order_it_was_opened(trial: Trial) -> None:
    """Children, ended links and all, though the clock went backwards."""
    store = trial.store
    names, runs = ["z", "a", "m"], [RunId(f"run_{each}") for each in "zam"]
    store.commit(home())
    children: list[Conversation] = []
    for number, name in enumerate(names, 2):
        opened_at_ms = 2_000 - number
        child = samples.conversation(
            ConversationId(f"con_{name}"), key=samples.sibling_key(0, "x"), parent=CONVERSATION
        )
        children.append(replace(child, opened_at_ms=opened_at_ms))
        opened = replace(samples.workstream(name, base_name=name), opened_at_ms=opened_at_ms)
        run = replace(samples.run(runs[number - 2]), opened_at_ms=opened_at_ms)
        link = replace(samples.link(number, f"ses_{name}"), opened_at_ms=opened_at_ms)
        turn = replace(samples.turn(TurnId(f"trn_{name}")), opened_at_ms=opened_at_ms)
        trial.commit(opened, OpenConversation(conversation=children[-1]), run, turn)
        trial.commit(OpenLink(link=link), samples.end_of(number))
    trial.reopen()
    store = trial.store
    expected = (samples.conversation(), *children)
    assert store.conversations(PROJECT, samples.WORKSTREAM) == expected
    assert [each.workstream for each in store.workstreams(PROJECT)] == [samples.WORKSTREAM, *names]
    assert [each.run_id for each in store.runs(PROJECT, samples.WORKSTREAM)] == runs
    assert [each.turn_id for each in store.turns(CONVERSATION)][1:] == ["trn_z", "trn_a", "trn_m"]
    assert [each.seq for each in store.links(CONVERSATION)] == [1, 2, 3, 4]


@promise("S7")
def what_was_committed_is_read_at_once(trial: Trial) -> None:
    """Each read again after each commit: none answers as it did before."""
    trial.commit(*home(), samples.run())
    before = _answers(trial)
    for number in (1, 2):
        trial.commit(*_more(number))
        after = _answers(trial)
        assert [name for name in after if after[name] == before[name]] == []
        before = after


def _more(number: int) -> list[Write]:
    """Return writes that add to all that `_answers` reads, the same kinds each time."""
    file = ExaminedFile(path="a.py", how="read", state="hashed", digest=f"{number}")
    return [
        OpenLink(link=samples.link(number + 1, f"ses_{number}")),
        samples.turn(TurnId(f"trn_{number}")),
        said(number),
        samples.happened(number),
        samples.moved(number),
        EnqueueTransition(run_id=samples.RUN, run_seq=number, due_at_ms=10 * number),
        samples.examined(number, file, session="ses_b"),
        samples.edit(number),
        samples.act(at_ms=number, of_run=True),
        samples.step("intent" if number == 1 else "done"),
    ]


_CHANGED = (
    *("resolve", "links", "messages", "prior_messages", "message_count", "turns", "turn_events"),
    *("run_events", "examined", "briefing_edit", "acts", "once"),
)
"""What changes with each commit of `_more`."""


def _answers(trial: Trial) -> dict[str, object]:
    lease = trial.store.lease("spec-42")
    assert trial.store.acquire_lease("spec-42", samples.HOLDER, seen=lease) is not None
    found = {name: answer_of(trial.store, name) for name in _CHANGED}
    return found | {"lease": trial.store.lease("spec-42")}


@promise("S7")
def more_than_a_page_comes_back(trial: Trial) -> None:
    """Many of each, read in one call."""
    seqs = range(1, _MANY + 1)
    turns = [TurnId(f"trn_{seq}") for seq in seqs]
    trial.commit(*home(), samples.run(), *map(samples.turn, turns))
    trial.store.commit([said(seq) for seq in seqs])
    trial.store.commit([samples.happened(seq) for seq in seqs])
    trial.store.commit([samples.moved(seq) for seq in seqs])
    store = trial.store
    assert [each.seq for each in store.messages(CONVERSATION)] == list(seqs)
    assert len(store.messages(CONVERSATION, newest=_MANY - 1)) == _MANY - 1
    assert [each.turn_id for each in store.turns(CONVERSATION)] == [TURN, *turns]
    assert len(store.turn_events(CONVERSATION, TURN)) == len(store.run_events(samples.RUN)) == _MANY


def _tampered(trial: Trial, ways: Iterable[Way]) -> Iterator[Way]:
    """Yield each way to tamper with a store once it is done to one of its own, which is open."""
    place = trial.place
    trial.store.close()
    for number, way in enumerate(ways):
        trial.place = place.with_name(f"{place.name}-{number}")
        trial.store = trial.backend.make(trial.place)
        trial.commit(*home(), samples.run(), *map(said, range(1, 6)))
        trial.store.commit([samples.moved(seq) for seq in (1, 2, 3)])
        trial.store.commit([OpenLink(link=samples.link(seq, f"ses_{seq}")) for seq in (2, 3)])
        trial.store.commit([each for each in _more(1) if isinstance(each, RecordAct | RecordOnce)])
        for read in {read for reads in _NOT_READ.values() for read in reads}:
            assert answer_of(trial.store, read)
        assert trial.store.verify(CONVERSATION) is None
        assert not any(each.damage for each in trial.store.proofs())
        trial.store.close()
        trial.backend.tamper(trial.place, way)
        trial.store = trial.backend.make(trial.place)
        assert any(each.damage for each in trial.store.proofs())
        yield way
        trial.store.close()


@promise("S9")
def damage_is_named_and_never_passed_over(trial: Trial) -> None:
    """Whatever was done to one message of five, no read is shorter for it."""
    ways: tuple[Damage, ...] = get_args(Damage)
    for damage in _tampered(trial, ways):
        assert trial.store.verify(CONVERSATION) == DAMAGED_MESSAGE
        if damage != "message changed":
            with refused(StoreError):
                trial.store.messages(CONVERSATION)
            with refused(StoreError):
                trial.store.messages(CONVERSATION, newest=4)
        if damage == "message unreadable":
            with refused(StoreError):
                trial.store.messages(CONVERSATION, after_seq=DAMAGED_MESSAGE - 1, first=1)
        assert len(trial.store.messages(CONVERSATION, newest=2)) == 2


_NOT_READ: Mapping[Tampering, tuple[str, ...]] = MappingProxyType(
    {
        "event changed": ("run_events",),
        "event dropped": ("run_events",),
        "events swapped": ("run_events",),
        "link changed": ("links",),
        "link dropped": ("links",),
        "head changed": ("conversation", "conversations", "messages"),
        "turn changed": ("turns",),
        "receipt changed": ("once",),
        "act changed": ("acts",),
        "head missing": ("workstream",),
        "tag missing": (),
    }
)


@promise("S33")
def what_was_tampered_with_is_never_read_as_recorded(trial: Trial) -> None:
    """Each way on a store of its own: what reads it raises, what does not reads on."""
    for tampering in _tampered(trial, _NOT_READ):
        for read in _NOT_READ[tampering]:
            with refused(StoreError):
                answer_of(trial.store, read)
        if tampering != "head changed":
            assert len(trial.store.messages(CONVERSATION)) == 5
