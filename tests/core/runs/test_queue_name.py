"""Queues: one for each place, under a name that PostgreSQL takes; what settles a transition."""

import pytest

from upthread.core.events import RunResumed, StepStarted
from upthread.core.runs.queue_name import ANY_QUEUE, queue_of, settles
from upthread.core.types import ProjectId

ONE, OTHER = ProjectId("prj_one"), ProjectId("prj_other")
CHANNEL_BYTES_MAX = 63
CHANNEL = "procrastinate_queue_v1#"


def test_each_place_has_a_queue_of_its_own_and_always_the_same():
    places = [
        queue_of(project, agent=agent, host=host)
        for project in (ONE, OTHER)
        for agent in ("", "opencode", "acp:opencode")
        for host in ("", "one", "opencode")
    ]
    assert len(set(places)) == len(places)
    assert queue_of(ONE, agent="opencode") == queue_of(ONE, agent="opencode")


@pytest.mark.parametrize("hard", ["x" * 4096, "\ud800", "\0", "'; DROP TABLE", "ü/../"])
def test_a_queue_s_name_fits_a_channel_whatever_it_is_named_for(hard):
    queue = queue_of(ProjectId(hard), agent=hard, host=hard)
    assert len(f"{CHANNEL}{queue}".encode("ascii")) <= CHANNEL_BYTES_MAX
    assert queue.startswith(f"{ANY_QUEUE}.")


def test_the_start_of_a_step_settles_nothing_and_all_else_does():
    assert not settles(StepStarted(role="planner", turn_id="trn_1"))
    assert settles(RunResumed(because="run again"))
