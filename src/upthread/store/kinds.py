"""The kinds of streams and of entries: what each entry keeps, and what it makes of its stream.

Each kind of entry is a Struct here. Its fields are those of `kept`; its methods are what it makes
of its stream's head (`opened`, `fold`) and what it makes its stream found by (`tags`). All that is
known of a kind is derived from its Struct. All that is looked up by a name goes through tags, so
that a backend has one index to keep; a copy has the same ones.

Change what a head holds by a field of a state here, and by a line of the `fold` that sets it. Then
raise SCHEMA_VERSION (streams.py).
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from upthread.core.codec import encode_plain_json
from upthread.core.commands import ActKind, OnceState, RecordParts
from upthread.core.events import RunEvent, TurnEnded, TurnEvent, settles
from upthread.core.types import (
    MAIN_SLOT,
    Conversation,
    ConversationKey,
    JsonValue,
    Link,
    Outcome,
    ProjectIdentity,
    RunId,
    Speaker,
    TurnId,
    UpstreamSessionId,
)

StreamKind: TypeAlias = Literal["project", "workstream", "conversation", "run", "once"]

NAMED_IN_A_PROJECT = frozenset({"workstream", "once"})
"""Streams whose names are a project's own; the others' are ids."""

TAG_CHARACTERS_MAX = 400
"""What is longer is found by its digest: PostgreSQL's indexes take no more than 2.7 kB."""


class Tag(NamedTuple):
    """A text that a stream is found by. `nth` 0 and above: only one stream has it; None: each may.

    `seq` is the entry that gave it.
    """

    text: str
    nth: int | None
    seq: int


def tag(kind: str, *names: str | int) -> str:
    """Return the text that streams are found by, for example `turn ["trn_1f2c"]`."""
    text = encode_plain_json(names).decode()
    if len(text) > TAG_CHARACTERS_MAX:
        text = f"sha256 {sha256(text.encode()).hexdigest()}"
    return f"{kind} {text}"


def own_tag(kind: StreamKind, name: str, project_id: str) -> str:
    """Return the tag of a stream's own name."""
    if kind in NAMED_IN_A_PROJECT:
        return tag(kind, project_id, name)
    return tag(kind, name)


def key_tag(key: ConversationKey) -> str:
    """Return the tag of a conversation's key; its `nth` is the generation."""
    return tag("key", key.project_id, key.workstream, key.role, key.slot)


# --- what heads hold ------------------------------------------------------------------------------


class ProjectState(Struct, omit_defaults=True, tag_field="stream", tag="project"):
    """A project: how many identities it has."""

    identities: int = 0


class WorkstreamState(Struct, omit_defaults=True, tag_field="stream", tag="workstream"):
    """A workstream."""

    base_name: str = ""
    opened_at_ms: int = 0


class TurnState(Struct, frozen=True, omit_defaults=True):
    """A conversation's newest turn.

    `at` is the entry that opened it, `events` those of its events; `files` is the number of its
    next file. `is_clear` is whether it ended well, and so did all before it: the guard of hooks
    asks for that alone.
    """

    turn_id: TurnId
    at: int
    opened_at_ms: int
    run_id: RunId | None = None
    events: tuple[int, ...] = ()
    files: int = 0
    is_clear: bool = False


class ConversationState(Struct, omit_defaults=True, tag_field="stream", tag="conversation"):
    """A conversation.

    `parts` are those of the last message so far, `author` its speaker, turn and upstream session.
    `session` is that of the newest link, open or not. `late` says that a turn had an event after a
    later one was opened. `noted_at_ms` is the latest time of an act or a refusal.
    """

    conversation: Conversation
    messages: int = 0
    parts: int = 0
    author: tuple[Speaker, str, str | None] | None = None
    turns: int = 0
    turn: TurnState | None = None
    late: bool = False
    links: int = 0
    session: str | None = None
    linked_at_ms: int = 0
    open_links: tuple[Link, ...] = ()
    edits: int = 0
    noted_at_ms: int | None = None


