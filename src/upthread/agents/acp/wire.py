"""ACP frames and what they say: JSON to messages, `session/update` to events, errors to outcomes.

Pure. Frames are checked against the small shapes below; a frame or update that does not fit is kept
as it came, never dropped and never an error. Shapes follow ACP schema 1.19.0.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from upthread.agents._json_lines import Unreadable, of_session, unknown
from upthread.agents._outcomes import (
    DETAIL_CHARACTERS_MAX,
    NO_CREDIT_OF_LIMIT,
    OF_ERROR_KIND,
    did_run,
    outcome_of_status,
    says_no_credit,
    says_unpaired_call,
    words_of_error,
)
from upthread.agents._prompt import TurnSeen
from upthread.agents.base import PromptResult
from upthread.core import events
from upthread.core.codec import AnyJson, member, number_at, object_at, text_at
from upthread.core.events import CALL_FAILED, AgentEvent, Events
from upthread.core.quotas import RESET_S_MAX
from upthread.core.runs.stops import REFUSAL
from upthread.core.types import Environment, JsonObject, Outcome, UpstreamSessionId, ready

INTERNAL_ERROR = -32603
"""JSON-RPC's code that says nothing certain, and stands for an error without a code."""

SILENT_UPDATES = frozenset(
    {
        *("current_mode_update", "compaction_summary_chunk"),
        *("available_commands_update", "config_option_update"),
    }
)
"""Updates about the agent's interface, and a summary that it writes for itself: no event."""

KINDS_OF_CONTENT = {"diff": "edit", "terminal": "execute"}
"""What a call is that shows this; plain `content` is what it printed."""

KINDS_OF_CLAUDES_TOOLS = {"Bash": "execute"}
"""What claude-agent-acp 0.100.0 says in `_meta` a call is, whatever its kind says."""

Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
_Shape = TypeVar("_Shape")


# --- lines and messages ------------------------------------------------------------------------


class Message(Struct, frozen=True, kw_only=True):
    """A JSON-RPC message that can be handed on: a request, a notification or an answer."""

    content: AnyJson
    method: str | None
    is_request: bool


def message_in(content: Any) -> Message | Unreadable:
    """Return the message that a line holds, Unreadable for what is none."""
    frame = object_at(content)
    method, identity = frame.get("method"), frame.get("id")
    is_answer = method is None and ("result" in frame or "error" in frame)
    if not (isinstance(method, str) or is_answer):
        return Unreadable(raw=content)
    # JSON-RPC has null for the id where the request could not be read.
    # To Python `true` is 1, which is the id of a request of ours.
    is_named = isinstance(identity, int | str) and not isinstance(identity, bool)
    if "id" in frame and not is_named and not (is_answer and identity is None):
        return Unreadable(raw=frame)
    if is_answer and "error" in frame:
        frame = {**frame, "error": _error(frame["error"])}
    return Message(content=frame, method=method, is_request=method is not None and "id" in frame)


def _error(error: Any) -> AnyJson:
    """An error object with a whole number as code and text as message, whatever came."""
    # An error that is no error object ends the request it answers all the same (A9).
    given = object_at(error) or {"data": error}
    code = given.get("code")
    return {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": str(given.get("message") or ""),
        "data": given.get("data"),
    }


# --- shapes ------------------------------------------------------------------------------------


class _Update(msgspec.Struct, rename="camel", kw_only=True):
    meta: AnyJson | None = msgspec.field(name="_meta", default=None)


class _Content(msgspec.Struct, rename="camel"):
    type: str
    text: str | None = None


class _Chunk(_Update, kw_only=True):
    content: _Content
    message_id: str | None = None


class _Location(msgspec.Struct):
    path: str


class _ToolContent(msgspec.Struct, rename="camel"):
    type: str
    content: _Content | None = None


class ToolCall(_Update, kw_only=True):
    """`tool_call` and `tool_call_update`; None where the agent said nothing."""

    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    status: Status | None = None
    content: list[_ToolContent] | None = None
    locations: list[_Location] | None = None
    raw_input: Any = None
    raw_output: Any = None


