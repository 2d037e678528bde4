"""Repair: what was read of a damaged database is made to stand together again.

A lost owner gets a name and a place; a turn or a run ends where its events break off. What was
under way is parked or ended: of what happened last, nobody can be sure. chain_repair.py has parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, cast

from msgspec import structs

from upthread.core.codec import decode_run_event, decode_turn_event, encode_event
from upthread.core.events import (
    PromptSent,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunStarted,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.runs.stops import SALVAGED
from upthread.core.turns.turn import TRANSITIONS, TurnState, TurnView, apply
from upthread.core.types import Outcome
from upthread.errors import StoreError
from upthread.store.sql.batch import Row, from_columns
from upthread.store.sqlite.database import Connection, first_of
from upthread.store.sqlite.pages import Value, Values
from upthread.store.sqlite.row_types import Found, integer

_DETAIL: Final = "its record was damaged, and its end is lost"
# A turn's event has the row (turn << 20) + seq: migration 1.
_SEQ_BITS: Final = 20


class Mender:
    """Mends all but the parts of a new database, in one transaction. `notes` are for a person."""

    def __init__(self, connection: Connection, found: Found, *, now_ms: int) -> None:
        self._connection = connection
        self._found = found
        self._now_ms = now_ms
        self.notes: list[str] = []

    def mend(self) -> None:
        """Mend all there is: lost owners, then what cannot stand without its owner, then events."""
        # From below: a conversation tells its workstream, and that one its project.
        self._mend_conversations()
        self._mend_workstreams()
        self._mend_projects()
        self._mend_turns()
        # Only when all owners are there that can be made again.
        self._drop_orphans()
        self._mend_turn_events()
        self._mend_run_events()

    # --- owners --------------------------------------------------------------------------------

    def _mend_conversations(self) -> None:
        for row in sorted(self._conversations_named() - self._ids("conversation")):
            name = self._name(row, "con_")
            key = self._found.keys.get(row)
            project, workstream, role, slot, generation = (
                # A role of its own for each: two that are lost must not have one key.
                key[:5] if key else (self._some_project(), SALVAGED, f"{SALVAGED}-{row}", 1, 1)
            )
            known = self._row(
                "SELECT base_name FROM workstream WHERE project_id = ? AND workstream = ?",
                (project, workstream),
            )
            base_name = known[0] if known else f"Salvaged{row}"
            bindings = (row, name, project, workstream, role, slot, generation, base_name)
            self._connection.execute(
                "INSERT INTO conversation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (*bindings, self._now_ms),
            )
            address = "/".join(map(str, from_columns((workstream, role))))
            self.notes.append(f"conversation {name} was lost: it is {address} now")

    def _mend_workstreams(self) -> None:
        missing = self._rows(
            "SELECT project_id, workstream, min(base_name) FROM conversation AS c WHERE NOT EXISTS"
            " (SELECT 1 FROM workstream AS w WHERE w.project_id = c.project_id"
            " AND w.workstream = c.workstream) GROUP BY project_id, workstream"
        )
        for project, workstream, base_name in missing:
            self._connection.execute(
                "INSERT INTO workstream (project_id, workstream, base_name, opened_at_ms)"
                " VALUES (?, ?, ?, ?)",
                (project, workstream, base_name, self._now_ms),
            )
            self.notes.append(f"when workstream {workstream} was opened is lost")

    def _mend_projects(self) -> None:
        missing = self._rows(
            "SELECT DISTINCT project_id FROM workstream WHERE project_id NOT IN"
            " (SELECT project_id FROM project_identity)"
        )
        for (project,) in missing:
            # Where most of its sessions worked: a few may have had worktrees.
            found = self._row(
                "SELECT l.working_directory FROM link AS l JOIN conversation AS c"
                " ON c.id = l.conversation WHERE c.project_id = ?"
                " GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
                (project,),
            )
            path = found[0] if found else "/"
            self._connection.execute(
                "INSERT INTO project_identity (project_id, path) VALUES (?, ?)", (project, path)
            )
            self.notes.append(f"where project {project} lies is lost: taken for {path}")

    def _mend_turns(self) -> None:
        owners = {
            integer(values[at]): integer(values[0])
            for table, at in (("examined", 1), ("part", 4))
            for values in self._found.rows[table].values()
        }
        for row in sorted(owners.keys() - self._ids("turn")):
            self._connection.execute(
                "INSERT INTO turn VALUES (?, ?, ?, NULL, ?, NULL)",
                (row, self._name(row, "trn_"), owners[row], self._now_ms),
            )

    def _drop_orphans(self) -> None:
        """Take away what names an owner of which nothing is left, and say how much."""
        for table, column, owner in _OWNED:
            before = self._connection.total_changes()
            statement = (  # of names of ours
                f"DELETE FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
                f" AND {column} NOT IN (SELECT id FROM {owner})"
            )
            self._connection.execute(statement)
            dropped = self._connection.total_changes() - before
            if dropped:
                self.notes.append(f"{dropped} of {table} belonged to a lost {owner}")
        # A turn stands without its run: what was said in it is not to go with that.
        self._connection.execute("UPDATE turn SET run = NULL WHERE run NOT IN (SELECT id FROM run)")

    # --- events --------------------------------------------------------------------------------

    def _mend_turn_events(self) -> None:
        by_turn: dict[int, list[tuple[int, Values]]] = defaultdict(list)
        for row_id, values in self._found.rows["turn_event"].items():
            by_turn[row_id >> _SEQ_BITS].append((row_id & (1 << _SEQ_BITS) - 1, values))
        turns = self._ids("turn")
        lost = sum(len(events) for turn, events in by_turn.items() if turn not in turns)
        if lost:
            self.notes.append(f"{lost} of turn_event belonged to a lost turn")
        first_seqs = {
            integer(values[4]): integer(values[1])
            # From the end, so that of each turn's messages the first one stays: its prompt.
            for values in sorted(self._found.rows["part"].values(), key=lambda v: -integer(v[1]))
        }
        owners: dict[Value, Value] = dict(self._rows("SELECT id, conversation FROM turn"))
        mended: set[Value] = set()
        for turn in sorted(turns):
            stored = _in_order(by_turn.get(turn, ()))
            events = _turn_of(stored, prompt_seq=first_seqs.get(turn, 1))
            # What later turns say of one that ends otherwise now would be wrong.
            if owners[turn] in mended:
                events = list(map(_without_totals, events))
            if [_turn_event(values) for _, values in stored] != events:
                mended.add(owners[turn])
            for seq, event in enumerate(events, start=1):
                columns = self._columns_of(event, [values for _, values in stored[seq - 1 : seq]])
                self._connection.execute(
                    "INSERT INTO turn_event VALUES (?, ?, ?, ?, ?)",
                    ((turn << _SEQ_BITS) + seq, *columns),
                )

    def _mend_run_events(self) -> None:
        by_run: dict[int, list[tuple[int, Values]]] = defaultdict(list)
        for values in self._found.rows["run_event"].values():
            by_run[integer(values[0])].append((integer(values[1]), values[2:]))
        for run in sorted(self._ids("run")):
            stored = _in_order(by_run.get(run, ()))
            events = _run_of(stored)
            if not events:
                self._forget_run(run)
            for seq, event in enumerate(events, start=1):
                columns = self._columns_of(event, [values for _, values in stored[seq - 1 : seq]])
                self._connection.execute(
                    "INSERT INTO run_event (run, seq, kind, payload, recorded_at_ms, seal)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (run, seq, *columns),
                )
        # Nothing goes on by itself from a record that lacks something: a person looks first.
        self._connection.execute("UPDATE transition SET is_settled = 1")

    def _columns_of(self, event: TurnEvent | RunEvent, stored: Sequence[Values]) -> Values:
        """Return an event's columns, with the seal of the one in its place that it still is."""
        kind, payload = encode_event(event)
        # With the seal it came with, by which `_sealed_anew` tells whether it was damaged.
        for _, was, at_ms, seal in stored:
            return kind, payload, at_ms, seal if was == payload else None
        return kind, payload, self._now_ms, None

    def _forget_run(self, run: int) -> None:
        for statement in (
            "UPDATE turn SET run = NULL WHERE run = ?",
            "DELETE FROM transition WHERE run = ?",
            "DELETE FROM act WHERE run = ?",
            "DELETE FROM run WHERE id = ?",
        ):
            self._connection.execute(statement, (run,))
        self.notes.append("a run was lost whose beginning cannot be read")

    # --- looking -------------------------------------------------------------------------------

    def _conversations_named(self) -> set[int]:
        named = {place.conversation for place in self._found.places}
        for table, column in _CONVERSATION_IN.items():
            for values in self._found.rows[table].values():
                if isinstance(value := values[column], int):
                    named.add(value)
        return named

    def _name(self, row: int, prefix: str) -> str:
        # Indexes of other tables have rows of the same number.
        known = (name for name in self._found.names[row] if name.startswith(prefix))
        return next(known, f"{prefix}{SALVAGED}_{row}")

    def _some_project(self) -> Value:
        found = self._row("SELECT project_id FROM project_identity ORDER BY id LIMIT 1", ())
        return f"prj_{SALVAGED}" if found is None else found[0]

    def _ids(self, table: str) -> set[int]:
        statement = f"SELECT id FROM {table}"  # noqa: S608  # a name of ours
        return {row for (row,) in self._rows(statement)}

    def _row(self, statement: str, bindings: Row) -> Row | None:
        return first_of(self._connection.execute(statement, bindings))

    def _rows(self, statement: str) -> list[Row]:
        return self._connection.execute(statement).fetchall()


