"""What an agent's sessions go through: one table of cases, measured on the real agent.

`cases` are the cases, `trial` brings an agent into one, `measured` keeps what was seen as a file in
the docs, and `holding` holds a later run to it. What upthread cannot do without is demanded of
every agent, whatever was measured::

    @pytest.mark.anyio
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    async def test_mine_is_as_measured(case, tmp_path):
        with RehearsalModel() as model:
            await hold_to_measured(case, MINE, place=tmp_path, model=model, directory=MEASURED)

With `UPTHREAD_WRITE_MEASURED=1` what was seen is written in place of being compared.
"""

from tests.support.continuity.cases import CASES, SUB_AGENT, Case
from tests.support.continuity.expectations import hold_to_measured
from tests.support.continuity.measured import Measured, Measurement, read_measured
from tests.support.continuity.trial import MeasuredAgent

__all__ = [
    "CASES",
    "SUB_AGENT",
    "Case",
    "Measured",
    "MeasuredAgent",
    "Measurement",
    "hold_to_measured",
    "read_measured",
]
