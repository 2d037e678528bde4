"""How a role and a workstream stand: one word of twelve each, its reason and what goes on."""

import msgspec
import pytest
from msgspec import structs

from upthread.core.events import (
    PromptSent,
    Question,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunStarted,
    SessionAttached,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.roles.reports import Report, ReportedQuestion, Verdict
from upthread.core.runs.pipeline import Pipeline, RunView, Step, VerdictView, as_data
from upthread.core.runs.pipeline import fold as fold_run
from upthread.core.runs.stops import NOTHING_SAID
from upthread.core.states import (
    LOOK,
    MEANINGS,
    NOTHING_ASKED,
    RoleFacts,
    RunFacts,
    Standing,
    State,
    answer_command,
    doubts_in_words,
    go_on_command,
    of_role,
    of_run,
    of_workstream,
    run_command,
    status_of,
    tell_command,
    with_doubts,
)
from upthread.core.turns.turn import fold
from upthread.core.types import Outcome, UpstreamSessionId

SENT: tuple[TurnEvent, ...] = (
    TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1),
    SessionAttached(upstream_session_id=UpstreamSessionId("ses_1"), how="new", agent="codex"),
    PromptSent(prompt_seq=1),
)
PIPELINE = Pipeline(
    steps=(
        Step(role="constructor", task="Build."),
        Step(role="validator", task="Look.", needs=("constructor",), on_rejected="constructor"),
    )
)
STARTED = RunStarted(specification="Greet.", pipeline=as_data(PIPELINE))
HOLDS = VerdictView(
    outcome="approved", input_digest="i", tree_digest="t", is_current=True, evidence=("R1", "R2")
)
ASKED = QuestionsAsked(
    role="constructor", questions=(Question(question_id="q1", role="constructor", text="Which?"),)
)


def role(*events: TurnEvent, is_held: bool = False) -> RoleFacts:
    return RoleFacts(
        workstream="w",
        address="w/constructor",
        role="constructor",
        is_held=is_held,
        agent="codex",
        turn=fold((*SENT, *events)),
        opened_at_ms=1_000,
        moved_at_ms=2_000,
    )


def ended(
    report: Report | None = None, detail: str = "", outcome: Outcome = Outcome.OK
) -> TurnEnded:
    data = msgspec.to_builtins(report) if report else None
    return TurnEnded(outcome=outcome, report=data, detail=detail)


def run(*events: RunEvent) -> RunView:
    return fold_run((STARTED, *events))


def stepped(
    name: str, outcome: Outcome = Outcome.OK, report: Report | None = None
) -> list[RunEvent]:
    data = msgspec.to_builtins(report) if report else None
    return [
        StepStarted(role=name, turn_id="trn_1"),
        StepEnded(role=name, turn_id="trn_1", outcome=outcome, report=data, report_error="why"),
    ]


def of(view: RunView, *, is_held: bool = False, verdict: VerdictView | None = None) -> Standing:
    facts = RunFacts(workstream="w", run=view, is_held=is_held, moved_at_ms=9, verdict=verdict)
    stands = of_run(facts)
    assert stands is not None
    return stands


def test_each_state_has_one_meaning():
    assert set(MEANINGS) == set(State)
    assert len(set(MEANINGS.values())) == len(State) == 12


def test_a_name_that_begins_with_a_dash_is_taken_for_no_option():
    assert tell_command("-x/planner") == 'upthread tell -- -x/planner "…"'
    assert go_on_command("-x/planner") == "upthread tell --continue -- -x/planner"
    assert run_command("-x", is_limited=True) == "upthread run --wait -- -x"
    assert answer_command("-x", "q1") == 'upthread answer -- -x q1 "…"'
    assert go_on_command("w/planner") == "upthread tell w/planner --continue"


# --- a role ------------------------------------------------------------------------------------


def test_a_role_that_nothing_was_asked_of_is_idle():
    asked_nothing = RoleFacts(workstream="w", address="w/planner", role="planner", is_held=False)
    found = of_role(asked_nothing)
    assert (found.state, found.since_ms) == (State.IDLE, None)
    assert found.command == 'upthread tell w/planner "…"'


def test_a_role_runs_while_a_living_process_holds_it_since_its_turn_began():
    found = of_role(role(is_held=True))
    assert (found.state, found.since_ms, found.command) == (State.RUNNING, 1_000, "")
    assert of_role(role(ended(), is_held=True)).since_ms is None, "the next turn has not begun"


