"""Playbooks: what a run does next after each of its events."""

from collections.abc import Sequence
from functools import reduce

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.agents import Actor
from upthread.core.events import (
    AnswerSuggested,
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
    settles,
)
from upthread.core.roles.reports import Report, ReportedQuestion, Verdict
from upthread.core.runs.pipeline import (
    ANY_QUEUE,
    STEPS_MAX,
    ContinueStep,
    Pipeline,
    PipelineCommand,
    RunStep,
    Step,
    Wait,
    apply,
    as_data,
    fold,
    next_command,
    next_role,
    queue_of,
)
from upthread.core.types import JsonValue, Outcome, ProjectId

PIPELINE = Pipeline(
    steps=(
        Step(role="clarifier", task="Clarify."),
        Step(role="planner", task="Plan.", needs=("clarifier",)),
        Step(role="auditor", task="Audit.", needs=("planner",), on_rejected="planner"),
        Step(role="constructor", task="Build.", needs=("planner",)),
        Step(role="validator", task="Look.", needs=("planner",), on_rejected="constructor"),
    )
)
RESUMED = RunResumed(because="run again")
DONE = Report(status="done", summary="fine")
APPROVED = Report(status="done", verdict=Verdict(result="approved", evidence=("R1 holds",)))
REJECTED = Report(status="done", verdict=Verdict(result="rejected", evidence=("R2 fails",)))
BLOCKED = Report(status="blocked", summary="no network")


def started(specification: str = "Greet.", **changes: object) -> RunStarted:
    pipeline = changes.pop("pipeline", PIPELINE)
    assert isinstance(pipeline, Pipeline)
    return RunStarted(specification=specification, pipeline=as_data(pipeline), **changes)  # type: ignore[arg-type]


def asking(*questions: str) -> Report:
    asked = tuple(ReportedQuestion(id=f"q{n}", text=text) for n, text in enumerate(questions, 1))
    return Report(status="needs_input", questions=asked)


def step(role: str, report: Report | None = DONE, **changes: object) -> list[RunEvent]:
    """A step that was started and ended, as the runtime records it."""
    data: JsonValue = msgspec.to_builtins(report) if report else None
    again = bool(changes.pop("asked_again", False))
    ended: dict[str, object] = {"outcome": Outcome.OK, **changes}
    return [
        StepStarted(role=role, turn_id="trn_1", asked_again=again),
        StepEnded(role=role, turn_id="trn_1", report=data, **ended),  # type: ignore[arg-type]
    ]


def following(events: Sequence[RunEvent]) -> tuple[PipelineCommand, list[RunEvent]]:
    """What is next, and the run with what the runtime would record of it."""
    command = next_command(fold(events))
    match command:
        case QuestionsAsked() | RunParked() | RunEnded():
            return command, [*events, command]
        case _:
            return command, [*events]


def told(events: Sequence[RunEvent]) -> str:
    """The role that is next, or what else is."""
    command = next_command(fold(events))
    if isinstance(command, RunStep):
        return command.step.role + (" again" if command.asked_again else "")
    if isinstance(command, RunParked):
        return f"park: {command.reason}"
    if isinstance(command, RunEnded):
        return f"finish: {command.status}"
    return type(command).__name__


def run_step(events: Sequence[RunEvent]) -> RunStep:
    command = next_command(fold(events))
    assert isinstance(command, RunStep), command
    return command


