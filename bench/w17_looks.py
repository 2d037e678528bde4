"""W17: what a look costs in a long history and beside many workstreams, beside a small one.

Ours to ours: `id`, `show`, `why` and `status` of one role in a repository of one commit; in one of
300,000; and in one with a thousand workstreams on record. `ls` beside a thousand is told apart: it
shows each of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from measure import Row, Timing, interleaved
from scratch import scratch
from w13_tell import COMMITS, COMMITS_QUICK, UPTHREAD, Project, make_project, run_in, tell

ROUNDS = 25
ROUNDS_QUICK = 8
BUDGET_S = 120.0
GROWTH_LIMIT = 1.3
WORKSTREAMS = 1_000
SMALL, LONG, MANY = "one commit", "many commits", "1,000 workstreams"
LOOKS = {
    "id": ("id", "spec-42/planner"),
    "ls": ("ls",),
    "show": ("show", "spec-42"),
    "why": ("why", "spec-42/planner"),
    "status": ("status",),
}


def measure(*, is_quick: bool) -> list[Row]:
    """Return a row for each look in each of the large places."""
    commits = COMMITS_QUICK if is_quick else COMMITS
    with scratch() as directory:
        projects = {
            SMALL: make_project(directory / "small"),
            LONG: make_project(directory / "long", commits=commits),
            MANY: make_project(directory / "many"),
        }
        _fill(projects[MANY])
        for project in projects.values():
            tell(project)
        timings = interleaved(
            {
                f"{name} {place}": lambda _, words=words, project=project: run_in(
                    [*UPTHREAD, *words], project
                )
                for name, words in LOOKS.items()
                for place, project in projects.items()
            },
            repetitions=ROUNDS_QUICK if is_quick else ROUNDS,
            budget_s=BUDGET_S,
        )
    called = {LONG: f"{commits:,} commits", MANY: MANY}
    return [_row(name, place, called[place], timings) for name in LOOKS for place in (LONG, MANY)]


def _row(name: str, place: str, called: str, timings: dict[str, Timing]) -> Row:
    small, large = timings[f"{name} {SMALL}"], timings[f"{name} {place}"]
    return Row(
        workload="W17",
        what=f"upthread {name}, {called}",
        raw=small.wall_p10_us,
        ours=large.wall_p10_us,
        limit=None if (name, place) == ("ls", MANY) else GROWTH_LIMIT,
        note="ours to ours",
    )


def _fill(project: Project) -> None:
    """Write as many workstreams, a conversation and a turn in each."""
    here = Path(__file__).resolve().parent
    filling = project._replace(environment={**project.environment, "PYTHONPATH": str(here.parent)})
    run_in([sys.executable, str(here / "many_conversations.py"), str(WORKSTREAMS), "1"], filling)
