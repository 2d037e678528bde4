import msgspec
import pytest
from msgspec import structs

from upthread.core.events import Question, RunEnded, RunParked
from upthread.core.roles.reports import Report
from upthread.core.runs.pipeline import Handed, Pipeline, RunView, Step, as_data, check_pipeline


def steps(*given: Step) -> Pipeline:
    return Pipeline(steps=given)


def alone(role: str = "planner", **more: object) -> Pipeline:
    return steps(Step(role=role, task="t", **more))  # type: ignore[arg-type]


PLANNER = Step(role="planner", task="Plan.")
BACK = Step(role="auditor", task="t", on_rejected="planner")
NO_EARLIER = "which is no earlier step"
AUDITOR = Step(role="auditor", task="Audit.", needs=("planner",), on_rejected="planner")


@pytest.mark.parametrize(
    ("pipeline", "fault"),
    [
        (steps(PLANNER, AUDITOR), ""),
        (steps(), "it has no steps"),
        (steps(PLANNER, PLANNER), "a role has two steps"),
        (steps(AUDITOR), "auditor needs planner, which has no step"),
        (steps(BACK, PLANNER), f"auditor sends back to planner, {NO_EARLIER}"),
        (alone("auditor", on_rejected="auditor"), f"auditor sends back to auditor, {NO_EARLIER}"),
        (steps(Step(role="planner", task="t", needs=("auditor",)), AUDITOR), ""),
        (steps(AUDITOR, PLANNER), "auditor needs planner, which never comes before it"),
        (alone(needs=("planner",)), "planner needs planner, which never comes before it"),
        (alone(rejections_max=10**24), "planner has a rejections_max that is not from 0 to 64"),
        (alone(rejections_max=-1), "planner has a rejections_max that is not from 0 to 64"),
        (alone(report_lines_max=10**24), "planner has a report_lines_max over 100000"),
    ],
)
def test_a_pipeline_that_cannot_run_says_why(pipeline: Pipeline, fault: str):
    assert check_pipeline(pipeline) == fault


def test_a_pipeline_outlives_edits_as_plain_data():
    pipeline = steps(PLANNER, AUDITOR)
    assert msgspec.convert(as_data(pipeline), Pipeline) == pipeline


def test_an_unknown_key_in_a_pipeline_is_refused():
    with pytest.raises(msgspec.ValidationError, match="on_reject"):
        msgspec.toml.decode(b'[[steps]]\nrole = "a"\ntask = "t"\non_reject = "b"', type=Pipeline)


def test_a_role_without_a_step_has_no_place():
    assert steps(PLANNER, AUDITOR).index_of("auditor") == 1
    with pytest.raises(ValueError, match="validator"):
        steps(PLANNER).index_of("validator")


def test_the_status_is_the_strongest_thing_that_is_true():
    view = RunView()
    assert view.status == "idle"
    view = structs.replace(view, events=1)
    assert view.status == "running"
    view = structs.replace(view, questions=(Question(question_id="q1", role="planner", text="?"),))
    assert view.status == "waiting_for_human"
    view = structs.replace(view, parked=RunParked(reason="blocked"))
    assert view.status == "parked"
    view = structs.replace(view, ended=RunEnded(status="approved"))
    assert view.status == "approved"


def test_an_answered_question_is_open_no_more():
    questions = tuple(Question(question_id=f"q{n}", role="r", text="?") for n in range(3))
    view = RunView(questions=questions, answers={"q1": "yes", "unknown": "no"})
    assert [question.question_id for question in view.open_questions] == ["q0", "q2"]


def test_a_role_that_handed_nothing_back_has_no_report():
    report = Report(status="done")
    handed = Handed(role="planner", report=report, input_digest="", turn_id="trn")
    view = RunView(handed={"planner": handed})
    assert (view.report("planner"), view.report_digest("planner")) == (report, report.digest)
    assert RunView().report("planner") is RunView().report_digest("planner") is None
