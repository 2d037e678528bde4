"""Frames of one Claude Code process to events: its tools' calls, what it says, how a turn ends.

Pure, but for what it remembers. The text of a streamed answer comes twice, in pieces and then
whole; the pieces count. An answer that is an error of the provider is no reply: its kind is
remembered for the turn's outcome. Frames about the interface are left out; a frame that is not
known is kept as it came.

Frames of a sub-agent carry the id of the call that made it (`parent_tool_use_id`), and its own id
since 2.1.2xx; `task_started` and `task_notification` say when it begins and ends. It is numbered
within its session, as in its transcript's name.

Names of tools are those of Claude Code 2.1; an unknown tool, an MCP server's for one, is of kind
`other`. `subtype` says `success` to a failed turn too (2.1.330), so it is not looked at. What
counts of an end is a `terminal_reason` that tells more than `api_error`, the error's kind on the
answer, and the provider's status, in this order; what none of them says is `unknown`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from upthread.agent_stores.base import text_of_blocks
from upthread.agents._children import Children
from upthread.agents._json_lines import Unreadable, of_session, tries_again, unknown
from upthread.agents._outcomes import OF_ERROR_KIND, ended_with, outcome_of_refusal
from upthread.agents.base import ALLOW_OR_REJECT, PermissionRequest, PromptResult
from upthread.core import events
from upthread.core.codec import (
    AnyJson,
    member,
    number_at,
    object_at,
    objects_at,
    session_at,
    text_at,
    texts_at,
)
from upthread.core.events import Events, UsageReported
from upthread.core.names import ROLE_UNKNOWN, rows_by_name
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.runs.stops import REFUSAL
from upthread.core.text import one_line
from upthread.core.types import NOTICE_PREFIX, Outcome, UpstreamSessionId

SUBAGENTS = "subagents"
"""The folder beside a session's transcript, named after the session, that has its sub-agents'."""

ENDS = {"completed": "ok", "killed": "cancelled", "stopped": "cancelled"}
"""What the status of a sub-agent that is over means, as outcomes; every other one is unknown."""

_KINDS = rows_by_name(
    ("Read LS NotebookRead", "read"),
    ("Edit MultiEdit Write NotebookEdit", "edit"),
    ("Bash PowerShell KillShell", "execute"),
    ("Glob Grep", "search"),
    ("WebFetch WebSearch", "fetch"),
    # What a sub-agent does is announced as its own calls.
    ("Task Agent TodoWrite", "think"),
)
_PATHS = ("file_path", "notebook_path", "path")
_TELLING = ("command", *_PATHS, "pattern", "url", "query", "description")
"""The argument a title is made of, the first there is."""


def kind_of(tool: str) -> str:
    """Return the kind of a tool by its name."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: object) -> str:
    """Return what a person is shown of a call: a command as it is, else the tool and its object."""
    told = next((text for name in _TELLING if (text := text_at(arguments, name))), "")
    if told and told == text_at(arguments, "command"):
        return one_line(told)[:TITLE_CHARACTERS_MAX]
    return one_line(f"{tool} {told}".strip())[:TITLE_CHARACTERS_MAX]


def locations_of(arguments: object) -> tuple[str, ...]:
    """Return the paths a call names, as given."""
    return tuple(path for name in _PATHS if (path := text_at(arguments, name)))


def plan_of(tool: str, arguments: AnyJson) -> tuple[tuple[str, str], ...] | None:
    """Return the (text, status) pairs of a to-do list, None for any other call."""
    if tool != "TodoWrite":
        return None
    todos = objects_at(arguments, "todos")
    return tuple((text_at(one, "content"), text_at(one, "status") or "pending") for one in todos)


def child_session(session: str, agent_id: str) -> UpstreamSessionId:
    """Return the id of a sub-agent's session: Claude Code numbers them within their session."""
    return UpstreamSessionId(f"{session}:subagent:{agent_id}")


