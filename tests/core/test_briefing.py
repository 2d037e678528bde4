import re

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.briefing import (
    BRIEFING_CHARACTERS_MAX,
    CUT_ORDER,
    GOAL_CHARACTERS_MAX,
    BriefingInputs,
    Reported,
    build_briefing,
    sections_of,
)
from upthread.core.briefing_edit import BriefingEdit, EditedSection
from upthread.core.reports import Report

PLAN = Report(status="done", decisions=("Use SQLite",), findings=("The CLI has no tests",))
TEXTS = st.text(max_size=60) | st.just("x" * 20_000) | st.just("# Goal\n## Goal\n===\n```")
REPORTS = st.builds(
    Report,
    status=st.just("done"),
    decisions=st.lists(TEXTS, max_size=4).map(tuple),
    findings=st.lists(TEXTS, max_size=4).map(tuple),
)
LISTS = st.lists(TEXTS, max_size=3)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=2)
INPUTS = st.builds(
    BriefingInputs,
    goal=TEXTS,
    reports=st.lists(
        st.builds(Reported, st.sampled_from(["planner", "auditor"]), REPORTS), max_size=3
    ),
    last_reply=TEXTS,
    changes=LISTS,
    effects=LISTS,
    open_questions=LISTS,
    answers=PAIRS,
    plan=PAIRS,
    files_read=LISTS,
    files_edited=LISTS,
    focus=TEXTS,
)
WHOLE = BriefingInputs(
    goal="Greet people",
    reports=[Reported("planner", PLAN, "message 12"), Reported("auditor", PLAN)],
    last_reply="I planned.",
    changes=["`a.py`: changed"],
    effects=["git push: done", "deploy: outcome unknown"],
    answers=[("Which word?", "Hello\nthere")],
    open_questions=["Which colour?"],
    plan=[("write it", "pending")],
    files_read=["a.py", "b.py"],
    files_edited=["b.py"],
    focus="The tests.",
)


def test_a_briefing_tells_goal_decisions_findings_and_the_last_reply():
    reply = 'I planned.\n```upthread\n{"status": "done"}\n```'
    told = build_briefing(
        BriefingInputs(goal=" Greet people ", reports=[Reported("planner", PLAN)], last_reply=reply)
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
    told = build_briefing(
        BriefingInputs(goal="g", reports=[Reported("a", PLAN), Reported("b", other)])
    )
    assert told.index("Use SQLite (a)") < told.index("Then that (b)")


@given(INPUTS)
def test_a_briefing_is_deterministic_and_has_a_cap(inputs: BriefingInputs):
    told = build_briefing(inputs)
    assert told == build_briefing(inputs)
    headings_and_focus = 1_500 + GOAL_CHARACTERS_MAX
    assert len(told) <= BRIEFING_CHARACTERS_MAX + headings_and_focus


@given(INPUTS)
def test_nothing_in_it_forges_a_section(inputs: BriefingInputs):
    headed = "|".join((*CUT_ORDER, "Focus now"))
    ours = re.compile(f"# Briefing|## ({headed})")
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
    told = build_briefing(BriefingInputs(goal="g", reports=[Reported("planner", many)]))
    assert "finding 199 " in told
    assert "finding 0 " not in told
    kept = told.count("(planner)")
    assert f"- [… {200 - kept} older ones left out]\n- finding {200 - kept} " in told


def test_an_agent_that_never_reports_is_briefed_from_what_it_did():
    told = build_briefing(WHOLE)
    assert (
        told
        == """\
# Briefing

## Goal
Greet people

## Decisions already made
- Use SQLite (planner, message 12)

## Findings already confirmed
- The CLI has no tests (planner, message 12)

## What has changed
- `a.py`: changed

## Actions already taken, not to be repeated
- git push: done
- deploy: outcome unknown

## Questions already answered
- Which word? → Hello there

## Open questions
- Which colour?

## Plan
- write it (pending)

## Files read and edited
- read `a.py`
- edited `b.py`

## Your last reply
I planned.

## Focus now
The tests.

Do not repeat work already completed. Build on this briefing."""
    )


def test_what_is_cut_first_is_in_the_stated_order():
    long = BriefingInputs(
        goal="goal " * 200,
        reports=[
            Reported(
                "planner",
                Report(status="done", decisions=tuple(f"decision {n}" for n in range(60))),
            )
        ],
        last_reply="reply " * 200,
        files_read=[f"src/module_{n}.py" for n in range(90)],
        focus="Stay.",
    )
    uncut = {section.heading: section.text for section in sections_of(long)}
    seen_cut: list[str] = []
    for characters_max in range(5_000, 100, -50):
        told = build_briefing(long, characters_max=characters_max)
        whole = {heading for heading, text in uncut.items() if text in told}
        seen_cut += [h for h in CUT_ORDER if h in uncut and h not in whole and h not in seen_cut]
        assert "## Focus now\nStay." in told
        assert len(told) <= characters_max + 400
    assert seen_cut == [heading for heading in CUT_ORDER if heading in uncut]


def test_a_persons_words_are_never_cut_and_stand_where_they_belong():
    edit = BriefingEdit(sections={"Goal": EditedSection(text="Mine. " * 60, seen=("goal " * 200,))})
    inputs = BriefingInputs(goal="goal " * 200, last_reply="reply " * 300, edit=edit)
    told = build_briefing(inputs, characters_max=100)
    assert told.startswith("# Briefing\n\n## Goal\n*Edited by a person.*\nMine. Mine. ")
    assert told.count("Mine.") == 60
