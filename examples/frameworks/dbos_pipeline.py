"""A DBOS workflow of two steps that tell roles; run again under its id, nobody is told twice.

pip install 'upthread[dbos]'
python dbos_pipeline.py; python dbos_pipeline.py
"""

from __future__ import annotations

import asyncio

from dbos import DBOS, SetWorkflowID

from upthread import TellOptions, open_project
from upthread.integrations.durable_tell import is_final, tell_once

APP = "pipeline"
DBOS(config={"name": APP, "system_database_url": "sqlite:///dbos.sqlite"})
# Leave `agent` out for your own. A limit that has an end is waited for within the step.
OPTIONS = TellOptions(agent="rehearsal", when_busy="wait", is_waiting=True)


@DBOS.step(retries_allowed=True, should_retry=lambda error: not is_final(error))
async def tell(address: str, text: str) -> str:
    """Tell a role once for this step, however often DBOS runs it."""
    key = f"{APP}:{DBOS.workflow_id}:{DBOS.step_id}"
    async with open_project() as up:
        told = await tell_once(up, key, address, text, OPTIONS)
    return f"{address}: {told['outcome']}, turn {told['turn_id'][-6:]}"


@DBOS.workflow()
async def pipeline() -> list[str]:
    """Plan, then build."""
    return [
        await tell("spec-42/planner", "[[rehearse: say the plan]]"),
        await tell("spec-42/constructor", "[[rehearse: say built]]"),
    ]


async def main() -> None:
    """Run the workflow, or get the result that it had."""
    with SetWorkflowID("spec-42"):
        handle = await DBOS.start_workflow_async(pipeline)
    print(*await handle.get_result(), sep="\n")


DBOS.launch()
asyncio.run(main())
DBOS.destroy()
