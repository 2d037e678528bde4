"""Reports: what a role hands back, read from a fenced `upthread` JSON block at the end of a reply.

Reading is strict about the block and forgiving about the prose around it. A report is untrusted
text: it is data in the store and Markdown in a later prompt, nothing else.
"""

import hashlib
import re
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from upthread.core.text import item, neutral
from upthread.core.types import ready

Status: TypeAlias = Literal["done", "needs_input", "blocked"]
VerdictResult: TypeAlias = Literal["approved", "rejected"]

REPORT_BYTES_MAX = 256 * 1024
REPORT_LINES_MAX = 200
"""Of summary, decisions, findings and evidence together: what reaches the next role."""

_BLOCK = re.compile(
    r"^ {0,3}```upthread[ \t]*\r?\n(?P<body>(?:(?! {0,3}```)[^\n]*\n)*) {0,3}```[ \t]*\r?$",
    re.MULTILINE,
)

_INSTRUCTIONS = """\
End your reply with your report, a fenced block like this one, valid JSON, nothing after it:
```upthread
{"status": "done", "summary": "what the next role needs to know", "questions": [],
 "decisions": [], "findings": [], "verdict": null}
```
`status` is "done", "needs_input" (then `questions` is [{"id": "q1", "text": "…"}]) or "blocked".
`summary` is Markdown; `decisions` and `findings` are lists of sentences; at most LINES_MAX lines.
`verdict` is null unless you judge: {"result": "approved" or "rejected", "evidence": ["…"]}."""


def instructions(lines_max: int = REPORT_LINES_MAX) -> str:
    """Return how a role is told to hand its report back."""
    return _INSTRUCTIONS.replace("LINES_MAX", str(lines_max))


class ReportedQuestion(Struct, frozen=True, kw_only=True):
    """A question for a human, under the id its role gave it."""

    id: str
    text: str


class Verdict(Struct, frozen=True, kw_only=True):
    """A judgement and what it rests on."""

    result: VerdictResult
    evidence: tuple[str, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """What a role hands back. Empty lists mean it said so or said nothing."""

    status: Status
    summary: str = ""
    questions: tuple[ReportedQuestion, ...] = ()
    decisions: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the report as JSON, in hex."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class MalformedReportError(ValueError):
    """A report is missing or cannot be read; the text is fit to be sent back to the role."""


def read_report(reply: str, *, lines_max: int | None = None) -> Report:
    """Return the report in the reply's last `upthread` block; raises MalformedReportError.

    `lines_max` None reads it however long it is: how much is passed on, a step says.
    """
    blocks = _BLOCK.findall(reply)
    if not blocks:
        raise MalformedReportError("the reply has no ```upthread block")
    # The last: prose before it may quote one, such as the instructions or another role's.
    return decode_report(blocks[-1].encode("utf-8", "surrogatepass"), lines_max=lines_max)


def decode_report(raw: bytes, *, lines_max: int | None = None) -> Report:
    """Return a report from its JSON; raises MalformedReportError with the place of the fault."""
    # Before it is decoded: it is a model's text, and may be anything.
    if len(raw) > REPORT_BYTES_MAX:
        raise MalformedReportError(f"the report has {len(raw)} bytes, {REPORT_BYTES_MAX} allowed")
    try:
        report = msgspec.json.decode(raw, type=ready(Report))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReportError(f"the report cannot be read: {error}") from error
    # The run would wait for a person with nothing to be asked.
    if report.status == "needs_input" and not report.questions:
        raise MalformedReportError('status is "needs_input" but `questions` is empty')
    if lines_max is not None:
        check_length(report, lines_max=lines_max)
    return report


def check_length(report: Report, *, lines_max: int) -> None:
    """Raise MalformedReportError for a report with more lines than are passed on."""
    lines = _lines_of(report)
    if lines > lines_max:
        raise MalformedReportError(
            f"the report has {lines} lines, at most {lines_max} are passed on: shorten it"
        )


def _lines_of(report: Report) -> int:
    evidence = report.verdict.evidence if report.verdict else ()
    texts = (report.summary, *report.decisions, *report.findings, *evidence)
    # By every line end that Python knows: a line must not be hidden by one that is rare.
    return sum(len(text.splitlines()) for text in texts)


def ends_with_report(reply: str) -> bool:
    """Return whether a report that can be read is the last thing in a reply."""
    *_, end = (0, *(block.end() for block in _BLOCK.finditer(reply)))
    try:
        read_report(reply)
    except MalformedReportError:
        return False
    return not reply[end:].strip()


def without_report(reply: str) -> str:
    """Return the prose of a reply, its report blocks taken out."""
    return _BLOCK.sub("", reply).strip()


def render(role: str, report: Report) -> str:
    """Return the report as a Markdown section for the next role's prompt.

    Whatever the report says, it stays inside this section: see core/text.py.
    """
    lines = [f"# Report of {role}", f"status: {report.status}"]
    if report.summary:
        lines += ["", neutral(report.summary)]
    lines += _listed("## Decisions", report.decisions)
    lines += _listed("## Findings", report.findings)
    if report.verdict:
        lines += _listed(f"## Verdict: {report.verdict.result}", report.verdict.evidence, keep=True)
    return "\n".join(lines)


def _listed(heading: str, items: tuple[str, ...], *, keep: bool = False) -> list[str]:
    if not items and not keep:
        return []
    return ["", heading, *map(item, items)]
