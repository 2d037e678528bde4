"""The nouns: identities, conversations, links, messages and their parts.

Values only. Nothing here decides, reads or writes. The words are those of docs/glossary.md.
All times are epoch milliseconds; order is always by sequence number, never by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NewType, TypeAlias, TypeVar

from msgspec import Struct, json

# --- the nouns ------------------------------------------------------------------------------------


ProjectId = NewType("ProjectId", str)
ConversationId = NewType("ConversationId", str)
TurnId = NewType("TurnId", str)
RunId = NewType("RunId", str)
UpstreamSessionId = NewType("UpstreamSessionId", str)

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
    )
else:  # msgspec decodes no type that names itself, and what it reads as Any is one
    JsonValue = Any
"""What JSON can say; tuples stand for arrays, so that values can be frozen."""

JsonObject: TypeAlias = Mapping[str, JsonValue]

Environment: TypeAlias = Mapping[str, str]
"""The variables of a process."""

RecordMode: TypeAlias = Literal["full", "redacted", "index"]
"""What is recorded of what is said: all of it, all but its secrets, or its outline, no text."""

Continuity: TypeAlias = Literal["resume", "fresh", "auto"]
"""Whether a role goes on in its session: always, never, or as the handshake decides."""

STRICTNESS: tuple[RecordMode, ...] = ("full", "redacted", "index")
"""From what records most to what records least."""

MAIN_SLOT = 1
"""The slot of a role's main conversation; siblings count up from it."""

CHILD_SLOT = 0
"""The slot of a child that nobody configured: recorded, never resumed by key."""


class Outcome(StrEnum):
    """What an agent did to us, one vocabulary everywhere."""

    OK = "ok"
    MISSING = "missing"
    EXPIRED = "expired"
    BUSY = "busy"
    RATE_LIMITED = "rate_limited"
    CREDIT_EXHAUSTED = "credit_exhausted"
    CONTEXT_FULL = "context_full"
    AUTH = "auth"
    CORRUPTED = "corrupted"
    PROCESS_DIED = "process_died"
    POISONED = "poisoned"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    WORKSPACE_CHANGED = "workspace_changed"
    TRANSIENT = "transient"
    UNKNOWN = "unknown"


class Durability(IntEnum):
    """What a write survives once `commit` has returned."""

    PROCESS = 0  # the death of any process
    SYNCED = 1  # the loss of power


class Speaker(StrEnum):
    """Who a message is from, in the providers' words."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ConversationKey(Struct, frozen=True, kw_only=True):
    """What a conversation is found by. `slot` 1 is the role's main conversation."""

    project_id: ProjectId
    workstream: str
    role: str
    slot: int = MAIN_SLOT

    @property
    def address(self) -> str:
        """`spec-42/planner`, or `spec-42/reviewer~2` for a sibling."""
        suffix = "" if self.slot == MAIN_SLOT else f"~{self.slot}"
        return f"{self.workstream}/{self.role}{suffix}"


class Conversation(Struct, frozen=True):
    """Our stable identity. A reset opens the next generation under the same key."""

    conversation_id: ConversationId
    key: ConversationKey
    generation: int
    base_name: str
    opened_at_ms: int
    parent_conversation_id: ConversationId | None = None
    parent_call_id: str | None = None

    @property
    def address(self) -> str:
        """`spec-42/planner`: what a person types."""
        return self.key.address

    @property
    def instance_name(self) -> str:
        """`Kael-planner`: the name a person reads."""
        suffix = f"~{self.key.slot}" if self.key.slot > MAIN_SLOT else ""
        return f"{self.base_name}-{self.key.role}{suffix}"


class Link(Struct, frozen=True):
    """One upstream session in a conversation's chain. `seq` counts from 1, oldest first.

    `agent_profile` and `chose_profile` say where an imported or forked session was found, as those
    of `SessionAttached` do; of any other session its first turn says it.
    """

    conversation_id: ConversationId
    seq: int
    upstream_session_id: UpstreamSessionId
    agent: str
    agent_version: str
    working_directory: str
    opened_because: str
    opened_at_ms: int
    ended_because: str | None = None
    ended_at_ms: int | None = None
    agent_profile: str = ""
    chose_profile: bool = False


CHAIN_LENGTH_MAX = 16
"""How many upstream sessions a read spans. All links stay stored for the audit."""


