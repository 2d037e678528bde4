"""A fork, as it is called: `await up.fork("spec/planner", "other/planner", at_message=4)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from upthread.client.delegation_setup import Preparing
from upthread.core.names import Address, parse_address
from upthread.runtime.record.fork import Fork, ForkPlan, ForkRequest, Forks


class ForkConversation:
    """Branches conversations off. `plan` says what would be done."""

    def __init__(
        self,
        forks: Forks,
        *,
        preparing: Preparing,
        parse: Callable[[str], Awaitable[Address]],
    ) -> None:
        self._forks = forks
        self._preparing = preparing
        self._parse = parse

    async def __call__(self, address: str, into: str, *, at_message: int | None = None) -> Fork:
        """Branch a conversation off after a message, into an address that has none yet.

        Without `at_message`, after the newest one where no turn and no call is open. Raises
        NotFoundError, UsageError for a place that cannot be cut, LeaseHeldError while a turn runs.
        """
        request = await self._request(address, into, at_message)
        plan = await self._forks.plan(request)
        # Nothing to branch off at the agent: then none is started.
        if plan.link is None:
            return await self._forks.fork(request, None, None)
        agent = plan.link.agent
        adapter, opening = self._preparing.adapter(agent), self._preparing.open_request(agent)
        return await self._forks.fork(request, adapter, opening)

    async def plan(self, address: str, into: str, *, at_message: int | None = None) -> ForkPlan:
        """Return what the call would do, and do nothing. Raises as it does."""
        return await self._forks.plan(await self._request(address, into, at_message))

    async def _request(self, address: str, into: str, at_message: int | None) -> ForkRequest:
        source, target = await self._parse(address), parse_address(into)
        self._preparing.require_role(target.role)
        return ForkRequest(
            source=self._preparing.key(source),
            target=self._preparing.key(target),
            at_message=at_message,
        )
