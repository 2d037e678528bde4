"""What was measured of an agent before, held against it, or measuring it anew.

Measuring anew is asked for by the variable WRITE_VARIABLE, and never happens by itself: a change in
an agent is something a person looks at.
"""

import os
from dataclasses import replace
from pathlib import Path

from tests.support.continuity.cases import Case
from tests.support.continuity.measured import Measured, Measurement, measured_of, write_measured
from tests.support.continuity.trial import MeasuredAgent, Trial

from upthread.testing.rehearsal_model import RehearsalModel

WRITE_VARIABLE = "UPTHREAD_WRITE_MEASURED"


async def hold_to_measured(
    case: Case, agent: MeasuredAgent, *, place: Path, model: RehearsalModel, directory: Path
) -> None:
    """Bring an agent into a case, in an empty place, and compare with the file in `directory`.

    AssertionError: it differs, or it breaks what is demanded of every agent. Cases of one agent
    that are measured anew must not run at once, since each writes the agent's file.
    """
    trial = Trial(agent=agent, model=model, place=place)
    seen = await case.bring(trial)
    kept = measured_of(directory, agent.name)
    if os.environ.get(WRITE_VARIABLE) == "1":
        write_measured(directory, _with(kept, agent, trial.version, case, seen))
        return
    assert kept is not None, f"{agent.name} was never measured: {WRITE_VARIABLE}=1"
    if "UPTHREAD_TEST_AGENTS" not in os.environ:  # otherwise newer agents are tried
        assert trial.version == kept.version, f"measured was {kept.version}: {WRITE_VARIABLE}=1"
    assert seen == kept.cases.get(case.name), f"{agent.name}, {case.what}: {seen}"


def _with(
    kept: Measured | None, agent: MeasuredAgent, version: str, case: Case, seen: Measurement
) -> Measured:
    """Return the file's new content; what another version showed is no longer true."""
    if kept is None or kept.version != version:
        kept = Measured(name=agent.name, driven_by=agent.driven_by, version=version)
    return replace(kept, driven_by=agent.driven_by, cases={**kept.cases, case.name: seen})
