"""A Temporal activity that tells a role, run twice as a retry does; no server is needed here.

    pip install 'upthread[temporal]'
    python temporal_activity.py

With a server: Worker(client, task_queue="agents", workflows=[…], activities=[upthread_tell]).
"""

from __future__ import annotations

import asyncio

from temporalio.testing import ActivityEnvironment

from upthread.integrations.temporal import Tell, upthread_tell


async def main() -> None:
    """Run the activity, and run it again as Temporal does when a worker was lost."""
    tell = Tell("spec-42/planner", "[[rehearse: say the plan]]", agent="rehearsal")
    for attempt in ("first", "again"):
        told = await ActivityEnvironment().run(upthread_tell, tell)
        print(f"{attempt}: {told['outcome']}, turn {told['turn_id'][-6:]}")


asyncio.run(main())
