"""Reports in a reply: held back while they come, and shown as they are where they are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.roles.reports import read_report
from upthread.surfaces.cli.terminal.screen import ReportVeil, report_lines

REPORT = json.dumps({"status": "done", "summary": "all of it", "decisions": ["use JSON"]})
BLOCK = f"```upthread\n{REPORT}\n```"


def shown(text: str, size: int) -> str:
    veil = ReportVeil()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return "".join(map(veil.feed, pieces)) + veil.end()


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Plan.\n\n{BLOCK}", "Plan.\n\n"),
        (f"Plan.\n{BLOCK}\nafter", "Plan.\nafter"),
        (f"  {BLOCK}\n", ""),
    ],
)
def test_a_report_is_not_shown_however_it_comes(text, left, size):
    assert shown(text, size) == left


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```upthread\nno JSON\n```\nmore\n",
        "```upthread\n{}\n```",
        "```upthread is the name",
        "```upthread\n{",
        "``",
        f"text {BLOCK}",
        f"     {BLOCK.replace(chr(10), chr(10) + '     ')}",
    ],
)
def test_what_is_no_report_is_shown_as_it_is(text, size):
    assert shown(text, size) == text


@given(st.text(alphabet="`upthread\n {}x\r", max_size=60), st.integers(1, 9))
def test_no_text_is_lost_that_holds_no_report(text, size):
    assert shown(text, size) == text


def test_a_reply_is_shown_as_it_comes_and_not_a_line_later():
    veil = ReportVeil()
    assert [veil.feed(piece) for piece in ("Pl", "an", ".\n``", "x")] == ["Pl", "an", ".\n", "``x"]


def test_a_report_is_told_in_words():
    told = json.dumps(
        {
            "status": "needs_input",
            "questions": [{"id": "q1", "text": "which\nformat?"}],
            "decisions": ["use JSON"],
            "findings": ["two readers"],
        }
    )
    lines = [line for line, _ in report_lines(read_report(f"```upthread\n{told}\n```"))]
    assert lines[0] == "report: asks 1 question"
    assert lines[1].startswith("  asks q1: which")
    assert lines[2:] == ["  decided use JSON", "  found two readers"]
    assert not any("\n" in line for line in lines)
