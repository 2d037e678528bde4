"""Values to write: small, named, the same in every promise."""

from msgspec.structs import replace

from upthread.core import types
from upthread.core.commands import (
    EndLink,
    OnceState,
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    OpenWorkstream,
    RecordAct,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordOnce,
    RecordParts,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.events import PromptSent, RunEvent, RunStarted, TurnEvent
from upthread.store.base import Store
from upthread.store.reads import Resolved

PROJECT = types.ProjectId("prj_one")
WORKSTREAM = "spec-42"
CONVERSATION = types.ConversationId("con_one")
TURN = types.TurnId("trn_one")
RUN = types.RunId("run_one")
KEY = types.ConversationKey(project_id=PROJECT, workstream=WORKSTREAM, role="planner")
HOLDER = types.Holder(
    host="build-3", boot_id="boot", pid=4711, started_at_ticks=99, doing="run spec-42"
)
CALL_HOLDER = replace(HOLDER, doing="a call", call=types.TurnId("trn_call"))
OTHER_HOLDER = types.Holder(host="build-4", boot_id="boot", pid=12, started_at_ticks=7)


def workstream(
    name: str = WORKSTREAM, *, base_name: str = "Kael", project_id: types.ProjectId = PROJECT
) -> OpenWorkstream:
    """Open a workstream."""
    return OpenWorkstream(
        project_id=project_id, workstream=name, base_name=base_name, opened_at_ms=1_000
    )


def conversation(
    conversation_id: types.ConversationId = CONVERSATION,
    *,
    key: types.ConversationKey = KEY,
    generation: int = 1,
    base_name: str = "Kael",
    parent: types.ConversationId | None = None,
) -> types.Conversation:
    """Return a conversation, the planner's unless said otherwise."""
    return types.Conversation(
        conversation_id=conversation_id,
        key=key,
        generation=generation,
        base_name=base_name,
        opened_at_ms=2_000,
        parent_conversation_id=parent,
        parent_call_id=None if parent is None else "call_1",
    )


def sibling_key(slot: int = types.MAIN_SLOT, role: str = "planner") -> types.ConversationKey:
    """Return another key of the same workstream."""
    return types.ConversationKey(project_id=PROJECT, workstream=WORKSTREAM, role=role, slot=slot)


def link(
    seq: int = 1, upstream: str = "ses_a", *, owner: types.ConversationId = CONVERSATION
) -> types.Link:
    """Return a link that is open."""
    return types.Link(
        conversation_id=owner,
        seq=seq,
        upstream_session_id=types.UpstreamSessionId(upstream),
        agent="rehearsal",
        agent_version="1.0",
        working_directory="/srv/project",
        opened_because="first",
        opened_at_ms=3_000,
        agent_profile="CODEX_HOME=/srv/codex",
        chose_profile=True,
    )


def turn(turn_id: types.TurnId = TURN, *, owner: types.ConversationId = CONVERSATION) -> OpenTurn:
    """Open a turn."""
    return OpenTurn(turn_id=turn_id, conversation_id=owner, opened_at_ms=4_000)


def home() -> list[Write]:
    """Open a workstream, a conversation, a link and a turn: what messages need."""
    return [
        workstream(),
        OpenConversation(conversation=conversation()),
        OpenLink(link=link()),
        turn(),
    ]


def said(
    seq: int,
    *parts: types.Part,
    first_ordinal: int = 0,
    speaker: types.Speaker = types.Speaker.USER,
    owner: types.ConversationId = CONVERSATION,
    turn_id: types.TurnId = TURN,
    durability: types.Durability = types.Durability.PROCESS,
) -> RecordParts:
    """Record parts of a message, the words "message <seq>" unless given."""
    return RecordParts(
        conversation_id=owner,
        seq=seq,
        first_ordinal=first_ordinal,
        speaker=speaker,
        turn_id=turn_id,
        upstream_session_id=types.UpstreamSessionId("ses_a"),
        recorded_at_ms=5_000,
        parts=parts or (types.TextPart(text=f"message {seq}"),),
        durability=durability,
    )


def happened(
    seq: int,
    event: TurnEvent | None = None,
    *,
    owner: types.ConversationId = CONVERSATION,
    turn_id: types.TurnId = TURN,
) -> RecordTurnEvent:
    """Record a turn event."""
    return RecordTurnEvent(
        conversation_id=owner,
        turn_id=turn_id,
        seq=seq,
        event=event or PromptSent(prompt_seq=seq),
        recorded_at_ms=6_000,
    )


def run(run_id: types.RunId = RUN) -> OpenRun:
    """Open a run."""
    return OpenRun(run_id=run_id, project_id=PROJECT, workstream=WORKSTREAM, opened_at_ms=7_000)


def moved(seq: int, event: RunEvent | None = None, *, run_id: types.RunId = RUN) -> RecordRunEvent:
    """Record a run event."""
    event = event or RunStarted(specification=f"specification {seq}", pipeline={"steps": ["plan"]})
    return RecordRunEvent(run_id=run_id, seq=seq, event=event, recorded_at_ms=8_000)


def end_of(
    seq: int = 1, because: str = "missing", *, owner: types.ConversationId = CONVERSATION
) -> EndLink:
    """End a link."""
    return EndLink(conversation_id=owner, seq=seq, ended_because=because, ended_at_ms=9)


def stray(
    ordinal: int = 0,
    raw: types.JsonValue = None,
    *,
    owner: types.ConversationId = CONVERSATION,
    turn_id: types.TurnId = TURN,
) -> RecordQuarantine:
    """Keep an event without an owner."""
    return RecordQuarantine(
        conversation_id=owner,
        turn_id=turn_id,
        ordinal=ordinal,
        reason="whose \ud800?",
        raw=raw,
        recorded_at_ms=9_000,
    )


def refusal(
    inputs: types.JsonValue = None,
    at_ms: int = 9_000,
    *,
    owner: types.ConversationId = CONVERSATION,
) -> RecordDecision:
    """Keep a decision that led to no turn."""
    return RecordDecision(
        conversation_id=owner,
        decision="refuse",
        reasons=("busy", "\0"),
        inputs=inputs,
        decided_at_ms=at_ms,
    )


def examined(
    first_ordinal: int,
    *files: ExaminedFile,
    owner: types.ConversationId = CONVERSATION,
    session: str = "ses_a",
    turn_id: types.TurnId = TURN,
) -> RecordExamined:
    """Keep files as a session knows them."""
    return RecordExamined(
        conversation_id=owner,
        turn_id=turn_id,
        first_ordinal=first_ordinal,
        upstream_session_id=types.UpstreamSessionId(session),
        files=files,
        recorded_at_ms=9_000,
    )


def edit(
    seq: int, edit: types.JsonValue = None, *, owner: types.ConversationId = CONVERSATION
) -> RecordBriefingEdit:
    """Keep an edit of a briefing."""
    return RecordBriefingEdit(conversation_id=owner, seq=seq, edit=edit, recorded_at_ms=9_000)


def step(
    state: OnceState,
    attempt_id: str = "att_1",
    *,
    receipt: types.JsonValue = None,
    key: str = "deploy",
    project_id: types.ProjectId = PROJECT,
) -> RecordOnce:
    """Record a step of an action that is to be done once."""
    return RecordOnce(
        project_id=project_id,
        key=key,
        attempt_id=attempt_id,
        state=state,
        receipt=receipt,
        recorded_at_ms=9_000,
    )


def act(by_user: str = "ada", at_ms: int = 9_000, *, of_run: bool = False) -> RecordAct:
    """Keep what a person did to the conversation, or to the run."""
    if of_run:
        return RecordAct(run_id=RUN, what="answered", by_user=by_user, recorded_at_ms=at_ms)
    return RecordAct(
        conversation_id=CONVERSATION,
        what="told",
        by_user=by_user,
        detail=TURN,
        recorded_at_ms=at_ms,
    )


def resolved(store: Store, key: types.ConversationKey = KEY) -> Resolved:
    """Return what a key resolves to; it does."""
    found = store.resolve(key)
    assert found is not None
    return found


def taken(store: Store, name: str, holder: types.Holder = HOLDER) -> types.Lease:
    """Return a lease that is free, once it is taken."""
    lease = store.acquire_lease(name, holder)
    assert lease is not None
    return lease
