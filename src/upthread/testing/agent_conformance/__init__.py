"""The agent port's promises as tests, for every adapter there is or will be.

An agent under test says how it is started and how it can be provoked, and pytest (or any loop)
runs each promise on it::

    AGENT = AgentUnderTest(name="mine", adapter=MyAdapter(), hang="please hang")

    @pytest.mark.anyio
    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
    async def test_agent_keeps(promise, tmp_path):
        verdicts[promise.name, AGENT.name] = await promise.run(AGENT, tmp_path)

A broken promise raises AssertionError. A promise that takes a provocation or capability the agent
does not have is `ABSENT`, never passed over in silence: print `matrix` at the end. Plain coroutine
functions and `assert`: nothing here imports pytest. Real agents are started; each promise has a
directory of its own.
"""

from upthread.testing.agent_conformance.prompts import PROMPT_PROMISES
from upthread.testing.agent_conformance.sessions import SESSION_PROMISES
from upthread.testing.agent_conformance.trial import AgentUnderTest, Promise, Trial
from upthread.testing.store_conformance.backend import Verdict, matrix

PROMISES: tuple[Promise, ...] = (*SESSION_PROMISES, *PROMPT_PROMISES)
"""All promises of `upthread.agents.base`, some of them in several sides."""

__all__ = ["PROMISES", "AgentUnderTest", "Promise", "Trial", "Verdict", "matrix"]
