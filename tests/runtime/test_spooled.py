"""What lies in the spool, while those who bring words come and go."""

from __future__ import annotations

from pathlib import Path

from upthread.runtime.bindings import spool
from upthread.runtime.bindings.places import Place
from upthread.runtime.hooked.spooled import calls_in, next_of, with_words

CALL = {
    "agent": "opencode",
    "session": "ses_main",
    "call_id": "c1",
    "workstream": "spec-42",
    "role": "planner",
    "slot": 1,
}
GONE = {"pid": 2**22 + 1, "ticks": 1}


def place_in(directory: Path) -> Place:
    place = Place(str(directory / "home"), str(directory))
    place.known = {"project_id": "prj_1"}
    Path(spool.directory(place)).mkdir(parents=True)
    return place


def test_words_that_came_after_the_spool_was_read_are_taken_in(tmp_path: Path):
    """Who brought them kept them, and was gone when it was asked whether it lives."""
    place = place_in(tmp_path)
    spool.put(place, "decided", {**CALL, "decision": "first"})
    spool.put(place, "ended", {**CALL, "outcome": "ok", "drain": GONE})
    (read,) = next_of(calls_in(place))
    spool.put(place, "said", {**CALL, "reply": {"text": "Planned."}})
    whole = with_words(place, read)
    assert (read.has_words, whole.has_words) == (False, True)
    assert len(whole.paths) == 3, "what is taken in is removed"
