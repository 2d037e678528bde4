"""S7 and S9: what reads leave out, which is nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar, get_args

from msgspec import structs

from upthread.core.commands import (
    EnqueueTransition,
    OpenConversation,
    OpenLink,
    RecordAct,
    RecordOnce,
    Write,
)
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import Conversation, ConversationId, RunId, TurnId
from upthread.errors import StoreError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import (
    DAMAGED_MESSAGE,
    Damage,
    Tampering,
    Trial,
    promise,
    refused,
)
from upthread.testing.store_conformance.copies import answer_of
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, TURN

Way = TypeVar("Way", bound=Tampering)

_MANY: Final = 1_100
"""More rows than a store that reads by pages would read at once."""


@promise("S7")
def what_was_opened_comes_in_the_order_it_was_opened(trial: Trial) -> None:
    """Children, ended links and all, though the clock went backwards."""
    store = trial.store
    names, runs = ["z", "a", "m"], [RunId(f"run_{each}") for each in "zam"]
    store.commit(samples.home())
    children: list[Conversation] = []
    for number, name in enumerate(names, 2):
        opened_at_ms = 2_000 - number
        child = samples.conversation(
            ConversationId(f"con_{name}"), key=samples.sibling_key(0, "x"), parent=CONVERSATION
        )
        children.append(structs.replace(child, opened_at_ms=opened_at_ms))
        opened = structs.replace(
            samples.workstream(name, base_name=name), opened_at_ms=opened_at_ms
        )
        run = structs.replace(samples.run(runs[number - 2]), opened_at_ms=opened_at_ms)
        link = structs.replace(samples.link(number, f"ses_{name}"), opened_at_ms=opened_at_ms)
        turn = structs.replace(samples.turn(TurnId(f"trn_{name}")), opened_at_ms=opened_at_ms)
        store.commit([opened, OpenConversation(conversation=children[-1]), run, turn])
        store.commit([OpenLink(link=link), samples.end_of(number)])
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
    trial.store.commit([*samples.home(), samples.run()])
    before = _answers(trial)
    for number in (1, 2):
        trial.store.commit(_more(number))
        after = _answers(trial)
        assert [name for name in after if after[name] == before[name]] == []
        before = after


def _more(number: int) -> list[Write]:
    """Return writes that add to all that `_answers` reads, the same kinds each time."""
    file = ExaminedFile(path="a.py", how="read", state="hashed", digest=f"{number}")
    return [
        OpenLink(link=samples.link(number + 1, f"ses_{number}")),
        samples.turn(TurnId(f"trn_{number}")),
        samples.said(number),
        samples.happened(number),
        samples.moved(number),
        EnqueueTransition(run_id=samples.RUN, run_seq=number, due_at_ms=10 * number),
        samples.examined(number, file, session="ses_b"),
        samples.edit(number),
        samples.act(at_ms=number, of_run=True),
        samples.step("intent" if number == 1 else "done"),
    ]


_CHANGED: Final = (
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
    trial.store.commit([*samples.home(), samples.run(), *map(samples.turn, turns)])
    trial.store.commit([samples.said(seq) for seq in seqs])
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
        trial.store.commit([*samples.home(), samples.run(), *map(samples.said, range(1, 6))])
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


_NOT_READ: Final[Mapping[Tampering, tuple[str, ...]]] = MappingProxyType(
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