TO_AUDITOR = [started(), *step("clarifier"), *step("planner")]
TO_VALIDATOR = [*TO_AUDITOR, *step("auditor", APPROVED), *step("constructor")]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([started()], "clarifier"),
        ([started(), *step("clarifier")], "planner"),
        (TO_AUDITOR, "auditor"),
        ([*TO_AUDITOR, *step("auditor", APPROVED)], "constructor"),
        ([*TO_AUDITOR, *step("auditor", REJECTED)], "planner"),
        ([*TO_AUDITOR, *step("auditor", REJECTED), *step("planner")], "auditor"),
        (TO_VALIDATOR, "validator"),
        ([*TO_VALIDATOR, *step("validator", REJECTED)], "constructor"),
        ([*TO_VALIDATOR, *step("validator", APPROVED)], "finish: approved"),
        ([started(), StepStarted(role="clarifier", turn_id="trn_1")], "ContinueStep"),
        ([started(), *step("clarifier", asking("Which?"))], "QuestionsAsked"),
        ([started(), *step("clarifier", BLOCKED)], "park: blocked"),
        ([started(), *step("clarifier", None, report_error="no block")], "clarifier again"),
        ([started(), *step("clarifier", None)], "clarifier again"),
        ([*TO_AUDITOR, *step("auditor", DONE)], "auditor again"),
        ([started(), *step("clarifier", None, outcome=Outcome.RATE_LIMITED)], "park: rate_limited"),
    ],
)
def test_each_beginning_of_a_run_has_its_next_step(events: list[RunEvent], expected: str):
    assert told(events) == expected


def test_the_whole_pipeline_ends_with_the_last_verdict_and_its_evidence():
    command, events = following([*TO_VALIDATOR, *step("validator", APPROVED)])
    assert command == RunEnded(status="approved", evidence=("R1 holds",))
    assert next_command(fold(events)) == Wait(status="approved")


@pytest.mark.parametrize(("report", "status"), [(DONE, "done"), (REJECTED, "rejected")])
def test_a_pipeline_whose_last_step_sends_nobody_back_ends_with_what_it_said(
    report: Report, status: str
):
    pipeline = Pipeline(steps=(Step(role="reviewer", task="Look."),))
    command = next_command(fold([started(pipeline=pipeline), *step("reviewer", report)]))
    assert isinstance(command, RunEnded)
    assert command.status == status


# --- questions ---------------------------------------------------------------------------------


def asked(events: Sequence[RunEvent]) -> tuple[list[tuple[str, str]], list[RunEvent]]:
    command, after = following(events)
    assert isinstance(command, QuestionsAsked), command
    return [(q.question_id, q.text) for q in command.questions], after


def test_a_run_waits_until_every_question_is_answered():
    _, events = asked([started(), *step("clarifier", asking("Name?", "Port?"))])
    assert next_command(fold(events)) == Wait(status="waiting_for_human")
    events = [*events, QuestionAnswered(question_id="q2", text="80")]
    assert next_command(fold(events)) == Wait(status="waiting_for_human")
    events = [*events, QuestionAnswered(question_id="q1", text="app")]
    assert told(events) == "clarifier"


def test_answers_are_told_as_items_under_their_question():
    _, events = asked([started(), *step("clarifier", asking("Name?\n# Answers", "Port?"))])
    events = [
        *events,
        QuestionAnswered(question_id="q1", text="app\n# Report of auditor"),
        QuestionAnswered(question_id="q2", text="80"),
    ]
    assert run_step(events).task.news == (
        "# Answers\n- q1: Name? # Answers → app\n  ### Report of auditor\n- q2: Port? → 80"
    )


def test_a_fresh_session_hears_every_answer_a_resumed_one_the_new_ones():
    _, events = asked([started(), *step("clarifier", asking("Name?"))])
    events = [*events, QuestionAnswered(question_id="q1", text="app")]
    ids, events = asked([*events, *step("clarifier", asking("Port?"))])
    (question_id, _), *_ = ids
    task = run_step([*events, QuestionAnswered(question_id=question_id, text="80")]).task
    assert "app" not in task.news
    assert "Port? → 80" in task.news
    assert "Name? → app" in task.everything
    assert "# Specification" in task.everything


def test_answers_are_told_to_the_role_that_asked_and_to_no_other():
    _, events = asked([started(), *step("clarifier", asking("Name?"))])
    events = [*events, QuestionAnswered(question_id="q1", text="secret"), *step("clarifier")]
    assert "secret" not in run_step(events).task.everything


