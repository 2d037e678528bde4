"""The five roles as rules over the content of their session, and how they report."""

from functools import partial

import pytest

from upthread.agents.rehearsal.roles import Report, Verdict, block_of, prose_of
from upthread.core.roles import reports
from upthread.core.roles.reports import read_report

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


SPECIFICATION = f"# Specification\n{TALLY}"


@pytest.fixture
def greeting(greeter):
    """The specification of the example, as a section of a prompt."""
    return f"# Specification\n{(greeter / 'spec.md').read_text()}"


def ask(agent, role, *sections: str, session_id=None):
    """Prompt a role, in a new session or in a given one, and return its report."""
    text = "\n\n".join([f'<role name="{role}">\nPlay.\n</role>', *sections])
    assert agent.prompt(session_id or agent.new(), text) == "end_turn"
    return read_report(agent.reply)


def result_of(report):
    assert report.verdict is not None
    return report.verdict.result


def test_a_new_clarifier_that_is_not_given_the_answers_asks_again(start, greeter, greeting):
    agent = start(cwd=greeter)
    clarifier = partial(ask, agent, "clarifier", session_id=agent.new())
    assert len(clarifier(greeting).questions) == 2
    answers = "# Answers\n- opening: Which word does a greeting begin with? → Hi"
    assert [question.id for question in clarifier(answers).questions] == ["stranger"]
    decided = clarifier("# Answers\n- stranger: you")
    assert decided.decisions == ("opening: Hi", "stranger: you")
    assert len(ask(agent, "clarifier", greeting).questions) == 2


def test_a_resumed_role_reads_a_file_again_only_when_it_hears_that_it_changed(
    start, greeter, greeting, read_log
):
    agent = start(cwd=greeter)
    planner = partial(ask, agent, "planner", session_id=agent.new())
    counts = []
    for news in (greeting, "# Task\nPlan again.", "# What has changed\n- pyproject.toml"):
        planner(news)
        reads = [event["path"] for event in read_log() if event["event"] == "read"]
        counts.append(reads.count("pyproject.toml"))
    assert counts == [1, 1, 2]


def test_only_a_briefing_gives_a_new_planner_its_own_plan_back(start, greeter, greeting):
    rejection = "# Report of auditor\nstatus: done\n\n## Verdict: rejected\n- R3 is missing"
    briefing = "# Briefing\n## Your last reply\n1. R1 → a: x\n2. R2 → a: x\n3. R4 → a: x"
    agent = start(cwd=greeter)
    assert "R3 →" not in ask(agent, "planner", greeting, rejection).summary
    assert "R3 →" in ask(agent, "planner", briefing, greeting, rejection).summary


def construct(agent, specification, plan):
    sections = (f"# Specification\n{specification}", f"# Report of planner\n{plan}")
    return ask(agent, "constructor", *sections)


def test_a_constructor_that_may_not_write_says_it_is_blocked(agent, project):
    agent.permission_answer = "reject_once"
    report = construct(agent, TALLY, "1. REQ1 → tally.py: x")
    assert report.status == "blocked"
    assert "tally.py" in report.summary
    assert not (project / "tally.py").exists()


@pytest.mark.parametrize(
    ("specification", "plan", "obstacle"),
    [
        (TALLY, "status: done", "No plan"),
        ("- R1 `a.py`: only words", "1. R1 → a.py: x", "no block of code"),
        (
            "- R1 `a.py`: x\n```\n<word>\n```\n## Open\n- OPEN word: Which?",
            "1. R1 → a.py: x",
            "waits for an answer to word",
        ),
    ],
)
def test_a_constructor_without_a_plan_or_an_answer_says_what_it_waits_for(
    agent, specification, plan, obstacle
):
    report = construct(agent, specification, plan)
    assert report.status == "blocked"
    assert obstacle in report.summary


RELEASE = """
## Release
```sh
python -I -c "open('released', 'a').write('x')"
```
"""


def test_the_constructor_releases_once_a_turn_and_not_what_its_prompt_reports_as_done(
    agent, project
):
    report = construct(agent, f"{TALLY}{RELEASE}", "1. REQ1 → tally.py: x")
    assert report.status == "done"
    (title,) = [call["title"] for call in agent.of_kind("tool_call") if call["kind"] == "execute"]
    assert f"{title}: exit code 0" in report.summary
    assert (project / "released").read_text() == "x"
    (session_id,) = {params["sessionId"] for params in agent.updates}
    for outcome, times in (("outcome unknown", 1), ("completed", 1), ("failed", 2)):
        agent.prompt(session_id, f"Go on. Known:\n- {title}: {outcome}")
        assert (project / "released").read_text() == "x" * times
    agent.prompt(session_id, "# Task\nCarry the plan out again.")
    assert (project / "released").read_text() == "xxx"


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