class _PlanEntry(msgspec.Struct):
    content: str
    status: str = "pending"


class _Plan(_Update, kw_only=True):
    entries: list[_PlanEntry]


class _Usage(_Update):
    used: int | None = None
    size: int | None = None


class _SessionInfo(_Update):
    title: str | None = None


class _Compaction(_Update):
    status: Any = None


class PermissionOption(msgspec.Struct, rename="camel"):
    """One choice the agent offers."""

    option_id: str
    kind: str = ""


class PermissionParams(msgspec.Struct, rename="camel"):
    """The parameters of `session/request_permission`."""

    session_id: str
    tool_call: ToolCall
    options: list[PermissionOption]


class _ListedSession(msgspec.Struct, rename="camel"):
    session_id: str


class SessionPage(msgspec.Struct, rename="camel"):
    """One page of `session/list`."""

    sessions: list[_ListedSession]
    next_cursor: str | None = None


class _AgentInfo(msgspec.Struct):
    name: str = ""
    version: str = ""


class _AgentCapabilities(msgspec.Struct, rename="camel"):
    load_session: bool | None = None
    session_capabilities: AnyJson | None = None


class Initialized(msgspec.Struct, rename="camel"):
    """The answer to `initialize`."""

    protocol_version: Any
    agent_capabilities: _AgentCapabilities | None = None
    agent_info: _AgentInfo | None = None

    def can(self, capability: str) -> bool:
        """Whether a session capability was announced; `{}` announces it, null does not."""
        capabilities = self.agent_capabilities
        announced = capabilities.session_capabilities if capabilities else None
        return announced is not None and announced.get(capability) not in (None, False)


def shaped(value: object, shape: type[_Shape]) -> _Shape | None:
    """Return `value` in that shape, None when it does not fit."""
    try:
        return msgspec.convert(value, ready(shape))
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None  # UnicodeEncodeError: a member's name holds a lone surrogate


# --- updates to events -------------------------------------------------------------------------


def events_of(kind: str, update: AnyJson, *, session: UpstreamSessionId | None) -> Events:
    """Return what one update says, as events of `session`; unknown kinds as they came."""
    if kind in SILENT_UPDATES:
        return ()
    shape, reader = _READERS.get(kind, (None, None))
    told = shaped(update, shape) if shape else None
    said = reader(told) if reader and told is not None else None
    return of_session(session, (unknown(kind, update),) if said is None else said)


_Events: TypeAlias = "Events | None"


def _text(chunk: _Chunk, *, of: Callable[..., AgentEvent] = events.TextReceived) -> _Events:
    """Return what a chunk says, None for an image or another thing not said."""
    text = chunk.content.text
    if chunk.content.type != "text" or text is None:
        return None
    return (of(text=text, message_id=chunk.message_id),)


def _reasoning(*, text: str, **_named: object) -> AgentEvent:
    return events.ReasoningReceived(text=text)


def _tool_call(call: ToolCall) -> Events:
    announced = events.ToolCallAnnounced(
        call_id=call.tool_call_id,
        title=call.title or "",
        tool_kind=call.kind or "other",
        arguments=call.raw_input,
        locations=locations_of(call) or (),
        implied_kinds=implied_kinds(call),
    )
    text = result_text(call)
    # An announced call is pending; that it is at work, or has said something, is news beside that.
    if call.status in {None, "pending"} and text is None:
        return (announced,)
    more = events.ToolCallUpdated(
        call_id=call.tool_call_id, status=call.status, text=text, did_run=_did_run(call)
    )
    return (announced, more)


def _tool_call_update(call: ToolCall) -> Events:
    changed = events.ToolCallUpdated(
        call_id=call.tool_call_id,
        status=call.status,
        title=call.title,
        tool_kind=call.kind,
        arguments=call.raw_input,
        locations=locations_of(call),
        implied_kinds=implied_kinds(call),
        text=result_text(call),
        did_run=_did_run(call),
    )
    return (changed,)


