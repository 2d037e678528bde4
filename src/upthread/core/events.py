"""Events: what has happened, always in the past tense.

Three alphabets. Agent events come from an adapter while a prompt runs or a history is read back;
turn events are the stored life of one turn; run events the stored life of one pipeline run. The
state of a turn or a run is the fold of its events and is never stored itself.
"""

from __future__ import annotations

# What JsonValue says is read in this module by whoever asks for a signature.
from collections.abc import Iterable, Mapping, Sequence  # noqa: F401  # pyright: ignore[reportUnusedImport]
from typing import TypeAlias

from msgspec import Struct, field

from upthread.core.agents import Actor
from upthread.core.types import JsonValue, Outcome, UpstreamSessionId

# --- agent events ------------------------------------------------------------------------------


class AgentEvent(Struct, frozen=True, kw_only=True):
    """The base. `upstream_session_id` is None when the agent did not say whose event it is."""

    upstream_session_id: UpstreamSessionId | None = None


Events: TypeAlias = tuple[AgentEvent, ...]
"""What an agent said, in its order."""


class UserTextReplayed(AgentEvent, frozen=True, kw_only=True):
    """Something the user said earlier, read back from the agent's history."""

    text: str
    message_id: str | None = None


class TextReceived(AgentEvent, frozen=True, kw_only=True):
    """A piece of the reply; pieces follow each other without separators."""

    text: str
    message_id: str | None = None


class ReasoningReceived(AgentEvent, frozen=True, kw_only=True):
    """A piece of the agent's reasoning."""

    text: str


class ToolCallAnnounced(AgentEvent, frozen=True, kw_only=True):
    """The agent means to use a tool. `tool_kind` as in ACP; `locations` are paths, as given.

    `implied_kinds` are what its content shows it to be, for the judgement alone: see
    core/shell/expected_call.
    """

    call_id: str
    title: str
    tool_kind: str = "other"
    arguments: JsonValue = None
    locations: tuple[str, ...] = ()
    implied_kinds: tuple[str, ...] = ()


REQUEST_FAILED = "request_failed"
"""The kind of what an agent's store says of a prompt whose request to the model failed."""

CALL_FAILED = "failed"
CALL_UNKNOWN = "unknown"
CALL_ENDED = frozenset({"completed", CALL_FAILED})
"""With one of these a call has ended. `unknown` is ours: nobody can know how it did."""

INTERRUPTED = "interrupted; outcome unknown"
"""The result of a call whose end nobody saw."""


class ToolCallUpdated(AgentEvent, frozen=True, kw_only=True):
    """More about a call; None means unchanged.

    `status` is pending, in_progress, completed or failed. `did_run` is whether the end of one that
    failed shows that it ran, so that it did not fail for want of a permission.
    """

    call_id: str
    status: str | None = None
    title: str | None = None
    tool_kind: str | None = None
    arguments: JsonValue = None
    locations: tuple[str, ...] | None = None
    implied_kinds: tuple[str, ...] = ()
    text: str | None = None
    child_upstream_session_id: UpstreamSessionId | None = None
    did_run: bool = False


class ChildStarted(AgentEvent, frozen=True, kw_only=True):
    """A sub-agent began: `upstream_session_id` is the parent's, `call_id` the call that made it."""

    child_upstream_session_id: UpstreamSessionId
    role: str
    call_id: str | None = None


class ChildEnded(AgentEvent, frozen=True, kw_only=True):
    """A sub-agent ended, in whatever way."""

    child_upstream_session_id: UpstreamSessionId
    outcome: Outcome = Outcome.OK


class PlanChanged(AgentEvent, frozen=True, kw_only=True):
    """The agent's plan or to-do list, whole: (text, status) pairs in order."""

    entries: tuple[tuple[str, str], ...]


class UsageReported(AgentEvent, frozen=True, kw_only=True):
    """Tokens the session holds and the size of its window; None where the agent did not say.

    `tokens_read` and `tokens_written` are those of one request to the model, told once for each:
    all that it read, what a cache held included. None where the agent does not count its requests;
    with no other figure either, it is of a request of which nothing is known.
    `tokens_cached` is how much of what was read came from a provider's cache, and
    `tokens_cache_written` how much was put into one; None where the agent does not say.
    """

    tokens_used: int | None
    tokens_window: int | None = None
    tokens_read: int | None = None
    tokens_written: int | None = None
    tokens_cached: int | None = None
    tokens_cache_written: int | None = None


class ContextCompacted(AgentEvent, frozen=True, kw_only=True):
    """The agent replaced what its session holds by a summary."""


class TitleChanged(AgentEvent, frozen=True, kw_only=True):
    """The agent named its session."""

    title: str


class PermissionAnswered(AgentEvent, frozen=True, kw_only=True):
    """A permission request and who or what answered it, for the audit."""

    call_id: str | None
    title: str
    answer: str
    answered_by: str


class UnknownReceived(AgentEvent, frozen=True, kw_only=True):
    """An update of a kind this version does not know, kept as it came.

    `progress` is what it tells a person who waits, for example that the agent tries again.
    """

    kind: str
    raw: JsonValue
    progress: str = ""