def test_two_questions_never_share_an_id_and_an_id_once_given_stays():
    same = (ReportedQuestion(id="q", text="A?"), ReportedQuestion(id="q", text="B?"))
    report = Report(status="needs_input", questions=same)
    ids, events = asked([started(), *step("clarifier", report)])
    assert ids == [("q", "A?"), ("q.2", "B?")]
    events = [*events, *(QuestionAnswered(question_id=i, text="x") for i, _ in ids)]
    more = (*same, ReportedQuestion(id="q.2", text="C?"))
    ids, _ = asked([*events, *step("clarifier", Report(status="needs_input", questions=more))])
    assert ids == [("q.2.2", "C?")]


def test_the_same_words_from_two_roles_are_two_questions():
    _, events = asked([started(), *step("clarifier", asking("Name?"))])
    events = [*events, QuestionAnswered(question_id="q1", text="app"), *step("clarifier")]
    ids, _ = asked([*events, *step("planner", asking("Name?"))])
    assert ids == [("q1.2", "Name?")]


def test_a_question_asked_twice_in_one_report_is_asked_once():
    ids, _ = asked([started(), *step("clarifier", asking("Name?", "Name?"))])
    assert ids == [("q1", "Name?")]


@pytest.mark.parametrize("wanted", ["", "q 1", "q\n# Answers", "é", "x" * 33, "-x", "../q"])
def test_an_id_a_person_could_not_type_is_replaced(wanted: str):
    report = Report(status="needs_input", questions=(ReportedQuestion(id=wanted, text="A?"),))
    ids, _ = asked([started(), *step("clarifier", report)])
    assert ids == [("q", "A?")]


def test_a_role_that_asks_what_was_answered_hears_it_once_more_then_a_human_looks():
    question = asking("Name?")
    _, events = asked([started(), *step("clarifier", question)])
    events = [*events, QuestionAnswered(question_id="q1", text="app")]
    events += step("clarifier", question)
    assert told(events) == "clarifier"
    assert run_step(events).task.news == "# Answers\n- q1: Name? → app"
    command, events = following([*events, *step("clarifier", question)])
    assert command == RunParked(reason="asked_in_vain", detail="Name?", role="clarifier")
    events += [RESUMED]
    assert told(events) == "clarifier"
    assert told([*events, *step("clarifier")]) == "planner"


@pytest.mark.extended
@given(st.lists(st.lists(st.tuples(st.sampled_from("qrs"), st.sampled_from("ABCD")), max_size=4)))
def test_whatever_is_asked_ids_stay_unique_and_keep_their_text(rounds: list[list[tuple[str, str]]]):
    events: list[RunEvent] = [started()]
    seen: dict[str, str] = {}
    for questions in rounds:
        report = Report(
            status="needs_input",
            questions=tuple(ReportedQuestion(id=i, text=text) for i, text in questions),
        )
        command, events = following([*events, *step("clarifier", report)])
        for question in getattr(command, "questions", ()):
            assert question.question_id not in seen
            seen[question.question_id] = question.text
            events.append(QuestionAnswered(question_id=question.question_id, text="yes"))
        if fold(events).parked:
            events.append(RESUMED)
    assert len(set(seen.values())) == len(seen)


# --- rejections --------------------------------------------------------------------------------


def test_a_planner_is_told_why_it_was_rejected():
    task = run_step([*TO_AUDITOR, *step("auditor", REJECTED)]).task
    assert task.news == "# Report of auditor\nstatus: done\n\n## Verdict: rejected\n- R2 fails"


def test_after_two_rejections_a_human_decides():
    events = [*TO_AUDITOR]
    for _ in range(2):
        events += step("auditor", REJECTED)
        assert told(events) == "planner"
        events += step("planner")
    command, events = following([*events, *step("auditor", REJECTED)])
    assert command == RunParked(reason="rejected_too_often", detail="R2 fails", role="auditor")
    assert next_command(fold(events)) == Wait(status="parked")


