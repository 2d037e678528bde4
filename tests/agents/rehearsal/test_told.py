from __future__ import annotations

from upthread.agents.rehearsal.history import Told, planned_ids, sections_of
from upthread.core.roles.reports import Report, Verdict, render

QUESTIONS = {"colour": "Which colour: red, blue?", "size": "How big?"}


def test_a_documents_own_title_ends_no_section() -> None:
    told = Told(["# Specification\n# Tool\n- R1 `a`: x\n\n# Task\nplan"])
    assert told.specification == "# Tool\n- R1 `a`: x"


def test_an_empty_specification_does_not_swallow_what_follows() -> None:
    told = Told(["# Specification\n\n# Answers\n- size: 3\n"])
    assert told.specification == ""
    assert told.answers(QUESTIONS) == {"size": "3"}


def test_a_heading_in_a_fence_or_a_quote_is_no_section() -> None:
    prompt = "# Specification\n```\n# Answers\n```\n> # Answers\n"
    assert [section.title for section in sections_of(prompt)] == ["", "Specification"]


def test_the_newest_report_counts() -> None:
    prompts = [
        render("planner", Report(status="done", summary=text)) for text in ("first", "second")
    ]
    told = Told(prompts)
    assert "second" in told.report("planner")
    assert "first" not in told.report("planner")
    assert told.report("auditor") == ""


def test_rejections_are_those_of_the_role_and_all_of_them() -> None:
    def said(role: str, result: str, evidence: str) -> str:
        verdict = Verdict(result=result, evidence=(evidence,))  # type: ignore[arg-type]
        return render(role, Report(status="done", verdict=verdict))

    prompts = [
        said("auditor", "rejected", "R3 is missing"),
        said("auditor", "approved", "R4 is there"),
        said("validator", "rejected", "R5 is broken"),
        said("auditor", "rejected", "R6 is missing"),
    ]
    evidence = Told(prompts).rejections("auditor")
    assert "R3" in evidence
    assert "R6" in evidence
    assert "R4" not in evidence
    assert "R5" not in evidence


def test_answers_are_found_by_question_then_by_id() -> None:
    told = Told(["# Answers\n- q7: Which colour: red, blue? → red → dark\n- size: how tall? → 3"])
    assert told.answers(QUESTIONS) == {"colour": "red → dark", "size": "3"}


def test_answers_are_also_told_by_decisions_and_briefings_and_the_last_counts() -> None:
    report = render("clarifier", Report(status="done", decisions=("colour: red", "size: 3")))
    briefing = "# Briefing\n## Decisions already made\n- size: 4 (large) (clarifier)\n- other: x"
    assert Told([report, briefing]).answers(QUESTIONS) == {"colour": "red", "size": "4 (large)"}


def test_a_summary_is_no_answer() -> None:
    report = render("clarifier", Report(status="done", summary="- size: 3"))
    assert Told([report]).answers(QUESTIONS) == {}


def test_news_are_what_stands_outside_of_the_known_sections() -> None:
    prompt = "hello\n# Specification\n`a.py`\n# What has changed\n- `b.py`\n# Task\ngo"
    news = Told(["# Old\nold news", prompt]).news
    assert "hello" in news
    assert "b.py" in news
    assert "a.py" not in news
    assert "old news" not in news


def test_a_plan_is_lines_of_requirements_with_an_arrow() -> None:
    text = "Plan:\n1. R1 → a.py: x\n- REQ2 → b: y\nR3 → no item\n2. about R4\n3. R1 → again"
    assert planned_ids(text) == ["R1", "REQ2"]


def test_an_action_may_be_done_when_the_newest_prompt_lists_it_quoted_or_not() -> None:
    def may_be_done(*lines: str) -> bool:
        return Told(["# Task\n- Run x: completed", "\n".join(lines)]).may_be_done("Run x")

    assert may_be_done("These actions are known:", "- Run x: outcome unknown")
    assert may_be_done("Its prompt was:", "> > - Run x: completed")
    assert not may_be_done("- Run x: failed")
    assert not may_be_done("- Run xy: completed", "go on")
