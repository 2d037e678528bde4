"""Repair: a history as it was stored in, one that every provider accepts out.

Deterministic, without a clock, and idempotent: repairing a repaired history changes nothing. What
users and assistants said is never dropped. What is missing is said to be missing: a call without a
result gets "interrupted; outcome unknown", and `told_to_model` is what the model is told of it all,
also where a history is replayed as prose and needs no repair to be accepted.

A history is laid out as one line of items, each a part with who said it. Each rule is a function
from items to items; at the end neighbours become messages again. The demands match those
of pydantic-ai's repair (docs/message-history.md, seen 2026-11).
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import dropwhile, groupby
from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from upthread.core import types
from upthread.core.events import INTERRUPTED
from upthread.core.history.model import NOTES, History, HistoryMessage, made_unicode

MISSING_BEGINNING = "[The beginning of this conversation is missing.]"
CHANGES_TOLD_MAX = 20
NOBODYS = -1


class Change(Struct, frozen=True, kw_only=True):
    """One change. `rule` is the rule that made it, `place` where the part was stored."""

    rule: str
    place: str
    what: str

    def in_words(self) -> str:
        """`line 41: call c1 has no result: closed as "interrupted; outcome unknown"`."""
        return f"{self.place}: {self.what}"


class Repaired(Struct, frozen=True, kw_only=True):
    """The history made valid, and what was changed, in the order of the rules."""

    history: History
    changes: tuple[Change, ...]


class _Item(Struct, kw_only=True):
    """A part, who said it, and the message it came from. `message` is NOBODYS for one of ours."""

    speaker: types.Speaker
    part: types.Part
    message: int
    place: str


class _Work(Struct, kw_only=True):
    """What a rule works on besides the items."""

    changes: list[Change] = []

    def note(self, rule: str, item: _Item, what: str) -> None:
        self.changes.append(Change(rule=rule, place=item.place, what=what))


_Items: TypeAlias = list[_Item]


def repair(history: History) -> Repaired:
    """Return the history made valid, with the list of changes."""
    work = _Work()
    items: _Items = [
        _Item(
            speaker=_speaker_of(message.speaker, part),
            part=part,
            message=index,
            place=message.place,
        )
        for index, message in enumerate(history)
        for part in message.parts
    ]
    for rule in RULES.values():
        items = rule(items, work)
    return Repaired(history=_assembled(items), changes=tuple(work.changes))


def told_to_model(changes: Sequence[Change]) -> str:
    """Return what the model is told, empty when nothing it would miss was changed."""
    told = [change.in_words() for change in changes if change.rule in _TOLD]
    if not told:
        return ""
    more = len(told) - CHANGES_TOLD_MAX
    lines = [f"- {line}" for line in told[:CHANGES_TOLD_MAX]]
    lines += [f"- and {more} more"] if more > 0 else []
    return (
        "The record of this conversation was damaged and has been repaired. An action whose "
        "outcome is unknown may have been done: look before you do it again.\n" + "\n".join(lines)
    )


# --- the rules ---------------------------------------------------------------------------------


def _text_is_unicode(items: _Items, work: _Work) -> _Items:
    """A half of a surrogate pair has no UTF-8 form: it is shown as U+FFFD."""
    for item in items:
        part = made_unicode(item.part)
        if part is not item.part:
            item.part = part
            work.note("text_is_unicode", item, "half of a character is shown as U+FFFD")
    return items


def _call_ids_differ(items: _Items, work: _Work) -> _Items:
    """A call under an id that was used goes if it is the same call, else gets an id of its own.

    A result belongs to the earliest call before it that has none. So a second call that is equal
    and has no result of its own is the same one stored twice; any other really was a second call.
    """
    calls: dict[str, list[_Item]] = defaultdict(list)
    unanswered: dict[str, deque[_Item]] = defaultdict(deque)
    answers: dict[int, _Item] = {}  # by the call item's identity
    for item in items:
        if isinstance(item.part, types.ToolCallPart):
            calls[item.part.call_id].append(item)
            unanswered[item.part.call_id].append(item)
        elif isinstance(item.part, types.ToolResultPart) and unanswered[item.part.call_id]:
            answers[id(unanswered[item.part.call_id].popleft())] = item
    used = set(calls)
    gone: set[int] = set()
    for call_id, same in calls.items():
        for number, call in enumerate(same[1:], start=2):
            answer = answers.get(id(call))
            # Equal and answered is a second call all the same: it was carried out twice.
            if answer is None and call.part == same[0].part:
                gone.add(id(call))
                work.note("call_ids_differ", call, f"call {call_id} is stored twice: one goes")
                continue
            new_id = _unused(call_id, number, used)
            work.note("call_ids_differ", call, f"a second call {call_id} is now {new_id}")
            call.part = replace(cast("types.ToolCallPart", call.part), call_id=new_id)
            if answer is not None:
                answer.part = replace(cast("types.ToolResultPart", answer.part), call_id=new_id)
    return [item for item in items if id(item) not in gone]


def _results_have_their_call(items: _Items, work: _Work) -> _Items:
    """A result without a call before it goes, and so does a second one of the same call."""
    made: set[str] = set()
    answered: set[str] = set()
    kept: _Items = []
    for item in items:
        part = item.part
        if isinstance(part, types.ToolCallPart):
            made.add(part.call_id)
        elif isinstance(part, types.ToolResultPart):
            if part.call_id in answered:
                what = f"a second result of call {part.call_id} is taken out"
                work.note("results_have_their_call", item, what)
                continue
            if part.call_id not in made:
                what = f"a result of call {part.call_id}, which nothing made, is taken out"
                work.note("results_have_their_call", item, what)
                continue
            answered.add(part.call_id)
        kept.append(item)
    return kept


def _calls_have_their_result(items: _Items, work: _Work) -> _Items:
    """A call without a result is closed, since nobody can say any more how it ended."""
    answered = {item.part.call_id for item in items if isinstance(item.part, types.ToolResultPart)}
    closing: _Items = []
    for item in items:
        part = item.part
        if not isinstance(part, types.ToolCallPart) or part.call_id in answered:
            continue
        name = f" ({part.title})" if part.title else ""
        what = f'call {part.call_id}{name} has no result: closed as "{INTERRUPTED}"'
        work.note("calls_have_their_result", item, what)
        # Never "failed": a model does again what failed, and this may have been done.
        result = types.ToolResultPart(call_id=part.call_id, status="unknown", text=INTERRUPTED)
        # Put at the end, and in its place by the rule that orders results.
        closing.append(
            _Item(speaker=types.Speaker.TOOL, part=result, message=NOBODYS, place=item.place)
        )
    return items + closing


def _results_stand_after_their_calls(items: _Items, work: _Work) -> _Items:
    """Results come directly after the calls made together, before anything else is said."""
    results = {
        item.part.call_id: item for item in items if isinstance(item.part, types.ToolResultPart)
    }
    ordered: _Items = []
    together: dict[str, None] = {}  # calls made in one step
    is_answering = False
    for item in items:
        part = item.part
        if isinstance(part, types.ToolResultPart):
            is_answering |= part.call_id in together
            if part.call_id not in together and item.message != NOBODYS:
                what = f"the result of call {part.call_id} is put after its call"
                work.note("results_stand_after_their_calls", item, what)
            continue
        is_call = isinstance(part, types.ToolCallPart)
        if is_answering if is_call else not isinstance(part, NOTES):
            ordered += _taken(results, together)
            is_answering = False
        if isinstance(part, types.ToolCallPart):
            together[part.call_id] = None
        ordered.append(item)
    # A result whose call is missing is for another rule: nothing is dropped here.
    return [*ordered, *_taken(results, together), *results.values()]


def _taken(results: dict[str, _Item], together: dict[str, None]) -> _Items:
    """Return the results of the calls of a step, in the calls' order, and end the step."""
    taken = [results.pop(call_id) for call_id in together if call_id in results]
    together.clear()
    return taken


