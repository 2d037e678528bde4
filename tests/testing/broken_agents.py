# ruff: noqa: ARG005  # what stands for a method is given what the method is given
"""Faults planted in an agent, one each, that the suite shipped for agents has to find.

Each stands before the connection of a real agent and does a little less, or something else, than it
promises. A fault is given the real method as `call.real` and what it was called with; an adapter
that has one keeps `call.known` over all its connections.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from msgspec import structs

from upthread.agents.base import AgentConnection, AgentProcess, OpenRequest, PromptResult
from upthread.core.events import (
    ChildEnded,
    ChildStarted,
    PermissionAnswered,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.types import Outcome
from upthread.errors import UpstreamError

Event = Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method that a fault stands before; of a property `real` is the value."""

    real: Any
    connection: AgentConnection
    request: OpenRequest
    known: dict[Any, Any]
    here: dict[Any, Any]


class Fault(NamedTuple):
    """`breaks` is the promise that has to fail, by its number or by its name.

    `method` is one of the connection's, or `request` (how it is opened), `on_event` (what each
    event becomes), `history` (what a loaded one becomes), `result` (how a prompt is said to have
    ended) or `open` (what becomes of starting it).
    """

    breaks: str
    what: str
    method: str
    does: Callable[..., Any]


class BrokenAdapter:
    """A real adapter with a fault."""

    def __init__(self, real: Any, fault: Fault) -> None:
        self._real, self._fault = real, fault
        self._known: dict[Any, Any] = {}

    @property
    def agent(self) -> str:
        return self._real.agent

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncIterator[Any]:
        fault = self._fault
        chosen = fault.does(request) if fault.method == "request" else request
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self._real.open(chosen))
            connection = await (fault.does(opening) if fault.method == "open" else opening)
            yield BrokenConnection(connection, fault, request, self._known)


class BrokenConnection:
    """The real connection, but for one thing."""

    def __init__(self, real: Any, fault: Fault, request: OpenRequest, known: Any) -> None:
        self._real, self._fault, self._request, self._known = real, fault, request, known
        self._here: dict[Any, Any] = {}

    def called(self, real: Any) -> Callable[..., Any]:
        call = Call(real, self._real, self._request, self._known, self._here)
        return partial(self._fault.does, call)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if name != self._fault.method:
            return value
        return self.called(value) if callable(value) else self.called(value)()

    async def load_session(self, session: Any) -> Any:
        if self._fault.method == "load_session":
            return await self.called(self._real.load_session)(session)
        events = await self._real.load_session(session)
        return tuple(self.called(session)(events)) if self._fault.method == "history" else events

    async def prompt(self, session: Any, text: str, *, on_event: Any) -> Any:
        if self._fault.method == "prompt":
            return await self.called(self._real.prompt)(session, text, on_event=on_event)

        async def changed(event: Event) -> None:
            for each in self.called(session)(event):
                await on_event(each)

        given = changed if self._fault.method == "on_event" else on_event
        result = await self._real.prompt(session, text, on_event=given)
        return self.called(session)(result) if self._fault.method == "result" else result


async def _nowhere(_event: Event) -> None:
    """Drop an event."""


# --- sessions ------------------------------------------------------------------------------------


async def _same_id(call: Call) -> Any:
    if "session" not in call.here:
        call.here["session"] = await call.real()
    return call.here["session"]


async def _id_of_nothing(call: Call) -> Any:
    return "ses_" + "0" * 22


async def _into_the_empty(call: Call, session: Any, text: str, *, on_event: Any) -> Any:
    """Prompt a new session in place of one that another connection prompted."""
    mine = call.here.setdefault("mine", {session: session})
    theirs = call.known.setdefault("theirs", {})
    if session not in mine or theirs.get(session, mine) is not mine:
        mine[session] = await call.connection.new_session()
    theirs.setdefault(session, mine)

    async def renamed(event: Event) -> None:
        await on_event(structs.replace(event, upstream_session_id=session))

    return await call.real(mine[session], text, on_event=renamed)


async def _attaches_anything(call: Call, session: Any) -> Any:
    try:
        return await call.real(session)
    except UpstreamError:
        return ()


async def _attaches_none(call: Call, session: Any) -> Any:
    return ()


async def _not_missing(call: Call, session: Any) -> Any:
    try:
        return await call.real(session)
    except UpstreamError as error:
        raise UpstreamError(str(error), outcome=Outcome.UNKNOWN, hint="try again") from error


async def _made_on_failure(call: Call, session: Any) -> Any:
    try:
        return await call.real(session)
    except UpstreamError:
        await call.connection.new_session()
        raise


