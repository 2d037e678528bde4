"""How an agent fails to answer, in the words an error has for a person; whatever it speaks.

It may have ended, be silent for too long, or say no. Each error names the agent, what was asked of
it and the session, and ends with what the agent last wrote to stderr.

A question in JSON waits for its answer by its number, as JSON-RPC has it. Each protocol has words
of its own around that, which stand with its adapter.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

import anyio

from upthread.agents._json_lines import Unreadable, read_json, write_frame
from upthread.agents._process import ChildProcess
from upthread.core.runs.stops import NOT_ANSWERED, STDERR_END
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import QuotaExceededError, UpstreamError

EXIT_CODE_PATIENCE_S: Final = 0.5
"""How long an agent that has closed its side may take to exit by itself."""

UNREADABLE_SHOWN_CHARACTERS: Final = 200


class RefusedByAgentError(UpstreamError):
    """The agent answered with an error. `is_certain` False: confirm `missing` by listing."""

    is_certain: bool = False
    said: str = ""
    """The agent's own words, without ours around them."""


class RunningAgent:
    """An agent that is spoken to, `timeout_s` being its patience for whatever is no prompt.

    `violation` is the limit it went past where we stopped reading. What an agent has in place of an
    `output`, and what it is to speak, are words of its kind.
    """

    closes: ClassVar = "output"
    speaks: ClassVar = "JSON"

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        self.child = child
        self.agent = agent
        self.timeout_s = timeout_s
        self.violation: QuotaExceededError | None = None
        self._first_unreadable = ""

    def note_unreadable(self, raw: object) -> None:
        """Remember the first that was not what the agent should speak."""
        self._first_unreadable = self._first_unreadable or str(raw)[:UNREADABLE_SHOWN_CHARACTERS]

    def last_words(self) -> str:
        """Return what it last wrote to stderr, and what on its stdout was not what it speaks."""
        tail, first = self.child.tail_of_stderr(), self._first_unreadable
        said = f"{STDERR_END}{tail}" if tail else "it wrote nothing to stderr"
        held = f"; its stdout held what is not {self.speaks}, first: {first}" if first else ""
        return said + held

    async def died(self, during: str) -> UpstreamError:
        """End what is left of an agent that says nothing more, and return the error that tells it.

        It has EXIT_CODE_PATIENCE_S seconds to exit by itself. A limit that it went past is returned
        as it is.
        """
        # We stopped reading ourselves: its exit code would only tell how we ended it.
        if self.violation is not None:
            await self.child.stop()
            return self.violation
        # Asked before it is ended: from then on the code is that of our own signal.
        exit_code = await exit_code_of(self.child)
        await self.child.stop()
        error = UpstreamError(
            f"{self.agent} {how_it_ended(exit_code, closed=self.closes)} during {during}",
            outcome=Outcome.PROCESS_DIED,
            hint=self.last_words(),
            pid=str(self.child.pid),
        )
        # Such an agent is started once more; one that exits by itself would do so again.
        error.was_killed = is_signal(exit_code)
        return error

    def timed_out(self, asked: str, *, session: str = "") -> UpstreamError:
        """Return the error for an agent that has not answered in time."""
        about = f" for session {session}" if session else ""
        error = UpstreamError(
            f"{self.agent} {NOT_ANSWERED} {asked}{about} within {self.timeout_s:g} s",
            outcome=Outcome.TIMED_OUT,
            hint=self.last_words(),
        )
        return _about(session, error)

    def refused(
        self, asked: str, said: str, *, outcome: Outcome, session: str = "", hint: str = ""
    ) -> RefusedByAgentError:
        """Return the error for an agent that said no, in its own words; `hint` where one helps."""
        about = f" for session {session}" if session else ""
        error = RefusedByAgentError(
            f"{self.agent} refused {asked}{about}: {said}",
            outcome=outcome,
            hint=hint or self.last_words(),
        )
        _about(session, error)
        return error

    # --- sessions it cannot have meant ---------------------------------------------------------

    def session_named(self, session: object, asked: str) -> UpstreamSessionId:
        """Return the session that an answer names. Raises UpstreamError where it names none."""
        if not isinstance(session, str) or not session:
            raise UpstreamError(
                f"{self.agent} answered {asked} without a session id",
                outcome=Outcome.UNKNOWN,
                hint="nothing was recorded; try again",
            )
        return UpstreamSessionId(session)

    def fork_named(
        self, forked: object, session: UpstreamSessionId, asked: str
    ) -> UpstreamSessionId:
        """Return the session that a fork made, as `session_named`; it is another one (A16)."""
        made = self.session_named(forked, asked)
        if made == session:
            raise UpstreamError(
                f"{self.agent} answered the fork of session {made} with that session",
                outcome=Outcome.UNKNOWN,
                hint="start a fresh session with a briefing instead",
                upstream_session_id=made,
            )
        return made

    def opened_another(self, returned: object, session: UpstreamSessionId) -> UpstreamError:
        """Return the error for an answer about another session than the one asked for (A4)."""
        return UpstreamError(
            f"{self.agent} answered with session {returned} when asked for session {session}",
            outcome=Outcome.UNKNOWN,
            hint="it was not used",
            upstream_session_id=session,
        )


