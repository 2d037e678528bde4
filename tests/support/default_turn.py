"""The turn that figures are given for: six messages, 12.7 kB of text, streamed into a store.

Makes the same writes in the same commits as `runtime.turns.turns` and `runtime.turns.recorder` do
for a resumed conversation whose agent takes longer than `FLUSH_EVERY_S` for each tool call: intent,
session attached and prompt sent, two batches of parts, and the end with what is left, synced. Five
commits, one of them synced. It drives no agent, takes no lease and reads no prior context, which
has a figure of its own; its words are chosen once and repeat.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from upthread.core import types
from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    OpenTurn,
    OpenWorkstream,
    RecordAct,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.context.prior_context import PRIOR_EXCHANGES_MAX
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import HandshakeInputs
from upthread.core.events import (
    AgentEvent,
    PromptSent,
    SessionAttached,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    TurnEnded,
    TurnEvent,
    TurnIntended,
)
from upthread.core.turns.recorder import Recorder
from upthread.store.base import Store
from upthread.store.log import LogStore

MESSAGES = 6
TOKENS = 18_204
"""Messages of a turn."""

CHARACTERS = (300, 500, 8000, 400, 2000, 1500)
"""User, text before a call, its result, text before a call, its result, answer."""

ARGUMENTS = {"command": "pytest -q tests/test_x.py"}
AGENT = "opencode"
USER = "kim@build-3"
WORKING_DIRECTORY = "/home/kim/projects/checkout-service"

_TEXTS_MAX = 64
_FIRST_AT_MS = 1_790_000_000_000
_WORDS = (
    "the session agent file error return value import test patch line commit branch query index "
    "token model result path build run write read open close lock page cache turn part tool call"
).split()


def texts(number: int) -> tuple[str, ...]:
    """Return the six texts of a turn; equal for equal numbers, and repeated after 64."""
    return _TEXTS[number % _TEXTS_MAX]


def _text(characters: int, chance: random.Random) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < characters:
        number = str(chance.randrange(1000)) if chance.random() < 0.3 else ""
        words += [chance.choice(_WORDS) + number for _ in range(20)]
    return " ".join(words)[:characters]


def _texts(seed: int) -> tuple[str, ...]:
    chance = random.Random(seed)  # words for a measurement, no secret
    return tuple(_text(characters, chance) for characters in CHARACTERS)


_TEXTS = tuple(map(_texts, range(_TEXTS_MAX)))


@dataclass(slots=True, kw_only=True)
class Place:
    """Where the next turn goes: the conversation as its holder knows it, resumed by `decision`."""

    conversation: types.Conversation
    link: types.Link
    fence: types.Fence
    decision: types.Decision
    next_seq: int = 1
    turns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTurn:
    """What a turn will say, made before the clock runs. `events` are the agent's, in order."""

    turn_id: types.TurnId
    at_ms: int
    prompt: str
    events: tuple[AgentEvent, ...]


def open_place(store: LogStore, name: str, *, project: str = "prj_measured") -> Place:
    """Open a conversation with one upstream session and hold its lease, for its project."""
    store.act_for(types.ProjectId(project))
    conversation = _conversation(name, types.ProjectId(project))
    link = link_of(conversation, 1)
    store.commit(
        (
            OpenWorkstream(
                project_id=conversation.key.project_id,
                workstream=name,
                base_name=conversation.base_name,
                opened_at_ms=_FIRST_AT_MS,
            ),
            OpenConversation(conversation=conversation),
            OpenLink(link=link),
        )
    )
    holder = types.Holder(
        host="build-3", boot_id="7b0e", pid=4711, started_at_ticks=1, doing="tell"
    )
    lease = store.acquire_lease(f"conversation {project} {conversation.key.address}", holder)
    assert lease is not None, f"{name} is held already"
    return Place(
        conversation=conversation,
        link=link,
        fence=types.Fence(name=lease.name, token=lease.token),
        decision=_decision(conversation),
    )


def link_of(conversation: types.Conversation, seq: int) -> types.Link:
    """Return the link number `seq` of a conversation, as if the one before it had expired."""
    return types.Link(
        conversation_id=conversation.conversation_id,
        seq=seq,
        upstream_session_id=types.UpstreamSessionId(f"ses_{conversation.key.workstream}{seq:024}"),
        agent=AGENT,
        agent_version="1.0.217",
        working_directory=WORKING_DIRECTORY,
        opened_because="none_yet" if seq == 1 else "expired",
        opened_at_ms=_FIRST_AT_MS,
    )


def prepare_turn(place: Place, number: int) -> PreparedTurn:
    """Return turn `number` of a place. The number names it and chooses its texts."""
    prompt, *_ = texts(number)
    return PreparedTurn(
        turn_id=types.TurnId(f"trn_{place.conversation.key.workstream}{number:022}"),
        at_ms=_FIRST_AT_MS + number,
        prompt=prompt,
        events=tuple(_agent_events(place.link.upstream_session_id, number)),
    )


