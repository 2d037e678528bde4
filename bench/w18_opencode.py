"""W18: `upthread tell` beside the same turn of the real OpenCode, driven directly.

Raw: `opencode acp`, started by the client of W13, which resumes a session and prompts it. Ours:
`upthread tell` to a role that is resumed, the whole process. Beside them `opencode run --session`,
which is another way through OpenCode. The model is one of ours that answers at once, over loopback.
Of the pinned version, from `make agents`; without it nothing is measured, and a row says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from measure import Row, installed_program
from scratch import scratch
from tests.live.opencode import find_opencode, opencode_environment
from w13_tell import (
    ADDRESS,
    Project,
    Took,
    added_by,
    best_of,
    driven,
    make_project,
    new_session,
    run_in,
    timed,
)

from upthread.testing.rehearsal_model import RehearsalModel

ROUNDS = 8
ROUNDS_QUICK = 4
PROMPT = "Go on."
AGENT = ("opencode", "acp")


def measure(*, is_quick: bool) -> list[Row]:
    """Return what a turn of OpenCode takes both ways, and what `tell` adds to it."""
    binary = find_opencode()
    if binary is None:
        note = "not measured, for it is not installed: make agents"
        return [Row(workload="W18", what="OpenCode", raw=None, ours=0, unit="", note=note)]
    took: dict[str, list[Took]] = {"raw": [], "ours": [], "run": []}
    with scratch() as directory, RehearsalModel() as model:
        project = _project(directory, binary, model)
        session = new_session(AGENT, project)
        told = [*installed_program(), "tell", ADDRESS, PROMPT, "--agent", "opencode"]
        run = ["opencode", "run", "--session", session, PROMPT]
        sides: dict[str, Callable[[], object]] = {
            "raw": lambda: driven(AGENT, project, session),
            "ours": lambda: run_in(told, project),
            "run": lambda: run_in(run, project),
        }
        for _ in range(2):  # the first opens the session, the second knows its way
            sides["ours"]()
        for _ in range(ROUNDS_QUICK if is_quick else ROUNDS):
            for side, turn in sides.items():
                took[side].append(timed(turn))
    best = {side: best_of(each) for side, each in took.items()}
    beside_run = Row(
        workload="W18",
        what="tell, resumed, beside `opencode run`",
        raw=best["run"].wall_ms,
        ours=best["ours"].wall_ms,
        unit="ms",
        note=f"processor time {best['run'].cpu_ms:,.0f} and {best['ours'].cpu_ms:,.0f} ms",
    )
    return [*added_by("W18", "OpenCode", best["raw"], best["ours"]), beside_run]


def _project(directory: Path, binary: Path, model: RehearsalModel) -> Project:
    project = make_project(directory / "opencode")
    binaries = directory / "bin"
    binaries.mkdir()
    (binaries / "opencode").symlink_to(binary)
    environment = {
        **opencode_environment(directory / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(directory / "upthread"),
    }
    return project._replace(environment=environment)