async def _always_missing(call: Call, session: Any) -> Any:
    raise UpstreamError("it is gone", outcome=Outcome.MISSING, hint="begin another")


async def _to_the_newest(call: Call, session: Any, text: str, *, on_event: Any) -> Any:
    """Prompt the session that was made last, whichever is asked for."""
    made = call.known.setdefault("order", [])
    if session not in made:
        made.append(session)
    if session != made[-1]:
        await call.connection.resume_session(made[-1])
    return await call.real(made[-1], text, on_event=on_event)


async def _says_twice(call: Call, session: Any, text: str, *, on_event: Any) -> Any:
    """Prompt the agent a second time, unseen."""
    result = await call.real(session, text, on_event=on_event)
    if result.outcome is Outcome.OK:
        await call.real(session, text, on_event=_nowhere)
    return result


# --- forks and lists -----------------------------------------------------------------------------


async def _no_fork(call: Call, session: Any) -> Any:
    return session


async def _bare_fork(call: Call, session: Any) -> Any:
    """Fork what the last turn has not been said in."""
    fork = await call.connection.new_session()
    history = await call.connection.load_session(session)
    first = next(event.text for event in history if isinstance(event, UserTextReplayed))
    await call.connection.prompt(fork, first, on_event=_nowhere)
    return fork


async def _into_the_origin(call: Call, session: Any, text: str, *, on_event: Any) -> Any:
    """Say what a fork is told to the session it was made of."""
    result = await call.real(session, text, on_event=on_event)
    made = call.known.setdefault("made", [])
    if session not in made:
        made.append(session)
    if len(made) > 1:
        await call.connection.resume_session(made[0])
        await call.real(made[0], text, on_event=_nowhere)
    return result


async def _listed_twice(call: Call) -> Any:
    listed = await call.real()
    return (*listed, *listed[-1:])


# --- what becomes of histories and events --------------------------------------------------------


def _turns(events: Iterable[Event]) -> list[list[Event]]:
    turns: list[list[Event]] = [[]]
    for event in events:
        if isinstance(event, UserTextReplayed):
            turns.append([])
        turns[-1].append(event)
    return turns


def _joined(turns: Iterable[list[Event]]) -> list[Event]:
    return [event for turn in turns for event in turn]


def _without(*kinds: type) -> Callable[..., Any]:
    """Leave out events of a kind, of a history or of a prompt."""

    def does(call: Call, events: Any) -> list[Event]:
        given = events if isinstance(events, tuple) else (events,)
        return [event for event in given if not isinstance(event, kinds)]

    return does


def _change(kind: type, **instead: Any) -> Callable[..., Any]:
    """Change members of events of a kind; a function is given the old value."""

    def changed(event: Event) -> Event:
        if not isinstance(event, kind):
            return event
        new = {
            name: value(getattr(event, name)) if callable(value) else value
            for name, value in instead.items()
        }
        return structs.replace(event, **new)

    def does(call: Call, events: Any) -> list[Event]:
        given = events if isinstance(events, tuple) else (events,)
        return [changed(event) for event in given]

    return does


def _repeated(kind: type) -> Callable[..., Any]:
    return lambda call, event: [event, event] if isinstance(event, kind) else [event]


def _in_pairs_swapped(call: Call, event: Event) -> list[Event]:
    """Deliver a pair of texts the wrong way round."""
    if not isinstance(event, TextReceived) or not event.text.startswith("chunk"):
        return [event]
    held = call.here.pop("held", None)
    if held is not None:
        return [event, held]
    call.here["held"] = event
    return []


def _all_at_once(call: Call, event: Event) -> list[Event]:
    """Make one piece of two."""
    if not isinstance(event, TextReceived):
        return [event]
    call.here["text"] = call.here.get("text", "") + event.text
    if "9 of 9" not in event.text:
        return []
    return [structs.replace(event, text=call.here["text"])]


def _of_the_parent(call: Call, event: Event) -> list[Event]:
    return [structs.replace(event, upstream_session_id=call.real)]


def _child_first(call: Call, event: Event) -> list[Event]:
    """Deliver a child's start when it has ended."""
    if isinstance(event, ChildStarted):
        call.here["started"] = event
        return []
    if isinstance(event, ChildEnded) and "started" in call.here:
        return [call.here.pop("started"), event]
    return [event]


def _is_end(event: Event) -> bool:
    return isinstance(event, ToolCallUpdated) and event.status in {"completed", "failed"}


# --- prompts -------------------------------------------------------------------------------------


