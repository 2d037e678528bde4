import pytest
from msgspec import structs

from upthread.core.agents import PERSON, PROGRAM
from upthread.core.events import Question
from upthread.core.roles.reports import Report, Verdict, instructions
from upthread.core.runs.pipeline import (
    Handed,
    Pipeline,
    RunView,
    Step,
    answer_told,
    digests_told,
    has_rejected,
    input_digest,
    task_of,
    task_of_asking_again,
)

PLANNER = Step(role="planner", task=" Plan. \n", needs=("clarifier",))
AUDITOR = Step(role="auditor", task="Audit.", needs=("clarifier", "planner"), on_rejected="planner")
CLARIFIER = Step(role="clarifier", task="Clarify.")


def handed(role: str, report: Report) -> Handed:
    return Handed(role=role, report=report, input_digest="", turn_id="trn")


def view(**reports: Report) -> RunView:
    return RunView(
        specification="Greet.\n",
        pipeline=Pipeline(steps=(CLARIFIER, PLANNER, AUDITOR)),
        handed={role: handed(role, report) for role, report in reports.items()},
    )


CLEAR = Report(status="done", summary="clear")
PLAN = Report(status="done", summary="plan")
REJECTED = Report(status="done", verdict=Verdict(result="rejected"))


def test_a_step_is_told_the_specification_and_the_reports_it_needs_and_nothing_else():
    told = task_of(view(clarifier=CLEAR, planner=PLAN), PLANNER)
    assert told.text == f"# Task\nPlan.\n\n{instructions()}"
    assert told.everything == (
        "# Specification\nGreet.\n\n# Report of clarifier\nstatus: done\n\nclear"
    )
    assert told.news == told.everything


def test_what_was_told_is_no_news():
    run = view(clarifier=CLEAR)
    known = structs.replace(run, told={"planner": digests_told(run, "planner")})
    assert task_of(known, PLANNER).news == ""
    assert task_of(known, CLARIFIER).news == "# Specification\nGreet."
    newer = structs.replace(known, handed={"clarifier": handed("clarifier", PLAN)})
    assert task_of(newer, PLANNER).news == "# Report of clarifier\nstatus: done\n\nplan"


def test_the_judge_that_rejected_is_told_too_and_once():
    told = task_of(view(clarifier=CLEAR, planner=PLAN, auditor=REJECTED), PLANNER).everything
    assert told.count("# Report of auditor") == 1
    needing = Step(role="planner", task="Plan.", needs=("auditor",))
    run = structs.replace(view(auditor=REJECTED), pipeline=Pipeline(steps=(needing, AUDITOR)))
    assert task_of(run, needing).everything.count("# Report of auditor") == 1


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, False),
        (PLAN, False),
        (Report(status="done", verdict=Verdict(result="approved")), False),
        (REJECTED, True),
    ],
)
def test_only_a_rejecting_verdict_is_a_rejection(report: Report | None, expected: bool):
    assert has_rejected(report) is expected


def test_a_role_that_did_not_listen_is_told_its_answers_again_but_not_the_rest():
    questions = (Question(question_id="q1", role="planner", text="Port?"),)
    run = structs.replace(view(), questions=questions, answers={"q1": "80"})
    known = structs.replace(run, told={"planner": digests_told(run, "planner")})
    assert task_of(known, PLANNER).news == ""
    deaf = structs.replace(known, asked_in_vain=1)
    assert task_of(deaf, PLANNER).news == "# Answers\n- q1: Port? → 80"


def test_a_request_for_a_report_names_the_fault_and_lets_a_new_session_catch_up():
    told = task_of_asking_again(view(), PLANNER, "a\n# Task\nfault")
    fault = "Your report could not be used: a # Task fault."
    assert told.text == f"# Task\n{fault}\n\n{instructions()}"
    assert told.news == ""
    assert told.everything == "# Specification\nGreet.\n\n# First task\nPlan."


def test_a_verdict_is_bound_to_the_specification_and_every_report_it_judged():
    run = view(clarifier=CLEAR, planner=PLAN)
    digests = {
        input_digest(run, AUDITOR),
        input_digest(view(clarifier=CLEAR, planner=CLEAR), AUDITOR),
        input_digest(view(clarifier=PLAN, planner=PLAN), AUDITOR),
        input_digest(view(clarifier=PLAN, planner=CLEAR), AUDITOR),
        input_digest(view(clarifier=CLEAR), AUDITOR),
        input_digest(view(planner=CLEAR), AUDITOR),
        input_digest(view(), AUDITOR),
        input_digest(structs.replace(run, specification="Greet twice."), AUDITOR),
        input_digest(
            structs.replace(view(), specification=f"Greet.\n\nclarifier {CLEAR.digest}"), AUDITOR
        ),
    }
    assert len(digests) == 9


def test_what_a_step_does_not_need_leaves_its_digest_alone():
    run = view(clarifier=CLEAR, planner=PLAN)
    assert input_digest(run, PLANNER) == input_digest(view(clarifier=CLEAR), PLANNER)
    answered = structs.replace(run, answers={"q": "x"})
    assert input_digest(run, AUDITOR) == input_digest(answered, AUDITOR)


def test_an_answer_that_no_person_gave_says_so_when_it_is_told():
    assert answer_told("Hello", None) == answer_told("Hello", PERSON) == "Hello"
    assert answer_told("Hello", PROGRAM).endswith("not a person's decision] Hello")
