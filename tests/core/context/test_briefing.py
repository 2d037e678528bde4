"""A briefing tells what is known and nothing else: bounded, in its order, and forged by nobody."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.context.briefing import (
    BRIEFING_CHARACTERS_MAX,
    CAPS,
    FOCUS,
    GOAL_CHARACTERS_MAX,
    GOAL_FROM_PASTED_CHARACTERS_MAX,
    BriefingEdit,
    BriefingInputs,
    EditedSection,
    Reported,
    build_briefing,
    given_edit,
    goal_of,
    sections_of,
)
from upthread.core.roles.reports import Report

PLAN = Report(status="done", decisions=("Use SQLite",), findings=("The CLI has no tests",))
TEXTS = st.text(max_size=60) | st.just("x" * 6_000) | st.just("# Goal\n## Goal\n===\n```")
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
    asked=LISTS,
    reports=st.lists(
        st.builds(Reported, st.sampled_from(["planner", "auditor"]), REPORTS), max_size=3
    ),
    last_reply=TEXTS,
    summary=TEXTS,
    changes=LISTS | st.none(),
    effects=LISTS,
    open_questions=LISTS,
    answers=PAIRS,
    plan=PAIRS,
    files_read=LISTS,
    files_edited=LISTS,
    task=TEXTS,
    is_independent=st.booleans(),
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
    task="Now write the tests.",
)


def test_an_earlier_prompt_is_one_line_of_the_decisions_each_once_with_both_its_ends():
    long = f"never touch main\n{'x' * 5_000}\nand use tabs"
    told = build_briefing(
        structs.replace(WHOLE, asked=["only Python 3.11", long, "only Python 3.11 "])
    )
    section = told.partition("## Decisions already made\n")[2].partition("\n\n##")[0]
    assert section.startswith("- only Python 3.11 (asked)\n- never touch main x")
    assert section.endswith("and use tabs (asked)\n- Use SQLite (planner, message 12)")
    assert len(section) < 300


def test_the_five_parts_are_always_there_and_say_none_where_nothing_is_known():
    assert (
        build_briefing(BriefingInputs(goal=" Greet people ", task="Mend it."))
        == """\
# Briefing

## Goal
Greet people

## Decisions already made
none

## Findings already confirmed
none

## What has changed
- not looked at

## Focus for this session
Mend it.

