"""When a hook starts the process that takes in what waits, and what a session is told besides."""

from __future__ import annotations

import time

import pytest
from tests.support.sets import spread

MARK = "import pathlib, sys; pathlib.Path({path!r}).write_text('started')"
PATIENCE_S = 60.0


@pytest.fixture
def started(place, tmp_path):
    """Whether a drain was started since the last question."""
    mark = tmp_path / "drain-started"
    place.start_drains_by(MARK.format(path=str(mark)))

    def was_started() -> bool:
        until_s = time.monotonic() + PATIENCE_S
        while not mark.exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        is_there = mark.exists()
        mark.unlink(missing_ok=True)
        return is_there

    return was_started


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
@pytest.mark.parametrize("event", spread(["SessionStart", "SessionEnd"]))
def test_a_main_session_that_begins_or_ends_has_what_waits_taken_in(place, started, agent, event):
    asked = {"hook_event_name": event, "session_id": "main-1", "cwd": str(place.project)}
    said = place.hook({**asked, "source": "startup"}, agent=agent)
    assert (said.code, said.err) == (0, "")
    assert started()