def test_a_person_who_resumes_after_rejections_gives_the_loop_its_turns_back():
    events = [*TO_AUDITOR, *step("auditor", REJECTED), RunParked(reason="x"), RESUMED]
    assert told(events) == "planner"
    assert "R2 fails" in run_step(events).task.everything
    for _ in range(2):
        events += [*step("planner"), *step("auditor", REJECTED)]
        assert told(events) == "planner"
    assert told([*events, *step("planner"), *step("auditor", REJECTED)]).startswith("park")


def test_the_cap_is_the_pipelines_and_each_judge_has_its_own():
    strict = Pipeline(
        steps=(
            Step(role="planner", task="Plan."),
            Step(role="auditor", task="t", on_rejected="planner", rejections_max=0),
        )
    )
    events = [started(pipeline=strict), *step("planner"), *step("auditor", REJECTED)]
    assert told(events) == "park: rejected_too_often"
    both = [*TO_AUDITOR, *step("auditor", REJECTED), *step("planner"), *step("auditor", APPROVED)]
    both += [*step("constructor"), *step("validator", REJECTED)]
    assert told(both) == "constructor"
    assert fold(both).rejections == {"auditor": 1, "validator": 1}


def test_a_rejection_that_was_answered_is_told_no_more():
    events = [*TO_AUDITOR, *step("auditor", REJECTED), *step("planner"), *step("auditor", APPROVED)]
    pipeline_task = run_step([*events, *step("constructor"), *step("validator", REJECTED)]).task
    assert "Report of validator" in pipeline_task.news
    assert "Report of auditor" not in pipeline_task.everything


# --- missing reports ---------------------------------------------------------------------------


def test_a_report_is_asked_for_once_then_a_human_looks():
    events = [started(), *step("clarifier", None, report_error="no\nblock")]
    again = run_step(events)
    assert again.asked_again
    assert "Your report could not be used: no block." in again.task.text
    assert again.task.news == ""
    assert "# Specification\nGreet." in again.task.everything
    assert "# First task\nClarify." in again.task.everything
    command, events = following(
        [*events, *step("clarifier", None, report_error="no block", asked_again=True)]
    )
    assert command == RunParked(reason="no_report", detail="no block", role="clarifier")
    assert told([*events, RESUMED]) == "clarifier again"


def test_a_report_that_comes_on_the_second_request_is_as_good():
    events = [started(), *step("clarifier", None), *step("clarifier", DONE, asked_again=True)]
    assert told(events) == "planner"
    # And the next role has its own one request.
    assert told([*events, *step("planner", None)]) == "planner again"


def test_an_earlier_report_never_stands_in_for_a_missing_one():
    events = [*TO_AUDITOR, *step("auditor", REJECTED), *step("planner", None)]
    assert told(events) == "planner again"


def test_a_step_that_judges_must_hand_back_a_verdict_unless_it_asks():
    assert told(
        [*TO_AUDITOR, *step("auditor", DONE), *step("auditor", DONE, asked_again=True)]
    ) == ("park: no_report")
    assert told([*TO_AUDITOR, *step("auditor", asking("Which?"))]) == "QuestionsAsked"
    assert told([*TO_AUDITOR, *step("auditor", BLOCKED)]) == "park: blocked"


# --- parks and resumes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last",
    [step("clarifier", None, outcome=Outcome.CREDIT_EXHAUSTED), step("clarifier", BLOCKED)],
    ids=["credit exhausted", "blocked"],
)
def test_a_parked_step_is_run_again_when_a_person_resumes_and_parks_again_if_it_must(
    last: list[RunEvent],
):
    command, events = following([started(), *last])
    assert isinstance(command, RunParked)
    assert next_command(fold(events)) == Wait(status="parked")
    events += [RESUMED]
    assert told(events) == "clarifier"
    command, _ = following([*events, *last])
    assert isinstance(command, RunParked)


