"""The front door: open a project, tell a role something, run the pipeline, see how it stands.

    async with upthread.open_project() as up:
        result = await up.tell("spec-42/planner", "Plan the export command.")
        print(result.decision, result.reply)

Async throughout; `open_blocking` runs the very same calls from code that is not. This is where
backends and agents are chosen: everything below it knows ports only.
"""