async def _at_once(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Hand each event over without waiting for it to be taken."""
    async with anyio.create_task_group() as tasks:

        async def start(event: Event) -> None:
            tasks.start_soon(on_event, event)

        return await call.real(session, text, on_event=start)


async def _in_the_next(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Deliver in the next prompt what came too late in this one."""
    for event in call.here.pop("late", ()):
        await on_event(event)
    result = await call.real(session, text, on_event=on_event)
    if "late" in text:
        call.here["late"] = [TextReceived(upstream_session_id=session, text="too late")]
    return result


async def _two_at_once(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Take a second prompt while one is running, and say that it was done."""
    if call.here.get("busy"):
        return PromptResult(outcome=Outcome.OK)
    call.here["busy"] = True
    try:
        return await call.real(session, text, on_event=on_event)
    finally:
        call.here["busy"] = False


async def _waits_its_turn(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Keep a second prompt waiting until the first has ended."""
    lock = call.here.setdefault("lock", anyio.Lock())
    async with lock:
        return await call.real(session, text, on_event=on_event)


async def _swallows(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Go on when whoever takes the events fails."""

    async def careful(event: Event) -> None:
        try:
            await on_event(event)
        except Exception:  # noqa: BLE001  # that is the fault
            return

    return await call.real(session, text, on_event=careful)


async def _wraps(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    try:
        return await call.real(session, text, on_event=on_event)
    except UpstreamError:
        raise
    except Exception as error:
        raise UpstreamError(str(error), outcome=Outcome.UNKNOWN, hint="x") from error


async def _deadline_at_once(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    if call.request.prompt_timeout_s < 10:
        return PromptResult(outcome=Outcome.TIMED_OUT)
    return await call.real(session, text, on_event=on_event)


async def _loses_on_deadline(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Have nothing left of a session that ran into its deadline."""
    if call.known.get("lost") == session:
        return PromptResult(outcome=Outcome.MISSING, detail="no such session")
    result = await call.real(session, text, on_event=on_event)
    if result.outcome in {Outcome.TIMED_OUT, Outcome.CANCELLED}:
        call.known["lost"] = session
    return result


def _altered(change: Callable[[str], str]) -> Callable[..., Any]:
    async def does(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
        return await call.real(session, change(text), on_event=on_event)

    return does


def _outcome(of: Outcome, instead: Outcome) -> Callable[..., Any]:
    def does(call: Call, result: PromptResult) -> PromptResult:
        return structs.replace(result, outcome=instead) if result.outcome is of else result

    return does


def _result(**instead: Any) -> Callable[..., Any]:
    return lambda call, result: structs.replace(result, **instead)


async def _raises(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    """Raise what should be returned."""
    result = await call.real(session, text, on_event=on_event)
    if result.outcome is Outcome.OK:
        return result
    raise UpstreamError(result.detail, outcome=result.outcome, hint="x")


async def _garbage_ends_it(call: Call, session: Any, text: str, *, on_event: Any) -> PromptResult:
    ended: list[Event] = []

    async def watch(event: Event) -> None:
        await on_event(event)
        if isinstance(event, UnknownReceived):
            ended.append(event)

    result = await call.real(session, text, on_event=watch)
    return structs.replace(result, outcome=Outcome.UNKNOWN) if ended else result


# --- cancelling, permissions, starting and ending ------------------------------------------------


async def _not_cancelled(call: Call, session: Any) -> None:
    """Nothing is done."""


async def _no_forced_end(call: Call, session: Any) -> None:
    raise UpstreamError("it cannot be cancelled", outcome=Outcome.UNKNOWN, hint="wait")


def _unasked(request: OpenRequest) -> OpenRequest:
    """Let the agent do all without asking."""
    more = {**request.environment, "UPTHREAD_REHEARSAL_CAPABILITIES": "no_ask"}
    return structs.replace(request, environment=more)


def _answered_with(kind: str, *, when: str) -> Callable[..., Any]:
    """Send another answer than the one given, and say that it was the one given."""

    def does(request: OpenRequest) -> OpenRequest:
        async def answer(asked: Any) -> Any:
            given = await request.answer_permission(asked)
            offered = dict(asked.options)
            if offered.get(given.option_id) != when:
                return given
            other = next(option for option, offer in asked.options if offer == kind)
            return structs.replace(given, option_id=other)

        return structs.replace(request, answer_permission=answer)

    return does


def _asked_after(request: OpenRequest) -> OpenRequest:
    """Do what is asked for, then ask."""

    async def answer(asked: Any) -> Any:

        Path(request.working_directory, "note.txt").write_text("hello")  # noqa: ASYNC240
        return await request.answer_permission(asked)

    return structs.replace(request, answer_permission=answer)


def _elsewhere(request: OpenRequest) -> OpenRequest:
    """Work in another directory."""

    other = Path(request.working_directory).parent / "other"
    other.mkdir(exist_ok=True)
    return structs.replace(request, working_directory=str(other))


def _made_first(request: OpenRequest) -> OpenRequest:
    """Make the directory that is not there."""

    Path(request.working_directory).mkdir(exist_ok=True)
    return request


IDLE: list[subprocess.Popen[bytes]] = []
"""What a fault has started, for the test to end."""


def _idle(*, in_group_of_its_own: bool) -> Callable[[Call], AgentProcess]:
    """Name a process that outlives the connection, or that is in our own group."""
    words = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]

    def does(call: Call) -> AgentProcess:
        if "idle" not in call.here:
            call.here["idle"] = subprocess.Popen(words, start_new_session=in_group_of_its_own)
            IDLE.append(call.here["idle"])
        return AgentProcess(pid=call.here["idle"].pid, started_at_ticks=1)

    return does


async def _slow_start(open_real: Any) -> Any:
    """Wait for what does not start."""
    try:
        return await open_real
    except UpstreamError:
        await anyio.sleep(30)
        raise


async def _started_all_the_same(open_real: Any) -> Any:
    """Let what did not start pass for what did."""
    try:
        return await open_real
    except UpstreamError:
        return None


async def _no_cure(open_real: Any) -> Any:
    try:
        return await open_real
    except UpstreamError as error:
        raise UpstreamError(str(error), outcome=error.outcome, hint="") from error


_PLANTED: Mapping[tuple[str, str], Mapping[str, Callable[..., Any]]] = {
    ("A1", "process"): {
        "goes on when it was left": _idle(in_group_of_its_own=True),
        "is in our group": _idle(in_group_of_its_own=False),
        "has no start": lambda call: call.real and structs.replace(call.real, started_at_ticks=0),
    },
    ("A2_a_bad_start_is_an_error_in_time", "open"): {
        "takes longer than it may": _slow_start,
        "opens what did not start": _started_all_the_same,
        "says nothing of what helps": _no_cure,
    },
    ("A2", "request"): {"makes a directory that is gone": _made_first},
    ("A2", "capabilities"): {
        "another agent's": lambda call: structs.replace(call.real, agent="somebody"),
        "no version": lambda call: structs.replace(call.real, version=""),
    },
    ("A3", "new_session"): {
        "gives one id twice": _same_id,
        "gives an id of nothing": _id_of_nothing,
    },
    ("A3", "resume_session"): {"finds nothing": _always_missing},
    ("A4_of_two_sessions_the_one_asked_for_is_attached", "prompt"): {
        "begins an empty session under the id": _into_the_empty,
        "goes to the newest session": _to_the_newest,
    },
    ("A4", "prompt"): {"is said twice": _says_twice},
    **{
        ("A4", attach): {
            "attaches what is not there": _attaches_anything,
            "does not say missing": _not_missing,
            "makes one on failure": _made_on_failure,
            "attaches none": _attaches_none,
        }
        for attach in ("resume_session", "load_session")
    },
    ("A5", "late_events"): {"a resume replays": lambda call: call.real + 3},
    ("A5", "history"): {
        "ends after its first turn": lambda call, events: _joined(_turns(events)[:2]),
        "has turns in another order": lambda call, events: _joined(reversed(_turns(events))),
        "is a new one each time": lambda call, events: (
            events if call.here.setdefault(call.real, events) is events else ()
        ),
        "has no prompts": _without(UserTextReplayed),
        "has no replies": _without(TextReceived),
        "has no calls": _without(ToolCallAnnounced),
        "has no results": _without(ToolCallUpdated),
        "has failures alone": _change(
            ToolCallUpdated, status=lambda status: "failed" if status == "completed" else status
        ),
        "is another session's": _change(TextReceived, upstream_session_id="ses_other"),
    },
    ("A6", "prompt"): {"does not wait for who takes events": _at_once},
    ("A6", "on_event"): {
        "swaps two": _in_pairs_swapped,
        "makes one piece of all": _all_at_once,
    },
    ("A7", "on_event"): {
        "says nothing of whose it is": _change(TextReceived, upstream_session_id=None),
        "is another session's": _change(TextReceived, upstream_session_id="ses_other"),
        "gives a child's words to its parent": _of_the_parent,
        "tells of no child": _without(ChildStarted),
        "tells of no child's end": _without(ChildEnded),
        "tells of a child when it has ended": _child_first,
        "names a child as its parent": lambda call, event: (
            [structs.replace(event, child_upstream_session_id=call.real)]
            if isinstance(event, ChildStarted)
            else [event]
        ),
    },
    ("A8", "late_events"): {"are not counted": lambda call: 0},
    ("A8", "prompt"): {"delivers late words in the next": _in_the_next},
    ("A9", "result"): {
        "a limit is a success": _outcome(Outcome.RATE_LIMITED, Outcome.OK),
        "a full context is unknown": _outcome(Outcome.CONTEXT_FULL, Outcome.UNKNOWN),
        "a lost session is transient": _outcome(Outcome.MISSING, Outcome.TRANSIENT),
        "a death is a success": _outcome(Outcome.PROCESS_DIED, Outcome.OK),
        "has no word of the agent's": _result(detail=""),
    },
    ("A9", "prompt"): {"raises how it ended": _raises},
    ("A9_a_second_prompt_at_once_is_refused", "prompt"): {
        "takes a second one": _two_at_once,
        "keeps a second one waiting": _waits_its_turn,
    },
    ("A9_an_error_of_the_caller_comes_through", "prompt"): {
        "passes over an error of the caller": _swallows,
        "makes an error of the caller its own": _wraps,
    },
    ("A10", "cancel"): {"does nothing": _not_cancelled, "refuses": _no_forced_end},
    ("A10", "result"): {"a cancelled prompt is a success": _outcome(Outcome.CANCELLED, Outcome.OK)},
    ("A10", "prompt"): {"loses a session that was cancelled": _loses_on_deadline},
    ("A11", "request"): {
        "knows no deadline": lambda request: structs.replace(request, prompt_timeout_s=3_600.0)
    },
    ("A11", "prompt"): {
        "ends before its deadline": _deadline_at_once,
        "loses a session that timed out": _loses_on_deadline,
    },
    ("A11", "result"): {"a deadline is a cancel": _outcome(Outcome.TIMED_OUT, Outcome.CANCELLED)},
    ("A12", "on_event"): {
        "leaves NUL out": _change(TextReceived, text=lambda text: text.replace("\0", "")),
        "replaces half a character": _change(
            TextReceived, text=lambda text: text.encode(errors="replace").decode()
        ),
        "cuts long texts": _change(TextReceived, text=lambda text: text[:65_536]),
        "leaves out what it does not know": _without(UnknownReceived),
        "keeps nothing of what it does not know": _change(UnknownReceived, raw=None),
    },
    ("A12", "prompt"): {
        "leaves NUL out": _altered(lambda text: text.replace("\0", "")),
        "composes characters": _altered(lambda text: text.replace("e\u0301", "\u00e9")),
        "is cut": _altered(lambda text: text[:1_000] + text[-20:] if len(text) > 4_096 else text),
        "ends with what it cannot read": _garbage_ends_it,
    },
    ("A13", "request"): {
        "nobody is asked": _unasked,
        "a refusal is taken for a yes": _answered_with("allow_once", when="reject_once"),
        "a yes is taken for a refusal": _answered_with("reject_once", when="allow_once"),
        "it acts, then asks": _asked_after,
        "it acts elsewhere": _elsewhere,
    },
    ("A13", "on_event"): {
        "says nothing of an answer": _without(PermissionAnswered),
        "forgets who answered": _change(PermissionAnswered, answered_by=""),
        "says that all was allowed": _change(PermissionAnswered, answer="allow_once"),
        "forgets which call was asked about": _change(PermissionAnswered, call_id=None),
    },
    ("A15", "on_event"): {
        "tells of no call": _without(ToolCallAnnounced),
        "tells of no result": _without(ToolCallUpdated),
        "tells of a call twice": _repeated(ToolCallAnnounced),
        "ends another call": _change(ToolCallUpdated, call_id=lambda name: f"{name}x"),
        "fails what was done": _change(
            ToolCallUpdated, status=lambda status: "failed" if status == "completed" else status
        ),
    },
    ("A16", "fork_session"): {
        "forks nothing": _no_fork,
        "takes the first turn alone": _bare_fork,
    },
    ("A16", "prompt"): {"tells the origin what its fork is told": _into_the_origin},
    ("A17", "list_sessions"): {"lists one twice": _listed_twice},
    ("A18", "result"): {
        "swaps tokens": lambda call, result: structs.replace(
            result, tokens_in=result.tokens_out, tokens_out=result.tokens_in
        ),
        "counts always the same": _result(tokens_in=1, tokens_out=1),
        "knows no end of a limit": _result(reset_at_ms=None),
    },
}
"""By the promise that has to fail and the method that the fault stands before."""

FAULTS = tuple(
    Fault(breaks, f"{method}: {what}", method, does)
    for (breaks, method), faults in _PLANTED.items()
    for what, does in faults.items()
)
