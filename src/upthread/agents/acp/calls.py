"""Asking an agent something outside a prompt, and saying in full why it did not answer.

Every way a request can fail becomes an UpstreamError that names the agent, the method, the session,
and ends with what the agent last wrote to stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from upthread.agents._json import as_object
from upthread.agents._process import ChildProcess
from upthread.agents._process_end import died, last_words
from upthread.agents.acp.outcomes import Failure, failure_of
from upthread.agents.acp.peer import Peer, RpcError
from upthread.agents.acp.quirks import Quirk
from upthread.core.quotas import HISTORY, TURN, milliseconds_of
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError


class RefusedByAgentError(UpstreamError):
    """The agent answered with an error. `is_certain` False: confirm `missing` by listing."""

    def __init__(self, message: str, *, failure: Failure, **more: Any) -> None:
        super().__init__(message, outcome=failure.outcome, **more)
        self.is_certain = failure.is_certain


@dataclass(slots=True, kw_only=True)
class AgentWords:
    """The agent as its user named it, what is particular to it, and the clock for reset times.

    `quirk` is settled once the agent has said its own name. `home` is the agent's HOME.
    """

    agent: str
    quirk: Quirk
    now_ms: Callable[[], int]
    home: Path

    def failure(self, error: Exception | None) -> Failure:
        """Say what an error answer means for this agent."""
        code = getattr(error, "code", 0)
        return failure_of(code, str(error), getattr(error, "data", None), quirk=self.quirk)

    def reset_at_ms(self, failure: Failure) -> int | None:
        """Return when a rate limit ends, None where the agent did not say."""
        after_ms = milliseconds_of(failure.reset_after_s)
        return None if after_ms is None else self.now_ms() + after_ms


class AgentCalls:
    """The requests to one running agent."""

    def __init__(
        self, child: ChildProcess, peer: Peer, words: AgentWords, *, timeout_s: float
    ) -> None:
        self._child = child
        self._peer = peer
        self._words = words
        self._timeout_s = timeout_s

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask, within the start-up deadline. Raises UpstreamError for every way it can fail."""
        # The answer to a load comes after the whole history, which has a quota of its own.
        self._child.allowance.renew(HISTORY)
        try:
            with anyio.fail_after(self._timeout_s):
                answer = await self._peer.ask(method, params)
        except RpcError as error:
            raise self._refused(method, params, error) from error
        except ConnectionError as error:
            raise await self.died(method) from error
        except TimeoutError as error:
            raise self._timed_out(method, params) from error
        return as_object(answer)

    async def prompt(
        self, session: UpstreamSessionId, text: str
    ) -> tuple[object, Exception | None]:
        """Return the answer to a prompt, however late, or the error it ended with."""
        self._child.allowance.renew(TURN)
        # No deadline here: how long a prompt may take is kept by `RunningPrompt`.
        content = [{"type": "text", "text": text}]
        params = {"sessionId": session, "prompt": content}
        try:
            return await self._peer.ask("session/prompt", params), None
        except (RpcError, ConnectionError) as error:
            return None, error

    async def send_cancel(self, session: UpstreamSessionId) -> None:
        """Ask the agent to stop the running prompt."""
        try:
            await self._peer.tell("session/cancel", {"sessionId": session})
        except ConnectionError:
            return  # it is gone already, and the prompt's own end says so

    async def died(self, method: str) -> UpstreamError:
        """End what is left of an agent whose output ended, and say how it went."""
        return await died(
            self._child,
            agent=self._words.agent,
            during=method,
            hint=self._last_words(),
            violation=self._peer.violation,
        )

    def _timed_out(self, method: str, params: Mapping[str, Any]) -> UpstreamError:
        error = UpstreamError(
            f"{self._words.agent} did not answer {method} within {self._timeout_s:g} s",
            outcome=Outcome.TIMED_OUT,
            hint=self._last_words(),
        )
        error.ids.update(_ids(params))
        return error

    def _refused(
        self, method: str, params: Mapping[str, Any], error: Exception
    ) -> RefusedByAgentError:
        failure = self._words.failure(error)
        session = f" of session {params['sessionId']}" if "sessionId" in params else ""
        is_auth = failure.outcome is Outcome.AUTH
        return RefusedByAgentError(
            f"{self._words.agent} refused {method}{session}: {failure.detail}",
            failure=failure,
            reset_at_ms=self._words.reset_at_ms(failure),
            hint="sign in with the agent's own command first" if is_auth else self._last_words(),
            **_ids(params),
        )

    def _last_words(self) -> str:
        return last_words(self._child, unreadable=self._peer.first_unreadable, spoken="ACP")


def _ids(params: Mapping[str, Any]) -> dict[str, str]:
    session = params.get("sessionId")
    return {"upstream_session_id": session} if isinstance(session, str) else {}