def file_of(agent_id: str) -> str:
    """Return what a sub-agent's transcript is called, in the folder SUBAGENTS."""
    return f"agent-{agent_id}.jsonl"


def role_of(frame_or_arguments: object) -> str:
    """Return the sub-agent's type that a frame or a delegating call names."""
    return text_at(frame_or_arguments, "subagent_type") or ROLE_UNKNOWN


def request_of(request: AnyJson, session: UpstreamSessionId) -> PermissionRequest:
    """Return a call that waits for its permission, or is about to run, as Claude Code names it."""
    tool, arguments = text_at(request, "tool_name"), request.get("input")
    agent_id = text_at(request, "agent_id")
    return PermissionRequest(
        upstream_session_id=child_session(session, agent_id) if agent_id else session,
        call_id=text_at(request, "tool_use_id") or None,
        title=title_of(tool, arguments),
        tool_kind=kind_of(tool),
        arguments=arguments,
        locations=locations_of(arguments),
        options=ALLOW_OR_REJECT,
        tool=tool,
    )


# --- how a turn ended, as an outcome --------------------------------------------------------------


_OF_REASON = {
    "prompt_too_long": Outcome.CONTEXT_FULL,
    # Its own guards against a window that is too full, by their names in 2.1.330; neither could be
    # brought about.
    "blocking_limit": Outcome.CONTEXT_FULL,
    "rapid_refill_breaker": Outcome.CONTEXT_FULL,
    "aborted_streaming": Outcome.CANCELLED,
    "aborted_tools": Outcome.CANCELLED,
}
_FAILED_CALL = re.compile(
    r"API error: (?P<said>.*?) \(error type (?P<kind>\w+)(, HTTP (?P<status>\d{3}))?", re.DOTALL
)
_ORDINARY_STOPS = frozenset({"", "end_turn", "stop_sequence", "tool_use"})
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_WRITTEN = ("output_tokens",)


def result_of(
    frame: AnyJson,
    *,
    error_kind: str = "",
    refused_by: str = "",
    reset_at_ms: int | None = None,
) -> PromptResult:
    """Say how a turn ended from its `result` frame.

    `error_kind` is the kind of the last error among the answers, `refused_by` the words of a hook
    that blocked the prompt, `reset_at_ms` what was said of a limit of the subscription.
    """
    outcome, usage = _outcome(frame, error_kind), frame.get("usage")
    detail = f"{REFUSAL}{refused_by}" if refused_by else _detail(frame, outcome, error_kind)
    return structs.replace(
        ended_with(outcome, detail, reset_at_ms=reset_at_ms),
        tokens_used=tokens_of(usage),
        tokens_in=tokens_of(usage, _READ),
        tokens_out=tokens_of(usage, _WRITTEN),
    )


def failed_call(said: str) -> PromptResult:
    """Say how a call of a sub-agent failed, from what the tool answered in place of a reply.

    For example `Agent terminated early due to an API error: … (error type rate_limit, HTTP 429, …)`
    (2.1.332). What has not this form is `unknown`.
    """
    found = _FAILED_CALL.search(said)
    if found is None:
        return ended_with(Outcome.UNKNOWN, said)
    frame = {
        "is_error": True,
        "terminal_reason": "api_error",
        "api_error_status": int(found["status"]) if found["status"] else None,
        "result": found["said"],
    }
    return result_of(frame, error_kind=found["kind"])


def _outcome(frame: AnyJson, error_kind: str) -> Outcome:
    reason = text_at(frame, "terminal_reason")
    # First: a full window is a plain 400 by its kind and its status (2.1.330).
    if reason in _OF_REASON:
        return _OF_REASON[reason]
    if not frame.get("is_error"):
        return Outcome.OK
    status = number_at(frame, "api_error_status")
    if error_kind in OF_ERROR_KIND:
        return OF_ERROR_KIND[error_kind]
    if status is None:
        return Outcome.UNKNOWN
    return outcome_of_refusal(status, text_at(frame, "result"))


