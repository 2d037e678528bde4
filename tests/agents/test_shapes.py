"""Each shape of a stored session: what upthread reports agrees with what the real agent does.

The table is docs/agents/shapes, measured by tests/live/test_shapes.py.
"""

import pytest
from tools.shapes.measured import ALL, PART, REFUSED, hold, table_of
from tools.shapes.ours import SOUND, reports
from tools.shapes.stages import CASES, HOMES, name_of, write_session

SUMMARY = "SLOE-"
"""How the words of a compaction's summary begin here: no person and no model said them."""

OPEN = {
    "claude-code": "a_line_of_40_mib a_note_between no_line_ends not_utf_8 only_notes"
    " pretty_printed",
    "codex": "",
    "opencode": "an_error an_unknown_role another_directory another_name"
    " call_of_an_unknown_state call_without_a_state call_without_an_id call_without_an_output"
    " compacted no_times part_synthetic part_without_a_text reverted times_as_texts",
}
"""The shapes in which upthread does not agree with the agent yet. Take out each that is mended."""

ARCHIVED = "is archived. Run `codex unarchive "
"""A person archived the thread: it is listed as such, and Codex opens it after that command."""


MEASURED = [case for case in CASES if case[1].name in table_of(case[0])]


@pytest.mark.parametrize(("agent", "shape"), MEASURED, ids=map(name_of, MEASURED))
def test_upthread_reports_of_each_shape_what_the_table_says(agent, shape, tmp_path):
    session, _ = write_session(agent, shape, tmp_path)
    hold(agent, "", shape.name, reports(agent, tmp_path / HOMES[agent], session))


@pytest.mark.parametrize("agent", HOMES)
def test_upthread_agrees_with_the_agent(agent):
    table = table_of(agent)
    assert set(table) <= {shape.name for name, shape in CASES if name == agent}
    assert len(table) >= 40
    assert {name for name, row in table.items() if [*disagreements(row)]} == set(
        OPEN[agent].split()
    )


def disagreements(row):
    """Yield each way in which a row's two halves contradict each other."""
    shown, sent, kept = (set(marks.split()) for marks in (row.shown, row.sent, row.kept))
    if row.outcome == REFUSED:
        if row.doctor == SOUND and row.listed and ARCHIVED not in row.says:
            yield "it is refused, and called sound"
        return
    if not row.listed:
        yield "it is resumed, and not listed"
    if row.doctor == SOUND and shown != sent:
        yield "it is called sound, and the model is shown other words"
    if not {mark for mark in shown if not mark.startswith(SUMMARY)} <= kept:
        yield "the model is shown more than is kept"
    if row.repaired not in {"", ALL, PART}:
        yield "the repaired copy is not resumed"
