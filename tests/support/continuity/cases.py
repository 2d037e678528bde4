"""The cases: what is done to an agent and its session, and what is demanded of every agent.

A case returns what was seen. Beside being compared with what was measured before, it holds the
agent to what upthread stands on: a session is never exchanged for another, and survives whatever
kills its agent.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from tests.support.continuity.measured import Measurement
from tests.support.continuity.sub_agents import CHILD_SAYS, shown_of_sub_agent
from tests.support.continuity.trial import Running, Sequel, Trial, kill, until

from upthread.agents.base import AgentConnection
from upthread.core.events import AgentEvent
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.testing.agent_conformance.trial import attach, refusal_of

RETRY_AFTER_S = 600
RATE_LIMIT_PATIENCE_S = 20.0
"""How long an agent may take to tell of a rate limit. Some retry in silence."""
LONG_S = 300
WRITTEN_AFTER_S = 1.0
"""When a prompt the model was asked is in the session. A kill within 50 ms of asking can lose it
(Claude Code 2.1.330); then it is not there, and is sent again."""

SUB_AGENT = "sub_agent"
"""The case whose note says what an agent shows of its sub-agents."""

Bring: TypeAlias = Callable[[Trial], Awaitable[Measurement]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that happens to a session. `what` says it in words, `bring` makes it happen."""

    name: str
    what: str
    bring: Bring


# --- sessions ----------------------------------------------------------------------------------


async def _new(trial: Trial) -> Measurement:
    async with trial.opened() as connection:
        session = await connection.new_session()
        ended = await trial.prompt(connection, session)
    assert ended.outcome is Outcome.OK, ended
    return Measurement(outcome=ended.outcome)


async def _unknown_id(trial: Trial) -> Measurement:
    async with trial.opened() as connection:
        await connection.new_session()
        return await _refused(connection, UpstreamSessionId(trial.agent.unknown_session))


async def _deleted(trial: Trial) -> Measurement:
    session = await trial.session_with_a_past()
    trial.agent.delete_session(trial.place, session)
    async with trial.opened() as connection:
        return await _refused(connection, session)


async def _refused(connection: AgentConnection, session: UpstreamSessionId) -> Measurement:
    """Never another session in its place, and never a guess: `missing` is what is demanded."""
    error = await refusal_of(attach(connection, session))
    assert error.outcome == Outcome.MISSING, error
    return Measurement(outcome=Outcome.MISSING)


async def _other_directory(trial: Trial) -> Measurement:
    session = await trial.session_with_a_past()
    async with trial.opened(trial.elsewhere) as connection:
        try:
            await attach(connection, session)
        except UpstreamError as error:
            return Measurement(outcome=Outcome(error.outcome))
        sequel = await trial.goes_on(connection, session)
        await trial.prompt(connection, session, trial.agent.command("touch here") + "[[SAY done]]")
    places = {"the old": trial.work / "here", "the new": trial.elsewhere / "here"}
    found = " and ".join(name for name, path in places.items() if path.exists()) or "neither"
    return _went_on(Outcome.OK, sequel, note=f"tools run in {found} directory")


async def _sub_agent(trial: Trial) -> Measurement:
    """A sub-agent runs a command and answers: what of it reaches us as its own."""
    events: list[AgentEvent] = []

    async def keep(event: AgentEvent) -> None:
        events.append(event)

    async with trial.opened() as connection:
        session = await connection.new_session()
        work = f"Look around. {trial.agent.command('true')} [[SAY {CHILD_SAYS}]]"
        script = f"{trial.agent.delegation(work)} [[SAY done]]"
        ended = await trial.prompt(connection, session, script, on_event=keep)
    assert ended.outcome is Outcome.OK, ended
    return Measurement(outcome=ended.outcome, note=shown_of_sub_agent(events, session))


# --- failures ----------------------------------------------------------------------------------


async def _rate_limit(trial: Trial) -> Measurement:
    session = await trial.session_with_a_past()
    async with trial.opened(prompt_timeout_s=RATE_LIMIT_PATIENCE_S) as connection:
        await attach(connection, session)
        script = f"[[FAIL 429 retry-after={RETRY_AFTER_S} rate limit reached]]"
        ended = await trial.prompt(connection, session, script)
    is_told = ended.reset_at_ms is not None
    note = "when it ends is told" if is_told else "when it ends is not told"
    return _survived(ended.outcome, await trial.goes_on_after_restart(session), note=note)


async def _second_writer(trial: Trial) -> Measurement:
    """What the agent itself does about two writers; upthread never lets it come to that."""
    session = await trial.session_with_a_past()
    second = Measurement(outcome=Outcome.UNKNOWN)
    async with trial.opened() as connection, trial.opened() as other:
        await attach(connection, session)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trial.prompt, connection, session, _long_command(trial))
            await until(_has_begun(trial))
            second = await _written_by(trial, other, session)
            await connection.cancel(session)
    return second