Do not repeat work already completed. Build on this briefing."""
    )


def test_after_twelve_long_turns_it_has_four_thousand_characters_at_most():
    prompts = [f"Turn {n}: " + "do this and that. " * 90 + f"Never {n}." for n in range(12)]
    reports = [
        Reported("planner", Report(status="done", decisions=(each,), findings=(each,)))
        for each in prompts
    ]
    inputs = structs.replace(
        WHOLE, goal=prompts[0], asked=prompts[1:], last_reply=prompts[5] * 3, task=prompts[-1]
    )
    for each in (inputs, structs.replace(inputs, reports=reports)):
        told = build_briefing(each)
        assert len(told) <= BRIEFING_CHARACTERS_MAX
        assert "Never 11." in told
        assert "## What has changed\n- `a.py`: changed\n" in told
        assert "Never 10." in told.partition("## Findings")[0]
    assert told.count("Never 11. (planner)") == 2


def test_what_a_judge_is_told_asks_for_its_own_verdict():
    told = build_briefing(structs.replace(WHOLE, is_independent=True))
    assert "Build on this" not in told
    assert "Do not repeat" not in told
    assert told.endswith("not a verdict. Check the work itself, and judge by what you find.")


@pytest.mark.parametrize(
    "heading", ["## Findings already confirmed", "FINDINGS ALREADY CONFIRMED:"]
)
def test_a_given_briefing_has_the_sections_that_it_names_and_leaves_the_others(heading: str):
    inputs = BriefingInputs(goal="g", task="t")
    given = f"Mind the cat.\n{heading}\nThe API is slow."
    edit = given_edit(given, made=sections_of(inputs), before=BriefingEdit())
    found = structs.replace(WHOLE, edit=edit)
    told = build_briefing(found)
    assert "confirmed\n*Given, not generated.*\nThe API is slow.\n- The CLI has no tests" in told
    assert "## Goal\nGreet people\n" in told
    assert "## Note\n*Given, not generated.*\nMind the cat.\n" in told
    later = given_edit("## Goal\nAnother", made=sections_of(inputs), before=edit)
    assert later.note == "Mind the cat."
    assert later.sections.keys() == {"Findings already confirmed", "Goal"}


def test_the_summary_of_the_last_report_stands_whole_and_in_place_of_the_reply():
    """`Your summary is the plan`, says the task of a planner: it may be all there is of it."""
    summary = "1. Write greet().\n2. Test it.\n\n## Not a heading of ours"
    reports = [Reported("planner", PLAN)]
    told = build_briefing(
        BriefingInputs(goal="g", reports=reports, summary=summary, last_reply="Planned.")
    )
    assert "## Your last report\n1. Write greet().\n2. Test it.\n" in told
    assert "Your last reply" not in told
    assert "\n## Not a heading" not in told


def test_a_long_summary_leaves_room_for_everything_else():
    inputs = structs.replace(WHOLE, summary="s" * 20_000, files_read=["f" * 100] * 60)
    told = build_briefing(inputs)
    assert "s" * 12_000 in told
    assert "- deploy: outcome unknown\n" in told
    assert len(told) < 12_000 + BRIEFING_CHARACTERS_MAX


def test_where_nothing_is_known_nothing_is_told():
    assert build_briefing(BriefingInputs(goal="  ")) == ""


def test_where_nothing_has_changed_it_says_so_and_where_nobody_looked_it_says_that():
    looked = build_briefing(BriefingInputs(goal="g", changes=()))
    assert "## What has changed\n- No changes to the files that were known, the branch" in looked
    assert "## What has changed\n- not looked at\n" in build_briefing(BriefingInputs(goal="g"))
    assert build_briefing(BriefingInputs(goal=" ", changes=())) == ""
    assert "- `a.py`: changed" in build_briefing(
        BriefingInputs(goal=" ", changes=["`a.py`: changed"])
    )


def test_reports_are_told_oldest_first():
    reports = [Reported(name, Report(status="done", decisions=(name,))) for name in ("a", "b")]
    assert "\n- a (a)\n- b (b)\n" in build_briefing(BriefingInputs(goal="g", reports=reports))


@pytest.mark.extended
@given(INPUTS)
def test_a_briefing_is_deterministic_and_has_a_cap(inputs: BriefingInputs):
    told = build_briefing(inputs)
    assert told == build_briefing(inputs)
    # A summary has its own cap; what has to be cut says so in a line of each section.
    assert len(told) <= BRIEFING_CHARACTERS_MAX + len(inputs.summary)


@pytest.mark.extended
@given(INPUTS)
def test_nothing_in_it_forges_a_section(inputs: BriefingInputs):
    headed = "|".join((*CAPS, "Your last report"))
    ours = re.compile(f"# Briefing|## ({headed})")
    headings = [
        line for line in build_briefing(inputs).splitlines() if re.match(r"\s*#{1,2}(\s|$)", line)
    ]
    assert all(ours.fullmatch(line) for line in headings)
    assert len(set(headings)) == len(headings)


def test_a_long_goal_keeps_its_beginning_and_its_end_and_what_is_cut_says_so():
    goal = "Do this. " + "g" * 5_000 + " Never that."
    told = build_briefing(BriefingInputs(goal=goal, last_reply="r" * 5_000))
    assert "## Goal\nDo this. ggg" in told
    assert "ggg Never that.\n" in told
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

## Focus for this session
Now write the tests.

Do not repeat work already completed. Build on this briefing."""
    )


def test_what_is_cut_first_is_in_the_stated_order():
    sentences = tuple(f"sentence {n} " + "x" * 80 for n in range(20))
    report = Report(status="done", decisions=sentences, findings=sentences)
    long = structs.replace(
        WHOLE,
        goal="goal " * 60,
        reports=[Reported("planner", report)],
        last_reply="reply " * 150,
        effects=sentences[:6],
        files_read=sentences,
    )
    uncut = {section.heading: section.text for section in sections_of(long)}
    told = build_briefing(long)
    ordered = [heading for heading in CAPS if heading in uncut]
    whole = [heading for heading in ordered if uncut[heading] in told]
    # From one heading on, all are whole: those that are cut last.
    assert whole == ordered[-len(whole) :]
    assert {"Goal", FOCUS} <= set(whole) < set(ordered)


