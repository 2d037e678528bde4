"""`upthread worktree`: the git worktrees of workstreams."""

from collections.abc import Mapping

from upthread.client.project import Project
from upthread.core.names import parse_workstream, shown
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.working_tree.repository import Worktree
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Shape, members
from upthread.surfaces.cli.terminal.phrases import command
from upthread.surfaces.cli.terminal.state_lines import write_table

UNDONE = "nothing was done"


@options.verb
@options.workstream_or_all
@options.flag("--remove", "is_removing", "Remove it, if all is committed; its branch stays.")
@options.yes
@options.dry_run
def main(call: Call, *, workstream: str | None, is_removing: bool) -> None:
    """Show the git worktrees of workstreams, or remove one."""
    if is_removing:
        if workstream is None:
            raise UsageError("which one is to be removed?", hint="upthread worktree WS --remove")
        _remove(call, workstream)
        return

    async def use(project: Project) -> Mapping[str, Worktree]:
        if workstream is None:
            return await project.worktrees.all()
        return {parse_workstream(workstream): await _one(project, workstream)}

    found = call.with_project(use)
    shapes = [_shape(name, worktree) for name, worktree in found.items()]
    call.output.json({"worktrees": shapes})
    rows = [
        (name, each.branch, f"{each.path} (gone)" if each.is_missing else each.path)
        for name, each in found.items()
    ]
    if rows:
        write_table(call.output, ("WORKSTREAM", "BRANCH", "DIRECTORY"), rows)
    else:
        call.output.line("no workstream has a working tree of its own")


def _remove(call: Call, workstream: str) -> None:
    output = call.output
    found = call.with_project(lambda project: _one(project, workstream))
    branch = f"; its branch {found.branch} stays" if found.branch else ""
    output.line(f"{found.path} is removed with what git ignores there{branch}")
    if not call.is_dry_run:
        call.confirm("Remove it?", declined=UNDONE)
        call.with_project(lambda project: project.worktrees.remove(workstream))
    output.json({**_shape(parse_workstream(workstream), found), "is_done": not call.is_dry_run})
    if call.is_dry_run:
        output.remark(UNDONE)


async def _one(project: Project, workstream: str) -> Worktree:
    name = parse_workstream(workstream)
    found = await project.worktrees.find(name)
    if found is None:
        raise NotFoundError(
            f"{shown(name)} has no working tree of its own",
            hint=f"give it one: {command('upthread', 'run', name)} --worktree",
            workstream=name,
        )
    return found


def _shape(workstream: str, worktree: Worktree) -> Shape:
    return {"workstream": workstream, **members(worktree, "path branch is_missing")}
