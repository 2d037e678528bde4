"""What hooks look for among all bindings is found by an index, and never by it alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from upthread.runtime.bindings import files
from upthread.runtime.bindings.files import UnreadableError
from upthread.runtime.bindings.index import FIELDS, SETTLED_NS, bindings, write_index
from upthread.runtime.bindings.places import Place, read_binding

COUNT = 40
WORDS = "what was said"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "project").mkdir()
    made = Place(str(tmp_path / "home"), str(tmp_path / "project"))
    made.known = {"project_id": "prj_1"}
    for number in range(COUNT):
        put(made, number)
    write_index(made)
    return made


def path_of(place: Place, number: int) -> str:
    return place.binding_path(f"spec-{number}", "planner", 1)


def put(place: Place, number: int, *, is_old: bool = True, **more: Any) -> None:
    fields = {"workstream": f"spec-{number}", "role": "planner", "slot": 1, "briefing": WORDS}
    files.replace(path_of(place, number), {**fields, "session": f"ses_{number}", **more})
    if is_old:
        at_ns = time.time_ns() - 10 * SETTLED_NS
        os.utime(path_of(place, number), ns=(at_ns, at_ns))


def with_session(place: Place, session: str, **more: Any) -> list[dict[str, Any]]:
    return [found for _, found in bindings(place, lambda b: b.get("session") == session, **more)]


def counting(read: list[str]) -> Any:
    def reading(path: str) -> dict[str, Any] | None:
        read.append(path)
        return files.read(path)

    return reading


def test_one_is_found_whole_and_no_other_is_read(place: Place) -> None:
    read: list[str] = []
    (found,) = with_session(place, "ses_7", read=counting(read))
    assert found["briefing"] == WORDS
    assert read == [path_of(place, 7)]


def test_what_was_written_since_is_found_by_what_it_says_now(place: Place) -> None:
    put(place, 7, session="ses_new")
    assert with_session(place, "ses_7") == []
    assert len(with_session(place, "ses_new")) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 1, "bindings": {"x": [1]}}'])
def test_a_damaged_index_costs_time_and_nothing_else(place: Place, content: bytes) -> None:
    Path(place.project, "bindings-index.json").write_bytes(content)
    assert len(with_session(place, "ses_7")) == 1


def test_a_damaged_binding_is_told_to_who_looks_and_stops_no_index(place: Place) -> None:
    Path(path_of(place, 7)).write_bytes(b"{")
    with pytest.raises(UnreadableError, match=Path(path_of(place, 7)).name):
        with_session(place, "ses_8")
    assert len(with_session(place, "ses_8", read=read_binding)) == 1
    write_index(place)


def test_the_index_is_private_and_has_no_words(place: Place) -> None:
    index = Path(place.project, "bindings-index.json")
    assert index.stat().st_mode & 0o777 == 0o600
    assert WORDS not in index.read_text()
    entries = (files.read(str(index)) or {})["bindings"]
    assert len(entries) == COUNT
    assert {name for entry in entries.values() for name in entry[-1]} <= set(FIELDS)