async def _written_by(
    trial: Trial, connection: AgentConnection, session: UpstreamSessionId
) -> Measurement:
    try:
        await attach(connection, session)
        sequel = await trial.goes_on(connection, session)
    except UpstreamError as error:
        return Measurement(outcome=Outcome(error.outcome))
    return Measurement(outcome=sequel.outcome, history=sequel.history)


async def _cancelled(trial: Trial) -> Measurement:
    async with trial.opened() as connection:
        session = await connection.new_session()
        await trial.prompt(connection, session)
        ended = await trial.prompt_and_cancel(
            connection, session, _long_command(trial), when=_has_begun(trial)
        )
        assert ended.outcome is Outcome.CANCELLED, ended
        sequel = await trial.goes_on(connection, session)
    return _survived(ended.outcome, sequel, note=_result_of_open_call(trial, sequel))


# --- kills -------------------------------------------------------------------------------------


async def _killed_between_prompts(trial: Trial) -> Measurement:
    async with trial.opened() as connection:
        session = await connection.new_session()
        ended = await trial.prompt(connection, session)
        kill(connection)
    return _survived(ended.outcome, await trial.goes_on_after_restart(session))


async def _killed_in_model_call(trial: Trial) -> Measurement:
    return await _killed(trial, "[[HANG]]", when=_model_is_asked)


async def _killed_in_tool_call(trial: Trial) -> Measurement:
    return await _killed(trial, _long_command(trial), when=_has_begun)


async def _killed_in_sub_agent(trial: Trial) -> Measurement:
    return await _killed(trial, trial.agent.delegation(_long_command(trial)), when=_has_begun)


async def _killed(trial: Trial, script: str, *, when: Callable[[Trial], Running]) -> Measurement:
    async with trial.opened() as connection:
        session = await connection.new_session()
        await trial.prompt(connection, session)
        ended = await trial.prompt_and_kill(connection, session, script, when=when(trial))
    assert ended.outcome is Outcome.PROCESS_DIED, ended
    sequel = await trial.goes_on_after_restart(session)
    return _survived(ended.outcome, sequel, note=_result_of_open_call(trial, sequel))


# --- what is seen ------------------------------------------------------------------------------


def _long_command(trial: Trial) -> str:
    return trial.agent.command(f"touch begun; sleep {LONG_S}") + "[[SAY never]]"


def _has_begun(trial: Trial) -> Running:
    begun = trial.work / "begun"
    return _a_moment_ago(begun.exists)


def _model_is_asked(trial: Trial) -> Running:
    asked = len(trial.model.model_requests)
    return _a_moment_ago(lambda: len(trial.model.model_requests) > asked)


def _a_moment_ago(has_happened: Running) -> Running:
    """An agent may ask or act first and write the prompt down while it waits for the answer."""
    since: list[float] = []

    def was_a_moment_ago() -> bool:
        if not since and has_happened():
            since.append(anyio.current_time())
        return bool(since) and anyio.current_time() - since[0] >= WRITTEN_AFTER_S

    return was_a_moment_ago


def _result_of_open_call(trial: Trial, sequel: Sequel) -> str:
    """Return what the model was told of a call that never ended, "" where there was none."""
    results = [said.text for said in sequel.shown.said if said.speaker == "tool"]
    return f"the open call reads `{trial.in_words(results[-1])}`" if results else ""


def _survived(outcome: Outcome, sequel: Sequel, *, note: str = "") -> Measurement:
    """Demand that the same session went on with its whole history."""
    assert (sequel.outcome, sequel.history) == (Outcome.OK, "whole"), sequel
    return _went_on(outcome, sequel, note=note)


def _went_on(outcome: Outcome, sequel: Sequel, *, note: str = "") -> Measurement:
    return Measurement(outcome=outcome, after=sequel.outcome, history=sequel.history, note=note)


CASES = tuple(
    Case(name=name, what=what, bring=bring)
    for name, what, bring in (
        ("new", "a new session is prompted", _new),
        ("killed_between_prompts", "SIGKILL between two prompts", _killed_between_prompts),
        ("killed_in_model_call", "SIGKILL while the model answers", _killed_in_model_call),
        ("killed_in_tool_call", "SIGKILL while a command runs", _killed_in_tool_call),
        ("killed_in_sub_agent", "SIGKILL while a sub-agent works", _killed_in_sub_agent),
        (SUB_AGENT, "a sub-agent works and answers", _sub_agent),
        ("cancelled", "a turn is cancelled", _cancelled),
        ("rate_limit", "the provider answers 429", _rate_limit),
        ("unknown_id", "attaching an id that never was", _unknown_id),
        ("deleted", "attaching a session that was deleted", _deleted),
        ("other_directory", "attaching from another working directory", _other_directory),
        ("second_writer", "a second process prompts a session at work", _second_writer),
    )
)
"""Every case, in the order in which the docs show them."""
