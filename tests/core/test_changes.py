from dataclasses import replace

from upthread.core.changes import (
    NEW_INSTRUCTIONS_HOLD,
    READ_AGAIN,
    change_lines,
    render_changes,
    render_native_update,
)
from upthread.core.freshness import ChangedFile, Freshness
from upthread.core.roles import Role
from upthread.core.update import render_update


def test_an_agent_that_tells_the_instructions_itself_is_told_that_they_hold():
    found = Freshness(changed=(ChangedFile(path="a.py", how="changed"),), changed_count=1)
    assert render_native_update(found) == render_update(found, role=Role(name="planner"))
    renewed = replace(found, is_configuration_changed=True)
    assert render_native_update(renewed).endswith(NEW_INSTRUCTIONS_HOLD)
    assert render_native_update(Freshness()) == ""


def test_what_changed_is_a_list_of_sentences_and_what_to_do_about_it():
    found = Freshness(changed=(ChangedFile(path="a.py", how="deleted"),), changed_count=3)
    assert change_lines(found) == ("`a.py`: deleted", "and 2 more of the files you had read")
    assert render_changes(found).endswith(READ_AGAIN)
    assert render_changes(Freshness()) == ""
