"""A Microsoft Agent Framework workflow that stops halfway and is resumed from its checkpoint.

pip install 'upthread[agent-framework]'
python agent_framework_workflow.py; python agent_framework_workflow.py
"""

from __future__ import annotations

import asyncio

from agent_framework import WorkflowBuilder, WorkflowContext, executor

from upthread.integrations.agent_framework import UpthreadCheckpointStorage


@executor(id="plan")
async def plan(text: str, ctx: WorkflowContext[str]) -> None:
    """Hand on what is to be built."""
    print("plan works")
    await ctx.send_message(f"{text}: a plan")


@executor(id="build")
async def build(text: str, ctx: WorkflowContext[str, str]) -> None:
    """Build it; in the first run the process goes away instead."""
    if not resumed:
        raise SystemExit("the process stops before build has worked")
    await ctx.yield_output(f"built from {text!r}")


async def main() -> None:
    """Start the workflow, or go on from its newest checkpoint."""
    global resumed
    storage = UpthreadCheckpointStorage()  # in place of FileCheckpointStorage(…)
    workflow = (
        WorkflowBuilder(start_executor=plan, checkpoint_storage=storage, name="release")
        .add_edge(plan, build)
        .build()
    )
    newest = await storage.get_latest(workflow_name="release")
    resumed = newest is not None
    if newest is None:
        result = await workflow.run("the parser")
    else:
        print(f"going on after step {newest.iteration_count}")
        result = await workflow.run(checkpoint_id=newest.checkpoint_id)
    print(*result.get_outputs())
    storage.close()


resumed = False
asyncio.run(main())