def test_a_limit_parks_a_role_until_its_time_with_the_command_that_goes_on():
    parked = TurnParked(reason="rate_limited", detail="slow down", reset_at_ms=5_000)
    assert of_role(role(parked)) == Standing(
        state=State.PARKED,
        reason="the agent is rate limited",
        detail="slow down",
        since_ms=2_000,
        until_ms=5_000,
        role="constructor",
        agent="codex",
        cure="wait, or go on with another --agent",
        command="upthread tell w/constructor --continue",
    )


def test_a_turn_left_in_the_middle_is_interrupted_and_goes_on():
    found = of_role(role())
    assert (found.state, found.reason) == (State.INTERRUPTED, "its last turn was cut off")
    assert found.command == "upthread tell w/constructor --continue"


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.PROCESS_DIED])
def test_a_turn_that_was_ended_by_force_is_interrupted_and_is_told_again(outcome: Outcome):
    found = of_role(role(ended(outcome=outcome)))
    assert (found.state, found.command) == (
        State.INTERRUPTED,
        'upthread tell w/constructor "…"',
    )


def test_a_turn_without_its_answer_has_failed():
    auth = of_role(role(ended(outcome=Outcome.AUTH, detail="401")))
    silent = of_role(role(ended(detail=NOTHING_SAID)))
    declined = of_role(role(ended(detail="refusal: no")))
    assert {auth.state, silent.state, declined.state} == {State.FAILED}
    assert (auth.reason, auth.detail) == ("the agent is not signed in", "401")
    assert silent.reason == "the agent answered nothing"
    assert (declined.reason, declined.detail) == ("the agent declined to go on", "no")
    assert auth.command == 'upthread tell w/constructor "…"'


def test_a_report_says_done_blocked_or_what_it_asks():
    assert of_role(role(ended())).state is State.DONE
    assert of_role(role(ended(Report(status="done")))).state is State.DONE
    blocked = of_role(role(ended(Report(status="blocked", summary="no key"))))
    assert (blocked.state, blocked.detail) == (State.BLOCKED, "no key")
    questions = (ReportedQuestion(id="a", text="A?"), ReportedQuestion(id="b", text="B?"))
    asking = of_role(role(ended(Report(status="needs_input", questions=questions))))
    assert (asking.state, asking.reason) == (State.WAITING, "it has asked 2 questions")
    assert asking.detail == "A?; B?"
    assert asking.command == 'upthread tell w/constructor "…"'


def test_what_a_step_asked_is_answered_in_its_run():
    report = Report(status="needs_input", questions=(ReportedQuestion(id="a", text="Which?"),))
    facts = structs.replace(
        role(ended(report)), run=run(*stepped("constructor", report=report), ASKED)
    )
    asking = of_role(facts)
    assert (asking.state, asking.command) == (State.WAITING, 'upthread answer w q1 "…"')
    answered = of_role(structs.replace(facts, run=run(*stepped("constructor", report=report))))
    assert (answered.state, answered.reason) == (State.DONE, "what it asked was answered")


def test_nobody_waits_for_what_was_asked_in_a_run_that_is_over():
    report = Report(status="needs_input", questions=(ReportedQuestion(id="a", text="Which?"),))
    asked = run(*stepped("constructor", report=report), ASKED)
    over = structs.replace(asked, ended=RunEnded(status="forgotten"))
    standing = of_role(structs.replace(role(ended(report)), run=over))
    assert (standing.state, standing.reason) == (State.DONE, "it asked in a run that is over")


def test_a_verdict_approves_until_what_was_judged_has_changed():
    approving = Report(status="done", verdict=Verdict(result="approved"))
    facts = role(ended(approving))
    outside = of_role(facts)
    assert (outside.state, outside.command) == (State.DONE, "")
    assert outside.reason == "it approved what it looked at, outside of a run"
    approved = of_role(structs.replace(facts, verdict=HOLDS))
    assert (approved.state, approved.detail, approved.command) == (State.APPROVED, "R1; R2", "")
    stale = structs.replace(HOLDS, is_current=False)
    outdated = of_role(structs.replace(facts, verdict=stale, run=run(RunEnded(status="approved"))))
    assert (outdated.state, outdated.command) == (State.OUTDATED, "upthread run w")
    rejected = of_role(structs.replace(facts, verdict=structs.replace(HOLDS, outcome="rejected")))
    assert (rejected.state, rejected.reason) == (State.DONE, "it rejected what it judged")


