"""The five roles of the pipeline, as rules over what the session holds.

Each reads real files, and works from the specification and the reports its prompts brought. It
hands its work back as a report, in prose and as a fenced `upthread` block. Two flaws are built in,
so that the loops have something to send back: the planner's first plan of a session misses what is
marked easy to miss, the constructor first forgets what is easy to break. Each is mended only by a
session that remembers: the planner needs its own earlier plan *and* the rejection; a new session
makes the first plan again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from upthread.agents.rehearsal.history import (
    Requirement,
    Specification,
    Told,
    parse_specification,
    planned_ids,
)
from upthread.agents.rehearsal.turn import Turn, read_file, run_command, title_of, write_file

SUMMARY_LINES_MAX = 200
BROKEN_BLOCK = '```upthread\n{"status": "done", "summary": \n```'
EVIDENCE_LINES_MAX = 5


class Verdict(NamedTuple):
    """A judgement: `result` is approved or rejected."""

    result: str
    evidence: Sequence[str]


class Report(NamedTuple):
    """What a role hands back. `questions` are (id, text)."""

    status: str
    summary: str
    questions: Sequence[tuple[str, str]] = ()
    decisions: Sequence[str] = ()
    findings: Sequence[str] = ()
    verdict: Verdict | None = None


def prose_of(report: Report) -> str:
    """Return what a person reads of a report."""
    lines = [report.summary, *(f"- {name}: {text}" for name, text in report.questions)]
    if report.verdict:
        lines += [f"Verdict: {report.verdict.result}"]
        lines += [f"- {evidence}" for evidence in report.verdict.evidence]
    return "\n".join(lines)


def block_of(report: Report) -> str:
    """Return the report as the fenced block that ends a reply."""
    said = {
        "status": report.status,
        "summary": "\n".join(report.summary.splitlines()[:SUMMARY_LINES_MAX]),
        "questions": [{"id": name, "text": text} for name, text in report.questions],
        "decisions": report.decisions,
        "findings": report.findings,
        "verdict": report.verdict._asdict() if report.verdict else None,
    }
    return f"```upthread\n{json.dumps(said, ensure_ascii=False)}\n```"


class Desk:
    """What a role has before it: the turn, what it was told, the specification, the answers."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.told = Told(turn.history.told)
        self.specification: Specification = parse_specification(self.told.specification)
        self.answers = self.told.answers(self.specification.open_questions)

    def read_what_is_mentioned(self) -> list[str]:
        """Read the existing files the specification names; return the paths read now.

        A file whose content the session holds is not read again, unless the prompt's news name it.
        """
        seen = self.turn.history.files_read
        news = self.told.news
        return [
            path
            for path in self.specification.code_words
            if _is_file_inside(self.turn.cwd, path)
            and (path not in seen or path in news)
            and read_file(self.turn, path) is not None
        ]


def play(turn: Turn) -> Report:
    """Play the role the session was given. `turn.role` must be one of `ROLES`."""
    desk = Desk(turn)
    if not desk.specification.requirements:
        return Report(
            status="blocked",
            summary="No specification with requirements was given to this session. Give one under "
            "`# Specification`; docs/rehearsal.md shows its form.",
        )
    return ROLES[turn.role](desk)


# --- clarifier ---------------------------------------------------------------------------------


def _clarify(desk: Desk) -> Report:
    read = desk.read_what_is_mentioned()
    questions = desk.specification.open_questions
    unanswered = {name: text for name, text in questions.items() if name not in desk.answers}
    if unanswered:
        for text in unanswered.values():
            desk.turn.log("question", question=text)
        return Report(
            status="needs_input",
            summary=f"{_were_read(read)} {len(unanswered)} of {len(questions)} questions are open:",
            questions=tuple(unanswered.items()),
        )
    return Report(
        status="done",
        summary=f"{_were_read(read)} All {len(questions)} questions are answered.",
        decisions=[f"{name}: {desk.answers[name]}" for name in questions],
    )


# --- planner -----------------------------------------------------------------------------------


def _plan(desk: Desk) -> Report:
    read = desk.read_what_is_mentioned()
    # What this role itself said earlier: a briefing tells it to a session that is new.
    own_words = [*desk.told.briefings, *desk.turn.history.replies]
    earlier = [ids for text in own_words if (ids := planned_ids(text))]
    rejections = desk.told.rejections("auditor")
    planned = [
        one
        for one in desk.specification.requirements
        if (one.id in earlier[-1] or one.id in rejections if earlier else not one.is_easy_to_miss)
    ]
    lines = [
        f"{number}. {one.id} → {one.path or 'no file'}: {one.what}"
        for number, one in enumerate(planned, start=1)
    ]
    opening = "My plan, mended:" if earlier else "My first plan:"
    return Report(
        status="done",
        summary="\n".join([f"{_were_read(read)} {opening}", "", *lines]),
        decisions=[f"{name}: {answer}" for name, answer in desk.answers.items()],
    )


# --- auditor -----------------------------------------------------------------------------------