def _detail(frame: AnyJson, outcome: Outcome, error_kind: str) -> str:
    stop = text_at(frame, "stop_reason")
    if outcome is Outcome.OK:
        return "" if stop in _ORDINARY_STOPS else f"{stop}: the model stopped for this reason"
    said = [
        error_kind,
        text_at(frame, "terminal_reason") or text_at(frame, "subtype"),
        text_at(frame, "result"),
        *texts_at(frame, "errors"),
    ]
    return ": ".join(part for part in said if part)


def usage_of(usage: object, *, written: int | None) -> UsageReported:
    """Return what a request took and the session then holds: all that was read, and `written`."""
    read = tokens_of(usage, _READ)
    return UsageReported(
        tokens_used=(read or 0) + (written or 0),
        tokens_read=read,
        tokens_written=written,
        tokens_cached=number_at(usage, "cache_read_input_tokens"),
        tokens_cache_written=number_at(usage, "cache_creation_input_tokens"),
    )


def tokens_of(usage: object, names: tuple[str, ...] = (*_READ, *_WRITTEN)) -> int | None:
    """Return all tokens of a usage, cached ones too; None when it names none."""
    return sum(filter(None, (number_at(usage, name) for name in names))) or None


def is_missing(said: str, session: str) -> bool:
    """Whether the CLI's words say that it has no such session (2.1.197, 2.1.330)."""
    return f"No conversation found with session ID: {session}" in said


# --- frames ---------------------------------------------------------------------------------------


SUBAGENT_TASK = "local_agent"

STREAMED_REMEMBERED_MAX = 1000
"""Messages of which pieces came, so that the whole block after them is not told again. The block
follows its pieces at once, so a thousand messages in between never are."""

# As seen up to 2.1.330. A frame that is in neither set is kept as an event of its own, raw, so
# that one of a newer version is on record before anybody knows what it means.
SILENT_FRAMES = frozenset(
    """
    keep_alive tool_progress tool_use_summary prompt_suggestion auth_status rate_limit_event
    command_lifecycle active_goal
    """.split()
)
SILENT_SUBTYPES = frozenset(
    """
    init status thinking_tokens per_turn_effort_changed hook_started hook_progress
    hook_response task_progress task_updated commands_changed session_state_changed
    background_tasks_changed notification files_persisted memory_recall plugin_install
    """.split()
)
"""`system` frames about the interface or about work in progress: no event."""


