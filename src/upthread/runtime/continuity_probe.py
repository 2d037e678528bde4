"""The continuity probe: what an agent really does about sessions, found out by trying.

It is started, given a session and one prompt, killed, started again, and asked for that session,
for sessions that do not exist, for a fork, and, where a scripted model can play it, under a rate
limit. Works through the agent port alone, so it fits any adapter. What differs from what the port
promises, or from what is wished for, is a quirk. Nothing is stored; the sessions stay the agent's.
"""

import os
import secrets
import signal
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.base import (
    AgentAdapter,
    AgentConnection,
    Capabilities,
    OpenRequest,
    PromptResult,
)
from upthread.core.events import AgentEvent, TextReceived, UserTextReplayed
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.runtime.turns.delivery import open_session

Verdict: TypeAlias = Literal["good", "quirk", "not_offered", "not_tried"]

NO_SESSION = UpstreamSessionId("no-such-session")
WORDS_SHOWN_MAX = 300
PROMPT_TIMEOUT_S = 300.0
RATE_LIMIT_PATIENCE_S = 30.0
"""How long an agent may take to tell of a rate limit. Some try again in silence."""
_NEXT = str.maketrans("0123456789abcdef", "1234567890bcdefa")
"""Another digit for a digit, so that a UUID stays one."""

CHECKS = {
    "session": "a new session has an id, and a prompt gets an answer",
    "owner": "each event says which session it belongs to",
    "usage": "it says how many tokens were used",
    "killed": "it ends with SIGKILL",
    "listed": "it lists the session after the kill",
    "loaded": "loading replays the prompt and the reply, unaltered",
    "resumed": "resuming attaches the session and replays nothing",
    "remembers": "after the kill it knows what it was told before",
    "unknown_id": "an id like its own that does not exist is said to be missing",
    "malformed_id": "an id of no form is said to be missing",
    "forked": "a fork has an id of its own",
    "rate_limit": "a rate limit is said to be one",
}
"""Every check, by what is good."""


class Finding(Struct, frozen=True, kw_only=True):
    """What one check came to. `seen` is what the agent did, in words."""

    check: str
    verdict: Verdict
    seen: str


class Probed(Struct, frozen=True, kw_only=True):
    """All findings, in the order of CHECKS, and what the agent said it can do."""

    capabilities: Capabilities
    findings: tuple[Finding, ...]


async def probe(
    adapter: AgentAdapter, opening: OpenRequest, *, rate_limit_prompt: str | None = None
) -> Probed:
    """Probe an agent in a directory of its own.

    `rate_limit_prompt` makes a scripted model answer with a rate limit; None where there is none,
    and then the check is not tried. Raises UpstreamError when the agent cannot even start or make a
    session.
    """
    with tempfile.TemporaryDirectory(prefix="upthread-probe-") as directory:
        opening = replace(opening, working_directory=_real(directory))
        return await _Probe(adapter, opening, rate_limit_prompt).run()


def _real(directory: str) -> str:
    """Return the path as agents report it: on some systems the temporary one is a link."""
    return os.path.realpath(directory)