def test_a_step_goes_on_with_its_run_while_that_is_open():
    limited = TurnParked(reason="rate_limited", detail="", reset_at_ms=5_000)
    open_run = of_role(structs.replace(role(limited), run=run()))
    over = of_role(structs.replace(role(limited), run=run(RunEnded(status="done"))))
    assert open_run.command == "upthread run w --wait"
    assert over.command == "upthread tell w/constructor --continue"


# --- a run -------------------------------------------------------------------------------------


def test_a_run_that_is_held_is_running():
    found = of(run(StepStarted(role="constructor", turn_id="t")), is_held=True)
    assert (found.state, found.role, found.since_ms) == (State.RUNNING, "constructor", 9)
    assert found.command == ""


def test_an_open_question_is_what_a_run_waits_for():
    found = of(run(*stepped("constructor"), ASKED))
    assert (found.state, found.reason) == (State.WAITING, "it has asked a question")
    assert (found.role, found.command) == ("constructor", 'upthread answer w q1 "…"')


def test_a_parked_run_says_why_and_a_blocked_one_that_it_is():
    parked = of(run(RunParked(reason="permission", detail="write x", role="constructor")))
    blocked = of(run(RunParked(reason="blocked", detail="no key", role="constructor")))
    limited = of(run(RunParked(reason="rate_limited", role="constructor", reset_at_ms=7)))
    assert (parked.state, parked.reason) == (State.PARKED, "it needs a permission")
    assert (parked.detail, parked.command) == ("write x", "upthread run w")
    assert (blocked.state, blocked.detail) == (State.BLOCKED, "no key")
    assert (limited.until_ms, limited.command) == (7, "upthread run w --wait")


def test_what_is_held_back_names_first_what_settles_it():
    held = TurnParked(reason="held_back", detail="git push")
    for found, go_on in (
        (of_role(role(held)), "upthread tell w/constructor --continue"),
        (of(run(RunParked(reason="held_back", role="constructor"))), "upthread run w"),
    ):
        assert (found.state, found.command) == (State.PARKED, "upthread effects w")
        assert found.cure.endswith(f"then go on: {go_on}")
        doubted = with_doubts(found, ("git push",), workstream="w")
        assert (doubted.cure, doubted.command) == (found.cure, found.command)


def test_a_run_that_lost_its_process_in_a_step_is_interrupted():
    killed = of(run(StepStarted(role="constructor", turn_id="t")))
    by_hand = of(run(*stepped("constructor", Outcome.CANCELLED)))
    assert (killed.state, killed.role) == (State.INTERRUPTED, "constructor")
    assert (by_hand.state, by_hand.reason) == (State.INTERRUPTED, "the turn was cancelled")
    assert killed.command == by_hand.command == "upthread run w"


def test_a_run_whose_step_failed_has_failed():
    found = of(run(*stepped("constructor", Outcome.AUTH)))
    assert (found.state, found.detail) == (State.FAILED, "why")


def test_a_run_between_two_steps_is_halfway_and_names_the_next():
    between = of(run(*stepped("constructor", report=Report(status="done"))))
    assert (between.state, between.role) == (State.HALFWAY, "validator")
    assert between.reason == "the run goes on with validator"
    asking = Report(status="needs_input", questions=(ReportedQuestion(id="a", text="A?"),))
    nobody = of(run(*stepped("constructor", report=asking)))
    assert (nobody.state, nobody.reason) == (State.HALFWAY, "the run goes on from here")


def test_a_run_that_ended_is_what_its_judge_said():
    approved = run(*stepped("validator"), RunEnded(status="approved"))
    found = of(approved, verdict=HOLDS)
    assert (found.state, found.role, found.command) == (State.APPROVED, "validator", "")
    assert of(approved).state is State.OUTDATED, "what was judged was forgotten"
    rejected = of(run(*stepped("validator"), RunEnded(status="rejected", evidence=("R1",))))
    assert (rejected.state, rejected.detail) == (State.PARKED, "R1")
    done = of(run(RunEnded(status="done")))
    assert (done.state, done.reason, done.command) == (State.DONE, "the run has ended", "")


def test_a_run_that_was_forgotten_says_nothing():
    forgotten = run(RunEnded(status="forgotten"))
    assert of_run(RunFacts(workstream="w", run=forgotten, is_held=False)) is None


# --- a workstream ------------------------------------------------------------------------------


def standing(state: State, since_ms: int | None, name: str = "planner") -> Standing:
    return Standing(state=state, reason="…", since_ms=since_ms, role=name, agent=f"of {name}")