def _the_user_begins(items: _Items, work: _Work) -> _Items:
    """A history that was cut at its beginning says so, in the user's place."""
    first = next((item for item in items if not isinstance(item.part, NOTES)), None)
    if first is None or first.speaker is types.Speaker.USER:
        return items
    what = "the history begins with an answer: a line before it says that something is missing"
    work.note("the_user_begins", first, what)
    # A line in its place, for to drop answers until the user speaks would lose what was done.
    begun = types.TextPart(text=MISSING_BEGINNING)
    return [
        _Item(speaker=types.Speaker.USER, part=begun, message=NOBODYS, place=first.place),
        *items,
    ]


RULES = {
    "text_is_unicode": _text_is_unicode,
    # Before all rules that know a call by its id: under one id two calls would share a result.
    "call_ids_differ": _call_ids_differ,
    "results_have_their_call": _results_have_their_call,
    "calls_have_their_result": _calls_have_their_result,
    "results_stand_after_their_calls": _results_stand_after_their_calls,
    "the_user_begins": _the_user_begins,
}
"""Every rule of repair, in the order they are applied."""

# Not of a change of form: a model that is told of one looks for a fault that is none.
_TOLD = frozenset(RULES) - {"results_stand_after_their_calls"}


# --- items -------------------------------------------------------------------------------------


def _speaker_of(speaker: types.Speaker, part: types.Part) -> types.Speaker:
    """Calls and thoughts are the assistant's, results the tools', wherever they were stored."""
    if isinstance(part, types.ToolResultPart):
        return types.Speaker.TOOL
    if (
        isinstance(part, types.ToolCallPart | types.ReasoningPart)
        or speaker is not types.Speaker.USER
    ):
        return types.Speaker.ASSISTANT
    return types.Speaker.USER


def _assembled(items: _Items) -> History:
    """Return items as messages again."""
    groups = groupby(items, key=lambda item: (item.speaker, item.message))
    members = [[*group] for _, group in groups]
    return tuple(
        HistoryMessage(
            speaker=each[0].speaker, parts=tuple(item.part for item in each), place=each[0].place
        )
        for each in members
    )


def _unused(call_id: str, number: int, used: set[str]) -> str:
    """Return `call_id~number`, or the next number that is free, and take it."""
    while f"{call_id}~{number}" in used:
        number += 1
    used.add(f"{call_id}~{number}")
    return f"{call_id}~{number}"


def damage_told(newest: Sequence[HistoryMessage]) -> str:
    """Return the words for what repair would change, empty for a sound history.

    `newest` may begin anywhere: what comes before the first message of a user is left out, since
    the calls it belongs to may lie further back.
    """
    # Else a result whose call lies further back would be told as one that nothing made.
    messages = tuple(dropwhile(lambda message: message.speaker is not types.Speaker.USER, newest))
    return told_to_model(repair(messages).changes)