class _Probe:
    def __init__(
        self, adapter: AgentAdapter, opening: OpenRequest, rate_limit_prompt: str | None
    ) -> None:
        self._adapter = adapter
        self._opening = opening
        self._rate_limit_prompt = rate_limit_prompt
        # By chance: a model that has not read it cannot say it.
        self._word = f"heron-{secrets.token_hex(4)}"
        self._found: dict[str, Finding] = {}
        self._session = UpstreamSessionId("")
        self._reply = ""
        self._told = f"Please remember the word {self._word}. Answer with: noted."

    async def run(self) -> Probed:
        async with self._open() as connection:
            capabilities = connection.capabilities
            await self._first_turn(connection)
            self._kill(connection)
        async with self._open() as connection:
            await self._list(connection)
            await self._load(connection)
            await self._ask_for_unknown(connection, "unknown_id", unlike(self._session))
            await self._ask_for_unknown(connection, "malformed_id", NO_SESSION)
        async with self._open() as connection:
            await self._come_back(connection)
            await self._fork(connection)
        await self._rate_limit()
        findings = tuple(self._found[check] for check in CHECKS)
        return Probed(capabilities=capabilities, findings=findings)

    def _open(
        self, *, prompt_timeout_s: float = PROMPT_TIMEOUT_S
    ) -> AbstractAsyncContextManager[AgentConnection]:
        opening = replace(self._opening, prompt_timeout_s=prompt_timeout_s)
        return self._adapter.open(opening)

    def _note(self, check: str, verdict: Verdict, seen: str) -> None:
        shown = " ".join(seen.split())[:WORDS_SHOWN_MAX]
        self._found[check] = Finding(check=check, verdict=verdict, seen=shown)

    def _judge(self, check: str, seen: str, *, is_good: bool) -> None:
        self._note(check, "good" if is_good else "quirk", seen)

    # --- before the kill -----------------------------------------------------------------------

    async def _first_turn(self, connection: AgentConnection) -> None:
        self._session = await connection.new_session()
        events, result = await _prompted(connection, self._session, self._told)
        self._reply = _text_of(events)
        is_good = result.outcome is Outcome.OK and bool(self._reply)
        self._judge("session", f"{self._session}: {_ending(result)}", is_good=is_good)
        nobodys = [event for event in events if event.upstream_session_id is None]
        seen = f"{len(nobodys)} of {len(events)} events name no session"
        self._judge("owner", seen, is_good=not nobodys)
        tokens = result.tokens_used
        seen = "it said nothing of tokens" if tokens is None else f"{tokens} tokens"
        self._judge("usage", seen, is_good=tokens is not None)

    def _kill(self, connection: AgentConnection) -> None:
        process = connection.process
        if not process:
            self._note("killed", "not_tried", "it is no process of ours")
            return
        os.killpg(process.pid, signal.SIGKILL)
        self._note("killed", "good", f"process {process.pid} was killed, idle")

    # --- after it ------------------------------------------------------------------------------

    async def _list(self, connection: AgentConnection) -> None:
        if not connection.capabilities.can_list:
            self._note("listed", "not_offered", "it does not list its sessions")
            return
        try:
            listed = await connection.list_sessions()
        except UpstreamError as error:
            self._note("listed", "quirk", str(error))
            return
        is_there = self._session in listed
        seen = f"{len(listed)} sessions, {'with' if is_there else 'without'} this one"
        self._judge("listed", seen, is_good=is_there)

    async def _load(self, connection: AgentConnection) -> None:
        if not connection.capabilities.can_load:
            self._note("loaded", "not_offered", "it does not load sessions")
            return
        try:
            replayed = await connection.load_session(self._session)
        except UpstreamError as error:
            self._note("loaded", "quirk", f"{error.outcome}: {error}")
            return
        faults = replay_faults(replayed, told=self._told, reply=self._reply)
        seen = "; ".join(faults) or f"{len(replayed)} events, prompt and reply as they were"
        self._judge("loaded", seen, is_good=not faults)

    async def _ask_for_unknown(
        self, connection: AgentConnection, check: str, session: UpstreamSessionId
    ) -> None:
        try:
            await open_session(connection, session)
        except UpstreamError as error:
            is_missing = error.outcome is Outcome.MISSING
            self._judge(check, f"{error.outcome}: {error}", is_good=is_missing)
            return
        self._note(check, "quirk", f"it attached {session}, which does not exist")

    async def _come_back(self, connection: AgentConnection) -> None:
        offers = connection.capabilities.can_resume
        try:
            await open_session(connection, self._session)
        except UpstreamError as error:
            self._note("resumed", "quirk", f"{error.outcome}: {error}")
            self._note("remembers", "quirk", "it could not be asked: the session is not attached")
            return
        if offers:
            self._note("resumed", "good", f"{self._session} is attached")
        else:
            self._note("resumed", "not_offered", "it does not resume; the session was loaded")
        question = "Which word did I ask you to remember? Answer with the word alone."
        events, result = await _prompted(connection, self._session, question)
        reply = _text_of(events)
        seen = f"it said: {reply}" if reply else _ending(result)
        self._judge("remembers", seen, is_good=self._word in reply)

    async def _fork(self, connection: AgentConnection) -> None:
        if not connection.capabilities.can_fork:
            self._note("forked", "not_offered", "it does not fork sessions")
            return
        try:
            forked = await connection.fork_session(self._session)
        except UpstreamError as error:
            self._note("forked", "quirk", f"{error.outcome}: {error}")
            return
        self._judge("forked", str(forked), is_good=forked != self._session)

    async def _rate_limit(self) -> None:
        text = self._rate_limit_prompt
        if text is None:
            self._note("rate_limit", "not_tried", "it takes a model that can be told to refuse")
            return
        async with self._open(prompt_timeout_s=RATE_LIMIT_PATIENCE_S) as connection:
            try:
                await open_session(connection, self._session)
            except UpstreamError as error:
                self._note("rate_limit", "quirk", f"{error.outcome}: {error}")
                return
            _, result = await _prompted(connection, self._session, text)
        self._judge("rate_limit", _ending(result), is_good=result.outcome is Outcome.RATE_LIMITED)


# --- below: one step each ----------------------------------------------------------------------


def unlike(session: UpstreamSessionId) -> UpstreamSessionId:
    """Return an id of the same form that the agent cannot have given."""
    head, tail = session[:-8], session[-8:]
    # An id of another form may be refused for its form alone, which proves nothing.
    changed = tail.translate(_NEXT)
    return UpstreamSessionId(head + (changed if changed != tail else tail[::-1] + "0"))


def replay_faults(replayed: Sequence[AgentEvent], *, told: str, reply: str) -> tuple[str, ...]:
    """Return what a replayed history lacks of one turn, empty for nothing."""
    # Put together first: agents replay a text in one piece or in many.
    users = "".join(event.text for event in replayed if isinstance(event, UserTextReplayed))
    faults = (
        [] if users == told else [f"the prompt came back as {users!r}" if users else "no prompt"]
    )
    if _text_of(replayed).strip() != reply.strip():
        said = _text_of(replayed)
        faults.append(f"the reply came back as {said!r}" if said else "no reply")
    return tuple(faults)


async def _prompted(
    connection: AgentConnection, session: UpstreamSessionId, text: str
) -> tuple[list[AgentEvent], PromptResult]:
    events: list[AgentEvent] = []

    async def keep(event: AgentEvent) -> None:
        events.append(event)

    return events, await connection.prompt(session, text, on_event=keep)


def _text_of(events: Sequence[AgentEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextReceived))


def _ending(result: PromptResult) -> str:
    return f"{result.outcome}: {result.detail}" if result.detail else str(result.outcome)