# --- turn events -------------------------------------------------------------------------------


def _kind_of(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


def kind_of(event: StoredEvent) -> str:
    """Return the word that an event is stored under."""
    return str(type(event).__struct_config__.tag)


class StoredEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=_kind_of):
    """The base of what is stored: `TurnIntended` is stored as `turn_intended`.

    What is as always is not written: most of it is.
    """


class AgentsCall(Struct, frozen=True, kw_only=True):
    """A call of an agent's own tool for sub-agents, made in one of the agent's main sessions.

    `because` is the code of why the call belongs to its workstream: core/names.py.
    """

    agent: str
    main_session: str
    call_id: str
    because: str = ""


class TurnIntended(StoredEvent, frozen=True, kw_only=True):
    """The turn was decided and its prompt recorded, before anything was sent.

    `prompt_seq` is the message that holds the user's text. `condition` is the digest `resume_if`
    compares next time, None for a role without one. `key` is the step of a durable engine that the
    turn is of, empty for any other turn. `call` is what began a turn that the agent itself drives,
    None for a turn that upthread drives.
    """

    decision: str
    reasons: tuple[str, ...]
    prompt_seq: int
    inputs: JsonValue = None
    condition: str | None = None
    key: str = ""
    call: AgentsCall | None = None


class SessionAttached(StoredEvent, frozen=True, kw_only=True):
    """An upstream session is ours to prompt. `how` is new, resumed or loaded.

    The agent's process is named so that whoever takes over can end it: two writers on one upstream
    session lose a branch. `agent_profile` is the variable with the place where the agent keeps its
    sessions, empty where that is not known; with `chose_profile` its own command set it, and not
    the environment that it was given. With `is_background` the session works on after the call that
    began the turn.
    """

    upstream_session_id: UpstreamSessionId
    how: str
    agent: str
    agent_pid: int | None = None
    agent_started_at_ticks: int | None = None
    agent_host: str | None = None
    agent_profile: str = ""
    chose_profile: bool = False
    is_background: bool = False


class AttachFailed(StoredEvent, frozen=True, kw_only=True):
    """The upstream session could not be attached; the turn decides again knowing `outcome`."""

    upstream_session_id: UpstreamSessionId | None
    outcome: Outcome
    detail: str


class PromptSent(StoredEvent, frozen=True, kw_only=True):
    """The prompt is about to leave; message `prompt_seq` holds it as it is sent.

    The prior context of every send is kept by what it spans, 0 to 0 where nothing was said before,
    and by its digest; `is_prior_injected` says whether the prompt tells it.
    """

    prompt_seq: int
    prior_from_seq: int = 0
    prior_to_seq: int = 0
    prior_digest: str = ""
    is_prior_injected: bool = False


class RecoveryStarted(StoredEvent, frozen=True, kw_only=True):
    """The turn is gone on with, its prompt perhaps sent.

    Its holder died, a person told the parked turn to go on, or the same holder tries once more.
    With `refused_as` an attempt of a durable step ended: the agent did not open the session, with
    the words `detail`, and the next attempt goes on.
    """

    holder: str
    refused_as: Outcome | None = None
    detail: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    """What a turn's requests took, as its agent counted them: core/turns/spent_tokens.py.

    A figure is None where the agent did not tell it of every request. `read` is all that was read,
    of it `cached` from a provider's cache; `cache_written` was put into one. `first_read` and
    `first_cached` are those of the session's own first request: what it took to begin, or to go on.
    `requests` is 0 where the agent told only the sum.
    """

    requests: int = 0
    read: int | None = None
    written: int | None = None
    cached: int | None = None
    cache_written: int | None = None
    first_read: int | None = None
    first_cached: int | None = None


class PromptRecognised(StoredEvent, frozen=True, kw_only=True):
    """What the agent's own history says of our prompt: see core/turns/turn.py, Recognition.

    `tokens_spent` and `usage` are what that history counts for the prompt, None where it counts
    nothing, and where the turn's end or park tells of the same prompt.
    """

    recognition: str
    tokens_spent: int | None = None
    is_spent_estimated: bool = False
    usage: Usage | None = None