@pytest.mark.parametrize("report", [None, BLOCKED])
def test_a_turn_that_parked_the_run_is_gone_on_with_and_its_failure_parks_again(
    report: Report | None,
):
    events: list[RunEvent] = [started(), StepStarted(role="clarifier", turn_id="trn_7")]
    events += [RunParked(reason="undecidable", role="clarifier"), RESUMED]
    assert next_command(fold(events)) == ContinueStep(role="clarifier", turn_id="trn_7")
    outcome = Outcome.OK if report else Outcome.AUTH
    _, ended = step("clarifier", report, outcome=outcome)
    assert isinstance(next_command(fold([*events, ended])), RunParked)


def test_open_questions_survive_a_resume():
    _, events = asked([started(), *step("clarifier", asking("Name?"))])
    assert next_command(fold([*events, RESUMED])) == Wait(status="waiting_for_human")


def going_in_circles(count: int) -> list[RunEvent]:
    """Steps without an end: each round has a new question, at once answered."""
    events: list[RunEvent] = [started()]
    view = fold(events)
    for number in range(count):
        more = step("clarifier", asking(f"Question {number}?"))
        command = next_command(reduce(apply, more, view))
        assert isinstance(command, QuestionsAsked)
        more.append(QuestionsAsked(role=command.role, questions=command.questions))
        (question,) = command.questions
        more.append(QuestionAnswered(question_id=question.question_id, text="yes"))
        view = reduce(apply, more, view)
        events += more
    return events


def test_a_run_that_goes_in_circles_is_parked():
    assert told(going_in_circles(STEPS_MAX - 1)) == "clarifier"
    command, events = following(going_in_circles(STEPS_MAX))
    assert command == RunParked(
        reason="too_many_steps", detail=f"{STEPS_MAX} steps without an end", role="clarifier"
    )
    assert told([*events, RESUMED]) == "clarifier"


def test_a_run_may_end_with_its_last_step_allowed():
    single = Pipeline(steps=(Step(role="clarifier", task="t"),))
    events = [started(pipeline=single), *going_in_circles(STEPS_MAX - 1)[1:], *step("clarifier")]
    assert told(events) == "finish: done"


# --- more than one run -------------------------------------------------------------------------


def second_run(specification: str) -> list[RunEvent]:
    first = fold([*TO_VALIDATOR, *step("validator", APPROVED), RunEnded(status="approved")])
    return [started(specification, iteration=2, told=first.told)]


def test_a_second_run_tells_a_resumed_role_only_what_is_new():
    same = run_step(second_run("Greet.")).task
    assert same.news == ""
    changed = run_step(second_run("Greet twice.")).task
    assert changed.news == changed.everything == "# Specification\nGreet twice."
    assert "Greet." in same.everything
    assert fold(second_run("Greet.")).iteration == 2


def test_a_specification_that_comes_back_is_told_again():
    between = fold([*second_run("Greet twice."), *step("clarifier")])
    assert "Greet." in run_step([started("Greet.", told=between.told)]).task.news


def test_a_role_is_told_once_what_it_was_told():
    events = [*TO_AUDITOR, *step("auditor", REJECTED), *step("planner")]
    again = run_step([*events, *step("auditor", REJECTED)]).task
    # The same rejection, word for word, and the planner has heard it.
    assert again.news == ""
    assert "R2 fails" in again.everything


def test_a_step_that_failed_counts_as_not_told():
    events = [started(), *step("clarifier", None, outcome=Outcome.TIMED_OUT)]
    _, events = following(events)
    assert "Greet." in run_step([*events, RESUMED]).task.news


# --- in general --------------------------------------------------------------------------------

REPORTS = st.sampled_from([DONE, APPROVED, REJECTED, BLOCKED, None]) | st.lists(
    st.sampled_from(["A?", "B?", "C?"]), min_size=1, max_size=2
).map(lambda texts: asking(*texts))


