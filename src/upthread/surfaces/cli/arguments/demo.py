"""The verb that shows the main job by the rehearsal agent, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from upthread.surfaces.cli.arguments.parameters import Option
from upthread.surfaces.cli.call import Call


def demo(
    call: Call,
    *,
    keep: Annotated[
        Path | None,
        Option("--keep", metavar="DIR", help="Keep everything below this new directory."),
    ] = None,
    full: Annotated[
        bool, Option("--full", help="The whole job, beside the same without continuity.")
    ] = False,
) -> int:
    """Kill a rehearsal agent in the middle of its work and see it go on; --full for more."""
    from upthread.surfaces.cli.demo import verb

    return verb.demo_in_full(call, keep) if full else verb.demo(call, keep)