class RunState(Struct, omit_defaults=True, tag_field="stream", tag="run"):
    """A run. `due` is its transition that no later event has settled: when, and after which."""

    workstream: str = ""
    opened_at_ms: int = 0
    events: int = 0
    settled: int = 0
    due: tuple[int, int, str] | None = None
    noted_at_ms: int | None = None


class ActionState(Struct, omit_defaults=True, tag_field="stream", tag="once"):
    """An action that is to be done once: its last attempt and how that stands."""

    attempt_id: str = ""
    state: str = ""


State: TypeAlias = ProjectState | WorkstreamState | ConversationState | RunState | ActionState

# --- the kinds: what opens a stream ---------------------------------------------------------------

Tags: TypeAlias = Iterable[tuple[str, int | None]]
"""Texts that a stream is found by; a number: only one stream has it under that number."""


class Kept(Struct, frozen=True):
    """What an entry keeps. `kind` is its word in the database, empty for a base of others."""

    kind: ClassVar[str] = ""
    has_values: ClassVar[bool] = False
    """Whether it may hold a JSON value of somebody else's, and so a float."""

    def opened(self, _at_ms: int, /) -> State:
        """Return the state of a stream that this entry opens."""
        raise NotImplementedError(f"{type(self).__name__} opens no stream")

    def fold(self, state: Any, at_ms: int, seq: int, /) -> None:
        """Change the state of a stream to which this is added as entry `seq`."""

    def tags(self, _project_id: str, /) -> Tags:
        """Return what it makes its stream found by, beside the stream's own name."""
        return ()


class ProjectOpened(Kept, frozen=True):
    """A project is known."""

    kind: ClassVar = "project"

    def opened(self, _at_ms: int, /) -> State:
        return ProjectState()


class WorkstreamOpened(Kept, frozen=True):
    """A workstream has its base name."""

    kind: ClassVar = "workstream"
    base_name: str

    def opened(self, at_ms: int, /) -> State:
        return WorkstreamState(self.base_name, at_ms)

    def tags(self, project_id: str, /) -> Tags:
        return [(tag("base_name", project_id, self.base_name), 0)]


class ConversationOpened(Kept, frozen=True):
    """A conversation was minted."""

    kind: ClassVar = "conversation"
    conversation: Conversation

    def opened(self, _at_ms: int, /) -> State:
        return ConversationState(self.conversation)

    def tags(self, project_id: str, /) -> Tags:
        key = self.conversation.key
        yield tag("in", project_id, key.workstream), None
        # Children share their key, and are never found by it.
        if key.slot >= MAIN_SLOT:
            yield key_tag(key), self.conversation.generation


class RunOpened(Kept, frozen=True):
    """A run over a workstream was minted."""

    kind: ClassVar = "run"
    workstream: str

    def opened(self, at_ms: int, /) -> State:
        return RunState(self.workstream, at_ms)

    def tags(self, project_id: str, /) -> Tags:
        return [(tag("in", project_id, self.workstream), None)]


class OnceOpened(Kept, frozen=True):
    """An action that is to be done once was first begun."""

    kind: ClassVar = "once"

    def opened(self, _at_ms: int, /) -> State:
        return ActionState()


# --- the kinds: what follows ----------------------------------------------------------------------


class Identified(Kept, frozen=True):
    """A project is known under one more identity."""

    kind: ClassVar = "identity"
    identity: ProjectIdentity

    def fold(self, state: ProjectState, _at_ms: int, _seq: int, /) -> None:
        state.identities += 1

    def tags(self, _project_id: str, /) -> Tags:
        yield tag("path", self.identity.path), None
        if self.identity.root_commit is not None:
            yield tag("root_commit", self.identity.root_commit), None


