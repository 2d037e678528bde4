from __future__ import annotations

import pytest

from upthread.agents.rehearsal.roles import BROKEN_BLOCK, Report, Verdict, block_of, prose_of
from upthread.core.roles import reports

FULL = Report(
    status="needs_input",
    summary="one\ntwo → é",
    questions=(("q1", "Which?"),),
    decisions=("a: b",),
    findings=("found",),
    verdict=Verdict("rejected", ["proof"]),
)


def test_a_block_says_all_of_the_report_to_its_reader() -> None:
    read = reports.read_report(f"{prose_of(FULL)}\n\n{block_of(FULL)}")
    assert (read.status, read.summary) == ("needs_input", "one\ntwo → é")
    assert [(one.id, one.text) for one in read.questions] == [("q1", "Which?")]
    assert (read.decisions, read.findings) == (("a: b",), ("found",))
    assert read.verdict == reports.Verdict(result="rejected", evidence=("proof",))


def test_the_prose_names_questions_and_evidence() -> None:
    assert prose_of(FULL).splitlines()[2:] == ["- q1: Which?", "Verdict: rejected", "- proof"]


def test_a_long_summary_is_cut_to_what_is_passed_on() -> None:
    long = Report(status="done", summary="\n".join("line" for _ in range(900)))
    assert reports.read_report(block_of(long)).summary.count("\n") == 199


def test_the_broken_block_is_broken() -> None:
    with pytest.raises(reports.MalformedReportError):
        reports.read_report(BROKEN_BLOCK)
