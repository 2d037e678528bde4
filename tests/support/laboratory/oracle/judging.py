"""Judging: what was seen from outside, held against what the program says of itself.

Pure, and written from docs/json.md alone. The evidence is what `audit` and `show` printed, and the
steps a passage has when nothing goes wrong. A fault is a sentence; none means: no acknowledged
message lost, no outcome doubled, no outward effect doubled, nothing left open.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

UNFINISHED = frozenset({"running", "parked", "interrupted"})
"""The states of a role whose last turn has not come to its end by itself."""


def judge(journal: Sequence[Json], evidence: Json) -> dict[str, Any]:
    """Return `faults`, a list of sentences, and `counts`, figures by name."""
    record = Record(evidence["audit"])
    faults = [
        *lost(_of(journal, "acknowledged"), record),
        *doubled(record),
        *doubled_effects(_of(journal, "effect")),
        *misplaced_prompts(_of(journal, "prompt"), record),
        *continued_unasked(len(_of(journal, "go_on")), record),
        *left_open(evidence["show"], record),
        *other_steps(record, evidence["steps"], may_repeat=evidence["may_repeat"]),
    ]
    return {"faults": faults, "counts": counts(journal, record)}


class Record:
    """What an audit says, read."""

    def __init__(self, audit: Json) -> None:
        self.is_intact: bool = audit["integrity"]["is_intact"]
        self.conversations: list[Json] = audit["conversations"]
        self.runs: list[Json] = audit["runs"]
        self.turns: dict[str, Json] = {
            turn["turn_id"]: turn
            for conversation in self.conversations
            for turn in conversation["turns"]
        }

    def run_events(self, kind: str) -> list[Json]:
        """Return the events of one kind of all runs, oldest first."""
        return [event for run in self.runs for event in run["events"] if event["kind"] == kind]

    def turn_events(self, kind: str) -> list[Json]:
        """Return the events of one kind of all turns."""
        return [each for turn in self.turns.values() for each in turn_events(turn, kind)]


def turn_events(turn: Json, kind: str) -> list[Json]:
    return [event for event in turn["events"] if event["kind"] == kind]


# --- nothing lost ------------------------------------------------------------------------------


def lost(acknowledged: Iterable[Json], record: Record) -> Iterator[str]:
    """What somebody was told, and the record does not say."""
    for each in acknowledged:
        if fault := LOST[each["what"]](each["line"], record):
            yield f"acknowledged and lost: {fault}"


def _lost_prompt(line: Json, record: Record) -> str:
    """A turn was begun: what the user said is there."""
    turn = record.turns.get(line["turn_id"])
    if turn is None:
        return f"the turn {line['turn_id']}"
    is_kept = any(_said(message) for message in turn["messages"] if message["speaker"] == "user")
    return "" if is_kept else f"the prompt of {line['turn_id']}"


def _lost_outcome(line: Json, record: Record) -> str:
    """A turn ended or was parked: its outcome and its reply are there."""
    turn = record.turns.get(line["turn_id"])
    if turn is None:
        return f"the turn {line['turn_id']}"
    if line["outcome"] is None:
        reasons = [event["reason"] for event in turn_events(turn, "turn_parked")]
        return "" if line["parked"]["reason"] in reasons else f"that {line['turn_id']} was parked"
    replies = "".join(_said(each) for each in turn["messages"] if each["speaker"] == "assistant")
    if turn["outcome"] != line["outcome"]:
        return f"the outcome {line['outcome']} of {line['turn_id']}, it says {turn['outcome']}"
    return "" if _folded(line["reply"]) in replies else f"the reply of {line['turn_id']}"


def _lost_questions(line: Json, record: Record) -> str:
    asked = {
        (each["question_id"], each["text"])
        for event in record.run_events("questions_asked")
        for each in event["questions"]
    }
    missing = [each["id"] for each in line["questions"] if (each["id"], each["text"]) not in asked]
    return f"the questions {missing}" if missing else ""


def _lost_answer(line: Json, record: Record) -> str:
    given = [(each["question_id"], each["text"]) for each in record.run_events("question_answered")]
    return "" if (line["question_id"], line["text"]) in given else f"the answer {line}"


def _lost_approval(line: Json, record: Record) -> str:
    ends = [each["status"] for each in record.run_events("run_ended")]
    return "" if line["status"] in ends else f"that the run was {line['status']}"


LOST: Mapping[str, Callable[[Json, Record], str]] = {
    "prompt": _lost_prompt,
    "outcome": _lost_outcome,
    "questions": _lost_questions,
    "answer": _lost_answer,
    "end": _lost_approval,
}
"""By what was acknowledged: what is lost of it, empty when nothing is."""


# --- nothing doubled ---------------------------------------------------------------------------


def doubled(record: Record) -> Iterator[str]:
    """Outcomes, answers, calls and results that are recorded more than once."""
    ends = {name: len(turn_events(turn, "turn_ended")) for name, turn in record.turns.items()}
    yield from _more_than_one("ends of the turn", ends)
    for kind, name in (
        ("step_started", "turn_id"),
        ("step_ended", "turn_id"),
        ("question_answered", "question_id"),
        ("run_ended", "status"),
    ):
        yield from _more_than_one(f"{kind} of", Counter(e[name] for e in record.run_events(kind)))
    for kind in ("tool_call", "tool_result"):
        yield from _more_than_one(f"{kind} of", Counter(_call_ids(record, kind)))


def doubled_effects(effects: Iterable[Json]) -> Iterator[str]:
    """Actions on the world that were done more than once."""
    yield from _more_than_one("outward effects", Counter(each["key"] for each in effects))


def _call_ids(record: Record, kind: str) -> list[str]:
    messages = (m for turn in record.turns.values() for m in turn["messages"])
    return [p["call_id"] for message in messages for p in message["parts"] if p["kind"] == kind]


def _more_than_one(what: str, counted: Mapping[str, int]) -> Iterator[str]:
    for name, count in counted.items():
        if count > 1:
            yield f"doubled: {count} {what} {name}"


# --- what the agents received ------------------------------------------------------------------


def misplaced_prompts(prompts: Sequence[Json], record: Record) -> Iterator[str]:
    """Prompts that arrived too often or without a record, and replies to none."""
    arrived = Counter((each["session_id"], _folded(each["text"])) for each in prompts)
    for (session_id, text), count in arrived.items():
        allowed = _prompts_of_session(record, session_id)
        if count > max(allowed[text], 1):
            yield f"doubled: a prompt came {count} times to {session_id}: {text[:80]}"
        if text not in allowed:
            yield f"unrecorded: a prompt to {session_id}: {text[:80]}"
    sessions = {each["session_id"] for each in prompts}
    for turn_id, turn in record.turns.items():
        if turn["outcome"] == "ok" and turn["upstream_session_id"] not in sessions:
            yield f"the turn {turn_id} has an outcome, and its session never had a prompt"


def _prompts_of_session(record: Record, session_id: str) -> Counter[str]:
    """Return the recorded prompts of a session, and how often each may arrive.

    A prompt with words of its own arrives once. A continuation is context alone: the same one may
    arrive as often as it is recorded, and at most once for each interruption of its turn.
    """
    found: Counter[str] = Counter()
    for turn in record.turns.values():
        if session_id not in _sessions_of(turn):
            continue
        interrupted = sum(e.get("recognition") == "incomplete" for e in turn["events"])
        for message in turn["messages"]:
            context = "".join(p["text"] for p in message["parts"] if p["kind"] == "context")
            said = _said(message)
            text = _folded(context) + said
            found[text] = 1 if said else min(found[text] + 1, max(interrupted, 1))
    return found


def _sessions_of(turn: Json) -> set[str]:
    """The session a turn ended in, and those it had to leave."""
    attached = {each["upstream_session_id"] for each in turn_events(turn, "session_attached")}
    return {turn["upstream_session_id"], *attached}


def continued_unasked(said: int, record: Record) -> Iterator[str]:
    """Turns that were parked, or whose history nobody read, and continued without a person."""
    events = (event for turn in record.turns.values() for event in turn["events"])
    words = [each.get("how") or each.get("recognition") or each["kind"] for each in events]
    pairs = Counter(itertools.pairwise(words))
    for pair in (("turn_parked", "recovery_started"), ("resumed", "incomplete")):
        if pairs[pair] > said:
            yield f"unasked: {pair} came {pairs[pair]} times, and a person said to go on {said}"


# --- nothing left open -------------------------------------------------------------------------


def left_open(show: Json, record: Record) -> Iterator[str]:
    """What is not at its end, and what the record itself finds wrong."""
    if not record.is_intact:
        yield "the record does not verify"
    if record.runs and show["status"] != "approved":
        yield f"the run has not ended: {show['status']}"
    yield from (f"the question {each['id']} is open" for each in show["open_questions"])
    for role in show["roles"]:
        if role["state"] in UNFINISHED:
            yield f"{role['address']} is {role['state']}"
    for turn_id, turn in record.turns.items():
        if turn["state"] != "ended":
            yield f"the turn {turn_id} is {turn['state']}"
        yield from _not_parked(turn)


def _not_parked(turn: Json) -> Iterator[str]:
    """What cannot be told apart is parked at once, before anything else is done."""
    events = turn["events"]
    for event, following in zip(events, [*events[1:], {"kind": "nothing"}], strict=True):
        if event.get("recognition") == "undecidable" and following["kind"] != "turn_parked":
            yield f"the turn {turn['turn_id']} is undecidable, then came {following['kind']}"


def other_steps(
    record: Record, expected: Sequence[Sequence[str]], *, may_repeat: bool
) -> Iterator[str]:
    """Steps that ended well, held against those of a passage in which nothing goes wrong.

    A step that says it is blocked is no progress: the run parks, and the step is run again. Where
    it could not be told whether a prompt had arrived, a person may be asked the same again. Nothing
    is expected where a role had to go on without its own history: it may see things anew.
    """
    if not expected:
        return
    steps = [
        [each["role"], _word(each["report"])]
        for each in record.run_events("step_ended")
        if each["outcome"] == "ok"
    ]
    progress = [each for each in steps if each[1] != "blocked"]
    if may_repeat:
        progress = [step for step, _ in itertools.groupby(progress)]
    if progress != [list(each) for each in expected]:
        yield f"the steps are {steps}"


def _word(report: Json | None) -> str:
    if report is None:
        return "no report"
    return str(report["verdict"]["result"] if report["verdict"] else report["status"])


# --- figures -----------------------------------------------------------------------------------


def counts(journal: Sequence[Json], record: Record) -> dict[str, Any]:
    """Return what there was, for people to read."""
    parked = Counter(event["reason"] for event in record.turn_events("turn_parked"))
    recognised = Counter(e["recognition"] for e in record.turn_events("prompt_recognised"))
    return {
        "turns": len(record.turns),
        "prompts": len(_of(journal, "prompt")),
        "effects": len(_of(journal, "effect")),
        "acknowledged": len(_of(journal, "acknowledged")),
        "parked": dict(parked),
        "recognised": dict(recognised),
        "adopted": sum(event["adopted"] for event in record.turn_events("turn_ended")),
    }


# --- shared ------------------------------------------------------------------------------------


def _of(journal: Iterable[Json], event: str) -> list[Json]:
    return [entry for entry in journal if entry["event"] == event]


def _said(message: Json) -> str:
    return _folded("".join(p["text"] for p in message["parts"] if p["kind"] == "text"))


def _folded(text: str) -> str:
    """Return text without white space: paragraphs are set differently here and there."""
    return "".join(text.split())
