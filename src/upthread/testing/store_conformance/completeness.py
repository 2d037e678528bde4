"""S7 and S9: what reads leave out, which is nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, get_args

from msgspec import structs

from upthread.core.commands import (
    EndLink,
    EnqueueTransition,
    OpenConversation,
    OpenLink,
    RecordAct,
    RecordBriefingEdit,
    RecordExamined,
    RecordOnce,
    Write,
)
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import Conversation, ConversationId, RunId, TurnId, UpstreamSessionId
from upthread.errors import StoreError
from upthread.store.base import Store
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import (
    DAMAGED_MESSAGE,
    Damage,
    Tampering,
    Trial,
    promises,
    refused,
)
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, TURN

_MANY: Final = 1_100
"""More rows than a store that reads by pages would read at once."""


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
        ended = EndLink(conversation_id=CONVERSATION, seq=number, ended_because="x", ended_at_ms=1)
        turn = structs.replace(samples.turn(TurnId(f"trn_{name}")), opened_at_ms=opened_at_ms)
        store.commit([opened, OpenConversation(conversation=children[-1]), run, turn])
        store.commit([OpenLink(link=link), ended])
    trial.reopen()
    store = trial.store
    expected = (samples.conversation(), *children)
    assert store.conversations(PROJECT, samples.WORKSTREAM) == expected
    assert [each.workstream for each in store.workstreams(PROJECT)] == [samples.WORKSTREAM, *names]
    assert [each.run_id for each in store.runs(PROJECT, samples.WORKSTREAM)] == runs
    assert [each.turn_id for each in store.turns(CONVERSATION)][1:] == ["trn_z", "trn_a", "trn_m"]
    assert [each.seq for each in store.links(CONVERSATION)] == [1, 2, 3, 4]


def what_was_committed_is_read_at_once(trial: Trial) -> None:
    """Each read again after each commit: none answers as it did before."""
    trial.store.commit([*samples.home(), samples.run()])
    answers = [_answers(trial)]
    for number in (1, 2):
        trial.store.commit(_more(number))
        answers.append(_answers(trial))
        before, after = answers[-2:]
        assert [name for name in after if after[name] == before[name]] == []


def _more(number: int) -> list[Write]:
    """Return writes that add to all that `_answers` reads, the same kinds each time."""
    turn_id = TurnId(f"trn_{number}")
    return [
        OpenLink(link=samples.link(number + 1, f"ses_{number}")),
        samples.turn(turn_id),
        samples.said(number),
        samples.happened(number),
        samples.moved(number),
        EnqueueTransition(run_id=samples.RUN, run_seq=number, due_at_ms=10 * number),
        RecordExamined(
            conversation_id=CONVERSATION,
            turn_id=TURN,
            first_ordinal=number,
            upstream_session_id=UpstreamSessionId("ses_a"),
            files=(ExaminedFile(path="a.py", how="read", state="hashed", digest=f"{number}"),),
            recorded_at_ms=9,
        ),
        RecordBriefingEdit(conversation_id=CONVERSATION, seq=number, edit=None, recorded_at_ms=9),
        RecordAct(
            conversation_id=CONVERSATION,
            what="told",
            by_user="ada",
            detail=turn_id,
            recorded_at_ms=number,
        ),
        RecordOnce(
            project_id=PROJECT,
            key="deploy",
            attempt_id="att_1",
            state="intent" if number == 1 else "done",
            recorded_at_ms=number,
        ),
    ]


def _answers(trial: Trial) -> dict[str, object]:
    """Return what changes with each commit of `_more`."""
    store = trial.store
    lease = store.lease("spec-42")
    taken = store.acquire_lease("spec-42", samples.HOLDER, seen=lease)
    assert taken is not None
    return {
        "resolve": store.resolve(KEY),
        "links": store.links(CONVERSATION),
        "messages": store.messages(CONVERSATION),
        "newest messages": store.messages(CONVERSATION, newest=1),
        "prior_messages": store.prior_messages(
            CONVERSATION, upstream_session_ids=("ses_a",), newest=9
        ),
        "message_count": store.message_count(CONVERSATION),
        "turns": store.turns(CONVERSATION),
        "turn_events": store.turn_events(CONVERSATION, TURN),
        "run_events": store.run_events(samples.RUN),
        "examined": store.examined(CONVERSATION),
        "briefing_edit": store.briefing_edit(CONVERSATION),
        "acts": store.acts(CONVERSATION),
        "once": store.once(PROJECT, "deploy"),
        "lease": store.lease("spec-42"),
    }


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


def damage_is_named_and_never_passed_over(trial: Trial) -> None:
    """Whatever was done to one message of five, no read is shorter for it."""
    assert trial.backend.tamper is not None
    place = trial.place
    trial.store.close()
    for damage in get_args(Damage):
        trial.place = place.with_name(f"{place.name}-{damage}")
        trial.store = trial.backend.make(trial.place)
        trial.store.commit([*samples.home(), *map(samples.said, range(1, 6))])
        assert trial.store.verify(CONVERSATION) is None
        trial.store.close()
        trial.backend.tamper(trial.place, damage)
        trial.store = trial.backend.make(trial.place)
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
        trial.store.close()


_NOT_READ: Final[Mapping[Tampering, tuple[Callable[[Store], object], ...]]] = MappingProxyType(
    {
        "event changed": (lambda store: store.run_events(samples.RUN),),
        "event dropped": (lambda store: store.run_events(samples.RUN),),
        "events swapped": (lambda store: store.run_events(samples.RUN),),
        "link changed": (lambda store: store.links(CONVERSATION),),
        "link dropped": (lambda store: store.links(CONVERSATION),),
        "head changed": (
            lambda store: store.conversation(CONVERSATION),
            lambda store: store.conversations(PROJECT, samples.WORKSTREAM),
            lambda store: store.messages(CONVERSATION),
        ),
        "turn changed": (lambda store: store.turns(CONVERSATION),),
        "receipt changed": (lambda store: store.once(PROJECT, "deploy"),),
        "act changed": (lambda store: store.acts(CONVERSATION),),
        "head missing": (lambda store: store.workstream(PROJECT, samples.WORKSTREAM),),
        "tag missing": (),
    }
)


def what_was_tampered_with_is_never_read_as_recorded(trial: Trial) -> None:
    """Each way on a store of its own: what reads it raises, what does not reads on."""
    assert trial.backend.tamper is not None
    place = trial.place
    trial.store.close()
    for number, (tampering, reads) in enumerate(_NOT_READ.items()):
        trial.place = place.with_name(f"{place.name}-{number}")
        trial.store = trial.backend.make(trial.place)
        trial.store.commit([*samples.home(), samples.run(), samples.said(1)])
        trial.store.commit([samples.moved(seq) for seq in (1, 2, 3)])
        trial.store.commit([OpenLink(link=samples.link(seq, f"ses_{seq}")) for seq in (2, 3)])
        trial.store.commit([each for each in _more(1) if isinstance(each, RecordAct | RecordOnce)])
        for read in (each for them in _NOT_READ.values() for each in them):
            assert read(trial.store)
        assert not any(each.damage for each in trial.store.proofs())
        trial.store.close()
        trial.backend.tamper(trial.place, tampering)
        trial.store = trial.backend.make(trial.place)
        assert any(each.damage for each in trial.store.proofs())
        for read in reads:
            with refused(StoreError):
                read(trial.store)
        if tampering != "head changed":
            assert len(trial.store.messages(CONVERSATION)) == 1
        trial.store.close()


COMPLETENESS_PROMISES = (
    *promises(
        {
            "S7": [
                what_was_opened_comes_in_the_order_it_was_opened,
                what_was_committed_is_read_at_once,
                more_than_a_page_comes_back,
            ],
        }
    ),
    *promises(
        {
            "S9": [damage_is_named_and_never_passed_over],
            "S33": [what_was_tampered_with_is_never_read_as_recorded],
        },
        needs="tamper",
    ),
)