def _about(session: str, error: UpstreamError) -> UpstreamError:
    if session:
        error.ids["upstream_session_id"] = session
    return error


def is_uuid(session: str) -> bool:
    """Return whether a session's id has the form that Claude Code and Codex give theirs."""
    try:
        # As text: `UUID` also takes capitals, braces and `urn:uuid:`.
        return str(UUID(session)) == session
    except ValueError:
        return False


async def exit_code_of(child: ChildProcess) -> int | None:
    """Return the exit code of a child that has closed its side, None where it does not exit."""
    with anyio.move_on_after(EXIT_CODE_PATIENCE_S):
        await child.wait()
    return child.exit_code


def is_signal(exit_code: int | None) -> bool:
    """Whether an exit code says that a signal ended the child."""
    return exit_code is not None and exit_code < 0


def how_it_ended(exit_code: int | None, *, closed: str = RunningAgent.closes) -> str:
    """Return in words how a child ended; `exit_code` None where it had not exited."""
    if exit_code is None:
        return f"closed its {closed} without exiting and was ended"
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"exited with code {exit_code}"


# --- one that speaks JSON, a message a line -------------------------------------------------------


class _Question:
    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        self.is_over = anyio.Event()


class Questions:
    """What was asked on one connection. `has_ended` is set once no answer will come any more."""

    def __init__(self) -> None:
        self.has_ended = anyio.Event()
        self._numbers = itertools.count()
        self._open: dict[object, _Question] = {}

    async def ask(self, send: Callable[[int], Awaitable[None]]) -> dict[str, Any] | None:
        """Send a question under a number of its own; returns its answer, None if none will come."""
        if self.has_ended.is_set():
            return None
        number = next(self._numbers)
        question = self._open[number] = _Question()
        try:
            await send(number)
            # It may have ended while the question left.
            if not self.has_ended.is_set():
                await question.is_over.wait()
        finally:
            self._open.pop(number, None)
        return question.answer

    def answer(self, number: object, answer: dict[str, Any]) -> None:
        """Hand an answer to whoever asked; the first counts. Nobody may wait for it any more."""
        question = self._open.pop(number, None)
        if question is not None:
            question.answer = answer
            question.is_over.set()

    def end(self) -> None:
        """Let nobody wait any more."""
        self.has_ended.set()
        for question in self._open.values():
            question.is_over.set()


class JsonLines(RunningAgent, ABC):
    """A running agent that speaks JSON on its pipes. `read_all` serves it, until its output ends.

    Messages are handed on and awaited before the next line is read, so that a full pipe stops an
    agent that is faster than we are. `has_ended` is set when there will be no more.
    """

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self._questions = Questions()
        self.has_ended = self._questions.has_ended

    @abstractmethod
    async def _take(self, message: object) -> None:
        """Hand one message on, an answer by `_questions`."""

    async def read_all(self) -> None:
        """Hand on every message until there will be no more."""
        try:
            while (line := await self.child.read_line()) is not None:
                if line.strip():
                    await self._take_read(read_json(line))
        except QuotaExceededError as violation:
            self.violation = violation
            # Past a limit it is ended, and what it had said before is kept (A12, ADR 63).
            await self.child.stop()
        finally:
            # Whoever waits is woken without an answer, and says how it ended.
            self._questions.end()

    async def _take_read(self, message: object) -> None:
        if isinstance(message, Unreadable):
            self.note_unreadable(message.raw)
        await self._take(message)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message; a dead agent eats it."""
        await self.child.write_line(write_frame(message))

    async def _answer_to(
        self, asked: str, send: Callable[[int], Awaitable[None]], *, session: str = ""
    ) -> dict[str, Any]:
        """Ask within the agent's patience. Raises UpstreamError when it does not answer."""
        try:
            with anyio.fail_after(self.timeout_s):
                answer = await self._questions.ask(send)
        except TimeoutError as error:
            raise self.timed_out(asked, session=session) from error
        if answer is None:
            raise await self.died(asked)
        return answer