def readable_chain(upstream_session_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the last sessions of all links, oldest first, each once where it came last."""
    chain: dict[str, None] = {}
    for upstream_session_id in map(str.strip, upstream_session_ids):
        chain.pop(upstream_session_id, None)
        chain[upstream_session_id] = None
    chain.pop("", None)
    return tuple(chain)[-CHAIN_LENGTH_MAX:]


class TextPart(Struct, frozen=True, tag="text", gc=False):
    """Something said."""

    text: str


class ContextPart(Struct, frozen=True, tag="context", gc=False):
    """What upthread sent before the user's text: role, briefing, prior context, news."""

    text: str


class ReasoningPart(Struct, frozen=True, tag="reasoning", gc=False):
    """Something thought; never replayed to another model."""

    text: str


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """An action asked for. `tool_kind` is ACP's: read, edit, delete, execute and so on."""

    call_id: str
    title: str
    tool_kind: str
    arguments: JsonValue = None
    locations: tuple[str, ...] = ()


class ToolResultPart(Struct, frozen=True, tag="tool_result", gc=False):
    """How an action ended. `status` is completed, failed or unknown."""

    call_id: str
    status: str
    text: str
    child_conversation_id: ConversationId | None = None


class FilePart(Struct, frozen=True, kw_only=True, tag="file"):
    """A file, image or resource by reference; bytes stay with the agent."""

    uri: str
    mime_type: str = ""


PERMISSION = "permission"
"""The kind of an UnknownPart that keeps a permission request and who or what answered it."""

RETRY = "retry"
"""The kind of an UnknownPart that keeps an agent's notice that the agent tries again by itself.

Its member `progress` has the words for a person who waits.
"""

NOTICE_PREFIX = "system/"
"""Begins the kind of an UnknownPart that keeps a notice of Claude Code's, which is no work."""

NO_WORK = ("title", RETRY, NOTICE_PREFIX)
"""How the kinds of an UnknownPart begin that are no work of the agent's."""

QUESTION_DISMISSED = "question_dismissed"
"""The kind of an UnknownPart that keeps a question which nobody was there to answer."""

FRAMEWORK_PREFIX = "framework:"
"""Begins the kind of an UnknownPart that keeps a value of an agent framework's, whole."""


class UnknownPart(Struct, frozen=True, kw_only=True, tag="unknown"):
    """Something of a kind this version does not know, kept as it came."""

    kind: str
    raw: JsonValue


class ErasedPart(Struct, frozen=True, kw_only=True, eq=False, tag="erased"):
    """A part whose content was forgotten, or never kept; its digest still verifies the chain.

    `digest` (32 bytes) and `size_bytes` are of what was said; they are given when such a part is
    recorded, None where that is not known, and are not read back.
    """

    kind: str
    call_id: str | None = None
    digest: bytes | None = None
    size_bytes: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErasedPart) and self._known() == other._known()

    def __hash__(self) -> int:
        return hash(self._known())

    def _known(self) -> tuple[str, str | None]:
        """What is read back of it."""
        return self.kind, self.call_id


Part: TypeAlias = (
    TextPart
    | ContextPart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | FilePart
    | UnknownPart
    | ErasedPart
)


class Message(Struct, frozen=True):
    """What was said at one place in a conversation.

    `seq` counts from 1 without gaps within the conversation. `upstream_session_id` is None for a
    message recorded before any upstream session was known.
    """

    conversation_id: ConversationId
    seq: int
    speaker: Speaker
    turn_id: TurnId
    upstream_session_id: UpstreamSessionId | None
    recorded_at_ms: int
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All that was said in it, without context, reasoning or tools."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def sent_text(self) -> str:
        """A user message as it went to the agent: the context, then the text."""
        contexts = (part.text for part in self.parts if isinstance(part, ContextPart))
        return "\n\n".join(piece for piece in (*contexts, self.text) if piece)


class ProjectIdentity(Struct, frozen=True):
    """What a project is known by. Outside a git repository only `path` is set.

    `root_commit` is the oldest root reachable from HEAD, None before the first commit; `remote` is
    the normalised URL of the remote `origin`, None without one; `path` is the real path of the
    repository's common directory's parent, or of the working directory.

    `owner` is whose path that is, an account and its host: in a store that several share, one path
    is as many places as there are of them. None in a file of one person's own, and in what was
    recorded before paths had owners.
    """

    path: str
    root_commit: str | None = None
    remote: str | None = None
    owner: str | None = None


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds a lease. Pid, start time and boot together: no reused pid fools us.

    `call` is the turn of a call that an agent's own tool made: then the process is the agent's, and
    shows no heartbeat. None for a process of ours.
    """

    host: str
    boot_id: str
    pid: int
    started_at_ticks: int
    doing: str = ""
    call: TurnId | None = None

    def in_words(self) -> str:
        """`pid 4711 on build-3 (run spec-42)`."""
        return f"pid {self.pid} on {self.host}" + (f" ({self.doing})" if self.doing else "")


class Lease(Struct, frozen=True, kw_only=True):
    """A lease as it stands. `token` grows with each holder, `heartbeat` with each sign of life."""

    name: str
    token: int
    heartbeat: int
    holder: Holder | None  # None: released

    @property
    def fence(self) -> Fence:
        """Its holder's right to commit."""
        return Fence(name=self.name, token=self.token)


class Fence(Struct, frozen=True, kw_only=True):
    """Our right to commit: the lease `name` must still be held under `token`."""

    name: str
    token: int


class LeaseClaim(Struct, frozen=True, kw_only=True):
    """A lease to be taken with a commit. `seen` is the lease as it was read, None before any."""

    name: str
    holder: Holder
    seen: Lease | None = None

    @property
    def fence(self) -> Fence:
        """What holds the lease once it is taken."""
        return Fence(name=self.name, token=(self.seen.token if self.seen else 0) + 1)


class Decision(Struct, frozen=True, kw_only=True):
    """The handshake's outcome. `reasons` are codes, the deciding one first."""

    decision: str
    reasons: tuple[str, ...]
    hint: str = ""
    inputs: JsonObject = {}


# --- reading them ---------------------------------------------------------------------------------

Shape = TypeVar("Shape")

_ready: set[Any] = set()
_resolving = Lock()


def ready(shape: type[Shape]) -> type[Shape]:
    """Return a type whose values any thread can decode.

    msgspec resolves the annotations of a Struct when it is first used. Where two threads do that at
    the same moment, the process ends with a segmentation fault (0.22.0).
    """
    if shape not in _ready:
        with _resolving:
            json.Decoder(shape)
            _ready.add(shape)
    return shape
