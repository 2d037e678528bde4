import pytest

from upthread.core.names import (
    BECAUSE,
    CALLERS_VARIABLE,
    callers_in,
    choose_workstream,
    named_workstream,
    session_workstream,
)

SAID = {
    "environment": "from-environment",
    "named": "from-prompt",
    "used": "from-use",
    "branch": "from-branch",
    "default_branch": lambda: "main",
}
NOBODY = {**dict.fromkeys(SAID), "default_branch": lambda: None}


def test_the_first_that_says_something_wins_and_says_why():
    said = dict(SAID)
    order = [("environment", "environment"), ("named", "named_in_prompt")]
    order += [("used", "used"), ("branch", "branch")]
    for source, because in order:
        assert choose_workstream(**said) == (SAID[source], because)
        assert because in BECAUSE
        said[source] = None
    assert choose_workstream(**said) == (None, "none")


def test_a_main_session_without_a_workstream_is_one_by_the_end_of_its_id():
    assert session_workstream("0197-Ab:C1-d2e3f4") == "session-c1d2e3f4"
    assert session_workstream("…") == "session-unknown"


def test_the_default_branch_names_no_workstream():
    of_main = {**NOBODY, "branch": "main", "default_branch": lambda: "main"}
    assert choose_workstream(**of_main)[0] is None
    assert choose_workstream(**{**NOBODY, "branch": "main"}) == ("main", "branch")


def test_something_that_is_no_name_counts_as_nothing_said():
    said = {**NOBODY, "environment": "  ", "used": "a\nb", "branch": "fix-7"}
    assert choose_workstream(**said) == ("fix-7", "branch")


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("Go on with spec-42, please", "spec-42"),
        ("spec-42", "spec-42"),
        ("Ask spec-42/planner.", "spec-42"),
        ("It is about spec-42.", "spec-42"),
        ("See spec-42.md", None),
        ("It is about spec-421", None),
        ("It is about old/spec-42", None),
        ("It is about spec-42-b", None),
        ("Not spec-42-b but spec-42 it is", "spec-42"),
        ("First spec-42, then feature/x", None),
        ("export it", None),
        ("the workstream export", "export"),
        ("Workstream: `export`", "export"),
        ("nothing", None),
    ],
)
def test_a_prompt_names_a_workstream_only_beyond_doubt(prompt, named):
    assert named_workstream(prompt, ["spec-42", "feature/x", "export"]) == named


def test_the_conversations_a_process_is_inside_of_are_told_outermost_first():
    assert callers_in({}) == callers_in({CALLERS_VARIABLE: ""}) == ()
    assert callers_in({CALLERS_VARIABLE: "con_1,con_2"}) == ("con_1", "con_2")