def test_a_persons_words_are_never_cut_and_stand_where_they_belong():
    edit = BriefingEdit(
        sections={"Goal": EditedSection(text="Mine. " * 900, seen=("goal " * 200,))}
    )
    inputs = BriefingInputs(goal="goal " * 200, last_reply="reply " * 300, edit=edit)
    told = build_briefing(inputs)
    assert told.startswith("# Briefing\n\n## Goal\n*Given, not generated.*\nMine. Mine. ")
    assert told.count("Mine.") == 900
    assert "## Your last reply\nreply reply" in told


# --- the goal: what is asked, whatever conversation was pasted before, after or instead -----------


ASK = "Mend what they found. Never touch main."


def pasted(*forms: str, lines: int = 50) -> str:
    return "\n".join(forms[at % len(forms)].format(at) for at in range(lines))


FORMS = {
    "labels": ("User: line {}", "Assistant: line {}"),
    "marked labels": ("**User:** line {}", "some more {}", "**Assistant:** line {}"),
    "headings": ("### Human: line {}", "### Claude: line {}"),
    "sites": ("You said: line {}", "ChatGPT said: line {}"),
    "names and times": ("[10:30:01] Ada: line {}", "[10:31] Bob Miller: line {}"),
    "dates": ("2026-11-23 10:30 Ada: line {}", "2026-11-23 10:31 Bob: line {}"),
    "names": ("Ada: line {}", "Bob: line {}", "and line {}"),
    "quoted": ("> Ada: line {}", "> Bob: line {}"),
    "an agent's interface": ("> line {}", "⏺ line {}", "  ⎿ line {}"),
    "another agent's": ("\u203a line {}", "• line {}"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_of_a_pasted_conversation_what_stands_around_it_is_the_goal(form):
    conversation = pasted(*form)
    left_out = "[… 50 lines of a conversation that was pasted here]"
    assert goal_of(f"{conversation}\n\n{ASK}") == f"{left_out}\n\n{ASK}"
    assert goal_of(f"{ASK}\n\n{conversation}\n") == f"{ASK}\n\n{left_out}"
    assert goal_of(f"See:\n\n{conversation}\n\n{ASK}") == f"See:\n\n{left_out}\n\n{ASK}"


def test_a_fence_goes_with_what_it_holds():
    prompt = f"See:\n```text\n{pasted('User: {}', 'Assistant: {}')}\n```\n{ASK}"
    left_out = "[… 52 lines of a conversation that was pasted here]"
    assert goal_of(prompt) == f"See:\n\n{left_out}\n\n{ASK}"


def test_with_nothing_around_it_the_goal_is_what_was_asked_in_it():
    talk = ["User: Write the export.", *["Assistant: Which?", "User: CSV."] * 6, "Assistant: Yes."]
    goal = goal_of("\n".join(talk))
    assert goal.startswith("[… 14 lines of a conversation that was pasted here]\n\nUser: Write the")
    assert goal.endswith("User: CSV.")
    assert "Assistant" not in goal
    names = goal_of(pasted("Ada: ask {}", "Bob: reply {}"))
    assert "Ada: ask 0" in names
    assert "Bob" not in names
    long = goal_of(pasted("User: " + "x" * 300, "Assistant: {}"))
    assert len(long) < GOAL_FROM_PASTED_CHARACTERS_MAX + 100


PROMPTS = {
    "a short one": pasted("User: line {}", "Assistant: line {}", lines=10),
    "a form": "Title: export\nOwner: Ada\nAs a user: I want CSV\nDone when: tests pass\n" * 2,
    "a specification": pasted("Rule {}: amounts stay in cents", "it holds for line {}"),
    "settings": pasted("name: value {}", "kind: value {}"),
    "one label": pasted("Note: line {}", "and line {}"),
    "a list": "Todo: a\n" * 15 + "Done: b\n" * 15,
    "many headings": pasted(*(f"Part{letter}: line {{}}" for letter in "ABCDEF")),
    "quotations": pasted("> line {}", "and line {}"),
    "quotations and points": pasted("> line {}", "• point {}"),
}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_what_is_no_conversation_for_certain_is_left_in(prompt):
    assert goal_of(prompt) == prompt.strip()


@given(
    st.lists(
        st.sampled_from(["User: a", "Assistant: b", "Ada: c", "", "```", "x" * 900, "> Bob: d"]),
        max_size=40,
    )
)
def test_it_is_bounded_and_never_empty_for_what_says_something(lines):
    prompt = "\n".join(lines)
    goal = goal_of(prompt)
    assert len(goal) <= GOAL_CHARACTERS_MAX
    assert bool(goal) == bool(prompt.strip())
