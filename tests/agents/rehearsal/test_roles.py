"""The five roles as rules over what their session holds, and how they report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from upthread.agents.rehearsal.roles import BROKEN_BLOCK, Report, Verdict, block_of, prose_of
from upthread.core.roles import reports
from upthread.core.roles.reports import read_report

Agent = Any
Start = Any

ANSWERS = {"opening": "Hello", "stranger": "stranger"}

TALLY = """\
The tool counts words; see `notes.txt`.

## Requirements
- REQ1 `tally.py`: it counts words.
  ```python
  def tally(text):
      return len(text.split())
  ```
- REQ2 `tally.py`: it runs as a program. (easy to break)
  ```python
  if __name__ == "__main__":
      print(tally("one two three"))
  ```
- REQ3 `docs/tally.md`: it is documented. (easy to miss)
  ```
  Prints a number.
  ```

## Check
```sh
$ python -I -c "import subprocess, sys; out = subprocess.run([sys.executable, 'tally.py'], \
capture_output=True, text=True).stdout; sys.exit(0 if out.strip() == '3' else 'no 3')"
```
""".replace("\\\n", "")


@pytest.fixture
def tally(tmp_path: Path) -> Path:
    directory = tmp_path / "tally"
    directory.mkdir()
    (directory / "spec.md").write_text(TALLY)
    (directory / "notes.txt").write_text("a note")
    return directory


def _verdicts(passage: Any, role: str) -> list[str]:
    return [report.verdict.result for report in passage.of(role)]


def test_a_whole_passage_asks_once_mends_the_plan_and_the_work_and_ends_approved(
    begin_passage: Any, greeter: Path
) -> None:
    passage = begin_passage(greeter, answers=ANSWERS)
    ended = passage.run()
    assert ended.status == "approved", ended
    assert [role for role, _ in passage.history] == [
        "clarifier", "clarifier", "planner", "auditor", "planner", "auditor",
        "constructor", "validator", "constructor", "validator",
    ]  # fmt: skip
    assert set(passage.asked.values()) == {1}
    assert len(passage.asked) == 2
    assert _verdicts(passage, "auditor") == ["rejected", "approved"]
    assert _verdicts(passage, "validator") == ["rejected", "approved"]
    assert any("R3" in evidence for evidence in passage.of("auditor")[0].verdict.evidence)
    check = subprocess.run(
        [sys.executable, "-I", "check.py"], cwd=greeter, capture_output=True, text=True, check=True
    )
    assert "3 greetings" in check.stdout


def test_the_answers_change_what_is_built(begin_passage: Any, greeter: Path) -> None:
    answers = {"opening": "Moin", "stranger": "du da"}
    assert begin_passage(greeter, answers=answers).run().status == "approved"
    greeted = subprocess.run(
        [sys.executable, "-B", "-m", "greeter"], cwd=greeter, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert greeted.stdout == "Moin, du da!\n"
    assert "Moin, Ada!" in (greeter / "README.md").read_text()


def test_without_continuity_it_reads_again_and_the_plan_is_rejected_for_ever(
    begin_passage: Any, greeter: Path, read_log: Any
) -> None:
    passage = begin_passage(greeter, answers=ANSWERS, is_continuous=False)
    ended = passage.run()
    assert ended.reason == "rejected_too_often"
    assert _verdicts(passage, "auditor") == ["rejected"] * 3
    plans = {report.summary for report in passage.of("planner")}
    assert len(plans) == 1
    reads = [line["path"] for line in read_log() if line["event"] == "read"]
    readings = len(passage.of("planner")) + len(passage.of("clarifier"))
    assert reads.count("pyproject.toml") == readings


def test_a_new_clarifier_that_is_not_told_the_answers_asks_again(
    start: Start, greeter: Path
) -> None:
    role = '<role name="clarifier">\nAsk.\n</role>'
    specification = f"# Specification\n{(greeter / 'spec.md').read_text()}"
    answers = "# Answers\n- opening: Which word does a greeting begin with? → Hi"
    agent = start(cwd=greeter)
    first = agent.new()
    agent.prompt(first, f"{role}\n\n{specification}")
    assert len(read_report(agent.reply).questions) == 2
    agent.prompt(first, answers)
    assert [one.id for one in read_report(agent.reply).questions] == ["stranger"]
    agent.prompt(first, "# Answers\n- stranger: you")
    assert read_report(agent.reply).decisions == ("opening: Hi", "stranger: you")
    agent.prompt(agent.new(), f"{role}\n\n{specification}")
    assert len(read_report(agent.reply).questions) == 2


def test_a_resumed_role_reads_a_file_again_only_when_it_hears_that_it_changed(
    start: Start, greeter: Path, read_log: Any
) -> None:
    agent = start(cwd=greeter)
    session_id = agent.new()
    specification = f"# Specification\n{(greeter / 'spec.md').read_text()}"
    prompts = [
        f'<role name="planner">\nPlan.\n</role>\n\n{specification}',
        "# Task\nGive your plan again.",
        "# What has changed\n- pyproject.toml\n\n# Task\nGive your plan again.",
    ]
    counts: list[int] = []
    for prompt in prompts:
        agent.prompt(session_id, prompt)
        reads = [line["path"] for line in read_log() if line["event"] == "read"]
        counts.append(reads.count("pyproject.toml"))
    assert counts == [1, 1, 2]


def test_a_briefing_gives_a_new_planner_its_own_plan_back(start: Start, greeter: Path) -> None:
    role = '<role name="planner">\nPlan.\n</role>'
    specification = f"# Specification\n{(greeter / 'spec.md').read_text()}"
    rejection = "# Report of auditor\nstatus: done\n\n## Verdict: rejected\n- R3 is missing"
    briefing = "# Briefing\n## Your last reply\n1. R1 → a: x\n2. R2 → a: x\n3. R4 → a: x"
    agent = start(cwd=greeter)
    agent.prompt(agent.new(), f"{role}\n\n{specification}\n\n{rejection}")
    assert "R3 →" not in agent.reply
    agent.prompt(agent.new(), f"{role}\n\n{briefing}\n\n{specification}\n\n{rejection}")
    assert "R3 →" in agent.reply


def test_another_specification_works_as_well(
    begin_passage: Any, tally: Path, read_log: Any
) -> None:
    passage = begin_passage(tally, answers={})
    assert passage.run().status == "approved"
    assert passage.asked == {}
    assert _verdicts(passage, "auditor") == ["rejected", "approved"]
    assert _verdicts(passage, "validator") == ["rejected", "approved"]
    assert (tally / "docs" / "tally.md").read_text() == "Prints a number.\n"
    assert any(line["path"] == "notes.txt" for line in read_log() if line["event"] == "read")


def test_the_validator_believes_the_check_and_no_report(
    begin_passage: Any, start: Start, tally: Path
) -> None:
    passage = begin_passage(tally, answers={})
    passage.run()
    program = tally / "tally.py"
    program.write_text(program.read_text().replace("text.split()", "text") + "\n")
    agent = start(cwd=tally)
    role = '<role name="validator">\nCheck.\n</role>'
    agent.prompt(agent.new(), f"{role}\n\n# Specification\n{TALLY}")
    verdict = read_report(agent.reply).verdict
    assert verdict is not None
    assert verdict.result == "rejected"
    assert any("exit code 1" in evidence for evidence in verdict.evidence)
    assert any(evidence.startswith("REQ1: tally.py lacks") for evidence in verdict.evidence)


def test_the_constructor_does_nothing_twice(
    begin_passage: Any, start: Start, tally: Path, read_log: Any
) -> None:
    passage = begin_passage(tally, answers={})
    passage.run()
    before = (tally / "tally.py").read_text()
    written = [line for line in read_log() if line["event"] == "write"]
    agent = start(cwd=tally)
    agent.attach("resume", passage.sessions["constructor"])
    agent.prompt(passage.sessions["constructor"], "# Task\nCarry the plan out.")
    assert (tally / "tally.py").read_text() == before
    assert [line for line in read_log() if line["event"] == "write"] == written


def _constructor(agent: Agent, specification: str, plan: str) -> Any:
    role = '<role name="constructor">\nBuild.\n</role>'
    prompt = f"{role}\n\n# Specification\n{specification}\n\n# Report of planner\n{plan}"
    agent.prompt(agent.new(), prompt)
    return read_report(agent.reply)


def test_a_constructor_that_may_not_write_says_it_is_blocked(agent: Agent, project: Path) -> None:
    agent.permission_answer = "reject_once"
    report = _constructor(agent, TALLY, "1. REQ1 → tally.py: x")
    assert report.status == "blocked"
    assert "tally.py" in report.summary
    assert not (project / "tally.py").exists()


def test_a_constructor_without_a_plan_or_an_answer_says_what_it_waits_for(
    agent: Agent, greeter: Path
) -> None:
    assert "No plan" in _constructor(agent, TALLY, "status: done").summary
    specification = (greeter / "spec.md").read_text()
    report = _constructor(agent, specification, "1. R1 → greeter/words.py: x")
    assert report.status == "blocked"
    assert "opening, stranger" in report.summary
    report = _constructor(agent, "- R1 `a.py`: only words", "1. R1 → a.py: x")
    assert "no block of code" in report.summary


RELEASE = """
## Release
```sh
python -I -c "open('released', 'a').write('x')"
```
"""


def test_the_constructor_releases_once_a_turn_and_not_what_its_prompt_says_was_done(
    agent: Agent, project: Path
) -> None:
    specification = f"{TALLY}{RELEASE}"
    title = _released(agent, specification)
    assert (project / "released").read_text() == "x"
    (session_id,) = {params["sessionId"] for params in agent.updates}
    for outcome, times in (("outcome unknown", 1), ("completed", 1), ("failed", 2)):
        agent.prompt(session_id, f"Go on. Known:\n- {title}: {outcome}")
        assert (project / "released").read_text() == "x" * times
    agent.prompt(session_id, "# Task\nCarry the plan out again.")
    assert (project / "released").read_text() == "xxx"


def _released(agent: Agent, specification: str) -> str:
    """Play the constructor and return the title of what it released."""
    report = _constructor(agent, specification, "1. REQ1 → tally.py: x")
    assert report.status == "done"
    (title,) = [call["title"] for call in agent.of_kind("tool_call") if call["kind"] == "execute"]
    assert f"{title}: exit code 0" in report.summary
    return str(title)


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