_CONVERSATION_IN: Final = {
    "part": 0,
    "link": 0,
    "turn": 1,
    "examined": 0,
    "refusal": 0,
    "briefing_edit": 0,
    "act": 0,
}
"""The tables that name a conversation's row, and the column after the id where they do."""

_OWNED: Final = (
    ("link_end", "link", "link"),
    ("examined", "turn", "turn"),
    ("examined", "upstream", "upstream"),
    ("quarantine", "turn", "turn"),
    ("transition", "run", "run"),
    ("act", "run", "run"),
)
"""Rows that say nothing without their owner, whose number is given again one day."""


# --- below: values -----------------------------------------------------------------------------


def _turn_of(stored: list[tuple[int, Values]], *, prompt_seq: int) -> list[TurnEvent]:
    """Return the events of a turn as far as they follow each other, and an end."""
    decoded = [(seq, _turn_event(values)) for seq, values in stored]
    events = [event for _, event in decoded if event is not None]
    kept: list[TurnEvent] = []
    view = TurnView()
    for seq, event in decoded:
        if event is None or seq != len(kept) + 1 or not _may_follow(view, event):
            break
        view = apply(view, event)
        kept.append(event)
    if not kept:
        known = (event for event in events if isinstance(event, TurnIntended))
        lost = TurnIntended(decision="resume", reasons=(SALVAGED,), prompt_seq=prompt_seq)
        kept = [next(known, lost)]
        view = apply(TurnView(), kept[0])
    ended = next((event for event in events if isinstance(event, TurnEnded)), None)
    # How it ended was read, and is known, whatever is lost before it.
    if view.ended is None and ended is not None:
        return [*kept, ended]
    if view.is_over:
        return kept
    # The prompt left, and what came of it is lost: a person decides, as after a crash.
    if view.state in {TurnState.SENT, TurnState.UNCERTAIN}:
        return [*kept, TurnParked(reason=SALVAGED, detail="")]
    return [*kept, TurnEnded(outcome=Outcome.UNKNOWN, detail=_DETAIL)]