def test_a_workstream_is_in_the_most_urgent_state_of_its_roles_and_the_newest_of_it():
    roles = [
        standing(State.DONE, 9),
        standing(State.FAILED, 3, "a"),
        standing(State.FAILED, 5, "b"),
        standing(State.APPROVED, 8),
    ]
    assert of_workstream(None, roles).role == "b"
    assert of_workstream(None, []) == NOTHING_ASKED


def test_a_run_covers_what_its_roles_did_before_it_moved():
    run_done = structs.replace(standing(State.DONE, 5, "validator"), agent="")
    before, after = standing(State.FAILED, 4), standing(State.INTERRUPTED, 6)
    judge = standing(State.APPROVED, 5, "validator")
    assert of_workstream(run_done, [before, judge]) == structs.replace(
        run_done, agent="of validator"
    )
    assert of_workstream(run_done, [before, after]) == after
    running = standing(State.RUNNING, 2)
    assert of_workstream(run_done, [running]) == running


COARSE = {
    State.RUNNING: "running",
    State.WAITING: "waiting_for_human",
    **dict.fromkeys((State.PARKED, State.BLOCKED), "parked"),
    **dict.fromkeys((State.OUTDATED, State.APPROVED), "approved"),
}


@pytest.mark.parametrize("state", State)
def test_the_words_from_before_there_were_more_are_kept(state: State):
    status = COARSE.get(state, "idle")
    assert status_of(standing(state, 1), None) == status
    assert status_of(standing(state, 1), run()) == status


def test_a_rejection_that_waits_for_a_person_keeps_its_word():
    parked = standing(State.PARKED, 1)
    often = run(RunParked(reason="rejected_too_often"))
    assert status_of(parked, often) == "rejected"
    assert status_of(parked, run(RunEnded(status="rejected"))) == "rejected"
    assert status_of(parked, run(RunParked(reason="permission"))) == "parked"


@pytest.mark.parametrize("state", State)
def test_what_would_else_be_at_rest_is_unsettled_while_an_action_is_in_doubt(state: State):
    before = structs.replace(standing(state, 1), command="upthread run w")
    found = with_doubts(before, ("git push", "sh deploy.sh"), workstream="-w")
    if state in {State.RUNNING, State.WAITING, State.UNSETTLED}:
        assert found == before
    else:
        said = f"{before.reason}; 2 actions beyond this machine may have been done, or not"
        assert (found.reason, found.detail) == (said, "git push; sh deploy.sh")
        assert found.command == "upthread effects -- -w"
        if state in {State.INTERRUPTED, State.FAILED, State.PARKED, State.BLOCKED}:
            assert (found.state, found.cure) == (state, f"{LOOK}; then go on: upthread run w")
        else:
            assert (found.state, found.cure) == (State.UNSETTLED, LOOK)
    assert with_doubts(before, (), workstream="w") == before


def test_what_stopped_beside_an_action_in_doubt_is_mended_after_a_look():
    failed = structs.replace(standing(State.FAILED, 1), cure="mend it", command="upthread run w")
    found = with_doubts(failed, ("git push",), workstream="w")
    assert found.cure == f"{LOOK}; then mend it: upthread run w"
    told = structs.replace(failed, detail="it said so", cure="", command="")
    found = with_doubts(told, ("git push",), workstream="w")
    assert (found.detail, found.cure) == ("it said so; git push", f"{LOOK}; then go on")
    assert doubts_in_words(1) == "an action beyond this machine may have been done, or not"


def test_an_approved_run_that_is_in_doubt_keeps_its_coarse_word():
    unsettled = standing(State.UNSETTLED, 1)
    assert status_of(unsettled, run(RunEnded(status="approved"))) == "approved"
    assert status_of(unsettled, run(RunEnded(status="done"))) == "idle"


def test_a_step_of_the_run_that_is_over_is_told_by_the_run_whichever_was_written_first():
    run = Standing(state=State.HALFWAY, reason="its next step is still to begin", since_ms=1)
    step = Standing(state=State.DONE, reason="its last turn ended well", since_ms=2, role="planner")
    assert of_workstream(run, [step], steps=frozenset({"planner"})).state is State.HALFWAY
    assert of_workstream(run, [step]).state is State.HALFWAY, "what is left to do is more urgent"
    failed = structs.replace(step, state=State.FAILED)
    assert of_workstream(run, [failed], steps=frozenset({"planner"})).state is State.HALFWAY
    assert of_workstream(run, [failed]).state is State.FAILED
