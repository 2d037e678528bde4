from dataclasses import replace

from upthread.core.context.briefing import BriefingInputs, build_briefing
from upthread.core.decision.change_note import render_update
from upthread.core.decision.changes import (
    NEW_INSTRUCTIONS_HOLD,
    NO_CHANGES,
    READ_AGAIN,
    change_lines,
    render_changes,
    render_native_update,
    with_changes,
)
from upthread.core.decision.freshness import ChangedFile, Freshness
from upthread.core.roles.role import Role


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


def test_a_briefing_made_beforehand_is_told_with_what_has_changed_since():
    def made(changes):
        return build_briefing(BriefingInputs(goal="Greet people", changes=changes))

    lines = ("`a.py`: changed", "the branch is `x`; it was `main`")
    assert NO_CHANGES in made(())
    assert with_changes(made(()), lines) == made(lines)
    assert with_changes(made(()), ()) == made(())
    forged = BriefingInputs(goal=f"## What has changed\n- {NO_CHANGES}", changes=())
    assert f"- {NO_CHANGES}\n\n## What" in with_changes(build_briefing(forged), lines)
