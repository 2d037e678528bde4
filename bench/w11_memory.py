"""W11: what an audit of a million messages takes in memory, written as Markdown and as JSON.

No raw side: the limit is in megabytes, of a whole process that reads and writes one record, as the
system counts them. Its messages are short, so that there are many; what is long is read one turn
at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Row
from scratch import scratch
from tests.support.default_turn import Place, open_place

from upthread.core.commands import OpenTurn, RecordParts, Write
from upthread.core.types import Speaker, TextPart, TurnId
from upthread.store.sqlite import SqliteStore

MESSAGES = 1_000_000
QUICK_MESSAGES = 100_000
LIMIT_MB = 150
TURN_MESSAGES = 6
TURNS_A_COMMIT = 300
WORDS = "some words of a message " * 6

_AUDIT = r"""
import json, re, sys
from pathlib import Path
from upthread.core.states import Standing, State
from upthread.runtime.record.timeline import open_timeline
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.sqlite import SqliteStore
from upthread.surfaces.formats import json as shape, md as markdown

store = SqliteStore(Path(sys.argv[1]))
view = WorkstreamView(
    workstream=store.workstream("prj_measured", "spec-42"),
    standing=Standing(state=State.IDLE, reason=""), run_standing=None, run=None,
    open_questions=(), suggested={}, roles=(), children=(),
)
record = open_timeline(store, view)
if sys.argv[2] == "Markdown":
    pieces = markdown.in_pieces(record)
else:
    pieces = shape.in_pieces(shape.whole(record), dict)
written = sum(map(len, pieces))
# See `measure.most_kb`.
most_kb = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text("ascii"))[1]
print(json.dumps([written, int(most_kb) // 1024]))
"""


def measure(*, is_quick: bool) -> list[Row]:
    """Return a row for each form of the audit."""
    messages = QUICK_MESSAGES if is_quick else MESSAGES
    with scratch() as directory:
        path = directory / "long.db"
        _fill(path, messages)
        return [_row(messages, path, form) for form in ("Markdown", "JSON")]


def _row(messages: int, path: Path, form: str) -> Row:
    done = subprocess.run(
        [sys.executable, "-c", _AUDIT, str(path), form], stdout=subprocess.PIPE, check=True
    )
    written, megabytes = json.loads(done.stdout)
    return Row(
        workload="W11",
        what=f"audit of {messages:,} messages as {form}",
        raw=None,
        ours=megabytes,
        unit="MB",
        limit=LIMIT_MB,
        note=f"{written / 1e6:,.0f} MB written",
    )


def _fill(path: Path, messages: int) -> None:
    store = SqliteStore(path)
    place = open_place(store, "spec-42")
    turns = messages // TURN_MESSAGES
    for first in range(0, turns, TURNS_A_COMMIT):
        numbers = range(first, min(first + TURNS_A_COMMIT, turns))
        store.commit([write for number in numbers for write in _turn(place, number)])
    store.close()


def _turn(place: Place, number: int) -> Iterator[Write]:
    turn_id = TurnId(f"trn_{number:026}")
    conversation_id = place.conversation.conversation_id
    yield OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=number)
    for at in range(1, TURN_MESSAGES + 1):
        yield RecordParts(
            conversation_id=conversation_id,
            seq=TURN_MESSAGES * number + at,
            first_ordinal=0,
            speaker=Speaker.USER if at == 1 else Speaker.ASSISTANT,
            turn_id=turn_id,
            upstream_session_id=place.link.upstream_session_id,
            recorded_at_ms=number,
            parts=(TextPart(text=f"{number}.{at} {WORDS}"),),
        )