def record_turn(store: Store, place: Place, turn: PreparedTurn) -> None:
    """Write a turn after the place's last one, and move the place past it."""
    for writes in commits_of(place, turn):
        store.commit(writes, fences=(place.fence,))
    place.next_seq += MESSAGES
    place.turns += 1


def commits_of(place: Place, turn: PreparedTurn) -> Iterator[tuple[Write, ...]]:
    """Return the writes of each commit of a turn, in order."""
    sent = PromptSent(
        prompt_seq=place.next_seq,
        prior_from_seq=max(1, place.next_seq - PRIOR_EXCHANGES_MAX),
        prior_to_seq=place.next_seq - 1,
        prior_digest=hashlib.sha256(turn.prompt.encode()).hexdigest(),
    )
    yield _intent(place, turn)
    yield (
        _event(place, turn, 2, _attached(place.link.upstream_session_id)),
        _event(place, turn, 3, sent),
    )
    yield from _reply(place, turn)


def _intent(place: Place, turn: PreparedTurn) -> tuple[Write, ...]:
    conversation_id = place.conversation.conversation_id
    intended = TurnIntended(
        decision=place.decision.decision,
        reasons=place.decision.reasons,
        prompt_seq=place.next_seq,
        inputs=place.decision.inputs,
    )
    return (
        OpenTurn(turn_id=turn.turn_id, conversation_id=conversation_id, opened_at_ms=turn.at_ms),
        RecordParts(
            conversation_id=conversation_id,
            seq=place.next_seq,
            first_ordinal=0,
            speaker=types.Speaker.USER,
            turn_id=turn.turn_id,
            upstream_session_id=place.link.upstream_session_id,
            recorded_at_ms=turn.at_ms,
            parts=(types.TextPart(text=turn.prompt),),
        ),
        _event(place, turn, 1, intended),
        RecordAct(
            conversation_id=conversation_id,
            what="told",
            by_user=USER,
            detail=turn.turn_id,
            recorded_at_ms=turn.at_ms,
        ),
    )


def _reply(place: Place, turn: PreparedTurn) -> Iterator[tuple[Write, ...]]:
    recorder = Recorder(
        conversation=place.conversation,
        turn_id=turn.turn_id,
        link=place.link,
        next_seq=place.next_seq + 1,
    )
    for event in turn.events:
        recorder.record(event, at_ms=turn.at_ms)
        if isinstance(event, ToolCallUpdated):
            yield recorder.flush()
    ended = TurnEnded(
        outcome=types.Outcome.OK,
        tokens_used=TOKENS,
        turns_before=place.turns,
        tokens_before=TOKENS * place.turns,
    )
    yield (*recorder.finish(at_ms=turn.at_ms), _event(place, turn, 4, ended))


def _agent_events(upstream: types.UpstreamSessionId, number: int) -> Iterator[AgentEvent]:
    """Text, call, result, text, call, result, text."""
    _, first, first_result, second, second_result, answer = texts(number)
    for at, (said, result) in enumerate(((first, first_result), (second, second_result))):
        call_id = f"call_{number:08}_{at}"
        yield TextReceived(upstream_session_id=upstream, text=said)
        yield ToolCallAnnounced(
            upstream_session_id=upstream,
            call_id=call_id,
            title="bash",
            tool_kind="execute",
            arguments=ARGUMENTS,
        )
        yield ToolCallUpdated(
            upstream_session_id=upstream, call_id=call_id, status="completed", text=result
        )
    yield TextReceived(upstream_session_id=upstream, text=answer)


def _conversation(name: str, project_id: types.ProjectId) -> types.Conversation:
    return types.Conversation(
        conversation_id=types.ConversationId(f"con_{name:0>26}"),
        key=types.ConversationKey(project_id=project_id, workstream=name, role="planner"),
        generation=1,
        base_name=f"Kael-{name}",
        opened_at_ms=_FIRST_AT_MS,
    )


def _decision(conversation: types.Conversation) -> types.Decision:
    return decide(
        HandshakeInputs(
            conversation_id=conversation.conversation_id,
            agent=AGENT,
            continuity="resume",
            turns=1,
            current_agent=AGENT,
        )
    )


def _attached(upstream: types.UpstreamSessionId) -> SessionAttached:
    return SessionAttached(
        upstream_session_id=upstream,
        how="resumed",
        agent=AGENT,
        agent_pid=4712,
        agent_started_at_ticks=123_456,
        agent_host="build-3",
    )


def _event(place: Place, turn: PreparedTurn, seq: int, event: TurnEvent) -> RecordTurnEvent:
    is_end = isinstance(event, TurnEnded)
    return RecordTurnEvent(
        conversation_id=place.conversation.conversation_id,
        turn_id=turn.turn_id,
        seq=seq,
        event=event,
        recorded_at_ms=turn.at_ms,
        durability=types.Durability.SYNCED if is_end else types.Durability.PROCESS,
    )
