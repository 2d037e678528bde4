"""Working trees of their own, as they are called: `await up.worktrees.remove("spec-42")`."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from upthread.client.parts import ProjectParts
from upthread.core.names import parse_workstream
from upthread.errors import LeaseHeldError
from upthread.runtime.lease import LeaseRequest, tree_lease, workstream_lease
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.runtime.turns.delegation import Notice
from upthread.runtime.working_tree.repository import Worktree


class WorktreesOfProject(Struct):
    """Makes, looks at and removes the working trees that workstreams have of their own."""

    parts: ProjectParts
    workstreams: Callable[[], Awaitable[tuple[WorkstreamView, ...]]]

    async def find(self, workstream: str) -> Worktree | None:
        """Return a workstream's own working tree, None where it is worked on in the project's."""
        return await self.parts.system.in_thread(lambda: self.parts.worktrees.find(workstream))

    async def make(self, workstream: str) -> Worktree:
        """Return a workstream's own working tree, made from HEAD where it has none.

        Raises UsageError where git has nothing to make one from.
        """
        name = parse_workstream(workstream)
        return await self.parts.system.in_thread(lambda: self.parts.worktrees.ensure(name))

    async def all(self) -> Mapping[str, Worktree]:
        """Return the working trees of known workstreams by their names, the oldest one first."""
        names = await self.parts.system.in_thread(self.parts.workstreams)
        found = {name: await self.find(name) for name in names}
        return {name: worktree for name, worktree in found.items() if worktree is not None}

    async def remove(self, workstream: str) -> Worktree:
        """Remove a workstream's working tree; its branch stays, with all that was committed.

        Raises NotFoundError for none, RefusedError while something in it is not committed,
        LeaseHeldError while somebody works in it.
        """
        name = parse_workstream(workstream)
        run = LeaseRequest(
            name=workstream_lease(self.parts.project_id, name), doing=f"remove the tree of {name}"
        )
        async with self.parts.leases.held(run):
            # The run's lease keeps runs off, and a prompt by `tell` has none of it.
            for view in await self.workstreams():
                if view.workstream.workstream == name:
                    for role in view.roles:
                        refuse_running(role, "remove the working tree when the turn has ended")
            found = await self.find(name)
            if found is None:
                return await self._removed(name)
            tree = tree_lease(self.parts.system.this_process("").host, found.path)
            async with self.parts.leases.held(LeaseRequest(name=tree, doing=run.doing)):
                return await self._removed(name)

    async def _removed(self, workstream: str) -> Worktree:
        return await self.parts.system.in_thread(lambda: self.parts.worktrees.remove(workstream))


def refuse_running(role: RoleView, hint: str) -> None:
    """Raise LeaseHeldError where a role is in a turn."""
    if role.holder is None:
        return
    address, holder = role.conversation.address, role.holder.in_words()
    raise LeaseHeldError(
        f"{address} is in a turn, held by {holder}", holder=holder, hint=hint, address=address
    )


def notice_of(workstream: str, worktree: Worktree) -> Notice:
    """Return what a person is told of where a workstream is worked on."""
    made = "works in a new tree" if worktree.is_new else "works in"
    branch = f", on branch {worktree.branch}" if worktree.branch else ""
    left = worktree.left_behind
    changes = f"{left} uncommitted change{'' if left == 1 else 's'}"
    text = f"{workstream} {made} {worktree.path}{branch}" + (
        f"; {changes} of the project's own tree {'is' if left == 1 else 'are'} not in it"
        if left
        else ""
    )
    if worktree.unfiltered:
        files = f"{worktree.unfiltered} file{'' if worktree.unfiltered == 1 else 's'}"
        filters = ", ".join(worktree.filters)
        text += f"; {files} as git stores them: filters are not run ({filters})"
    return Notice(
        kind="worktree", text=text, about={"path": worktree.path, "branch": worktree.branch}
    )