def _did_run(call: ToolCall) -> bool:
    return call.status == CALL_FAILED and did_run(member(call.raw_output, "exitCode"))


def locations_of(call: ToolCall) -> tuple[str, ...] | None:
    """Return the paths of a call as given, None when it gave no list."""
    return None if call.locations is None else tuple(place.path for place in call.locations)


def implied_kinds(call: ToolCall) -> tuple[str, ...]:
    """Return what a call's content shows it to be, whatever kind it says it is."""
    types = {part.type for part in call.content or ()}
    shown = tuple(kind for shown, kind in KINDS_OF_CONTENT.items() if shown in types)
    named = KINDS_OF_CLAUDES_TOOLS.get(text_at(call.meta, "claudeCode", "toolName"))
    return (*shown, named) if named else shown


def result_text(call: ToolCall) -> str | None:
    """Return what a call printed: its text content, else its raw output; None without either."""
    said = [
        part.content.text
        for part in call.content or ()
        if part.content is not None and part.content.text is not None
    ]
    if said:
        return "\n".join(said)
    output = call.raw_output
    if output is None or isinstance(output, str):
        return output
    inner = member(output, "output")
    return inner if isinstance(inner, str) else json.dumps(output, ensure_ascii=False)


def _plan(plan: _Plan) -> Events:
    entries = tuple((entry.content, entry.status) for entry in plan.entries)
    return (events.PlanChanged(entries=entries),)


def _usage(usage: _Usage) -> Events:
    return (events.UsageReported(tokens_used=usage.used, tokens_window=usage.size),)


def _compaction(compaction: _Compaction) -> Events:
    return (events.ContextCompacted(),) if compaction.status == "completed" else ()


def _session_info(told: _SessionInfo) -> Events:
    return (events.TitleChanged(title=told.title),) if told.title else ()


_READERS: dict[str, tuple[type[_Update], Callable[..., _Events]]] = {
    "agent_message_chunk": (_Chunk, _text),
    "user_message_chunk": (_Chunk, partial(_text, of=events.UserTextReplayed)),
    "agent_thought_chunk": (_Chunk, partial(_text, of=_reasoning)),
    "tool_call": (ToolCall, _tool_call),
    "tool_call_update": (ToolCall, _tool_call_update),
    "plan": (_Plan, _plan),
    "usage_update": (_Usage, _usage),
    "compaction_update": (_Compaction, _compaction),
    "session_info_update": (_SessionInfo, _session_info),
}


# --- what is particular to each agent, one row an agent -------------------------------------------

# A row says how the agent is recognised, what to start it with, what to announce to it, and what
# its errors mean where the general rules below would not know. Rows hold what was seen, with the
# version it was seen in; they never hold logic.


_ANY_CASE = "(?i)"


class ErrorMeaning(Struct, frozen=True, kw_only=True):
    """What an error says that matches `pattern`, a regular expression.

    `is_certain` is for an agent's own fixed words, as seen in the version its row names. Any other
    words are a suspicion: a server of tools, a file's name or a test's output may hold them.
    """

    pattern: str
    outcome: Outcome
    is_certain: bool = False

    @property
    def words(self) -> str:
        """The pattern as a person reads it."""
        return self.pattern.removeprefix(_ANY_CASE)

    def matches(self, said: str) -> bool:
        """Whether an error's words are these."""
        # Compiled when first searched: most turns end well, and all of them load this.
        return re.search(self.pattern, said) is not None