class LinkOpened(Kept, frozen=True):
    """A conversation got an upstream session. The end of the link is an entry of its own."""

    kind: ClassVar = "link"
    link: Link

    def fold(self, state: ConversationState, at_ms: int, _seq: int, /) -> None:
        state.links = self.link.seq
        state.session = self.link.upstream_session_id
        state.linked_at_ms = at_ms
        state.open_links = (*state.open_links, self.link)

    def tags(self, project_id: str, /) -> Tags:
        return [(tag("session", project_id, self.link.upstream_session_id), None)]


class LinkEnded(Kept, frozen=True):
    """A link was closed."""

    kind: ClassVar = "link_end"
    seq: int
    ended_because: str

    def fold(self, state: ConversationState, _at_ms: int, _seq: int, /) -> None:
        state.open_links = tuple(each for each in state.open_links if each.seq != self.seq)


_SHORT = {"upstream_session_id": "session", "first_ordinal": "first", "turn_id": "turn"}
"""What is written with each message has short names."""


class TurnOpened(Kept, frozen=True, omit_defaults=True):
    """A turn was minted."""

    kind: ClassVar = "turn"
    turn_id: TurnId
    run_id: RunId | None = None

    def fold(self, state: ConversationState, at_ms: int, seq: int, /) -> None:
        state.turns += 1
        state.turn = TurnState(self.turn_id, seq, at_ms, self.run_id)

    def tags(self, _project_id: str, /) -> Tags:
        return [(tag("turn", self.turn_id), 0)]


class TurnMoved(Kept, frozen=True, rename=_SHORT):
    """A turn's event number `seq`, without its text."""

    kind: ClassVar = "turn_event"
    has_values: ClassVar = True
    turn_id: TurnId
    seq: int
    event: TurnEvent

    def fold(self, state: ConversationState, _at_ms: int, seq: int, /) -> None:
        turn = state.turn
        if turn is None or turn.turn_id != self.turn_id:
            state.late = True
        else:
            events = (*turn.events, seq)
            state.turn = structs.replace(turn, events=events, is_clear=_is_clear(self.event))


def _is_clear(event: TurnEvent) -> bool:
    return (
        isinstance(event, TurnEnded)
        and event.outcome is Outcome.OK
        and not (event.calls_open or event.failed_before)
    )


class SizeOutline(Struct, frozen=True, array_like=True, gc=False):
    """What stays of a part without a call, as an array: `["text",1525]`."""

    kind: str
    size_bytes: int | None = None


class CallOutline(SizeOutline, frozen=True, array_like=True, gc=False):
    """What stays of a part with a call: `["tool_result",8110,"call_7"]`."""

    call_id: str | None = None


class PartOutline(CallOutline, frozen=True, array_like=True, gc=False):
    """Every outline as it is read. `digest` is given with parts that were forgotten elsewhere."""

    digest: bytes | None = None


class Place(Kept, frozen=True, omit_defaults=True, gc=False, rename=_SHORT):
    """Where parts belong: to message `seq`, from position `first_ordinal`; and whose they are."""

    seq: int
    speaker: Speaker
    turn_id: TurnId
    upstream_session_id: UpstreamSessionId | None = None
    first_ordinal: int = 0


class Spoken(Place, frozen=True, omit_defaults=True, gc=False, rename=_SHORT):
    """Parts of a message. `said` is the parts.

    The entry is `said` where a user or an assistant says something in it, else `done`.
    """

    outline: tuple[PartOutline, ...] = ()

    def fold(self, state: ConversationState, _at_ms: int, _seq: int, /) -> None:
        state.messages = self.seq
        state.parts = self.first_ordinal + len(self.outline)
        state.author = author_of(self)


def author_of(value: Place | RecordParts) -> tuple[Speaker, str, str | None]:
    """Return whose a message is: its speaker, turn and upstream session."""
    return value.speaker, value.turn_id, value.upstream_session_id


class Noted(Kept, frozen=True):
    """What has no number of its own: the same again is known by its time."""

    def fold(self, state: ConversationState | RunState, at_ms: int, _seq: int, /) -> None:
        state.noted_at_ms = at_ms if state.noted_at_ms is None else max(state.noted_at_ms, at_ms)


