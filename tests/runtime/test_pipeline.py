"""Runs: through seven iterations, one step a process, parked with a reason and gone on with."""

from typing import Any

import pytest
from tests.support.sets import EXTENDED, SOAK, spread
from tests.support.world import ALLOW, SMALL_PIPELINE, SMALL_SPECIFICATION, World, eventually, git

import upthread

pytestmark = pytest.mark.anyio
RUN = upthread.RunOptions(agent="rehearsal")
ROLES = ("clarifier", "planner", "auditor", "constructor", "validator")
RUNS = 7


async def run_to_the_end(
    project: upthread.Project, specification: str | None, options: upthread.RunOptions
) -> Any:
    view = await project.run("spec-42", specification, options)
    while view.status == "waiting_for_human":
        for question in view.open_questions:
            await project.answer("spec-42", "Hello", question_id=question.question_id)
        view = await project.run("spec-42", None, options)
    return view


@pytest.mark.parametrize(
    "continuity", [pytest.param(None, marks=EXTENDED), pytest.param("resume", marks=SOAK)]
)
async def test_seven_iterations_keep_every_resuming_roles_session(world, continuity):
    specification = world.take_example()
    options = upthread.RunOptions(agent="rehearsal", continuity=continuity)
    async with world.open() as project:
        for number in range(1, RUNS + 1):
            text = f"{specification}\n\n## Notes\n\nThis is iteration {number}.\n"
            view = await run_to_the_end(project, text, options)
            assert (view.status, view.iteration) == ("approved", number)
        roles = {each.conversation.key.role: each for each in (await project.show("spec-42")).roles}
    assert set(roles) == set(ROLES)
    resuming = ROLES if continuity == "resume" else ("clarifier", "planner", "constructor")
    for role in resuming:
        assert len(roles[role].chain) == 1, role
        assert roles[role].turns >= RUNS
    if continuity is None:
        assert len(roles["validator"].chain) == roles["validator"].turns
    questions = [each["question"] for each in world.log("question")]
    assert len(questions) == len(set(questions)) == 2, "a question was asked twice"
    world.check_histories()


def failing(directive: str) -> str:
    return SMALL_PIPELINE.replace("Plan it.", f"Plan it. [[rehearse: once {directive}]]") + ALLOW


@SOAK
@pytest.mark.parametrize(
    "failure",
    spread(
        [
            ("rate_limit", "rate_limited"),
            ("fail_as billing_error your credit balance is too low", "credit_exhausted"),
            ("auth", "auth"),
            ("fail nobody knows", "unknown"),
        ]
    ),
)
async def test_a_failure_parks_the_run_with_its_reason_and_running_again_goes_on(world, failure):
    directive, reason = failure
    world.configure(failing(directive))
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, RUN)
        assert view.status == "parked"
        assert (view.parked.reason, view.parked.role) == (reason, "planner")
        shown = await project.show("spec-42")
        assert shown.status == "parked"
        assert (await project.run("spec-42", None, RUN)).status == "approved"
    assert len(world.session_files()) == 3
    world.check_histories()


@SOAK
@pytest.mark.parametrize(
    "directive",
    spread(["crash", "fail_as overloaded Busy", "crash_in_tool notes.txt x", "lose_session"]),
)
async def test_a_failure_that_can_be_cured_without_a_person_never_stops_the_run(world, directive):
    guard = "" if directive == "lose_session" else "once "
    task = f"Plan it. [[rehearse: {guard}{directive}]]"
    world.configure(SMALL_PIPELINE.replace("Plan it.", task) + ALLOW)
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, RUN)
    if directive == "lose_session":  # lost again in the new session: once more is not tried
        assert view.parked.reason == "missing"
    else:
        assert view.status == "approved"
    world.check_histories()


@SOAK
@pytest.mark.parametrize("fault", spread(["bad_report", "no_report"]))
async def test_a_malformed_or_missing_report_is_asked_for_once_in_the_same_session(world, fault):
    task = f"Plan it. [[rehearse: {fault}]]"
    world.configure(SMALL_PIPELINE.replace("Plan it.", task) + ALLOW)
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, RUN)
        assert view.status == "approved"
        assert len((await project.role("spec-42/planner")).chain) == 1
    planner = [each["text"] for each in world.log("prompt") if each["role"] == "planner"]
    assert len(planner) == 2
    assert "Your report could not be used" in planner[1]