class Quirk(Struct, frozen=True, kw_only=True):
    """One agent's particulars. `recognised_by` is searched in its name and its command line.

    `has_silent_children`: it sends nothing of a sub-agent, whose session it lets us load.
    `attaches_what_is_gone`: it attaches a session that was deleted, and fails with the first
    prompt; whether a session is there, its list says.
    `store` is set where it replays turns that the session's file lost: whose file that is.
    `file_of_minute`: it empties a session that it loads in the minute this file of it is named
    after, below its home, which the first of `home_variables` names; see `same_minute`.
    """

    name: str
    recognised_by: str
    versions_seen: str
    errors: tuple[ErrorMeaning, ...] = ()
    environment: Environment = {}
    client_meta: JsonObject = {}
    has_silent_children: bool = False
    attaches_what_is_gone: bool = False
    store: str = ""
    file_of_minute: str = ""
    home_variables: tuple[str, ...] = ("HOME",)


def _says(pattern: str, outcome: Outcome) -> ErrorMeaning:
    return ErrorMeaning(pattern=pattern, outcome=outcome, is_certain=True)


def _sounds_like(pattern: str, outcome: Outcome) -> ErrorMeaning:
    return ErrorMeaning(pattern=_ANY_CASE + pattern, outcome=outcome)


NO_QUIRK = Quirk(name="", recognised_by=r"(?!)", versions_seen="")

