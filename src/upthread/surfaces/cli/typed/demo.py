"""The verb that shows the main job by the rehearsal agent, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.typed.parameters import Option


def demo(
    call: Call,
    *,
    keep: Annotated[
        Path | None,
        Option("--keep", metavar="DIR", help="Keep everything below this new directory."),
    ] = None,
) -> int:
    """Play the main job with the rehearsal agent, and the same job without continuity."""
    from upthread.surfaces.cli.demo import verb

    return verb.demo(call, keep)