async def test_a_step_that_a_person_went_on_with_by_hand_counts_for_the_run(world):
    world.configure(SMALL_PIPELINE.replace("Plan it.", "Plan it. [[rehearse: hang]]") + ALLOW)
    process = world.start("run", "spec-42", SMALL_SPECIFICATION)
    eventually(world.prompts)
    process.kill()
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsal")
        result = await project.go_on("spec-42/planner", options)
        assert (result.outcome, result.report is not None) == ("ok", True)
        assert (await project.run("spec-42", None, RUN)).status == "approved"
    planner = [each for each in world.log("prompt") if each["role"] == "planner"]
    assert len(planner) == 2


@EXTENDED
async def test_a_step_whose_turn_another_prompt_replaced_parks_and_is_run_again(world):
    world.configure(SMALL_PIPELINE.replace("Plan it.", "Plan it. [[rehearse: once hang]]") + ALLOW)
    process = world.start("run", "spec-42", SMALL_SPECIFICATION)
    eventually(world.prompts)
    process.kill()
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsal")
        await project.tell("spec-42/planner", "[[rehearse: say something else]]", options)
        view = await project.run("spec-42", None, RUN)
        assert view.parked.reason == "process_died"
        assert (await project.run("spec-42", None, RUN)).status == "approved"


async def test_a_role_that_never_reports_parks_after_one_request(world: World) -> None:
    world.configure('[[pipeline.steps]]\nrole = "scribe"\ntask = "Write."\n[roles.scribe]\n')
    async with world.open() as project:
        view = await project.run("spec-42", "Anything.", RUN)
        assert (view.status, view.parked.reason) == ("parked", "no_report")
        assert len(world.prompts()) == 2
        again = await project.run("spec-42", None, RUN)
        assert again.parked.reason == "no_report"
    assert len(world.session_files()) == 1


@EXTENDED
async def test_a_permission_that_nobody_can_give_parks_and_given_later_goes_on(world):
    world.configure(SMALL_PIPELINE)
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, RUN)
        assert (view.parked.reason, view.parked.role) == ("permission", "constructor")
        assert "hello.txt" in view.parked.detail
        assert (await project.show("spec-42")).status == "parked"
    assert world.log("write") == []
    world.configure(SMALL_PIPELINE + ALLOW)
    async with world.open() as project:
        assert (await project.run("spec-42", None, RUN)).status == "approved"
    assert len(world.log("write")) == 1
    assert len(world.session_files()) == 3


@EXTENDED
async def test_an_approval_holds_until_what_was_approved_changes_and_then_is_asked_for_again(world):
    world.configure(SMALL_PIPELINE + ALLOW)
    async with world.open() as project:
        assert (await project.run("spec-42", SMALL_SPECIFICATION, RUN)).status == "approved"
        git(world.project, "add", "-A")
        git(world.project, "commit", "-qm", "as approved")
        told = len(world.prompts())
        assert (await project.run("spec-42", None, RUN)).status == "approved"
        assert await is_current(project, "validator")
        assert len(world.prompts()) == told

        written = world.log("write")[-1]["path"]
        (world.project / written).write_text("somebody else's\n")
        assert not await is_current(project, "validator")
        view = await project.run("spec-42", None, RUN)
        assert view.status == "approved"
        assert await is_current(project, "validator")
    asked = [each["role"] for each in world.log("prompt")[told:]]
    assert asked == ["validator", "constructor", "validator"]
    assert (world.project / written).read_text() != "somebody else's\n"


async def is_current(project: upthread.Project, role: str) -> bool:
    verdict = (await project.role(f"spec-42/{role}")).verdict
    return verdict.is_current


@EXTENDED
async def test_a_report_longer_than_its_step_passes_on_is_asked_for_once_more_and_then_parks(world):
    world.configure(SMALL_PIPELINE.replace('task = "Plan', 'report_lines_max = 1\ntask = "Plan'))
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, RUN)
        kept = await project.role("spec-42/planner")
    assert (view.parked.reason, view.parked.role) == ("no_report", "planner")
    assert "lines, at most 1 are passed on: shorten it" in view.parked.detail
    planner = world.prompts()
    assert len(planner) == 2
    assert "at most 1 are passed on: shorten it" in planner[1]
    assert kept.last_turn.ended.report is not None, "what is too long to pass on is kept"