def _audit(desk: Desk) -> Report:
    planned = planned_ids(desk.told.report("planner"))
    requirements = desk.specification.requirements
    missing = [one for one in requirements if one.id not in planned]
    if missing:
        evidence = [f"{one.id} is missing from the plan: {one.what}" for one in missing]
        return Report(
            status="done",
            summary=f"The plan misses {len(missing)} of {len(requirements)} requirements.",
            verdict=Verdict("rejected", evidence),
        )
    return Report(
        status="done",
        summary=f"The plan covers all {len(requirements)} requirements.",
        verdict=Verdict("approved", [f"{one.id} is planned" for one in requirements]),
    )


# --- constructor -------------------------------------------------------------------------------


def _construct(desk: Desk) -> Report:
    planned = planned_ids(desk.told.report("planner"))
    if not planned:
        return Report(status="blocked", summary="No plan was given to this session.")
    found = (desk.specification.requirement(one) for one in planned)
    requirements = [one for one in found if one is not None]
    obstacles = [text for one in requirements if (text := _obstacle(desk, one))]
    if obstacles:
        return Report(
            status="blocked", summary="\n".join(["The plan cannot be carried out:", *obstacles])
        )
    has_been_sent_back = bool(desk.told.rejections("validator"))
    done: list[str] = []
    for one in requirements:
        if one.is_easy_to_break and not has_been_sent_back:
            continue
        outcome = _build(desk, one)
        if outcome is None:
            return Report(status="blocked", summary=f"{one.id}: {one.path} could not be written.")
        done.append(f"- {one.id}: {one.path} {outcome}")
    done += [_release(desk, words) for words in desk.specification.release]
    return Report(status="done", summary="\n".join(["The plan is carried out.", "", *done]))


def _obstacle(desk: Desk, one: Requirement) -> str:
    if not one.path or not one.block:
        return f"- {one.id} names no file in backticks or has no block of code to put in it"
    _, missing = desk.specification.filled_in(one.block, desk.answers)
    return f"- {one.id} waits for an answer to {', '.join(missing)}" if missing else ""


def _build(desk: Desk, one: Requirement) -> str | None:
    """Put the block into its file; None when it could not be written."""
    block, _ = desk.specification.filled_in(one.block, desk.answers)
    old_text = ""
    if _is_file_inside(desk.turn.cwd, one.path):
        old_text = read_file(desk.turn, one.path) or ""
    if desk.specification.is_held(block, old_text, desk.answers):
        return "has it already"
    gap = "\n\n\n" if one.path.endswith(".py") else "\n\n"
    before = f"{old_text.rstrip()}{gap}" if old_text.strip() else ""
    if not write_file(desk.turn, one.path, f"{before}{block}\n"):
        return None
    return "written"


def _release(desk: Desk, words: Sequence[str]) -> str:
    """Run a command of the release, unless the prompt says that it ran or may have run."""
    title = title_of(words)
    if desk.told.may_be_done(title):
        return f"- {title}: it ran before, or may have, so not again"
    return f"- {title}: {_exit_words(run_command(desk.turn, words).exit_code)}"


# --- validator ---------------------------------------------------------------------------------


def _validate(desk: Desk) -> Report:
    faults: list[str] = []
    proofs: list[str] = []
    for one in desk.specification.requirements:
        fault = _fault(desk, one)
        (faults if fault else proofs).append(fault or f"{one.id}: {one.path} has it")
    for words in desk.specification.check:
        result = run_command(desk.turn, words)
        last_lines = result.output.strip().splitlines()[-EVIDENCE_LINES_MAX:]
        line = f"`{' '.join(words)}` ended with {_exit_words(result.exit_code)}"
        is_good = result.exit_code == 0
        (proofs if is_good else faults).append(": ".join([line, *[" / ".join(last_lines)][:1]]))
    if not desk.specification.check:
        proofs.append("the specification has no check to run")
    if faults:
        return Report(
            status="done",
            summary=f"{len(faults)} of {len(faults) + len(proofs)} checks failed.",
            findings=faults,
            verdict=Verdict("rejected", faults),
        )
    return Report(
        status="done",
        summary=f"All {len(proofs)} checks passed.",
        verdict=Verdict("approved", proofs),
    )


def _fault(desk: Desk, one: Requirement) -> str:
    if not one.path or not one.block:
        return ""
    if not _is_file_inside(desk.turn.cwd, one.path):
        return f"{one.id}: {one.path} does not exist"
    text = read_file(desk.turn, one.path) or ""
    if desk.specification.is_held(one.block, text, desk.answers):
        return ""
    return f"{one.id}: {one.path} lacks it: {one.what}"


def _exit_words(exit_code: int | None) -> str:
    return "no exit code" if exit_code is None else f"exit code {exit_code}"


# --- shared ------------------------------------------------------------------------------------


def _were_read(paths: list[str]) -> str:
    return f"I read {', '.join(paths)}." if paths else "I read nothing new."


def _is_file_inside(cwd: Path, path: str) -> bool:
    """Return whether a word names a file of the working directory; most words name none."""
    if path.startswith("/") or " " in path:
        return False
    try:
        target = (cwd / path).resolve()
        return target.is_relative_to(cwd.resolve()) and target.is_file()
    except OSError:
        return False


ROLES = {
    "clarifier": _clarify,
    "planner": _plan,
    "auditor": _audit,
    "constructor": _construct,
    "validator": _validate,
}