class TurnEnded(StoredEvent, frozen=True, kw_only=True):
    """The turn is over. `adopted` marks a reply found in the agent's history after a crash.

    `tokens_used` is what the session now holds, `tokens_window` the most it can; None where the
    agent did not say. `was_compacted` says that the session now holds a summary; `late_events`
    counts what the agent still sent after its end, which is discarded. `surroundings` is a
    core/decision/freshness.py Surroundings as plain data, None where nobody looked. `tree_digest`
    is that of the working tree after a turn that judges it, empty for all others and where git
    could not tell. `tokens_spent` is what its prompts took since the turn was last parked, None
    where none left: core/turns/spent_tokens.py. `tokens_fixed` is what any session of this agent
    reads before our words, None where nobody knows: core/decision/words.py. `calls_open` is how
    many calls had no end when the turn had: nobody knows what they came to, however well it ended.
    `session_stamp` is what the session's own store was known by then: while it is the same, nobody
    has gone on in it since. Empty where that is not known. `session_written_at_ms` is when that
    store was last written to, of a turn that was read back from it, else None. `usage` is what was
    counted since the turn was last parked, None where the agent counts nothing. `turns_before` is
    how many turns the conversation had before this one, None where nobody added them up; they took
    `tokens_before`, and `failed_before` are those that did not end well:
    core/turns/spent_tokens.py.
    """

    outcome: Outcome
    report: JsonValue = None
    adopted: bool = False
    detail: str = ""
    tokens_used: int | None = None
    tokens_window: int | None = None
    was_compacted: bool = False
    late_events: int = 0
    surroundings: JsonValue = None
    tree_digest: str = ""
    tokens_spent: int | None = None
    is_spent_estimated: bool = False
    calls_open: int = 0
    tokens_fixed: int | None = None
    is_fixed_estimated: bool = False
    session_stamp: str = ""
    session_written_at_ms: int | None = None
    usage: Usage | None = None
    turns_before: int | None = None
    tokens_before: int = 0
    is_before_estimated: bool = False
    failed_before: tuple[str, ...] = ()


class TurnParked(StoredEvent, frozen=True, kw_only=True):
    """The turn waits for a human: `reason` says why, `detail` what is known.

    `tokens_spent` is what its prompts took until then, as in TurnEnded; `tokens_held` is what its
    session held, which the next request reads again, None where nobody said. `usage` as in
    TurnEnded.
    """

    reason: str
    detail: str
    reset_at_ms: int | None = None
    tokens_spent: int | None = None
    is_spent_estimated: bool = False
    tokens_held: int | None = None
    usage: Usage | None = None


TurnEvent: TypeAlias = (
    TurnIntended
    | SessionAttached
    | AttachFailed
    | PromptSent
    | RecoveryStarted
    | PromptRecognised
    | TurnEnded
    | TurnParked
)


# --- run events --------------------------------------------------------------------------------


class Question(Struct, frozen=True, kw_only=True):
    """Something only a human can answer. `question_id` is unique within the run."""

    question_id: str
    role: str
    text: str


class RunStarted(StoredEvent, frozen=True, kw_only=True):
    """A passage of a pipeline began. `pipeline` is its definition, so a run outlives edits.

    `told` are the digests of the sections each role has already been told in earlier runs;
    `agents` what each role was to be done by, when the run began.
    """

    specification: str
    pipeline: JsonValue
    iteration: int = 1
    told: Mapping[str, tuple[str, ...]] = {}
    agents: Mapping[str, str] = {}


class StepStarted(StoredEvent, frozen=True, kw_only=True):
    """A role is about to be asked. `asked_again` marks the one request for a missing report."""

    role: str
    turn_id: str
    asked_again: bool = False


class StepEnded(StoredEvent, frozen=True, kw_only=True):
    """A role answered. `report` is None when it handed none back that can be read.

    `input_digest` and `tree_digest` are what a verdict holds for: see core/runs/pipeline.py.
    """

    role: str
    turn_id: str
    outcome: Outcome
    report: JsonValue = None
    report_error: str = ""
    input_digest: str = ""
    tree_digest: str = ""


class QuestionsAsked(StoredEvent, frozen=True, kw_only=True):
    """The run waits for a human."""

    role: str
    questions: tuple[Question, ...]


class QuestionAnswered(StoredEvent, frozen=True, kw_only=True):
    """One question was answered. `answered_by` is None of what was recorded before it was asked."""

    question_id: str
    text: str
    answered_by: Actor | None = None


class AnswerSuggested(StoredEvent, frozen=True, kw_only=True):
    """A model gave an answer where a person is asked: it stays open until a person answers it."""

    question_id: str
    text: str
    by: Actor


class RunParked(StoredEvent, frozen=True, kw_only=True):
    """The run cannot go on now. With a `reset_at_ms` it goes on by itself after that time."""

    reason: str
    detail: str = ""
    role: str = ""
    reset_at_ms: int | None = None


class RunResumed(StoredEvent, frozen=True, kw_only=True):
    """A person set a run going again: a parked one, or with `role` one that is to be judged again.

    `role` is asked next; empty where the run goes on from its stop.
    """

    because: str = ""
    role: str = ""


class RunEnded(StoredEvent, frozen=True, kw_only=True):
    """The passage is over: approved, rejected (nobody to send it back to), done or forgotten."""

    status: str
    evidence: tuple[str, ...] = field(default=())


RunEvent: TypeAlias = (
    RunStarted
    | StepStarted
    | StepEnded
    | QuestionsAsked
    | QuestionAnswered
    | AnswerSuggested
    | RunParked
    | RunResumed
    | RunEnded
)


def settles(event: RunEvent) -> bool:
    """Return whether an event settles the transitions before it.

    The start of a step does not: whoever takes the run over goes on with that very transition. Nor
    does what a model would answer: nothing comes of it.
    """
    return not isinstance(event, StepStarted | AnswerSuggested)