QUIRKS = (
    Quirk(name="rehearsal", recognised_by=r"rehearsal", versions_seen="our own"),
    Quirk(
        name="opencode",
        recognised_by=r"(?i)\bopencode\b",
        versions_seen="1.18.33",
        errors=(
            _says(r"ContextOverflowError", Outcome.CONTEXT_FULL),
            # An unknown id and any other fault of its service share these words.
            _sounds_like(r"OpenCode service failure", Outcome.UNKNOWN),
        ),
        # A sub-agent that goes on in the background would answer after its turn: it is waited for.
        environment={"OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS": "false"},
        has_silent_children=True,
    ),
    Quirk(
        name="codex",
        recognised_by=r"(?i)\bcodex\b",
        versions_seen="codex-acp 2.6.0",
        errors=(
            _sounds_like(r"no rollout found for thread id|thread not found", Outcome.MISSING),
            _says(r"already has an active writer", Outcome.BUSY),
            # How it ends a turn in which the provider refused it to the last; see `systemError`.
            _says(r"^exceeded retry limit, last status: 429\b", Outcome.RATE_LIMITED),
        ),
        # Without it, failures and warnings come as the agent's own words, and a rate limit ends as
        # `end_turn`; with it, nothing is told of a sub-agent, whatever else is announced.
        client_meta={"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}},
        # It attaches a deleted session and fails only at the first prompt, so its list is asked.
        attaches_what_is_gone=True,
        store="codex",
    ),
    Quirk(
        name="claude-code",
        recognised_by=r"(?i)\bclaude\b",
        versions_seen="claude-agent-acp 0.101.0",
        # No words of its errors: it passes Claude Code's own kinds on, in `data.errorKind`.
        # A sub-agent that goes on in the background would answer after its turn.
        environment={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"},
    ),
    Quirk(
        name="gemini",
        recognised_by=r"(?i)\bgemini\b",
        versions_seen="0.61.0",
        errors=(_says(r"No previous sessions found", Outcome.MISSING),),
        # It starts itself again as a child, which a signal to the first process does not reach.
        environment={"GEMINI_CLI_NO_RELAUNCH": "true"},
        home_variables=("GEMINI_CLI_HOME", "HOME"),
        file_of_minute=".gemini/tmp/*/chats/session-{minute}-{head}.json*",
    ),
)

GENERAL_ERRORS = (
    _sounds_like(f"{NO_CREDIT_OF_LIMIT}|credit balance is too low", Outcome.CREDIT_EXHAUSTED),
    _sounds_like(r"rate.?limit|too many requests|usage limit|quota exceeded", Outcome.RATE_LIMITED),
    _sounds_like(
        r"context.?(window|length|overflow)|prompt is too long|too many tokens",
        Outcome.CONTEXT_FULL,
    ),
    _sounds_like(r"overloaded|service unavailable|bad gateway|gateway timeout", Outcome.TRANSIENT),
    _sounds_like(
        r"(session|thread|transcript|rollout)[^.]{0,80}(corrupt|malformed|cannot be parsed)",
        Outcome.CORRUPTED,
    ),
    _sounds_like(r"(session|thread|conversation)[^.]{0,40}expired", Outcome.EXPIRED),
    _sounds_like(r"(session|thread|conversation)[^.]{0,40}(is busy|in use)", Outcome.BUSY),
    _sounds_like(r"unauthori[sz]ed|authentication|not logged in|invalid api key", Outcome.AUTH),
    _sounds_like(
        r"(session|thread|conversation)[^.]{0,80}(not found|does not exist)", Outcome.MISSING
    ),
)
"""What words sound like where an agent has no row, or its row does not know them. First wins."""


def quirk_for(*names: str) -> Quirk:
    """Return the row of the agent that any of `names` belongs to, NO_QUIRK for an unknown one."""
    # Without directories: the name of one says nothing of the agent.
    words = [PurePath(name).name for name in names]
    for quirk in QUIRKS:
        if any(re.search(quirk.recognised_by, word) for word in words):
            return quirk
    return NO_QUIRK


# --- what an agent's answer means -----------------------------------------------------------------

# The protocol's codes come first, then the agent's own structured data, then its row above.
# General words only raise a suspicion (`Refusal.is_certain` False): what is left of it is said by
# `outcome_of_suspicion`, and else the outcome is `unknown`, with the agent's words for the person.


CODE_AUTH_REQUIRED = -32000
CODE_NOT_FOUND = -32002
CODE_METHOD_NOT_FOUND = -32601

CONTEXT_NEARLY_FULL = 0.9
"""Of the window: below it a reply that was cut off was only long. Models stop short of the edge, by
what is kept free for their answer."""


_OUTCOME_OF_CODE = {CODE_NOT_FOUND: Outcome.MISSING, CODE_AUTH_REQUIRED: Outcome.AUTH}
_OUTCOME_OF_KIND = {
    # `data.errorKind` of claude-agent-acp 0.100.0 is Claude Code's own kind.
    **OF_ERROR_KIND,
    # Of other agents, and of the rehearsal agent.
    "auth": Outcome.AUTH,
    "auth_required": Outcome.AUTH,
    "credit_exhausted": Outcome.CREDIT_EXHAUSTED,
    "context_full": Outcome.CONTEXT_FULL,
    "prompt_too_long": Outcome.CONTEXT_FULL,
    # The rehearsal agent alone.
    "session_busy": Outcome.BUSY,
    "session_corrupted": Outcome.CORRUPTED,
    "session_expired": Outcome.EXPIRED,
    # `sessionFailure.category` of codex-acp 2.6.0.
    "limit": Outcome.RATE_LIMITED,
}
ABOUT_THE_SESSION = frozenset({Outcome.MISSING, Outcome.EXPIRED})
"""What words may suggest of a session, to be confirmed by the agent's list of them."""

_SESSION_WORDS = re.compile(
    r"session|thread|conversation|transcript|rollout|\bchat\b", re.IGNORECASE
)
_SIGN_IN_WORDS = re.compile(
    r"(?:sign|log)(?:g?ed|ging)?.?(?:in|on)\b|auth(?!or)|credential|api.?key|token|password",
    re.IGNORECASE,
)

_INVALID_REQUEST = "invalid_request"

_STATUS_MEMBERS = ("status", "statusCode", "httpStatusCode")
"""Where agents put the provider's HTTP status, beside the error's code itself."""

_OF_STOP_REASON = {
    "end_turn": (Outcome.OK, ""),
    "cancelled": (Outcome.CANCELLED, ""),
    "refusal": (Outcome.OK, f"{REFUSAL}it ended the turn"),
    # Cut off in the middle, so not ok; the session itself is well.
    "max_turn_requests": (Outcome.UNKNOWN, "max_turn_requests: the agent's own limit cut it off"),
}

_UNIT_S = (("ms", 0.001), ("milli", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0))
"""How many seconds a unit is, by how its name begins; first wins."""
_RETRY_IN = re.compile(
    r"(?:retry|try again)[ -]?(?:after|in)\W{0,3}(\d+(?:\.\d+)?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)?\b",
    re.IGNORECASE,
)


class Refusal(Struct, frozen=True, kw_only=True):
    """An agent's error, understood. `is_certain` False: a suspicion, from words alone."""

    outcome: Outcome
    detail: str
    is_certain: bool
    reset_after_s: float | None = None


def refusal_in(code: int, message: str, data: object, *, quirk: Quirk) -> Refusal:
    """Say what an error answer means."""
    said = words_of_error(message, data)
    detail = said if said and code == INTERNAL_ERROR else f"{said} (code {code})"
    outcome, is_certain = _judge(code, data, said, quirk=quirk)
    return Refusal(
        outcome=outcome,
        detail=detail[:DETAIL_CHARACTERS_MAX],
        is_certain=is_certain,
        reset_after_s=_reset_after_s(data, said) if outcome is Outcome.RATE_LIMITED else None,
    )


def _judge(code: int, data: object, said: str, *, quirk: Quirk) -> tuple[Outcome, bool]:
    certain = _by_code(code, data, said)
    if certain is not None:
        return certain, True
    for meaning in (*quirk.errors, *GENERAL_ERRORS):
        if meaning.outcome is not Outcome.UNKNOWN and meaning.matches(said):
            return meaning.outcome, meaning.is_certain
    return Outcome.UNKNOWN, False


def _by_code(code: int, data: object, said: str) -> Outcome | None:
    """Return what the protocol's code, the agent's kind or the provider's status says."""
    if code in _OUTCOME_OF_CODE and not (code == CODE_AUTH_REQUIRED and _is_of_session(said)):
        return _OUTCOME_OF_CODE[code]
    kind, status = text_at(data, "errorKind"), _status_of(code, data)
    is_refused = kind == _INVALID_REQUEST or status == HTTPStatus.BAD_REQUEST
    refused = HTTPStatus.BAD_REQUEST if is_refused else status
    if says_unpaired_call(refused, said):
        return Outcome.CORRUPTED
    if says_no_credit(refused, said):
        return Outcome.CREDIT_EXHAUSTED
    return _OUTCOME_OF_KIND.get(kind) or outcome_of_status(status)


def _is_of_session(said: str) -> bool:
    """Return whether an error speaks of its session and not of signing in.

    JSON-RPC gives the code that ACP has for `auth_required` to any error of a server.
    """
    said = said.partition('"authMethods"')[0]
    return bool(_SESSION_WORDS.search(said)) and not _SIGN_IN_WORDS.search(said)


def _status_of(code: int, data: object) -> int:
    """Return the provider's HTTP status that an error passes on, 0 for none."""
    told = (code, *(member(data, name) for name in _STATUS_MEMBERS))
    return next((each for each in told if isinstance(each, int) and 400 <= each < 600), 0)


def outcome_of_suspicion(
    suspected: Outcome, *, is_listed: bool | None, is_named: bool = False
) -> Outcome:
    """Return what is left of an outcome that words alone suggest.

    `is_listed` is whether the agent lists the session, None where it cannot be asked; then words
    that name the session are about it. Words end no session that is listed, and make nobody wait or
    sign in. A passing fault stays one: the agent is read back and asked once more, no more.
    """
    is_gone = is_named if is_listed is None else not is_listed
    if suspected in ABOUT_THE_SESSION and is_gone:
        return suspected
    return suspected if suspected is Outcome.TRANSIENT else Outcome.UNKNOWN


def in_agents_words(detail: str) -> str:
    """Return the detail of a suspicion that was not confirmed, for the person to judge."""
    return f"the agent said: {detail}"[:DETAIL_CHARACTERS_MAX]


def result_of(answer: object, seen: TurnSeen, *, quirk: Quirk) -> PromptResult:
    """Say how a prompt ended that was answered. An unknown stop reason is `unknown`, by name."""
    hidden = _hidden_failure(answer, seen, quirk=quirk)
    outcome, detail = hidden or _of_stop_reason(member(answer, "stopReason"), seen)
    return PromptResult(
        outcome=outcome,
        detail=detail,
        # opencode 1.18.33 answers a cancelled turn with zeros: that is not a figure.
        tokens_used=number_at(answer, "usage", "totalTokens") or seen.tokens_used,
        tokens_in=_tokens(answer, "inputTokens", "cachedReadTokens", "cachedWriteTokens"),
        tokens_out=_tokens(answer, "outputTokens"),
    )


def _of_stop_reason(reason: object, seen: TurnSeen) -> tuple[Outcome, str]:
    if reason == "max_tokens":
        return _of_max_tokens(seen)
    if not isinstance(reason, str):
        return Outcome.UNKNOWN, "the agent's answer gave no stopReason"
    unknown = Outcome.UNKNOWN, f"the agent stopped for an unknown reason: {reason[:200]}"
    return _OF_STOP_REASON.get(reason, unknown)


def _of_max_tokens(seen: TurnSeen) -> tuple[Outcome, str]:
    """A full window and a long answer share this word; the usage or a reply tells them apart.

    A full window leaves no room for a reply: the next prompt would end without one.
    """
    used, window = seen.tokens_used, seen.tokens_window
    is_cut_off = bool(seen.last_text.strip())
    if used is not None and window:
        is_cut_off = used < CONTEXT_NEARLY_FULL * window
    if is_cut_off:
        return Outcome.OK, "max_tokens: the reply was cut off by the model's output limit"
    return Outcome.CONTEXT_FULL, "max_tokens"


def _hidden_failure(answer: object, seen: TurnSeen, *, quirk: Quirk) -> tuple[Outcome, str] | None:
    """codex-acp 2.6.0 answers `end_turn` to a failed turn and says so only in `_meta`.

    The `title` there has the provider's words.
    """
    failure = member(answer, "_meta", "jetbrains", "air", "sessionFailure")
    category, title = member(failure, "category"), member(failure, "title")
    if isinstance(category, str):
        said = title if isinstance(title, str) else seen.last_text
        detail = f"sessionFailure {category}: {said}"[:DETAIL_CHARACTERS_MAX]
        return _OUTCOME_OF_KIND.get(category, Outcome.UNKNOWN), detail
    if seen.has_system_error or is_system_error(answer):
        outcome, is_certain = _judge(0, None, seen.last_text, quirk=quirk)
        told = f"systemError: {seen.last_text}"[:DETAIL_CHARACTERS_MAX]
        return (outcome, told) if is_certain else (Outcome.UNKNOWN, in_agents_words(told))
    return None


def is_system_error(holder: object) -> bool:
    """Whether an answer's or update's `_meta` says that the turn failed (codex-acp 2.6.0)."""
    status = member(holder, "_meta", "codex", "threadStatus")
    return status == "systemError" or member(status, "type") == "systemError"


def _tokens(answer: object, *names: str) -> int | None:
    """Return the sum of what the answer's usage says; None for nothing, and zero is no figure."""
    return sum(filter(None, (number_at(answer, "usage", name) for name in names))) or None


def _reset_after_s(data: object, said: str) -> float | None:
    for name, scale in (("retryAfterSeconds", 1.0), ("retryAfter", 1.0), ("retryAfterMs", 0.001)):
        value = member(data, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _plausible(value * scale)
    found = _RETRY_IN.search(said)
    if found is None:
        return None
    unit = (found[2] or "s").lower()
    scale = next(seconds for beginning, seconds in _UNIT_S if unit.startswith(beginning))
    return _plausible(float(found[1]) * scale)


def _plausible(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= RESET_S_MAX else None