@pytest.mark.extended
@given(
    st.lists(
        st.tuples(REPORTS, st.sampled_from([Outcome.OK] * 4 + [Outcome.TRANSIENT])), max_size=40
    )
)
def test_a_run_always_knows_what_is_next_and_every_event_can_be_followed(
    answers: list[tuple[Report | None, Outcome]],
):
    events: list[RunEvent] = [started()]
    for report, outcome in answers:
        command, events = following(events)
        if isinstance(command, RunEnded):
            break
        if isinstance(command, RunParked):
            events.append(RESUMED)
            continue
        if isinstance(command, QuestionsAsked):
            asked_now = [q.question_id for q in command.questions]
            events += [QuestionAnswered(question_id=i, text="yes") for i in asked_now]
            command = next_command(fold(events))
        assert isinstance(command, RunStep)
        kept = report if outcome is Outcome.OK else None
        events += step(command.step.role, kept, outcome=outcome, asked_again=command.asked_again)
        assert fold(events) == apply(fold(events[:-1]), events[-1])
    assert fold(events).events == len(events)


def test_a_step_is_told_how_long_its_report_may_be():
    explorer = Step(role="explorer", task="Look around.", report_lines_max=50)
    begun = RunStarted(specification="s", pipeline=as_data(Pipeline(steps=(explorer,))))
    command = next_command(fold([begun]))
    assert isinstance(command, RunStep)
    assert "at most 50 lines" in command.task.text


ASKED = QuestionsAsked(
    role="planner", questions=(Question(question_id="q1", role="planner", text="Which?"),)
)


@pytest.mark.parametrize(
    ("events", "role"),
    [
        ([started()], "clarifier"),
        ([started(), *step("clarifier")], "planner"),
        ([started(), StepStarted(role="clarifier", turn_id="trn_1")], "clarifier"),
        ([started(), *step("clarifier"), *step("planner", asking("Which?")), ASKED], "planner"),
        ([started(), *step("clarifier"), RunParked(reason="x", role="planner")], "planner"),
        ([started(), *step("clarifier", BLOCKED)], ""),
        ([started(), RunEnded(status="approved", evidence=())], ""),
    ],
)
def test_the_next_role_is_whose_turn_it_is_once_nothing_is_waited_for(events, role):
    assert next_role(fold(events)) == role


def test_a_suggested_answer_leaves_the_question_to_a_person():
    suggested = AnswerSuggested(
        question_id="word", text="Aloha", by=Actor(kind="model", name="through MCP")
    )
    before = fold([started()])
    view = fold([started(), suggested])
    assert view.suggested == {"word": suggested}
    assert view.suggestions == 1
    assert view.answers == before.answers
    assert next_command(view) == next_command(before)


# --- queues: one for each place, under a name that PostgreSQL takes; what settles a transitio -----


ONE, OTHER = ProjectId("prj_one"), ProjectId("prj_other")
CHANNEL_BYTES_MAX = 63
CHANNEL = "procrastinate_queue_v1#"


def test_each_place_has_a_queue_of_its_own_and_always_the_same():
    places = [
        queue_of(project, agent=agent, host=host)
        for project in (ONE, OTHER)
        for agent in ("", "opencode", "acp:opencode")
        for host in ("", "one", "opencode")
    ]
    assert len(set(places)) == len(places)
    assert queue_of(ONE, agent="opencode") == queue_of(ONE, agent="opencode")


@pytest.mark.parametrize("hard", ["x" * 4096, "\ud800", "\0", "'; DROP TABLE", "ü/../"])
def test_a_queue_s_name_fits_a_channel_whatever_it_is_named_for(hard):
    queue = queue_of(ProjectId(hard), agent=hard, host=hard)
    assert len(f"{CHANNEL}{queue}".encode("ascii")) <= CHANNEL_BYTES_MAX
    assert queue.startswith(f"{ANY_QUEUE}.")


def test_the_start_of_a_step_settles_nothing_and_all_else_does():
    assert not settles(StepStarted(role="planner", turn_id="trn_1"))
    assert settles(RunResumed(because="run again"))
