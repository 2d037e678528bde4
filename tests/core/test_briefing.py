import re

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.briefing import (
    GOAL_CHARACTERS_MAX,
    LIST_CHARACTERS_MAX,
    REPLY_CHARACTERS_MAX,
    BriefingInputs,
    build_briefing,
)
from upthread.core.reports import Report

PLAN = Report(status="done", decisions=("Use SQLite",), findings=("The CLI has no tests",))
TEXTS = st.text(max_size=60) | st.just("x" * 20_000) | st.just("# Goal\n## Goal\n===\n```")
REPORTS = st.builds(
    Report,
    status=st.just("done"),
    decisions=st.lists(TEXTS, max_size=4).map(tuple),
    findings=st.lists(TEXTS, max_size=4).map(tuple),
)
INPUTS = st.builds(
    BriefingInputs,
    goal=TEXTS,
    reports=st.lists(st.tuples(st.sampled_from(["planner", "auditor"]), REPORTS), max_size=3),
    last_reply=TEXTS,
)


def test_a_briefing_tells_goal_decisions_findings_and_the_last_reply():
    reply = 'I planned.\n```upthread\n{"status": "done"}\n```'
    told = build_briefing(
        BriefingInputs(goal=" Greet people ", reports=[("planner", PLAN)], last_reply=reply)
    )
    assert told == (
        "# Briefing\n\n## Goal\nGreet people\n\n"
        "## Decisions already made\n- Use SQLite (planner)\n\n"
        "## Findings already confirmed\n- The CLI has no tests (planner)\n\n"
        "## Your last reply\nI planned.\n\n"
        "Do not repeat work already completed. Build on this briefing."
    )


def test_where_nothing_is_known_nothing_is_told():
    assert build_briefing(BriefingInputs(goal="  ")) == ""


def test_reports_are_told_oldest_first():
    other = Report(status="done", decisions=("Then that",))
    told = build_briefing(BriefingInputs(goal="g", reports=[("a", PLAN), ("b", other)]))
    assert told.index("Use SQLite (a)") < told.index("Then that (b)")


@given(INPUTS)
def test_a_briefing_is_deterministic_and_has_a_cap(inputs: BriefingInputs):
    told = build_briefing(inputs)
    assert told == build_briefing(inputs)
    cap = GOAL_CHARACTERS_MAX + REPLY_CHARACTERS_MAX + 2 * LIST_CHARACTERS_MAX
    assert len(told) <= cap + 1_000


@given(INPUTS)
def test_nothing_in_it_forges_a_section(inputs: BriefingInputs):
    ours = re.compile(
        r"# Briefing|## (Goal|Decisions already made|Findings already confirmed|Your last reply)"
    )
    headings = [
        line for line in build_briefing(inputs).splitlines() if re.match(r"\s*#{1,2}(\s|$)", line)
    ]
    assert all(ours.fullmatch(line) for line in headings)
    assert len(set(headings)) == len(headings)


def test_what_is_cut_says_so():
    told = build_briefing(BriefingInputs(goal="g" * 5_000, last_reply="r" * 5_000))
    assert told.count("[… cut]") == 2


def test_the_newest_of_many_findings_are_kept_whole():
    many = Report(status="done", findings=tuple(f"finding {n} " + "x" * 90 for n in range(200)))
    told = build_briefing(BriefingInputs(goal="g", reports=[("planner", many)]))
    assert "finding 199 " in told
    assert "finding 0 " not in told
    kept = told.count("(planner)")
    assert f"- [… {200 - kept} older ones left out]\n- finding {200 - kept} " in told
