"""The report at the end of a reply, which is JSON for the next role, as a person reads it.

While a reply comes, a block that may be a report is held back; what turns out to be none is shown
as it is. Only where a person watches: who reads a pipe on relies on each byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from upthread.core.lazy_regex import regex
from upthread.core.roles.reports import (
    REPORT_BYTES_MAX,
    MalformedReportError,
    Report,
    read_report,
)
from upthread.surfaces.cli.terminal.phrases import counted, one_line

SUMMARY_CHARACTERS_MAX: Final = 160

_FENCE: Final = "```upthread"
_OPENS: Final = regex(r" {0,3}```upthread[ \t]*\r?\n")
_CLOSES: Final = regex(r" {0,3}```[ \t]*\r?\n")


class ReportVeil:
    """Feeds a reply through, its reports held back. `is_holding`: one may be under way."""

    def __init__(self) -> None:
        self.is_holding = False
        self._held = ""
        self._line = ""
        self._is_within_line = False

    def feed(self, text: str) -> str:
        """Return what of a piece is to be shown now."""
        return "".join(map(self._fed, _pieces(text)))

    def end(self) -> str:
        """Return what was held back and is no report; the reply is over."""
        return self._let_go()

    def _fed(self, piece: str) -> str:
        if self._is_within_line:
            self._is_within_line = not piece.endswith("\n")
            return piece
        self._held += piece
        self._line += piece
        is_whole = piece.endswith("\n")
        line, self._line = self._line, "" if is_whole else self._line
        if self.is_holding:
            is_over = bool(_CLOSES.fullmatch(line)) or len(self._held) > REPORT_BYTES_MAX
            return self._let_go() if is_over else ""
        self.is_holding = bool(_OPENS.fullmatch(line))
        if self.is_holding or (not is_whole and _may_open(line)):
            return ""
        self._is_within_line = not is_whole
        return self._let_go()

    def _let_go(self) -> str:
        held, self._held, self._line = self._held, "", ""
        was_holding, self.is_holding = self.is_holding, False
        return "" if was_holding and _is_report(held) else held


def report_in_words(report: Report | None) -> tuple[str, str]:
    """Return the style and the line that tells what a role has handed back."""
    if report is None:
        return "yellow", "no report that can be read"
    if report.status == "needs_input":
        return "yellow", f"asks {counted(len(report.questions), 'question')}"
    if report.status == "blocked":
        return "red", f"blocked: {one_line(report.summary)}"
    if report.verdict is None:
        return "", f"done: {_first_line(report.summary)}"
    evidence = "; ".join(report.verdict.evidence)
    style = "green" if report.verdict.result == "approved" else "yellow"
    return style, one_line(
        f"{report.verdict.result}: {evidence}" if evidence else report.verdict.result
    )


def report_lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the lines that tell a report whole, each with its style."""
    style, said = report_in_words(report)
    yield f"report: {said}", style
    listed = (
        ("asks", [f"{each.id}: {each.text}" for each in report.questions]),
        ("decided", report.decisions),
        ("found", report.findings),
    )
    for label, items in listed:
        for each in items:
            yield f"  {label} {one_line(each)}", ""


def _is_report(block: str) -> bool:
    try:
        read_report(block)
    except MalformedReportError:
        return False
    return True


def _may_open(line: str) -> bool:
    begun = line.lstrip(" ")
    return (
        len(line) - len(begun) <= 3
        and (  # Markdown's own
            _FENCE.startswith(begun)
            or (begun.startswith(_FENCE) and not begun[len(_FENCE) :].strip())
        )
    )


def _pieces(text: str) -> Iterator[str]:
    """Yield a text line by line, its line ends kept, by LF alone."""
    *lines, last = text.split("\n")
    yield from (f"{line}\n" for line in lines)
    if last:
        yield last


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    more = f" (and {counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    if not lines:
        return "no summary"
    return one_line(lines[0], characters_max=SUMMARY_CHARACTERS_MAX) + more