class Acted(Noted, frozen=True, omit_defaults=True):
    """A person did something."""

    kind: ClassVar = "act"
    what: ActKind
    by_user: str
    detail: str = ""


class Refused(Noted, frozen=True):
    """A decision led to no turn."""

    kind: ClassVar = "refusal"
    has_values: ClassVar = True
    decision: str
    reasons: tuple[str, ...]
    inputs: JsonValue


class Examined(Kept, frozen=True):
    """So many files as a session knows them, from the turn's file `first_ordinal`. `said`: they."""

    kind: ClassVar = "examined"
    turn_id: TurnId
    first_ordinal: int
    upstream_session_id: UpstreamSessionId
    count: int

    def fold(self, state: ConversationState, _at_ms: int, _seq: int, /) -> None:
        turn = state.turn
        if turn is not None and turn.turn_id == self.turn_id:
            files = max(turn.files, self.first_ordinal + self.count)
            state.turn = structs.replace(turn, files=files)


class BriefingEdited(Kept, frozen=True):
    """A person's edit of the briefing. `said` is the edit."""

    kind: ClassVar = "edit"
    seq: int

    def fold(self, state: ConversationState, _at_ms: int, _seq: int, /) -> None:
        state.edits = self.seq


class Strayed(Kept, frozen=True):
    """An event without an owner was kept away. `said` is the event."""

    kind: ClassVar = "quarantine"
    turn_id: TurnId
    ordinal: int
    reason: str


class RunMoved(Kept, frozen=True):
    """A run's event number `seq`, without its text."""

    kind: ClassVar = "run_event"
    has_values: ClassVar = True
    seq: int
    event: RunEvent

    def fold(self, state: RunState, _at_ms: int, _seq: int, /) -> None:
        state.events = self.seq
        if settles(self.event):
            state.settled, state.due = self.seq, None


class Due(Kept, frozen=True, omit_defaults=True):
    """A run's next transition, after event `run_seq`, is due at the entry's time."""

    kind: ClassVar = "due"
    run_seq: int
    queue: str = ""

    def fold(self, state: RunState, at_ms: int, _seq: int, /) -> None:
        if self.run_seq >= state.settled:
            state.due = (at_ms, self.run_seq, self.queue)


class Attempted(Kept, frozen=True, omit_defaults=True):
    """An attempt at an action began or ended.

    `said` is the receipt where it has words of a conversation; `receipt` is then what stays of it.
    """

    kind: ClassVar = "attempt"
    has_values: ClassVar = True
    attempt_id: str
    state: OnceState
    receipt: JsonValue = None

    @property
    def conversation_id(self) -> str | None:
        """The conversation of which the receipt has words, None without one."""
        named = self.receipt.get("conversation_id") if isinstance(self.receipt, dict) else None
        return named if isinstance(named, str) else None

    def fold(self, state: ActionState, _at_ms: int, _seq: int, /) -> None:
        state.attempt_id, state.state = self.attempt_id, self.state

    def tags(self, _project_id: str, /) -> Tags:
        of = self.conversation_id
        return [] if of is None else [(tag("receipt", of), None)]


SAID = "said"
DONE = "done"
PARTS = (SAID, DONE)


def _kinds_below(shape: type[Kept]) -> Iterable[tuple[str, type[Kept]]]:
    """Yield each kind of entry and its word, in the order in which they are defined."""
    for each in shape.__subclasses__():
        for word in PARTS if each is Spoken else (each.kind,) if each.kind else ():
            yield word, each
        yield from _kinds_below(each)


KINDS: Mapping[str, type[Kept]] = MappingProxyType(dict(_kinds_below(Kept)))
"""Every kind of entry, by its word in the database, and what it keeps."""

FREQUENT = (*PARTS, "turn", "turn_event", "run_event", "act")
"""Kinds of which a turn or a run has many. All others are found by an index of their own."""
