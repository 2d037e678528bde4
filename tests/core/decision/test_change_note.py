from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from upthread.core.decision.change_note import render_update
from upthread.core.decision.changes import change_lines
from upthread.core.decision.freshness import ChangedFile, Freshness, Shift
from upthread.core.roles.role import Role

PLANNER = Role(name="planner", instructions="Plan in small steps.")
CHANGED = Freshness(
    changed=(
        ChangedFile(path="src/a.py", how="changed"),
        ChangedFile(path="b.py", how="deleted"),
    ),
    changed_count=2,
)


def test_a_resumed_session_is_told_which_files_changed():
    assert render_update(CHANGED, role=PLANNER) == (
        "# What has changed since your last turn\n"
        "- `src/a.py`: changed\n"
        "- `b.py`: deleted\n\n"
        "Read these files again before you rely on what you remember of them."
    )


def test_branch_and_directory_are_told():
    found = Freshness(
        branch=Shift(was="main", now=None), directory=Shift(was="/srv/a", now="/srv/b")
    )
    assert change_lines(found) == (
        "the branch is none; it was `main`",
        "the working directory is `/srv/b`; it was `/srv/a`, and your paths lead there",
    )


def test_new_instructions_are_told_whole():
    told = render_update(Freshness(is_configuration_changed=True), role=PLANNER)
    assert told.endswith('<role name="planner">\nPlan in small steps.\n</role>')
    assert render_update(Freshness(is_configuration_changed=True), role=Role(name="x")) == ""


def test_nothing_new_is_nothing_told():
    assert render_update(Freshness(commit=Shift(was="a", now="b")), role=PLANNER) == ""


def test_files_beyond_those_listed_are_counted():
    assert change_lines(replace(CHANGED, changed_count=9))[-1] == (
        "and 7 more of the files you had read"
    )


def test_a_long_path_keeps_its_end():
    found = Freshness(changed=(ChangedFile(path="x" * 999 + "/end.py", how="changed"),))
    (line,) = change_lines(found)
    assert line.endswith("/end.py`: changed")
    assert len(line) < 320


@given(st.text(max_size=80) | st.text("`~# \n", max_size=12))
@example("`")
@example("```")
def test_no_path_forges_a_line(path):
    found = Freshness(changed=(ChangedFile(path=path, how="changed"),), changed_count=1)
    assert len(render_update(found, role=PLANNER).splitlines()) == 4
