"""W8: have 10,000 examined files changed? What the look costs beside one stat a file.

Ours: read what the session knows from the store, look at the files, compare. Raw: `os.stat` of the
same paths. The limit is absolute: one second for 10,000 files of which none moved.
"""

from __future__ import annotations

import os
from pathlib import Path

from measure import Row, Timing, compared, interleaved
from scratch import scratch

from upthread.core.commands import RecordExamined
from upthread.core.decision.freshness import changed_files
from upthread.runtime.turns.recording import examine, look_again
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

FILES = 10_000
LIMIT_US = 1e6
OLD_S = 1_700_000_000
TOUCHED = 100


def measure(*, is_quick: bool) -> list[Row]:
    """Return a row for files that did not move, and one where some were touched."""
    with scratch() as directory:
        root = directory / "tree"
        paths = _make(root, FILES)
        store = _known(directory / "freshness.db", root, paths)
        repetitions, budget_s = (10, 2) if is_quick else (40, 10)

        def raw(_: int) -> None:
            for path in paths:
                os.stat(f"{root}/{path}")  # noqa: PTH116  # the raw limit

        def ours(_: int) -> None:
            known = store.examined(samples.CONVERSATION, upstream_session_id="ses_a")
            assert len(known) == FILES
            assert changed_files(known, look_again(str(root), known), critical=["*.sql"]) == ()

        still = interleaved({"raw": raw, "ours": ours}, repetitions=repetitions, budget_s=budget_s)
        for path in paths[:TOUCHED]:
            os.utime(root / path)
        touched = interleaved(
            {"raw": raw, "ours": ours}, repetitions=repetitions, budget_s=budget_s
        )
        store.close()
    return [
        _row(f"look at {FILES:,} files", still),
        _row(f"… of which {TOUCHED} were touched", touched),
    ]


def _row(what: str, timings: dict[str, Timing]) -> Row:
    raw, ours = timings["raw"], timings["ours"]
    return compared("W8", what, raw, ours, LIMIT_US / raw.wall_p10_us, note="1 s at most")


def _make(root: Path, count: int) -> list[str]:
    paths = [f"dir{number % 100}/{number}.py" for number in range(count)]
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"content = '{path}'\n" * 20)
        os.utime(place, (OLD_S, OLD_S))
    return paths


def _known(database: Path, root: Path, paths: list[str]) -> SqliteStore:
    store = SqliteStore(database)
    files = tuple(examine(str(root), path, how="read") for path in paths)
    write = RecordExamined(
        conversation_id=samples.CONVERSATION,
        turn_id=samples.TURN,
        first_ordinal=0,
        upstream_session_id=samples.link().upstream_session_id,
        files=files,
        recorded_at_ms=0,
    )
    store.commit([*samples.home(), write])
    return store
