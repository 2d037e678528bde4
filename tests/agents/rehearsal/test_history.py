"""What a session holds: who is told to be, what was said and seen, the sections of its prompts."""

from __future__ import annotations

import pytest

from upthread.agents.rehearsal.history import History, Told, planned_ids, replay, sections_of
from upthread.core.roles.reports import Report, Verdict, render
from upthread.core.turns.prompt import continuation


def _prompt(text: str) -> dict[str, object]:
    return {"entry": "prompt", "text": text, "messageId": "msg_1"}


def _update(**update: object) -> dict[str, object]:
    return {"entry": "update", "update": update}


def _chunk(text: str) -> dict[str, object]:
    return _update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def test_the_role_is_the_newest_block_at_the_start_of_a_line() -> None:
    first, second = '<role name="planner">\nPlan.\n</role>', '<role name="auditor">\n</role>'
    assert History([_prompt(first), _prompt("go on")]).role == "planner"
    assert History([_prompt(first), _prompt(f"hello\n{second}")]).role == "auditor"
    assert History([_prompt(first), _prompt(f"> {second}")]).role == "planner"
    assert History([_prompt("hello")]).role == ""


def test_a_replay_tells_prompts_and_updates_in_order_and_nothing_else() -> None:
    entries = [{"entry": "session", "cwd": "/"}, _prompt("a"), _chunk("1"), {"entry": "turn_ended"}]
    assert [update["sessionUpdate"] for update in replay(entries, names_messages=True)] == [
        "user_message_chunk", "agent_message_chunk",
    ]  # fmt: skip


def test_the_prompt_that_a_continuation_quotes_is_told_to_a_session_that_never_had_it() -> None:
    lost = '<role name="planner">\n</role>\n\n# Specification\n> quoted\n- R1 `a`: x'
    again = continuation(lost, ())
    history = History([_prompt(continuation(again, ("Run x: done",)))])
    assert history.role == "planner"
    assert history.told[0].endswith(f"\n\n{lost}")
    assert history.prompts[0].startswith("Your last turn was interrupted")
    assert History([_prompt(f"I read:\n> {lost}")]).told == [f"I read:\n> {lost}"]


QUESTIONS = {"colour": "Which colour: red, blue?", "size": "How big?"}


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


REPORTED = Report(status="done", summary="- size: 5", decisions=("colour: red", "size: 3"))
BRIEFING = "# Briefing\n## Decisions already made\n- size: 4 (large) (clarifier)\n- other: x"


@pytest.mark.parametrize(
    ("prompts", "answers"),
    [
        (["# Specification\n\n# Answers\n- size: 3\n"], {"size": "3"}),
        (
            ["# Answers\n- q7: Which colour: red, blue? → red → dark\n- size: how tall? → 3"],
            {"colour": "red → dark", "size": "3"},
        ),
        ([render("clarifier", REPORTED), BRIEFING], {"colour": "red", "size": "4 (large)"}),
        ([render("clarifier", Report(status="done", summary="- size: 3"))], {}),
    ],
)
def test_answers_are_read_by_question_or_id_from_answers_decisions_and_briefings(prompts, answers):
    told = Told(prompts)
    assert told.answers(QUESTIONS) == answers
    assert told.specification == ""


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
