"""What a verdict holds for: the reports and the tree it was passed on, and nothing else."""

import msgspec
import pytest
from msgspec import structs

from upthread.core.events import RunEnded, RunEvent, RunResumed, RunStarted, StepEnded, StepStarted
from upthread.core.roles.reports import Report, Verdict
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import (
    Pipeline,
    RunStep,
    RunView,
    Step,
    as_data,
    fold,
    next_command,
)
from upthread.core.types import Outcome

PIPELINE = Pipeline(
    steps=(
        Step(role="constructor", task="Build."),
        Step(role="validator", task="Look.", needs=("constructor",), on_rejected="constructor"),
    )
)
BUILT = Report(status="done", summary="built")
APPROVED = Report(status="done", verdict=Verdict(result="approved", evidence=("R1 holds",)))
AGAIN = RunResumed(because="the working tree has changed", role="validator")
ENDED = RunEnded(status="approved", evidence=("R1 holds",))


def step(role: str, report: Report, tree_digest: str = "") -> list[RunEvent]:
    return [
        StepStarted(role=role, turn_id="trn_1"),
        StepEnded(
            role=role,
            turn_id="trn_1",
            outcome=Outcome.OK,
            report=msgspec.to_builtins(report),
            input_digest=f"of {role}",
            tree_digest=tree_digest,
        ),
    ]


TO_FINISH = [
    RunStarted(specification="Greet.", pipeline=as_data(PIPELINE)),
    *step("constructor", BUILT),
    *step("validator", APPROVED, "t1"),
]


def judged(tree_digest: str = "t1") -> RunView:
    """A run whose validator was given what it now needs."""
    view = fold([*TO_FINISH[:3], *step("validator", APPROVED, tree_digest)])
    command = next_command(fold(TO_FINISH[:3]))
    assert isinstance(command, RunStep)
    handed = structs.replace(view.handed["validator"], input_digest=command.input_digest)
    return structs.replace(view, handed={**view.handed, "validator": handed})


@pytest.mark.parametrize(
    ("judged_tree", "tree_now", "expected"),
    [("t1", "t1", True), ("t1", "t2", False), ("t1", "", False), ("", "t1", True), ("", "", True)],
)
def test_a_verdict_holds_for_the_tree_it_was_passed_on(judged_tree, tree_now, expected):
    view = judged(judged_tree)
    assert pipelines.holds(view, view.handed["validator"], tree_digest=tree_now) is expected


def test_another_report_ends_it_whatever_the_tree():
    view = judged()
    rebuilt = structs.replace(
        view.handed["constructor"], report=Report(status="done", summary="rebuilt")
    )
    view = structs.replace(view, handed={**view.handed, "constructor": rebuilt})
    assert not pipelines.holds(view, view.handed["validator"], tree_digest="t1")


def test_a_run_that_is_approved_or_about_to_be_rests_on_its_last_verdict():
    assert isinstance(next_command(fold(TO_FINISH)), RunEnded)
    for events in (TO_FINISH, [*TO_FINISH, ENDED]):
        approval = pipelines.final_approval(fold(events))
        assert approval is not None
        assert (approval.role, approval.tree_digest) == ("validator", "t1")


def test_a_run_under_way_forgotten_or_that_judged_no_tree_rests_on_none():
    no_tree = [*TO_FINISH[:3], *step("validator", APPROVED)]
    forgotten = [*TO_FINISH, RunEnded(status="forgotten")]
    for events in (TO_FINISH[:1], TO_FINISH[:3], no_tree, [*no_tree, ENDED], forgotten):
        assert pipelines.final_approval(fold(events)) is None


def test_judging_again_asks_the_judge_first_and_the_run_is_open_until_it_has_answered():
    for events in ([*TO_FINISH, AGAIN], [*TO_FINISH, ENDED, AGAIN]):
        view = fold(events)
        assert view.status == "running"
        command = next_command(view)
        assert isinstance(command, RunStep)
        assert command.step.role == "validator"
        approved = fold([*events, *step("validator", APPROVED, "t2")])
        assert isinstance(next_command(approved), RunEnded)
        rejected = Report(status="done", verdict=Verdict(result="rejected"))
        command = next_command(fold([*events, *step("validator", rejected, "t2")]))
        assert isinstance(command, RunStep)
        assert command.step.role == "constructor"


def test_going_on_without_a_role_leaves_an_ended_run_ended():
    assert fold([*TO_FINISH, ENDED, RunResumed(because="run again")]).status == "approved"


@pytest.mark.parametrize(
    ("is_current", "in_doubt", "words"),
    [
        (True, (), "approved"),
        (False, (), "approved, of something that has changed since"),
        (True, ("eff_1",), "approved, while an action beyond this machine is in doubt"),
    ],
)
def test_an_approval_is_never_that_word_alone_where_it_is_worth_less(is_current, in_doubt, words):
    verdict = pipelines.VerdictView(
        outcome="approved",
        input_digest="i",
        tree_digest="t",
        is_current=is_current,
        evidence=(),
        in_doubt=in_doubt,
    )
    assert verdict.in_words == words
