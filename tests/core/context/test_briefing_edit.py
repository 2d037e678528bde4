import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.context.briefing import (
    EDIT_CHARACTERS_MAX,
    MARK,
    NOTE,
    BriefingEdit,
    BriefingInputs,
    EditedSection,
    ReadEdit,
    Reported,
    Section,
    build_briefing,
    read_edit,
    sections_of,
    with_edit,
)
from upthread.core.roles.reports import Report

INPUTS = BriefingInputs(
    goal="Greet people",
    reports=[Reported("planner", Report(status="done", findings=("no tests", "no docs")))],
    last_reply="I planned.",
)


def edited(text: str, inputs: BriefingInputs = INPUTS) -> ReadEdit:
    made = sections_of(structs.replace(inputs, edit=None))
    before = inputs.edit or BriefingEdit()
    return read_edit(text, shown=sections_of(inputs), made=made, before=before)


def told(edit: BriefingEdit, inputs: BriefingInputs = INPUTS) -> str:
    return build_briefing(structs.replace(inputs, edit=edit))


def test_text_that_was_not_touched_is_no_edit():
    assert edited(build_briefing(INPUTS)) == ReadEdit(edit=BriefingEdit())


def test_an_edited_section_is_the_persons_and_marked():
    read = edited(build_briefing(INPUTS).replace("Greet people", "Greet everybody"))
    assert read.faults == ()
    assert f"## Goal\n{MARK}\nGreet everybody\n" in told(read.edit)
    assert "I planned." in told(read.edit)
    assert told(read.edit).count(MARK) == 1


def test_an_edited_list_still_gains_what_comes_up_later():
    read = edited(build_briefing(INPUTS).replace("- no docs (planner)\n", "- docs are fine\n"))
    report = Report(status="done", findings=("no tests", "no docs", "no licence"))
    later = told(read.edit, structs.replace(INPUTS, reports=[Reported("planner", report)]))
    assert "- no tests (planner)\n- docs are fine\n- no licence (planner)\n" in later
    assert "no docs" not in later


def test_a_later_reply_is_told_though_the_earlier_one_was_edited():
    read = edited(build_briefing(INPUTS).replace("I planned.", "It planned badly."))
    later = told(read.edit, structs.replace(INPUTS, last_reply="I planned again."))
    assert f"{MARK}\nIt planned badly.\nI planned again." in later


def test_a_section_that_was_taken_out_stays_out():
    text = build_briefing(INPUTS)
    read = edited(text.replace("## Your last reply\nI planned.\n\n", ""))
    assert "I planned." not in told(read.edit)
    assert "## Your last reply" not in told(read.edit)


def test_editing_again_keeps_what_was_edited_before():
    first = edited(build_briefing(INPUTS).replace("Greet people", "Greet everybody")).edit
    inputs = structs.replace(INPUTS, edit=first)
    assert edited(build_briefing(inputs), inputs) == ReadEdit(edit=first)
    second = edited(build_briefing(inputs).replace("I planned.", "So it says."), inputs).edit
    assert "Greet everybody" in told(second)
    assert "So it says." in told(second)


def test_what_stands_under_no_heading_of_ours_is_a_note():
    text = "Mind the cat.\n\n" + build_briefing(INPUTS) + "\n## Weather\nIt rains.\n"
    read = edited(text)
    assert read.faults == ("'Weather' is no section of a briefing: it is kept in your note",)
    assert f"## {NOTE}\n{MARK}\nMind the cat.\n\n### Weather\nIt rains." in told(read.edit)
    inputs = structs.replace(INPUTS, edit=read.edit)
    assert edited(build_briefing(inputs), inputs) == ReadEdit(edit=read.edit)
    without = edited(build_briefing(inputs).partition(f"## {NOTE}")[0], inputs)
    assert without.edit.note == ""


def test_a_heading_that_stands_twice_keeps_both_and_says_so():
    read = edited(build_briefing(INPUTS) + "\n## Goal\nAnd more.\n")
    assert read.faults == ("'Goal' stands twice: both are kept, one after the other",)
    assert "Greet people\nAnd more." in told(read.edit)


def test_text_without_any_heading_of_ours_is_kept_whole_and_nothing_else_changes():
    read = edited("just do it\n# Really")
    assert read.faults == (
        "no heading of the briefing is left: your text is kept as a note, nothing else",
    )
    assert "Greet people" in told(read.edit)
    assert f"{MARK}\njust do it\n### Really" in told(read.edit)


@pytest.mark.parametrize("text", ["", " \n", "# Briefing\n"])
def test_an_emptied_text_changes_nothing(text):
    kept = BriefingEdit(note="kept")
    assert edited(text, structs.replace(INPUTS, edit=kept)) == ReadEdit(edit=kept)


def test_too_long_a_text_changes_nothing_and_says_so():
    read = edited("x" * (EDIT_CHARACTERS_MAX + 1))
    assert read.edit == BriefingEdit()
    assert "nothing was changed" in read.faults[0]


def test_a_section_that_is_not_made_any_more_still_has_the_persons_words():
    edit = BriefingEdit(sections={"Plan": EditedSection(text="- first this")})
    section = Section(heading="Plan", items=("- first this",), is_edited=True)
    assert with_edit([], edit) == (section,)
    assert with_edit([], BriefingEdit(sections={"Plan": EditedSection(text="")})) == ()


@pytest.mark.extended
@given(st.text(max_size=200) | st.text(alphabet="#\n -GoalPnx", max_size=80))
def test_whatever_a_person_leaves_behind_is_kept_and_makes_a_briefing(text):
    read = edited(text)
    made = told(read.edit)
    headings = [line for line in made.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings))
    assert msgspec.convert(msgspec.to_builtins(read.edit), BriefingEdit) == read.edit


@pytest.mark.extended
@given(
    st.sampled_from(["Greet people", "- no tests (planner)", "I planned."]), st.text(max_size=40)
)
def test_an_edit_is_read_back_as_it_was_told(old, new):
    first = edited(build_briefing(INPUTS).replace(old, new)).edit
    inputs = structs.replace(INPUTS, edit=first)
    assert edited(build_briefing(inputs), inputs).edit.sections == first.sections
