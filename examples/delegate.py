"""Tell a role twice and see the same session answer: `python examples/delegate.py`.

Uses the rehearsal agent, which needs no model. Put the name of an agent of yours in its place.
"""

from __future__ import annotations

import anyio

import upthread

AGENT = "rehearsal"


async def main() -> None:
    """Delegate two prompts to one role, then ask why it was done the way it was."""
    options = upthread.TellOptions(agent=AGENT)
    async with upthread.open_project(".") as up:
        for prompt in ("Remember that exports are CSV first.", "[[rehearse: say CSV first]]"):
            result = await up.tell("export/planner", prompt, options)
            print(result.decision, result.upstream_session_id, result.outcome)
            print(result.reply)
        why = await up.why("export/planner")
        print("next time:", why.now.decision, why.now.reasons)


if __name__ == "__main__":
    anyio.run(main)