def _without_totals(event: TurnEvent) -> TurnEvent:
    """Return a turn's end as one that tells nothing of the turns before it: they are read then."""
    if not isinstance(event, TurnEnded):
        return event
    return structs.replace(
        event, turns_before=None, tokens_before=0, is_before_estimated=False, failed_before=()
    )


def _may_follow(view: TurnView, event: TurnEvent) -> bool:
    is_next = type(event) in TRANSITIONS[view.state]
    return is_next and (not isinstance(event, PromptSent) or view.may_send)


def _run_of(stored: list[tuple[int, Values]]) -> list[RunEvent]:
    """Return the events of a run as far as they follow each other, parked where it would go on."""
    decoded = [(seq, _run_event(values)) for seq, values in stored]
    events = [event for _, event in decoded if event is not None]
    kept: list[RunEvent] = []
    for seq, event in decoded:
        if event is None or seq != len(kept) + 1:
            break
        if isinstance(event, RunStarted) is not (seq == 1):
            break
        kept.append(event)
    if not kept:
        return []
    ended = next((event for event in events if isinstance(event, RunEnded)), None)
    if ended is not None:
        return kept if kept[-1] == ended else [*kept, ended]
    is_whole = len(kept) == len(stored)
    if is_whole and isinstance(kept[-1], RunParked | QuestionsAsked):  # nobody goes on by itself
        return kept
    return [*kept, RunParked(reason=SALVAGED)]


def _turn_event(values: Values) -> TurnEvent | None:
    try:
        return decode_turn_event(str(values[0]), cast("bytes", values[1]))
    except StoreError:
        return None


def _run_event(values: Values) -> RunEvent | None:
    try:
        return decode_run_event(str(values[0]), cast("bytes", values[1]))
    except StoreError:
        return None


def _in_order(stored: Iterable[tuple[int, Values]]) -> list[tuple[int, Values]]:
    return sorted(stored, key=lambda each: each[0])
