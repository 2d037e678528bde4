"""What of a write is written down, by what is to be recorded."""

import hashlib
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct, structs

from upthread.core import commands, record_policy
from upthread.core.agents import Actor
from upthread.core.codec import encode_json
from upthread.core.decision.freshness import UNNAMED, ExaminedFile
from upthread.core.events import (
    AnswerSuggested,
    AttachFailed,
    PromptSent,
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    SessionAttached,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.record_policy import forgotten, kept, stays_as_it_is, strictest, without_text
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import (
    CHILD_SLOT,
    ContextPart,
    ConversationId,
    ConversationKey,
    ErasedPart,
    FilePart,
    Outcome,
    Part,
    ProjectId,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.testing.store_conformance import samples

REDACTOR = Redactor(b"k" * 32)
SECRET = "ghp_" + "a1B2" * 9
HIDDEN = REDACTOR.redact(SECRET)
DIGEST = hashlib.sha256(b"said").digest()
TURN, RUN, OWN = samples.TURN, samples.RUN, samples.CONVERSATION

PARTS = (
    TextPart(text=SECRET),
    ContextPart(text=SECRET),
    ReasoningPart(text=SECRET),
    ToolCallPart(
        call_id="c1",
        title=SECRET,
        tool_kind="execute",
        arguments={"command": SECRET},
        locations=(SECRET,),
    ),
    ToolResultPart(call_id="c1", status="completed", text=SECRET),
    FilePart(uri=f"https://x/{SECRET}"),
    UnknownPart(kind="plan", raw=[SECRET]),
    ErasedPart(kind="text"),
)
REPORT = {"status": "done", "summary": SECRET, "verdict": {"result": "approved", "evidence": []}}
OUTLINE = {"status": "done", "verdict": {"result": "approved"}}
QUESTION = Question(question_id="q1", role="planner", text=SECRET)
ASKED = QuestionsAsked(role="planner", questions=(QUESTION,))
LOST = Outcome.MISSING

EVENTS = (
    (AttachFailed(upstream_session_id=None, outcome=LOST, detail=SECRET), {"detail": ""}),
    (TurnParked(reason="undecidable", detail=SECRET), {"detail": ""}),
    (ASKED, {"questions": (structs.replace(QUESTION, text=""),)}),
    (QuestionAnswered(question_id="q1", text=SECRET), {"text": ""}),
    (AnswerSuggested(question_id="q1", text=SECRET, by=Actor(kind="model")), {"text": ""}),
    (RunParked(reason="blocked", detail=SECRET), {"detail": ""}),
    (RunResumed(because=SECRET), {"because": ""}),
    (RunEnded(status="approved", evidence=(SECRET, "seen")), {"evidence": ()}),
)
"""Events with text, and what is left of it; what was configured or measured stays."""


def recorded(*parts: Part):
    return samples.said(1, *parts)


def happened(event):
    return samples.happened(1, event)


def quarantined(reason, raw):
    return structs.replace(samples.stray(raw=raw), reason=reason)


def examined(session, *files: ExaminedFile):
    return samples.examined(0, *files, session=session)


def moved(event):
    return samples.moved(1, event)


def test_full_keeps_a_write_as_it_is():
    write = recorded(*PARTS)
    assert kept(write, "full", REDACTOR) is write


def test_redacted_keeps_all_but_the_secrets():
    stored = kept(recorded(*PARTS), "redacted", REDACTOR)
    assert SECRET not in repr(stored)
    assert repr(stored).count(HIDDEN) == 9
    assert [type(part) for part in stored.parts] == [type(part) for part in PARTS]
    assert stored.parts[3].arguments == {"command": HIDDEN}


GIVEN = (
    ToolCallPart(call_id=SECRET, title="Run", tool_kind=SECRET),
    ToolResultPart(call_id=SECRET, status=SECRET, text=""),
    FilePart(uri="file:///a", mime_type=SECRET),
    UnknownPart(kind=SECRET, raw=None),
)
LINK = structs.replace(
    samples.link(),
    upstream_session_id=UpstreamSessionId(SECRET),
    agent_version=SECRET,
)
CALLED = structs.replace(
    samples.conversation(parent=ConversationId("parent")), parent_call_id=SECRET
)


def given_by_an_agent():
    """Writes with everything short that an agent gives: ids, kinds, versions, codes."""
    session = UpstreamSessionId(SECRET)
    attached = SessionAttached(upstream_session_id=session, how="new", agent="acme")
    failed = AttachFailed(upstream_session_id=session, outcome=LOST, detail="")
    inputs = {"agent_version": SECRET}
    intended = TurnIntended(decision="resume", reasons=(), prompt_seq=1, inputs=inputs)
    return (
        structs.replace(recorded(*GIVEN), upstream_session_id=session),
        commands.OpenLink(link=LINK),
        commands.OpenConversation(conversation=CALLED),
        commands.EndLink(conversation_id=OWN, seq=1, ended_because=SECRET, ended_at_ms=1),
        commands.RecordAct(what="adopted", by_user="a", recorded_at_ms=1, detail=SECRET),
        commands.RecordAct(what="told", by_user=f"a (model: {SECRET})", recorded_at_ms=1),
        examined(session),
        quarantined(SECRET, None),
        *map(happened, (attached, failed, intended)),
        happened(TurnEnded(outcome=Outcome.OK, surroundings=inputs)),
    )


@pytest.mark.parametrize("mode", ["redacted", "index"])
def test_nothing_an_agent_gives_is_too_short_to_be_looked_at(mode):
    for write in given_by_an_agent():
        stored = kept(write, mode, REDACTOR)
        assert SECRET not in repr(stored), write
        assert HIDDEN in repr(stored), write


def test_one_look_sees_what_an_agent_gives():
    for write in given_by_an_agent():
        assert not stays_as_it_is([write], REDACTOR), write


def test_an_id_that_looks_like_a_secret_is_the_same_placeholder_wherever_it_stands():
    call, result = kept(recorded(*GIVEN[:2]), "redacted", REDACTOR).parts
    link = kept(commands.OpenLink(link=LINK), "redacted", REDACTOR).link
    assert call.call_id == result.call_id == link.upstream_session_id == HIDDEN


PLAIN = (
    TextPart(text="plain"),
    ToolCallPart(
        call_id="c1",
        title="Run",
        tool_kind="execute",
        arguments={"command": ["ls", 1, None, {"token": 7, "n": "x"}]},
        locations=("a.py",),
    ),
    ToolResultPart(call_id="c1", status="completed", text="a.py"),
    FilePart(uri="file:///a.py"),
    UnknownPart(kind="plan", raw=["x"]),
    ErasedPart(kind="text"),
)


def test_one_look_tells_that_nothing_of_a_batch_changes():
    sent = happened(PromptSent(prompt_seq=1))
    digest = hashlib.sha256(b"instructions").hexdigest()
    report = {"status": "done", "tree": digest}
    ended = happened(TurnEnded(outcome=Outcome.OK, report=report, detail=""))
    opened = commands.OpenTurn(turn_id=TURN, conversation_id=OWN, opened_at_ms=1)
    told = commands.RecordAct(what="told", by_user="ada@host", recorded_at_ms=1, detail=TURN)
    assert stays_as_it_is([opened, recorded(*PLAIN), sent, ended, told], REDACTOR)
    for write in (recorded(PLAIN[0]), sent, ended, told):
        assert kept(write, "redacted", REDACTOR) is write, "and so says each by itself"
    assert stays_as_it_is([], REDACTOR)


NAMED = {"password": "plain"}
"""A member whose name may make it a secret."""

NOT_PASSED = {
    "a secret in a report": happened(TurnEnded(outcome=Outcome.OK, report=REPORT)),
    "a secret in a detail": happened(TurnEnded(outcome=Outcome.OK, report=None, detail=SECRET)),
    "what it does not know": moved(RunResumed(because="plain")),
    "a member of arguments": recorded(
        ToolCallPart(call_id="c1", title="t", tool_kind="other", arguments=NAMED)
    ),
    "a member of the unknown": recorded(UnknownPart(kind="plan", raw=[NAMED])),
    "a member of a report": happened(TurnEnded(outcome=Outcome.OK, report=NAMED)),
}


@pytest.mark.parametrize("write", NOT_PASSED.values(), ids=NOT_PASSED)
def test_one_look_passes_no_event_with_a_secret_and_nothing_that_may_be_one(write):
    assert not stays_as_it_is([recorded(*PLAIN), write], REDACTOR)


def test_index_keeps_kind_size_and_digest_and_no_text():
    stored = kept(recorded(*PARTS), "index", REDACTOR)
    assert SECRET not in repr(stored)
    for part, outline in zip(PARTS[:-1], stored.parts[:-1], strict=True):
        content = encode_json(part)
        assert isinstance(outline, ErasedPart)
        assert f'{{"type":"{outline.kind}"'.encode() in content
        assert outline.call_id == getattr(part, "call_id", None)
        assert outline.size_bytes == len(content)
        assert outline.digest == REDACTOR.digest(content)
    assert stored.parts[-1] is PARTS[-1]


def test_events_lose_their_secrets_or_their_text():
    told = {
        TurnEnded: TurnEnded(outcome=Outcome.OK, report=REPORT, detail=SECRET),
        StepEnded: StepEnded(
            role="planner", turn_id=TURN, outcome=Outcome.OK, report=REPORT, report_error=SECRET
        ),
        RunStarted: RunStarted(specification=SECRET, pipeline={"steps": [SECRET]}),
    }
    for event in told.values():
        assert SECRET not in repr(kept(moved(event), "redacted", REDACTOR))
    assert kept(happened(told[TurnEnded]), "index", REDACTOR).event == structs.replace(
        told[TurnEnded], report=OUTLINE, detail=""
    )
    assert without_text(told[StepEnded]) == structs.replace(
        told[StepEnded], report=OUTLINE, report_error=""
    )
    assert without_text(told[RunStarted]) == structs.replace(told[RunStarted], specification="")


@pytest.mark.parametrize(("event", "blanks"), EVENTS, ids=lambda each: type(each).__name__)
def test_each_event_with_text_is_known(event, blanks):
    assert SECRET not in repr(kept(moved(event), "redacted", REDACTOR))
    assert without_text(event) == structs.replace(event, **blanks)


CODES = frozenset(
    {"decision", "reasons", "condition", "reason", "status", "outcome", "how", "recognition"}
    | {
        "role",
        "agent",
        "agents",
        "agent_host",
        "agent_profile",
        "holder",
        "question_id",
        "turn_id",
        "told",
        "key",
    }
    | {"prior_digest", "tree_digest", "input_digest", "session_stamp"}
    | {"failed_before"}
)
"""What we or a configuration name, and digests: no text of anybody's."""


def holding(secret, kind):
    """An event of this kind that has a secret wherever a text fits."""

    def value(type_):
        arguments = get_args(type_)
        if type_ is str or (str in arguments and get_origin(type_) in {Union, UnionType}):
            return secret
        if get_origin(type_) is tuple:
            return (value(arguments[0]),)
        if get_origin(type_) is Mapping:
            return {"planner": value(arguments[1])}
        asked, model = structs.replace(QUESTION, text=secret), Actor(kind="model", name=secret)
        known = {Outcome: Outcome.OK, Question: asked, int: 1, bool: False, Actor: model}
        return next((known[each] for each in (type_, *arguments) if each in known), None)

    return kind(**{each.name: value(each.type) for each in structs.fields(kind)})


PLAIN_WORDS = "plain words"
BOTH_MODES = pytest.mark.parametrize(
    ("mode", "text"), [("redacted", SECRET), ("index", PLAIN_WORDS)]
)


@BOTH_MODES
@pytest.mark.parametrize("kind", [*get_args(TurnEvent), *get_args(RunEvent)])
def test_a_text_of_an_event_is_not_kept_unless_it_is_known_to_be_a_code(kind, mode, text):
    stored = kept(moved(holding(text, kind)), mode, REDACTOR).event
    told = {each.name for each in structs.fields(kind) if text in repr(getattr(stored, each.name))}
    assert told <= CODES | LEFT[mode], "what may hold a secret belongs into core/record_policy.py"


IDS_CODES_AND_NAMES = frozenset(
    {"project_id", "conversation_id", "turn_id", "run_id", "parent_conversation_id", "attempt_id"}
    | {"child_conversation_id", "workstream", "base_name", "role", "agent", "working_directory"}
    | {"agent_profile"}
    | {"path", "root_commit", "remote", "owner", "queue", "what", "state", "how", "digest", "key"}
    | {"decision", "reasons", "speaker"}
)
"""What we make, and what people name: no text of an agent's."""

LEFT = {
    "redacted": frozenset[str](),
    "index": frozenset(
        {"inputs", "receipt", "reason", "opened_because", "ended_because", "kind", "detail"}
        | {"upstream_session_id", "agent_version", "call_id", "parent_call_id"}
        | {"by_user", "by", "answered_by"}
    ),
}
"""What `index` keeps besides: facts of a decision, receipts, ids of an agent's, and who did it."""

WRITES = [
    each
    for each in get_args(commands.Write)
    if each not in {commands.RecordTurnEvent, commands.RecordRunEvent, commands.RecordParts}
]
"""But those that hold one of many kinds: each of these is tried by itself."""


def with_secrets(record, text):
    """A record of this type that has a text wherever one fits, in records inside it too."""
    hints = get_type_hints(record)
    return record(**{name: secret_of(type_, text) for name, type_ in hints.items()})


def secret_of(type_, text):
    inner = get_args(type_)
    if get_origin(type_) is tuple:
        return (secret_of(inner[0], text),)
    if type_ is commands.JsonValue or str in inner or get_origin(type_) is Literal:
        return text
    wanted = next((each for each in inner if each is not type(None)), type_)
    if is_dataclass(wanted) or issubclass(getattr(wanted, "__supertype__", wanted), Struct):
        return with_secrets(wanted, text)
    of = getattr(wanted, "__supertype__", wanted)
    return text if issubclass(of, str) else DIGEST if of is bytes else of(1)


def places_of(text, record):
    """Return the names of the innermost fields that hold a text."""
    found = set()
    for name in get_type_hints(type(record)):
        value = getattr(record, name)
        for each in value if isinstance(value, tuple) else (value,):
            is_record = is_dataclass(each) or isinstance(each, Struct)
            found |= places_of(text, each) if is_record else {name} if each == text else set()
    return found


@BOTH_MODES
@pytest.mark.parametrize("kind", WRITES, ids=lambda kind: kind.__name__)
def test_a_text_of_a_write_is_not_kept_unless_it_is_known_to_be_an_id_a_code_or_a_name(
    kind, mode, text
):
    left = places_of(text, kept(with_secrets(kind, text), mode, REDACTOR))
    assert left <= IDS_CODES_AND_NAMES | LEFT[mode], "scrub it, or name it above"


@BOTH_MODES
@pytest.mark.parametrize("kind", get_args(Part), ids=lambda kind: kind.__name__)
def test_a_text_of_a_part_is_not_kept_unless_it_is_known_to_be_an_id(kind, mode, text):
    write = recorded(with_secrets(kind, text))
    assert stays_as_it_is([write], REDACTOR) == (text == PLAIN_WORDS)
    left = places_of(text, kept(write, mode, REDACTOR))
    assert left <= {"child_conversation_id"} | LEFT[mode]


def test_a_report_that_is_none_leaves_nothing():
    for report, left in (
        (None, None),
        ("text", ""),
        ({"status": SECRET, "verdict": "odd"}, {"status": None, "verdict": None}),
        ({"status": "done", "verdict": {"result": SECRET}}, {"status": "done", "verdict": None}),
    ):
        assert without_text(TurnEnded(outcome=Outcome.OK, report=report)).report == left


def test_one_role_is_forgotten_with_the_answers_to_it():
    other = structs.replace(QUESTION, question_id="q2", role="auditor")
    events = (
        StepStarted(role="planner", turn_id=TURN),
        ASKED,
        QuestionsAsked(role="auditor", questions=(other,)),
        QuestionAnswered(question_id="q1", text=SECRET),
        QuestionAnswered(question_id="q2", text=SECRET),
    )
    left = forgotten(events, "planner")
    assert (left[0], left[2], left[4]) == (events[0], events[2], events[4])
    assert SECRET not in repr((left[1], left[3]))
    assert SECRET not in repr(forgotten(events, None))


def test_what_belongs_to_no_message_is_kept_likewise():
    stray = quarantined("no session id", {"text": SECRET})
    assert kept(stray, "index", REDACTOR) == structs.replace(stray, raw=None)
    refused = commands.RecordDecision(
        conversation_id=OWN, decision="refuse", reasons=(), inputs={"a": SECRET}, decided_at_ms=1
    )
    once = commands.RecordOnce(
        project_id=ProjectId("prj"),
        key="k",
        attempt_id="att",
        state="done",
        recorded_at_ms=1,
        receipt={"id": 7, "token": SECRET},
    )
    read = examined("ses", ExaminedFile(path=SECRET, how="read", state="missing"))
    edited = commands.RecordBriefingEdit(
        conversation_id=OWN, seq=1, edit={"note": SECRET}, recorded_at_ms=1
    )
    assert kept(read, "index", REDACTOR) == structs.replace(read, files=(UNNAMED,))
    assert kept(edited, "index", REDACTOR) == structs.replace(edited, edit={})
    for write in (quarantined, refused, once, read, edited):
        assert SECRET not in repr(kept(write, "redacted", REDACTOR))
    assert kept(once, "index", REDACTOR).receipt["id"] == 7


def test_a_childs_role_is_an_agents_word_and_any_other_a_name():
    def opened(slot, role):
        key = ConversationKey(project_id=ProjectId("p"), workstream="w", role=role, slot=slot)
        return commands.OpenConversation(
            conversation=structs.replace(CALLED, key=key, parent_call_id=None)
        )

    child = kept(opened(CHILD_SLOT, SECRET), "redacted", REDACTOR)
    assert child.conversation.key.role == HIDDEN
    for write in (opened(CHILD_SLOT, "explore"), opened(1, SECRET)):
        assert kept(write, "redacted", REDACTOR) is write


def test_the_strictest_mode_records_least():
    assert strictest("full", "index", "redacted") == "index"
    assert strictest("full", "redacted") == "redacted"


def test_a_receipt_of_a_prompt_to_the_conversation_loses_its_words_and_keeps_its_ids():
    receipt = {"conversation_id": "con_a", "reply": "hello"}
    assert record_policy.left_of_receipt(receipt) == {"conversation_id": "con_a"}
    assert record_policy.left_of_receipt([1]) is None
    assert record_policy.left_of_receipt({"conversation_id": 7}) is None
