"""The guard's first check: an outward call runs unasked only if no turn left anything open."""

import json

import pytest

from upthread.core.commands import RecordProject
from upthread.core.events import TurnEnded
from upthread.core.types import Outcome, ProjectIdentity
from upthread.store.sqlite import SqliteStore
from upthread.surfaces.hook.program import is_clear
from upthread.testing.store_conformance import samples


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], False),
        ([TurnEnded(outcome=Outcome.OK)], True),
        ([TurnEnded(outcome=Outcome.PROCESS_DIED)], False),
        ([TurnEnded(outcome=Outcome.OK, calls_open=1)], False),
        ([TurnEnded(outcome=Outcome.OK, turns_before=1, failed_before=("trn_zero",))], False),
    ],
    ids=["running", "ended well", "died", "a call is open", "an earlier turn failed"],
)
def test_a_project_is_clear_only_if_all_its_turns_ended_well(tmp_path, ends, expected):
    here = ProjectIdentity(path=str(tmp_path))
    store = SqliteStore(tmp_path / "upthread.db")
    known = RecordProject(project_id=samples.PROJECT, identity=here)
    store.commit((known, *samples.home(), *(samples.happened(1, end) for end in ends)))
    store.close()
    request = json.dumps({"cwd": str(tmp_path)}).encode()
    assert is_clear(str(tmp_path), request, {}) is expected