class Translator:
    """Turns the frames of one process into events."""

    def __init__(self) -> None:
        self.error_kind = ""
        self.refused_by = ""
        """Why a person's own hook did not let the prompt through."""
        self._children = Children()
        self._made_by: dict[str, UpstreamSessionId] = {}
        """The sub-agent that each call made."""
        self._streamed: dict[str, None] = {}
        self._speaking: dict[UpstreamSessionId, str] = {}
        self._read: dict[UpstreamSessionId, object] = {}
        """The usage with which each session's streamed answer began."""
        self._models: dict[UpstreamSessionId, str] = {}
        self._counted: dict[UpstreamSessionId, str] = {}

    def begin(self) -> None:
        """Forget the last turn's error: another prompt is about to be sent."""
        self.error_kind = self.refused_by = ""

    def translate(self, frame: object) -> Events:
        """Return what one frame says."""
        if isinstance(frame, Unreadable):
            return (unknown("unreadable_frame", frame.raw),)
        content = object_at(frame)
        kind = text_at(content, "type")
        if kind in SILENT_FRAMES:
            return ()
        session = session_of(content)
        reader = self._readers.get(kind)
        if session is None or reader is None:
            raw: Any = frame
            return (unknown(kind or "frame", raw, session),)
        started, speaker = self._speaker_of(content, session)
        return (*started, *of_session(speaker, reader(content, speaker)))

    @property
    def _readers(self) -> Mapping[str, Callable[[AnyJson, UpstreamSessionId], Events]]:
        return {
            "assistant": self._answer,
            "user": self._told,
            "stream_event": self._piece,
            "system": self._system,
            "result": self._window,
        }

    # --- sub-agents ----------------------------------------------------------------------------

    def _speaker_of(
        self, frame: AnyJson, session: UpstreamSessionId
    ) -> tuple[Events, UpstreamSessionId]:
        """Return whose words a frame holds, after the child's start when they are its first."""
        call_id = text_at(frame, "parent_tool_use_id")
        speaker = self._made_by.get(call_id) if call_id else session
        if speaker is not None:
            return (), speaker
        # Where a version names no sub-agent, its call is an id that no other one has.
        child = child_session(session, text_at(frame, "agent_id") or call_id)
        return self._start(child, session, frame, call_id), child

    def _child_started(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        """Return the start that a `task_started` frame tells of, none for another kind of task."""
        task_id, call_id = text_at(frame, "task_id"), text_at(frame, "tool_use_id")
        if text_at(frame, "task_type") != SUBAGENT_TASK or not task_id or not call_id:
            return ()
        parent_task = text_at(frame, "parent_task_id")
        parent = child_session(session, parent_task) if parent_task else session
        return self._start(child_session(session, task_id), parent, frame, call_id)

    def _start(
        self, child: UpstreamSessionId, parent: UpstreamSessionId, frame: AnyJson, call_id: str
    ) -> Events:
        self._made_by[call_id] = child
        if child not in self._children.working:  # one that has ended may begin again
            self._children.parents.pop(child, None)
        return self._children.start(child, parent=parent, role=role_of(frame), call_id=call_id)

    # --- answers -------------------------------------------------------------------------------

    def _piece(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        event = object_at(frame, "event")
        match event.get("type"):
            case "message_start":
                self._speaking[session] = text_at(event, "message", "id")
                self._read[session] = member(event, "message", "usage")
                self._models[session] = text_at(event, "message", "model")
                return ()
            case "content_block_delta":
                return self._delta(object_at(event, "delta"), session)
            case "message_delta":
                return self._usage(event, session)
            case _:
                return ()

    def _delta(self, delta: AnyJson, session: UpstreamSessionId) -> Events:
        message_id = self._speaking.get(session, "")
        # A call's arguments come in pieces as well, and are taken whole, with its block.
        text, thinking = text_at(delta, "text"), text_at(delta, "thinking")
        if not message_id or not (text or thinking):
            return ()
        self._remember(message_id)
        if thinking:
            return (events.ReasoningReceived(text=thinking),)
        return (events.TextReceived(text=text, message_id=message_id),)

    def _remember(self, message_id: str) -> None:
        if len(self._streamed) >= STREAMED_REMEMBERED_MAX:
            del self._streamed[next(iter(self._streamed))]
        self._streamed[message_id] = None

    def _usage(self, event: AnyJson, session: UpstreamSessionId) -> Events:
        """What an answer's request took, and the session holds after it: all that was read, and it.

        The sum at the turn's end leaves out what sub-agents took.
        """
        said = number_at(event, "usage", "output_tokens")
        if session not in self._read or said is None:
            return ()
        return (usage_of(self._read[session], written=said),)

    def _window(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        """The window of the model that answered; the turn's end lists every model that was used.

        Its name there may end in what the provider calls a variant of it: `[1m]`.
        """
        model = self._models.get(session)
        for name, used in object_at(frame, "modelUsage").items():
            size = number_at(used, "contextWindow")
            if model and name.startswith(model) and size:
                report = events.UsageReported(tokens_used=None, tokens_window=size)
                return (report,)
        return ()

    def _answer(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        error = text_at(frame, "error")
        if error or frame.get("is_api_error_message"):
            self.error_kind = error
            return ()
        message_id = text_at(frame, "message", "id")
        is_streamed = message_id in self._streamed
        said = tuple(
            event
            for block in objects_at(frame, "message", "content")
            for event in _block(block, message_id=message_id, is_streamed=is_streamed)
        )
        return (*said, *self._usage_of_child(frame, session, message_id))

    def _usage_of_child(
        self, frame: AnyJson, session: UpstreamSessionId, message_id: str
    ) -> Events:
        """What a sub-agent's request read, once for all the frames of its answer.

        Its answers are not streamed, and whole they tell no more of what was written than the first
        piece of one would (2.1.330): that is left open.
        """
        if not text_at(frame, "parent_tool_use_id") or self._counted.get(session) == message_id:
            return ()
        self._counted[session] = message_id
        report = usage_of(member(frame, "message", "usage"), written=None)
        return (report,) if report.tokens_read else ()

    # --- results, and what a child is told --------------------------------------------------------

    def _told(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        blocks = objects_at(frame, "message", "content")
        results = tuple(
            self._result(block) for block in blocks if block.get("type") == "tool_result"
        )
        if not text_at(frame, "parent_tool_use_id"):
            return results  # its own text is our prompt, or a note of Claude Code's own
        said = "".join(text_at(block, "text") for block in blocks)
        text = said or text_at(frame, "message", "content")
        if results or not text:
            return results
        message_id = text_at(frame, "uuid")
        heard = events.UserTextReplayed(text=text, message_id=message_id)
        return (heard,)

    def _result(self, block: AnyJson) -> events.ToolCallUpdated:
        call_id = text_at(block, "tool_use_id")
        return events.ToolCallUpdated(
            call_id=call_id,
            status="failed" if block.get("is_error") else "completed",
            text=text_of_blocks(block.get("content")),
            child_upstream_session_id=self._made_by.get(call_id),
        )

    # --- the rest --------------------------------------------------------------------------------

    def _system(self, frame: AnyJson, session: UpstreamSessionId) -> Events:
        if why := text_at(frame, "prompt_submit_outcome", "reason"):
            self.refused_by = why
        match frame.get("subtype"):
            case "task_started":
                return self._child_started(frame, session)
            case "task_notification":
                child = child_session(session, text_at(frame, "task_id"))
                outcome = Outcome(ENDS.get(text_at(frame, "status"), Outcome.UNKNOWN))
                return self._children.end(child, outcome)
            case "compact_boundary":
                # Of the request for the summary no frame has a figure (2.1.332).
                return events.ContextCompacted(), UsageReported(tokens_used=None)
            case "api_retry":
                answer = f"HTTP {status}" if (status := frame.get("error_status")) else "no answer"
                return (tries_again(frame, f"{answer} from its provider, it tries again"),)
            case "session_title_changed":
                title = text_at(frame, "title")
                return (events.TitleChanged(title=title),) if title else ()
            case subtype:
                is_silent = str(subtype) in SILENT_SUBTYPES
                return () if is_silent else (unknown(f"{NOTICE_PREFIX}{subtype}", frame),)


def session_of(frame: AnyJson) -> UpstreamSessionId | None:
    """Return the session a frame names, None where it names none."""
    return session_at(frame, "session_id") or None


def _block(block: AnyJson, *, message_id: str, is_streamed: bool) -> Events:
    match block.get("type"):
        case "tool_use":
            return _call(block)
        case "text" | "thinking" if is_streamed:
            return ()
        case "text":
            text = text_at(block, "text")
            return (events.TextReceived(text=text, message_id=message_id),)
        case "thinking":
            thinking = text_at(block, "thinking")
            return (events.ReasoningReceived(text=thinking),)
        case kind:
            return (unknown(f"block/{kind}", block),)


def _call(block: AnyJson) -> Events:
    tool, arguments = text_at(block, "name"), object_at(block, "input")
    announced = events.ToolCallAnnounced(
        call_id=text_at(block, "id"),
        title=title_of(tool, arguments),
        tool_kind=kind_of(tool),
        arguments=arguments,
        locations=locations_of(arguments),
    )
    plan = plan_of(tool, arguments)
    if plan is None:
        return (announced,)
    return announced, events.PlanChanged(entries=plan)
